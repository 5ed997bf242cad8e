//! Shortens what tools were given and returned, in what was imported from other tools: a client can
//! ask for the rest when its user wants to see it. Our own history is shown as it was.
//!
//! Input, output and content of a call together get at most the limit, and their longest strings lose
//! their middle. If that is not enough, the longest of the three becomes a marker.

use std::ops::Range;

use crate::json::{self, Splice};
use crate::record::AgentSessionId;
use crate::sys::is_message_id;

use super::{stub, truncation};

/// The members that are shortened.
const MEMBERS: [&[u8]; 3] = [b"content", b"rawInput", b"rawOutput"];

/// Whether updates are shortened, and to what.
#[derive(Debug)]
pub(super) struct Clips {
    limit: Option<usize>,
    /// The name of the session for its client, as JSON.
    session: String,
    /// Whether the records are of another tool.
    is_foreign: bool,
}

impl Clips {
    /// For the session that its client knows by this name.
    pub(super) fn new(session: &str, limit: Option<usize>) -> Self {
        Self {
            limit,
            session: json::quoted(session),
            is_foreign: false,
        }
    }

    /// The next record names the agent of the session.
    pub(super) fn agent(&mut self, payload: &str) {
        self.is_foreign |= self.limit.is_some() && AgentSessionId::is_of_tool(payload);
    }

    /// The next record is a prompt with this id. One of ours continues the conversation here.
    pub(super) fn prompt(&mut self, id: Option<&str>) {
        self.is_foreign = self.is_foreign && !id.is_some_and(is_message_id);
    }

    /// Writes an update of a tool call to `out`, shortened, and returns members for the note about it.
    /// `None`, with nothing written, if it is short enough.
    pub(super) fn clip(&self, update: &[u8], out: &mut Vec<u8>) -> Option<String> {
        let limit = self.limit.filter(|_| self.is_foreign)?;
        if update.len() <= limit {
            return None;
        }
        let removed = shorten(update, limit, out)?;
        let call = json::member(update, 0, "toolCallId").map(|id| &update[id]);
        let call = String::from_utf8_lossy(call.unwrap_or(b"null"));
        let session = &self.session;
        Some(format!(
            r#","clipped":{{"bytes":{removed},"get":{{"sessionId":{session},"toolCallId":{call}}}}}"#
        ))
    }
}

/// Writes an update with at most `limit` bytes of input, output and content, and returns how many
/// bytes it lost. `None` if it has no more.
fn shorten(update: &[u8], limit: usize, out: &mut Vec<u8>) -> Option<usize> {
    let mut members: Vec<_> = members(update)?;
    let length = |members: &[(Range<usize>, Range<usize>)]| -> usize {
        members.iter().map(|(_, value)| value.len()).sum()
    };
    let mut stubs = Vec::new();
    let (mut room, mut cuts) = (limit, None);
    while cuts.is_none() {
        let Some(need) = length(&members).checked_sub(room).filter(|need| *need > 0) else {
            break;
        };
        let values = members.iter().map(|(_, value)| value.start);
        cuts = truncation::cuts_of(update, values, need);
        if cuts.is_none() {
            let longest = (0..members.len()).max_by_key(|at| members[*at].1.len())?;
            let (key, value) = members.remove(longest);
            let stub = stub::of_member(update, &update[key], &update[value.clone()]);
            room = room.saturating_sub(stub.len());
            stubs.push((value, stub));
        }
    }
    let cuts = cuts.into_iter().flatten();
    let mut changes: Vec<_> = cuts.map(|cut| (cut.range, cut.instead)).collect();
    changes.append(&mut stubs);
    changes.sort_by_key(|(range, _)| range.start);
    let removed = changes.iter().map(|(range, _)| range.len()).sum();
    if removed == 0 {
        return None;
    }
    let mut splice = Splice::new(update);
    for (range, instead) in changes {
        splice.replace(range, instead);
    }
    splice.write(0..update.len(), out);
    Some(removed)
}

