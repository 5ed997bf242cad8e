//! A session that is open in the running agent: its turns, and the requests about it.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::conversation::prompt_blocks;
use crate::engine::{Block, Cancel, EngineError, Prompt, PromptEnd, StopReason};
use crate::json::{string_member, text_member, with_string};
use crate::protocol::method;
use crate::record::Kind;
use crate::record::metadata::SYSTEM_PROMPT;
use crate::record::prompt_keys::without_key;
use crate::sys::{Ids, lock};

use super::hand_over::{self, HandOver};
use super::restored::{RestoreMethod, Restored};
use crate::engine::agent::members::{of_session, with_session};
use crate::engine::agent::parse::session_of;
use crate::engine::agent::route::{SentTurn, SessionRoute};
use crate::engine::agent::wire::awaited::{Awaited, Steering, TurnEnd};
use crate::engine::agent::wire::connection::{
    ABANDONED_TIMEOUT, AgentCall, AgentConnection, CANCEL_TIMEOUT,
};
use crate::engine::agent::wire::context_clear;
use crate::engine::agent::wire::extensions::{for_agent, for_client};

/// A session that is open in the running agent.
#[derive(Clone, Debug)]
pub(super) struct LiveSession {
    pub(super) connection: Arc<AgentConnection>,
    /// The agent's name.
    pub(super) agent: String,
    /// The agent's session id.
    pub(super) session_id: String,
    pub(super) route: Arc<SessionRoute>,
    /// The agent's response when it opened the session.
    pub(super) answer: String,
    /// The workspace that was requested then, as [`key`] returns it.
    pub(super) key: String,
    pub(super) turns: Arc<Mutex<PromptCounts>>,
    /// How the agent has opened it.
    pub(super) how: RestoreMethod,
    /// Whether the agent claims to have the conversation, and nothing has proved it yet.
    pub(super) unproven: Arc<AtomicBool>,
    /// The briefing that the next prompt is sent with, if it is.
    pub(super) hand_over: Option<HandOver>,
}

/// The prompts that were sent, counted.
#[derive(Debug, Default)]
pub(super) struct PromptCounts {
    pub(super) running: usize,
    sent: u64,
    /// The last one that was cancelled: `session/cancel` is about all before it.
    cancelled: u64,
}

/// A prompt that was sent.
#[derive(Debug)]
pub(super) struct SentPrompt {
    pending: AgentCall,
    /// Is sent the report that ends the turn, if the response does not.
    report: Option<oneshot::Receiver<String>>,
    number: u64,
    message_id: String,
    /// Gets whether its response ends the turn.
    is_end: oneshot::Sender<bool>,
}

/// The outcome of a prompt.
#[derive(Debug)]
pub(super) enum TurnOutcome {
    Ended(Result<PromptEnd, EngineError>),
    /// The agent does not know the session, although it claimed to have it.
    Unknown,
}

impl LiveSession {
    /// Whether the turn of a prompt that is about to be sent proves that the agent has the conversation,
    /// which is not known yet. That of a command does not: it may have nothing to show.
    pub(super) fn proves(&self, prompt: &Prompt) -> bool {
        let text = prompt_blocks(&prompt.params)
            .next()
            .and_then(|block| string_member(block, "text"));
        let is_command = text.is_some_and(|text| text.starts_with('/'));
        !is_command && self.unproven.swap(false, Ordering::AcqRel)
    }

    /// Sends a prompt, with `context` before what the user sent.
    pub(super) fn prompt(&self, prompt: &Prompt, context: Option<&str>) -> SentPrompt {
        let message_id = prompt.message_id.clone();
        let (is_end, decided) = oneshot::channel();
        // Version 1 does not have the member.
        let keyless = (!self.connection.is_native()).then(|| without_key(&prompt.params));
        let own = keyless.flatten();
        let own = own.as_deref().unwrap_or(&prompt.params);
        let (decided, sent, report) = if self.connection.is_native() {
            let (sender, report) = oneshot::channel();
            let sent = SentTurn {
                message_id: message_id.clone(),
                report: sender,
                is_end: decided,
            };
            (None, Some(sent), Some(report))
        } else {
            (Some(decided), None, None)
        };
        let turn_end = TurnEnd {
            route: self.route.clone(),
            message_id: message_id.clone(),
            is_end: decided,
        };
        let params = context.map_or(Cow::Borrowed(own), |context| {
            hand_over::prepend(own, context).into()
        });
        let params = with_session(&params, &self.session_id);
        // Locked while sending: a cancel is about the prompts that were sent before it.
        let mut turns = lock(&self.turns);
        turns.running += 1;
        turns.sent += 1;
        self.route.turn_begins(&message_id, own, context);
        if let Some(sent) = sent {
            self.route.turn_sent(sent, own, context);
        }
        SentPrompt {
            report,
            pending: self.connection.request_awaited(
                method::SESSION_PROMPT,
                &params,
                Awaited::TurnEnd(turn_end),
            ),
            number: turns.sent,
            message_id,
            is_end,
        }
    }

