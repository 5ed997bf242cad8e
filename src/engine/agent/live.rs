//! A session that is open in an agent that runs: its turns, and the requests about it.

use std::borrow::Cow;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::sync::oneshot;

use crate::engine::{Cancel, Ended, EngineError, Prompt, StopReason};
use crate::json::{string_member, text_member, with_string};
use crate::sys::lock;

use super::link::{Ending, Link, Pending};
use super::route::Route;
use super::said::with_members;
use super::screens;
use super::shape::session_of;
use super::transcript::{self, Reason};

/// How long an agent may take to end a turn that was cancelled.
const CANCELS: Duration = Duration::from_secs(10);

/// A session that is open in an agent that runs.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) link: Arc<Link>,
    /// The agent's id of the session.
    pub(super) inner: String,
    pub(super) route: Arc<Route>,
    /// What the agent answered when it opened the session.
    pub(super) answer: String,
    /// The workspace that was asked for then.
    pub(super) key: String,
    pub(super) turns: Arc<Mutex<Turns>>,
    /// Whether nothing but the agent's word says that it has resumed the conversation.
    pub(super) unproven: Arc<AtomicBool>,
    /// Why the next prompt has to bring context along.
    pub(super) fold: Option<Reason>,
}

/// The prompts that were sent, counted.
#[derive(Debug, Default)]
pub(super) struct Turns {
    pub(super) running: usize,
    sent: u64,
    /// The last one that the agent was told to cancel: `session/cancel` is about all before it.
    cancelled: u64,
}

/// The order in which prompts are sent: as they came, also where one has to wait for the agent.
#[derive(Debug, Default)]
pub(super) struct Order(Mutex<Option<oneshot::Receiver<()>>>);

impl Order {
    /// Resolves when the prompt before has been sent, or never will be; `None` if that is so.
    pub(super) fn before(&self) -> Option<oneshot::Receiver<()>> {
        let mut before = lock(&self.0).take()?;
        let waits = before.try_recv() == Err(oneshot::error::TryRecvError::Empty);
        waits.then_some(before)
    }

    /// The next prompt waits until this is dropped.
    pub(super) fn next(&self) -> oneshot::Sender<()> {
        let (next, sent) = oneshot::channel();
        *lock(&self.0) = Some(sent);
        next
    }
}

/// A prompt that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pending: Pending,
    number: u64,
    message_id: String,
    /// Says whether its response ends the turn.
    surely: oneshot::Sender<bool>,
}

/// What became of a prompt that was sent.
#[derive(Debug)]
pub(super) enum Turned {
    Ended(Result<Ended, EngineError>),
    /// The agent does not know the session, although it has resumed it.
    Refused,
}

impl Live {
    /// Sends a prompt, with `context` in front of what the user sent.
    pub(super) fn prompt(&self, prompt: &Prompt, context: Option<&str>) -> Sent {
        let message_id = prompt.message_id.clone();
        let (surely, decided) = oneshot::channel();
        let ending = Ending {
            route: self.route.clone(),
            message_id: message_id.clone(),
            surely: decided,
        };
        let own = prompt.params.as_str();
        let id = serde_json::Value::from(self.inner.as_str()).to_string();
        let params = context.map_or(Cow::Borrowed(own), |context| {
            transcript::before(own, context).into()
        });
        let params = with_members(&params, &[], &[("sessionId", &id)]);
        // A cancel is about the prompts that were sent before it.
        let mut turns = lock(&self.turns);
        turns.running += 1;
        turns.sent += 1;
        self.route.turn_begins(&message_id, own, context);
        Sent {
            pending: self.link.request_turn(&params, ending),
            number: turns.sent,
            message_id,
            surely,
        }
    }

    /// Waits for the end of a turn. `unproven` says whether a refusal would mean that the agent does
    /// not know the session.
    pub(super) async fn turn(&self, sent: Sent, unproven: bool, cancel: &Cancel) -> Turned {
        let result = {
            let outcome = sent.pending.outcome_unless(async {
                cancel.request_cancelled().await;
                // A request that is cancelled with all others needs no word of its own.
                if cancel.is_cancelled() {
                    std::future::pending::<()>().await;
                }
            });
            tokio::pin!(outcome);
            tokio::select! {
                biased;
                result = &mut outcome => Some(result),
                () = cancel.cancelled() => {
                    self.cancel(sent.number);
                    tokio::time::timeout(CANCELS, outcome).await.ok()
                }
            }
        };
        lock(&self.turns).running -= 1;
        let ended = ended(result);
        let refused = unproven && self.refused(&ended) && !cancel.is_cancelled();
        if sent.surely.send(!refused).is_err() {
            // No response came, so nobody has marked the end yet.
            let shown = self.route.turn_ends(&sent.message_id);
            screens::write(&self.route, shown).await;
        }
        if refused {
            Turned::Refused
        } else {
            Turned::Ended(ended)
        }
    }

    /// Has the agent cancel all prompts that were sent, unless it was told to since this one.
    fn cancel(&self, number: u64) {
        let mut turns = lock(&self.turns);
        if turns.cancelled < number {
            turns.cancelled = turns.sent;
            let params = json!({ "sessionId": self.inner }).to_string();
            self.link.notify("session/cancel", &params);
        }
    }

    /// Whether a turn ended in a refusal without anything shown, as with some agents that do not know
    /// the session.
    fn refused(&self, ended: &Result<Ended, EngineError>) -> bool {
        let refusal = |ended: &Ended| {
            let reason = string_member(&ended.result(), "stopReason");
            reason.as_deref() == Some(StopReason::Refusal.as_str())
        };
        ended.as_ref().is_ok_and(refusal) && self.route.is_silent()
    }

    pub(super) fn call(&self, method: &str, params: &str) -> Pending {
        self.link.request(method, &self.renamed(params))
    }

    /// Parameters of the client as the agent knows what they name.
    pub(super) fn renamed(&self, params: &str) -> String {
        let inward = self.route.with_marks(|marks| marks.inward(params));
        let params = inward.as_deref().unwrap_or(params);
        match session_of(params) {
            Some(session) => with_string(params, &session.range, &self.inner),
            None => params.to_owned(),
        }
    }
}

/// How a turn ended, by the agent's response; `None` if there was none in time.
fn ended(result: Option<Result<String, EngineError>>) -> Result<Ended, EngineError> {
    match result {
        Some(Ok(result)) if text_member(&result, "stopReason").is_some() => Ok(Ended::With(result)),
        Some(Ok(_)) => Ok(Ended::Because(StopReason::EndTurn)),
        Some(Err(error)) => Err(error),
        None => {
            tracing::warn!("the agent does not end a turn that was cancelled");
            Ok(Ended::Because(StopReason::Cancelled))
        }
    }
}

/// The part of a request that decides whether an open session has to be opened anew.
pub(super) fn key(params: &str) -> String {
    let part = |name: &str| match text_member(params, name) {
        None | Some("null" | "[]") => "",
        Some(value) => value,
    };
    let parts = ["cwd", "additionalDirectories", "mcpServers"].map(part);
    parts.join("\n")
}
