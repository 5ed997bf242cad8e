//! Tracks the open tool calls of a turn, so that they can be closed if the turn is interrupted.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde_json::json;

use crate::json;
use crate::protocol::UpdateKind;
use crate::protocol::update::ends_call;

/// The beginning of the `sessionUpdate` of every update about a tool call, including the quote.
static MENTION: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"tool_call"));

/// Tracks the tool calls of one turn through its updates.
///
/// A call is open until an update says `completed`, `failed` or `cancelled`. A missing status means
/// `pending` for a new call and no change for a known one. An unknown status counts as open, since
/// clients show such a call as still running.
#[derive(Clone, Debug, Default)]
pub struct OpenCalls {
    calls: BTreeMap<String, TrackedCall>,
    open: usize,
    /// Whether calls that have ended are unknown.
    has_forgotten: bool,
}

#[derive(Clone, Copy, Debug)]
struct TrackedCall {
    /// How many calls came before it.
    place: usize,
    open: bool,
}

impl OpenCalls {
    /// Records one update: the payload of an `update` record, or of an `update_params` record,
    /// which holds the update as a member. Anything but an update is ignored.
    ///
    /// Cheap for payloads that do not mention a tool call: they are searched, not parsed.
    pub fn update(&mut self, payload: &str) {
        self.take(payload, true);
    }

    /// Records one update like [`update`](Self::update), but ignores calls that are unknown so far.
    pub fn update_known(&mut self, payload: &str) {
        self.take(payload, false);
    }

    /// Whether a payload may be an update about a tool call.
    pub fn may_be_about_one(payload: &str) -> bool {
        MENTION.find(payload.as_bytes()).is_some()
    }

    fn take(&mut self, payload: &str, new: bool) {
        if !Self::may_be_about_one(payload) {
            return;
        }
        let inner = json::text_member(payload, "update");
        let update = inner
            .filter(|inner| inner.starts_with('{'))
            .unwrap_or(payload);
        let kind = UpdateKind::of(update.as_bytes());
        if !kind.is_call() {
            return;
        }
        let Some(id) = json::string_member(update, "toolCallId") else {
            return;
        };
        let open = json::string_member(update, "status").map(|status| !ends_call(&status));
        if let Some(call) = self.calls.get_mut(&id) {
            let open = open.unwrap_or(call.open);
            self.open = self.open - usize::from(call.open) + usize::from(open);
            call.open = open;
        } else if new && (open.is_some() || !self.has_forgotten || kind == UpdateKind::ToolCall) {
            let open = open.unwrap_or(true);
            let place = self.calls.len();
            self.open += usize::from(open);
            self.calls.insert(id, TrackedCall { place, open });
        }
    }

    /// Forgets the calls if none is open. An update without a status, of one that is not known, is
    /// taken for one of those.
    pub fn forget(&mut self) {
        if self.open == 0 {
            self.calls.clear();
            self.has_forgotten = true;
        }
    }

    /// Whether a call is known, open or not.
    pub fn knows(&self, id: &str) -> bool {
        self.calls.contains_key(id)
    }

    /// Whether a call is open.
    pub fn is_open(&self, id: &str) -> bool {
        self.calls.get(id).is_some_and(|call| call.open)
    }

    /// Whether no call is open.
    pub fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// Closes the open calls. Returns one `tool_call_update` for each, in the order in which the
    /// calls began: status `failed`, with `message` as its content.
    pub fn close_all(&mut self, message: &str) -> Vec<String> {
        let mut open: Vec<_> = self
            .calls
            .iter_mut()
            .filter(|(_, call)| call.open)
            .collect();
        open.sort_by_key(|(_, call)| call.place);
        self.open = 0;
        open.into_iter()
            .map(|(id, call)| {
                call.open = false;
                closing_update(id, message)
            })
            .collect()
    }
}