    /// Waits for the end of a turn. `unproven` says whether a turn in which nothing is shown would mean
    /// that the agent does not know the session.
    pub(super) async fn turn(
        &self,
        sent: SentPrompt,
        unproven: bool,
        cancel: &Cancel,
    ) -> TurnOutcome {
        let result = {
            let response = sent.pending.outcome_or_cancel(async {
                cancel.request_cancelled().await;
                // If all turns are cancelled, `session/cancel` is sent instead.
                if cancel.is_cancelled() {
                    std::future::pending::<()>().await;
                }
            });
            let outcome = async {
                let response = response.await?;
                match sent.report {
                    Some(report) => self.reported(report).await,
                    None => Ok(self.ended(response)),
                }
            };
            tokio::pin!(outcome);
            tokio::select! {
                biased;
                result = &mut outcome => Some(result),
                () = cancel.cancelled() => {
                    self.cancel(sent.number);
                    let abandoned = async {
                        cancel.abandoned().await;
                        tokio::time::sleep(ABANDONED_TIMEOUT).await;
                    };
                    tokio::select! {
                        biased;
                        result = tokio::time::timeout(CANCEL_TIMEOUT, outcome) => result.ok(),
                        () = abandoned => None,
                    }
                }
            }
        };
        lock(&self.turns).running -= 1;
        let ended = result.unwrap_or_else(|| {
            tracing::warn!("the agent did not end a cancelled turn in time");
            Ok(PromptEnd::Because(StopReason::Cancelled))
        });
        // If nothing has ended it before, this does.
        self.route.forget_turn(&sent.message_id);
        let refused = unproven && self.is_empty(&ended) && !cancel.is_cancelled();
        if sent.is_end.send(!refused).is_err() {
            // Without a response, the reader has not marked the end of the turn.
            let outputs = self.route.turn_ends(&sent.message_id);
            self.route.send(outputs).await;
        }
        if refused {
            TurnOutcome::Unknown
        } else {
            self.follow_clearing();
            TurnOutcome::Ended(ended)
        }
    }

    /// Records the session in which the agent has gone on, if it has cleared its context in the turn that
    /// has ended.
    fn follow_clearing(&self) {
        let Some(before) = self.route.sessions_before_clearing() else {
            return;
        };
        let live = self.clone();
        tokio::spawn(async move {
            let (connection, route) = (&live.connection, &live.route);
            let Some(session_id) = context_clear::new_session(connection, route, before).await
            else {
                return;
            };
            let restored = Restored {
                how: RestoreMethod::Clear,
                session_id,
                answer: live.answer.clone(),
                snapshots: Vec::new(),
            };
            let version = connection.capabilities().version;
            let record = restored.record(&live.agent, version.as_deref(), None);
            // If the session was closed, it goes on from a briefing.
            route.send(Block::of(Kind::AgentSessionId, record)).await;
        });
    }

    /// How a turn ended, by the agent's response in version 1.
    fn ended(&self, result: String) -> PromptEnd {
        match text_member(&result, "stopReason") {
            Some(_) => PromptEnd::With(for_client(
                &self.connection.routes,
                method::SESSION_PROMPT,
                result,
            )),
            None => PromptEnd::Because(StopReason::EndTurn),
        }
    }

    /// Waits for the report that ends a turn.
    async fn reported(&self, report: oneshot::Receiver<String>) -> Result<PromptEnd, EngineError> {
        tokio::select! {
            biased;
            Ok(params) = report => Ok(PromptEnd::Reported(params)),
            () = self.connection.life.died() => Err(self.connection.life.ended_error()),
        }
    }

    /// Cancels all prompts that were sent, unless that was done after this one was sent.
    fn cancel(&self, number: u64) {
        let mut turns = lock(&self.turns);
        if turns.cancelled < number {
            turns.cancelled = turns.sent;
            self.connection
                .notify(method::SESSION_CANCEL, &of_session(&self.session_id));
        }
    }

    /// Whether a turn ended by itself without anything shown, as with some agents that do not know the
    /// session.
    fn is_empty(&self, ended: &Result<PromptEnd, EngineError>) -> bool {
        let by_itself = |ended: &PromptEnd| {
            let reason = string_member(&ended.result(), "stopReason");
            let reasons = [StopReason::Refusal, StopReason::EndTurn].map(StopReason::as_str);
            reason.is_some_and(|reason| reasons.contains(&reason.as_str()))
        };
        ended.as_ref().is_ok_and(by_itself) && self.route.is_silent()
    }

    /// Sends a request about the session. `ids` has the id of the message that the user may say with
    /// it.
    pub(super) fn call(&self, method: &str, params: &str, ids: &dyn Ids) -> AgentCall {
        let forwarded = self.with_agent_ids(method, params);
        if method != method::STEERING {
            return self.connection.request(method, &forwarded);
        }
        let steering = Steering::new(&self.route, &ids.message(), params);
        let awaited = Awaited::Steering(steering);
        self.connection.request_awaited(method, &forwarded, awaited)
    }

    /// Parameters of a method of the client with the agent's ids.
    pub(super) fn with_agent_ids(&self, method: &str, params: &str) -> String {
        let inward = if self.connection.is_native() {
            None
        } else {
            self.route.with_normalizer(|ids| ids.incoming(params))
        };
        let params = inward.as_deref().unwrap_or(params);
        let params = match session_of(params) {
            Some(session) => with_string(params, &session.range, &self.session_id),
            None => params.to_owned(),
        };
        for_agent(&self.connection.routes, method, params)
    }
}

/// The workspace and the system prompt of a request, by which it is decided whether an open session must
/// be reopened.
pub(super) fn key(params: &str) -> String {
    let part = |name: &str| match text_member(params, name) {
        None | Some("null" | "[]") => "",
        Some(value) => value,
    };
    let names = ["cwd", "additionalDirectories", "mcpServers", SYSTEM_PROMPT];
    let parts = names.map(part);
    parts.join("\n")
}
