//! The prompts that are being answered, and prompts that wait for them.

use std::mem;

use crate::engine::{Prompt, PromptEnd};
use crate::json;
use crate::protocol::UpdateKind;
use crate::record::open_calls::OpenCalls;
use crate::record::prompt_keys::idempotency_key;
use crate::session::effect::Effect;
use crate::session::outcome::Refusal;
use crate::session::request::{AnswerDue, ClientResponse, RecordedPrompt};

/// A prompt that is being answered.
#[derive(Debug)]
pub(super) struct Turn<R> {
    /// The id of the user's message.
    pub(super) message_id: String,
    /// Whether the prompt has an idempotency key.
    pub(super) is_keyed: bool,
    /// Whether anything was said or done while it ran.
    pub(super) has_updates: bool,
    /// The reply that the turn's end is sent to. `None` if the prompt was answered when it was
    /// logged.
    pub(super) reply: Option<R>,
    /// The replies to repetitions of the prompt that are answered at the turn's end, by the message ids
    /// that these came with.
    pub(super) repeats: Vec<(String, R)>,
    /// The reason why the turn was asked to stop, if it was.
    pub(super) stop: Option<TurnStop>,
    /// Whether another turn ran at the same time, so that its end must name its prompt.
    pub(super) overlaps: bool,
}

/// Why a turn is to end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnStop {
    /// A client has cancelled it, or has gone.
    Cancelled,
    /// The process that runs it is ending, which its client has not asked for.
    Interrupted,
}

impl<R> Turn<R> {
    /// The result of a turn that could not be logged.
    pub(super) fn failed(&self, refusal: &Refusal) -> Result<PromptEnd, Refusal> {
        refusal.of_turn(self.stop == Some(TurnStop::Cancelled))
    }
}

/// A tool call that only a request for permission has shown.
#[derive(Debug)]
pub(super) struct PermissionCall {
    /// The id of the request in the log.
    pub(super) request: String,
    pub(super) call: String,
    /// The ids of the options that allow it.
    pub(super) allowing: Vec<String>,
    pub(super) is_allowed: bool,
}

/// The prompts that are being answered at the same time.
///
/// An update does not say to which of them it belongs, so what follows from updates is kept for all
/// of them together, until the last one has ended.
#[derive(Debug)]
pub(super) struct Turns<R> {
    running: Vec<Turn<R>>,
    pub(super) calls: OpenCalls,
    pub(super) permission_calls: Vec<PermissionCall>,
    /// The message for tool calls that are still open at the end, if a turn was cancelled or failed.
    pub(super) interruption: Option<&'static str>,
    /// Whether the requests to the client were withdrawn.
    pub(super) withdrawn: bool,
    /// The reason why a record could not be logged, which is the answer of each turn.
    pub(super) failure: Option<Refusal>,
    /// How many logged requests to the client are unanswered.
    pub(super) open_requests: usize,
}

impl<R> Default for Turns<R> {
    fn default() -> Self {
        Self {
            running: Vec::new(),
            calls: OpenCalls::default(),
            permission_calls: Vec::new(),
            interruption: None,
            withdrawn: false,
            failure: None,
            open_requests: 0,
        }
    }
}

impl<R> Turns<R> {
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    /// Whether the turn of this prompt runs and the prompt's request is not answered.
    pub(super) fn is_unanswered(&self, message_id: &str) -> bool {
        let mut running = self.running.iter();
        running.any(|turn| turn.message_id == message_id && turn.reply.is_some())
    }

    /// Whether all of them are answered at their ends.
    pub(super) fn are_unanswered(&self) -> bool {
        self.running.iter().all(|turn| turn.reply.is_some())
    }

    pub(super) fn begin(&mut self, message_id: String, is_keyed: bool, reply: Option<R>) {
        let overlaps = !self.running.is_empty();
        for other in &mut self.running {
            other.overlaps = true;
        }
        self.running.push(Turn {
            message_id,
            is_keyed,
            has_updates: false,
            reply,
            repeats: Vec::new(),
            stop: None,
            overlaps,
        });
    }

    /// Something was said or done, in whichever of them.
    pub(super) fn note_updates(&mut self) {
        for turn in &mut self.running {
            turn.has_updates = true;
        }
    }

    /// The running turn of this prompt.
    pub(super) fn find(&mut self, message_id: &str) -> Option<&mut Turn<R>> {
        let mut running = self.running.iter_mut();
        running.find(|turn| turn.message_id == message_id)
    }

    /// Takes the reply to the repetition of a prompt that came with this message id.
    pub(super) fn take_repeat(&mut self, message_id: &str) -> Option<R> {
        self.running.iter_mut().find_map(|turn| {
            let mut repeats = turn.repeats.iter();
            let place = repeats.position(|(id, _)| id == message_id)?;
            Some(turn.repeats.remove(place).1)
        })
    }