fn closing_update(id: &str, message: &str) -> String {
    let update = json!({
        "sessionUpdate": UpdateKind::ToolCallUpdate.name(),
        "toolCallId": id,
        "status": "failed",
        "content": [{ "type": "content", "content": { "type": "text", "text": message } }],
    });
    update.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The ids of the calls that are closed after these updates.
    fn closed(updates: &[&str]) -> Vec<String> {
        let mut calls = OpenCalls::default();
        for update in updates {
            calls.update(update);
        }
        let empty = calls.is_empty();
        let closing = calls.close_all("Interrupted: \"x\"");
        assert_eq!(empty, closing.is_empty());
        assert!(calls.is_empty());
        assert_eq!(calls.close_all("again"), Vec::<String>::new());
        let ids = closing.iter().map(|update| {
            let update: Value = serde_json::from_str(update).unwrap();
            assert_eq!(update["sessionUpdate"], "tool_call_update");
            assert_eq!(update["status"], "failed");
            assert_eq!(
                update["content"][0]["content"]["text"],
                "Interrupted: \"x\""
            );
            update["toolCallId"].as_str().unwrap().to_owned()
        });
        ids.collect()
    }

    fn call(id: &str, rest: &str) -> String {
        format!(r#"{{"sessionUpdate":"tool_call","toolCallId":"{id}","title":"t"{rest}}}"#)
    }

    fn update(id: &str, rest: &str) -> String {
        format!(r#"{{"toolCallId":"{id}"{rest},"sessionUpdate":"tool_call_update"}}"#)
    }

    #[test]
    fn a_call_is_open_until_its_status_says_otherwise() {
        let status = |status: &str| format!(r#","status":"{status}""#);
        for (rest, open) in [
            (String::new(), true),
            (status("pending"), true),
            (status("in_progress"), true),
            (status("paused"), true),
            (r#","status":null"#.to_owned(), true),
            (status("completed"), false),
            (status("failed"), false),
            (status("cancelled"), false),
        ] {
            let expected: &[&str] = if open { &["a"] } else { &[] };
            assert_eq!(closed(&[&call("a", &rest)]), expected, "{rest}");
            assert_eq!(closed(&[&update("a", &rest)]), expected, "{rest}");
            let then = update("a", &rest);
            assert_eq!(closed(&[&call("a", ""), &then]), expected, "{rest}");
        }
    }

    #[test]
    fn an_update_without_a_status_changes_nothing() {
        let done = call("a", r#","status":"completed""#);
        let late = update("a", r#","content":[]"#);
        assert_eq!(closed(&[&done, &late]), [""; 0]);
        let again = update("a", r#","status":"in_progress""#);
        assert_eq!(closed(&[&done, &late, &again]), ["a"]);
    }

    #[test]
    fn calls_are_closed_in_the_order_they_began() {
        let ids = ["z", "b", "y\\\"", "a"].map(|id| call(id, ""));
        let done = update("b", r#","status":"failed""#);
        assert_eq!(
            closed(&[&ids[0], &ids[1], &ids[2], &ids[3], &done]),
            ["z", "y\\\"", "a"].map(|id| id.replace("\\\"", "\""))
        );
    }

    #[test]
    fn reads_wrapped_and_odd_updates_and_leaves_others_alone() {
        let wrapped = format!(r#"{{"_meta":{{}},"update":{}}}"#, call("w", ""));
        let twice = r#"{"sessionUpdate":"x","toolCallId":"t","sessionUpdate":"tool_call"}"#;
        let surrogate = call("s", r#","title":"\ud83d""#);
        assert_eq!(closed(&[&wrapped, twice, &surrogate]), ["w", "t", "s"]);
        assert_eq!(
            closed(&[
                "",
                "[]",
                "{\"tool_call",
                r#"{"sessionUpdate":"tool_call"}"#,
                r#"{"sessionUpdate":"tool_call","toolCallId":7}"#,
                r#"{"sessionUpdate":"tool_call_content_chunk","toolCallId":"a"}"#,
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\"tool_call"}}"#,
                r#"{"update":7,"x":"tool_call"}"#,
            ]),
            [""; 0]
        );
    }
}
