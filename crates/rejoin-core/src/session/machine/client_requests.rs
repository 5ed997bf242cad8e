//! Requests that pass through a session: those of its engine to the client, and those of the client
//! that only the engine knows.

use std::sync::Arc;

use serde_json::json;

use crate::engine::{Called, EngineError};
use crate::json;
use crate::protocol::error::REQUEST_CANCELLED;
use crate::protocol::method::{
    ELICITATION_CREATE, REQUEST_PERMISSION, SESSION_SET_CONFIG_OPTION, SESSION_SET_MODE,
    SESSION_SET_MODEL,
};
use crate::record::Kind;
use crate::record::payload::NATIVE;
use crate::store::Sync;
use crate::transport::Outcome;

use super::turns::PermissionCall;
use super::{Machine, Purpose};
use crate::session::effect::{Batch, Effect};
use crate::session::outcome::{Done, Refusal};
use crate::session::phase::Phase;
use crate::session::request::{ClientRequest, ClientResponse};

impl<R> Machine<R> {
    /// The engine sends the client a request.
    pub fn ask(&mut self, mut request: ClientRequest) -> Batch<R> {
        if !self.lifecycle.is_open() || self.failure().is_some() {
            return vec![Effect::Respond(request.id, None)];
        }
        // A session that is being created has no log yet.
        request.logged &= !self.is_being_created();
        let mut batch = Vec::new();
        if request.logged {
            self.purpose = Purpose::Log;
            batch.extend(self.show_call(&request));
            let version = request.is_native.then_some(NATIVE);
            let payload = json::Object::new()
                .string("method", &request.method)
                .raw("params", &request.params)
                .optional("protocolVersion", version)
                .end();
            batch.push(Effect::record(Kind::Ask, Some(&request.id), &payload));
        }
        if self.turns.withdrawn {
            // A client that has ended the turn is not asked.
            let response = request.response(withdrawn_outcome(&request.method));
            batch.extend(self.answered(response));
        } else {
            let logged = request.logged;
            batch.push(Effect::Ask(request));
            batch.extend(logged.then(|| self.add_open_requests(1)).flatten());
        }
        batch
    }

    /// The record that shows the tool call for which permission is requested, if none has so far.
    ///
    /// Some agents request permission before they have shown the call, and later show only its end.
    /// A client knows the call from the request, but a replay sends no requests.
    fn show_call(&mut self, request: &ClientRequest) -> Option<Effect<R>> {
        let is_own = request.method == REQUEST_PERMISSION && !request.of_subagent;
        // In version 2 a call is not shown by a request for permission.
        if !is_own || request.is_native || self.turns.is_empty() {
            return None;
        }
        let (id, update) = requested_call(&request.params)?;
        if self.turns.calls.knows(&id) {
            return None;
        }
        self.turns.calls.update(&update);
        self.turns.permission_calls.push(PermissionCall {
            request: request.id.clone(),
            call: id,
            allowing: allowing(&request.params),
            is_allowed: false,
        });
        Some(Effect::record(Kind::Output, None, &update))
    }

    /// Adds to the number of unanswered requests of the running turns. If the session now begins to
    /// wait for the user, or no longer waits, the client is notified.
    fn add_open_requests(&mut self, more: isize) -> Option<Effect<R>> {
        if self.turns.is_empty() || self.reports.are_due {
            return None;
        }
        let before = self.phase();
        let open = &mut self.turns.open_requests;
        *open = open.saturating_add_signed(more);
        let is_news = (before == Phase::RequiresAction) != (*open > 0);
        is_news.then(|| self.notify_state())
    }

    /// The client has answered a request of the engine.
    pub fn answered(&mut self, response: ClientResponse) -> Batch<R> {
        let mut batch = Vec::new();
        if response.logged && self.lifecycle.is_open() {
            if self.failure().is_some() {
                // The engine must not act on what is not in the log.
                return vec![Effect::Respond(response.id, None)];
            }
            self.purpose = Purpose::Log;
            self.turns.answered(&response);
            let payload = match &response.outcome {
                Ok(result) => json::Object::new().raw("result", result),
                Err(error) => json::Object::new().raw("error", error),
            };
            let payload = match &response.client {
                Some(client) => payload.string("client", client).end(),
                None => payload.end(),
            };
            batch.push(Effect::record(Kind::Answer, Some(&response.id), &payload));
            batch.extend(self.add_open_requests(-1));
        }
        batch.push(Effect::Respond(response.id, Some(response.outcome)));
        batch
    }

