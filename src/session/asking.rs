//! What a session does with requests that go through it: those of its engine to the client, and
//! those of the client that only the engine knows.

use crate::engine::{Called, EngineError};
use crate::record::Kind;

use super::asked;
use super::effect::{Batch, Effect};
use super::machine::{Machine, Stage};
use super::outcome::{Done, Refusal};
use super::request::{Answered, ClientRequest};
use super::turn::MadeCall;
use super::withdrawn;

impl<R> Machine<R> {
    /// The engine asks the client for something. A question that is dropped is thereby answered:
    /// the engine learns that nothing will come.
    pub fn ask(&mut self, mut asking: ClientRequest) -> Batch<R> {
        if !self.open || self.broken().is_some() || asking.is_moot() {
            return Vec::new();
        }
        // A session that is being made has no log yet.
        asking.logged &= !self.is_unborn();
        if self.replay.is_some() {
            // The client does not know yet what it is about.
            self.asked.push_back(asking);
            return Vec::new();
        }
        let mut batch = Vec::new();
        if asking.logged {
            self.stage = Stage::Updating;
            if asking.method == "session/request_permission"
                && !self.turns.is_empty()
                && let Some((id, update)) = asked::call(&asking.params)
                && !self.turns.calls.knows(&id)
            {
                self.turns.calls.update(&update);
                self.turns.made.push(MadeCall {
                    ask: asking.id.clone(),
                    call: id,
                    allowing: asked::allowing(&asking.params),
                    is_allowed: false,
                });
                batch.push(Effect::record(Kind::Output, None, update));
            }
            let method = serde_json::Value::from(asking.method.as_str());
            let payload = format!(r#"{{"method":{method},"params":{}}}"#, asking.params);
            batch.push(Effect::record(Kind::Ask, Some(asking.id.clone()), payload));
        }
        if self.turns.withdrawn {
            // A client that has ended the turn is not asked any more.
            let outcome = withdrawn::outcome(&asking.method);
            batch.extend(self.answered(asking.answered(outcome)));
        } else {
            let logged = asking.logged;
            batch.push(Effect::Ask(asking));
            if logged {
                batch.extend(self.asking(1));
            }
        }
        batch
    }

    /// So many questions more are open in the running turns. If that is news to the client, it is
    /// notified: at once, or when the replay that is running is through.
    fn asking(&mut self, more: isize) -> Option<Effect<R>> {
        if self.turns.is_empty() {
            return None;
        }
        let before = self.turns.asking > 0;
        self.turns.asking = self.turns.asking.saturating_add_signed(more);
        let now = self.turns.asking > 0;
        let news = before != now && self.replay.is_none();
        if news { self.tell() } else { None }
    }

    /// The client has answered what the engine asked it for.
    pub fn answered(&mut self, answered: Answered) -> Batch<R> {
        let mut batch = Vec::new();
        if answered.logged && self.open {
            if self.broken().is_some() {
                // Nothing is to be done that is not in the log.
                return Vec::new();
            }
            self.stage = Stage::Updating;
            self.turns.answered(&answered.id, &answered.outcome);
            let payload = match &answered.outcome {
                Ok(result) => format!(r#"{{"result":{result}}}"#),
                Err(error) => format!(r#"{{"error":{error}}}"#),
            };
            let id = Some(answered.id.clone());
            batch.push(Effect::record(Kind::Answer, id, payload));
            batch.extend(self.asking(-1));
        }
        batch.push(Effect::Deliver(answered));
        batch
    }

    /// Has the engine serve a request.
    pub(super) fn call(&mut self, reply: R, method: String, params: String) -> Batch<R> {
        if !self.open {
            return vec![Effect::Check, Effect::Answer(reply, Err(Refusal::NotOpen))];
        }
        if let (Some(refusal), true) = (self.broken(), is_kept(&method)) {
            return vec![Effect::Answer(reply, Err(refusal.clone()))];
        }
        self.calls += 1;
        let mut batch = Vec::new();
        if is_kept(&method) {
            // What it changes goes into the log, which must be ours for that.
            self.stage = Stage::Calling;
            batch.push(Effect::Claim);
        }
        batch.push(Effect::Call {
            reply,
            method,
            params,
        });
        batch
    }

    /// The engine has served a request.
    pub fn called(&mut self, reply: R, result: Result<Called, EngineError>) -> Batch<R> {
        self.calls = self.calls.saturating_sub(1);
        let called = match result {
            Ok(called) => called,
            Err(error) => return vec![Effect::Answer(reply, Err(Refusal::Engine(error)))],
        };
        let mut batch = Vec::new();
        if let (Some(info), true) = (called.info, self.open) {
            if let Some(refusal) = self.broken() {
                return vec![Effect::Answer(reply, Err(refusal.clone()))];
            }
            self.stage = Stage::Updating;
            batch.push(Effect::record(Kind::Info, None, info));
        }
        batch.extend(self.said(called.updates));
        batch.push(Effect::Answer(reply, Ok(Done::Served(called.result))));
        batch
    }
}

/// Whether the log is told when such a request was served.
fn is_kept(method: &str) -> bool {
    matches!(
        method,
        "session/set_mode" | "session/set_model" | "session/set_config_option"
    )
}

#[cfg(test)]
#[path = "asking_tests.rs"]
mod tests;