/// The members of an update that may be shortened: where their names and values are.
fn members(update: &[u8]) -> Option<Vec<(Range<usize>, Range<usize>)>> {
    let mut found = Vec::new();
    let mut parts = json::members(update, 0)?;
    while let Some(member) = parts.member() {
        if MEMBERS.contains(&&update[member.key.clone()]) {
            found.push((member.key, member.value));
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const FOREIGN: &str = r#"{"id":"a","agent":{"name":"codex-acp"},"how":"import"}"#;

    fn clips(limit: usize) -> Clips {
        let mut clips = Clips::new("s\"1", Some(limit));
        clips.agent(FOREIGN);
        clips
    }

    fn clipped(clips: &Clips, update: &Value) -> Option<(Value, Value)> {
        let mut out = Vec::new();
        let note = clips.clip(update.to_string().as_bytes(), &mut out)?;
        let note = format!("{{{}}}", &note[1..]);
        Some((
            serde_json::from_slice(&out).unwrap(),
            serde_json::from_str::<Value>(&note).unwrap()["clipped"].clone(),
        ))
    }

    fn update(content: &Value, output: &Value) -> Value {
        json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "call\"1", "title": "T".repeat(3000),
            "content": content, "rawOutput": output,
        })
    }

    fn text(text: &str) -> Value {
        json!([{ "type": "content", "content": { "type": "text", "text": text } }])
    }

    #[test]
    fn long_texts_lose_their_middle_and_the_note_says_where_it_is() {
        let long = format!("begin{}end", "é\n".repeat(5000));
        let before = update(&text(&long), &json!({ "output": long, "exit": 0 }));
        let (after, note) = clipped(&clips(2000), &before).unwrap();
        let kept = after["content"].to_string().len() + after["rawOutput"].to_string().len();
        assert!((1500..2000).contains(&kept), "{kept}");
        assert_eq!(after["title"], before["title"]);
        assert_eq!(after["rawOutput"]["exit"], 0);
        let shown = after["content"][0]["content"]["text"].as_str().unwrap();
        assert!(
            shown.starts_with("begin") && shown.ends_with("end") && shown.contains("bytes cut")
        );
        let get = json!({ "sessionId": "s\"1", "toolCallId": "call\"1" });
        assert_eq!(note["get"], get);
        assert!(note["bytes"].as_u64().unwrap() > 20_000, "{note}");
    }

    #[test]
    fn what_is_long_without_long_texts_becomes_a_marker() {
        let many: Vec<u32> = (0..5000).collect();
        let (after, _) = clipped(&clips(2000), &update(&text("short"), &json!(many))).unwrap();
        assert!(after["rawOutput"].as_str().unwrap().contains("bytes cut"));
        assert_eq!(after["content"], text("short"));
        let items: Vec<Value> = (0..500)
            .filter_map(|_| text("a").as_array().cloned())
            .flatten()
            .collect();
        let (after, _) = clipped(&clips(2000), &update(&json!(items), &json!(many))).unwrap();
        assert!(after.to_string().len() < 4000, "{after}");
        assert_eq!(after["content"][0]["type"], "content");
    }

    #[test]
    fn only_what_other_tools_recorded_is_shortened() {
        let long = update(&text(&"x".repeat(5000)), &Value::Null);
        assert!(clipped(&clips(2000), &long).is_some());
        assert!(clipped(&clips(6000), &long).is_none());
        let mut clips = clips(2000);
        clips.prompt(Some("msg_01Hx"));
        assert!(clipped(&clips, &long).is_some());
        clips.prompt(Some("msg_01a1fec530527252b89bb1d675bb89c7"));
        assert!(clipped(&clips, &long).is_none());
        let mut own = Clips::new("s", Some(2000));
        own.agent(r#"{"id":"a","agent":{"name":"codex-acp","version":null},"how":"import"}"#);
        own.agent(r#"{"agent":{"name":"rejoin"},"how":"resume"}"#);
        assert!(clipped(&own, &long).is_none());
    }
}