    /// Has the engine serve a request of the client.
    pub(super) fn call(&mut self, reply: R, method: String, params: String) -> Batch<R> {
        if !self.lifecycle.is_open() {
            return vec![Effect::Check, Effect::Answer(reply, Err(Refusal::NotOpen))];
        }
        if let (Some(refusal), true) = (self.failure(), is_setting(&method)) {
            return vec![Effect::Answer(reply, Err(refusal.clone()))];
        }
        self.calls += 1;
        let mut batch = Vec::new();
        if is_setting(&method) {
            // Its change goes into the log, which this process must have locked for that.
            self.purpose = Purpose::Call;
            batch.push(Effect::Claim);
        }
        batch.push(Effect::Call {
            reply,
            method,
            params,
        });
        batch
    }

    /// The engine has served a request of the client.
    pub fn called(&mut self, reply: R, result: Result<Called, EngineError>) -> Batch<R> {
        self.calls = self.calls.saturating_sub(1);
        let called = match result {
            Ok(called) => called,
            Err(error) => return vec![Effect::Answer(reply, Err(Refusal::Engine(error)))],
        };
        let mut batch = Vec::new();
        if !called.info.is_empty() && self.lifecycle.is_open() {
            if let Some(refusal) = self.failure() {
                return vec![Effect::Answer(reply, Err(refusal.clone()))];
            }
            self.purpose = Purpose::Log;
            batch.push(Effect::Append(Arc::new(called.info), Sync::Buffered));
        }
        batch.extend(self.update(called.updates));
        batch.push(Effect::Answer(reply, Ok(Done::Served(called.result))));
        batch
    }
}

/// Whether a request by this name changes a setting, which is logged.
pub(in crate::session) fn is_setting(method: &str) -> bool {
    [
        SESSION_SET_MODE,
        SESSION_SET_MODEL,
        SESSION_SET_CONFIG_OPTION,
    ]
    .contains(&method)
}

/// The engine's response in the place of the client's, when the turn ends before the client has
/// answered a request by this name.
pub(in crate::session) fn withdrawn_outcome(method: &str) -> Outcome {
    match method {
        REQUEST_PERMISSION => Ok(json!({ "outcome": { "outcome": "cancelled" } }).to_string()),
        ELICITATION_CREATE => Ok(json!({ "action": "cancel" }).to_string()),
        _ => {
            let message = "the turn was cancelled";
            Err(json!({ "code": REQUEST_CANCELLED, "message": message }).to_string())
        }
    }
}

/// The update that shows the tool call of a request for permission, with the call's id.
fn requested_call(params: &str) -> Option<(String, String)> {
    let mut update = r#"{"sessionUpdate":"tool_call""#.to_owned();
    let (mut id, mut has_title) = (None, false);
    for (name, value) in json::text_members(json::text_member(params, "toolCall")?) {
        // In an update `null` means no change, which a new call cannot have.
        let is_raw = matches!(name.as_str(), "rawInput" | "rawOutput");
        if name == "sessionUpdate" || (value == "null" && !is_raw) {
            continue;
        }
        if name == "toolCallId" {
            id = serde_json::from_str(value).ok();
        }
        has_title |= name == "title";
        let name = serde_json::Value::from(name);
        update.extend([",", &name.to_string(), ":", value]);
    }
    if !has_title {
        update.push_str(r#","title":"Tool call""#);
    }
    update.push('}');
    Some((id?, update))
}

/// The ids of the options of a request for permission that allow the call.
fn allowing(params: &str) -> Vec<String> {
    let tree = json::tree(params).unwrap_or_default();
    let options = tree["options"].as_array().into_iter().flatten();
    let allow = options.filter(|option| {
        let kind = option["kind"].as_str();
        kind.is_some_and(|kind| kind.starts_with("allow"))
    });
    allow
        .filter_map(|option| option["optionId"].as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
#[path = "client_requests_tests.rs"]
mod tests;