    /// Removes the turn of this prompt.
    pub(super) fn end(&mut self, message_id: &str) -> Option<Turn<R>> {
        let mut running = self.running.iter();
        let place = running.position(|turn| turn.message_id == message_id)?;
        Some(self.running.remove(place))
    }

    /// Removes the turn that began last.
    pub(super) fn undo(&mut self) -> Option<Turn<R>> {
        self.running.pop()
    }

    /// Asks all of them to stop, for the reason that `why` has for a message id. The first reason
    /// stays. False if all of them were asked before.
    pub(super) fn stop(&mut self, why: impl Fn(&str) -> TurnStop) -> bool {
        let mut news = false;
        for turn in self.running.iter_mut().filter(|turn| turn.stop.is_none()) {
            turn.stop = Some(why(&turn.message_id));
            news = true;
        }
        news
    }

    /// Marks the requests to the client as withdrawn. False if they were.
    pub(super) fn withdraw(&mut self) -> bool {
        !mem::replace(&mut self.withdrawn, true)
    }

    /// Whether all of them were asked to stop, so that the next prompt can wait for their end.
    pub(super) fn are_ending(&self) -> bool {
        !self.is_empty() && (self.failure.is_some() || self.are_stopped())
    }

    /// Whether all of them were asked to stop.
    pub(super) fn are_stopped(&self) -> bool {
        self.running.iter().all(|turn| turn.stop.is_some())
    }

    /// Records the answer to a request for permission.
    pub(super) fn answered(&mut self, response: &ClientResponse) {
        let mut calls = self.permission_calls.iter_mut();
        if let Some(call) = calls.find(|call| call.request == response.id)
            && let Ok(answer) = &response.outcome
        {
            let outcome = json::text_member(answer, "outcome").unwrap_or_default();
            let chosen = json::string_member(outcome, "optionId");
            call.is_allowed = chosen.is_some_and(|chosen| call.allowing.contains(&chosen));
        }
    }

    /// The updates that end the open calls that only requests for permission have shown.
    pub(super) fn end_permission_calls(&mut self) -> Vec<String> {
        let calls = mem::take(&mut self.permission_calls).into_iter();
        calls
            .filter(|call| self.calls.is_open(&call.call))
            .map(|call| {
                let status = if call.is_allowed {
                    "completed"
                } else {
                    "failed"
                };
                json::Object::new()
                    .string("sessionUpdate", UpdateKind::ToolCallUpdate.name())
                    .string("toolCallId", &call.call)
                    .string("status", status)
                    .end()
            })
            .collect()
    }

    /// Resets what the turns had in common, after the last one has ended. Returns the updates that
    /// end the tool calls they left open.
    pub(super) fn reset(&mut self) -> Vec<String> {
        let Self {
            mut calls,
            interruption,
            ..
        } = mem::take(self);
        interruption.map_or_else(Vec::new, |message| calls.close_all(message))
    }
}

/// A prompt that is not logged yet.
#[derive(Debug)]
pub(super) struct WaitingPrompt<R> {
    pub(super) reply: R,
    pub(super) due: AnswerDue,
    pub(super) message_id: String,
    pub(super) params: String,
    /// Whether the prompt was cancelled while it waited.
    pub(super) cancelled: bool,
    /// Whether another client has sent it than the one whose loads the machine serves.
    pub(super) of_other: bool,
    /// Whether the log has it.
    pub(super) known: InLog,
}

/// The state of a prompt in the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InLog {
    /// Not known yet: the prompt has this idempotency key, which is looked for before it begins.
    Unknown(String),
    /// Not there.
    New,
    /// Logged under this message id, with these parameters, and got by no engine.
    Recorded(Prompt),
}

impl<R> WaitingPrompt<R> {
    pub(super) fn new(reply: R, due: AnswerDue, message_id: String, params: String) -> Self {
        Self {
            known: InLog::of(&params),
            reply,
            due,
            message_id,
            params,
            cancelled: false,
            of_other: false,
        }
    }

    /// What the log has of it may change while it waits.
    pub(super) fn waiting(self) -> Self {
        let known = InLog::of(&self.params);
        Self { known, ..self }
    }
}

impl InLog {
    /// Of a prompt that has just come, with these parameters.
    fn of(params: &str) -> Self {
        idempotency_key(params).map_or(Self::New, Self::Unknown)
    }
}

/// A prompt whose key is looked for in the log.
#[derive(Debug)]
pub(super) struct SoughtPrompt<R> {
    pub(super) prompt: WaitingPrompt<R>,
    /// Whether it has waited for the turns in front of it, and can begin now.
    pub(super) was_waiting: bool,
    /// The prompt that the log has under the key.
    pub(super) found: Option<RecordedPrompt>,
}

impl<R> SoughtPrompt<R> {
    /// The answer if the log cannot be read, or not be appended to.
    pub(super) fn failed(self, refusal: Refusal) -> Effect<R> {
        Effect::Answer(self.prompt.reply, Err(refusal))
    }
}
