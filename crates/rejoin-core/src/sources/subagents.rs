//! Conversations of subagents, as parts of the one that started them.
//!
//! A subagent is a session of its own within the user's: it is announced there, and its updates are
//! records with its id, as those of a wrapped agent are. Clients that do not show subagents get none
//! of this; the call that started the subagent has its result.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::json::string_member;
use crate::record::{Kind, subagents};
use crate::sys::Timestamp;

use super::conversation::{ConversationBuilder, NewRecord, ToolConversation};
use super::damage::DamagedPlace;
use super::unknown::UnknownKinds;
use super::usage::{self, Spent};

/// The conversation of a subagent.
#[derive(Debug)]
pub(super) struct SourceSubagent {
    /// The tool's own id of it, which no other subagent of the session has.
    pub(super) id: String,
    /// The tool call that started it, if it is known.
    pub(super) call: Option<String>,
    /// The subagent's title, if the call has none.
    pub(super) title: Option<String>,
    /// Where its own file is damaged, if it has one.
    damage: Vec<DamagedPlace>,
    entries: Vec<NewRecord>,
    spent: Spent,
    unknown: UnknownKinds,
}

impl SourceSubagent {
    /// Sets where its own file is damaged.
    pub(super) fn damaged(mut self, damage: Vec<DamagedPlace>) -> Self {
        self.damage = damage;
        self
    }

    /// A subagent of which this was read.
    pub(super) fn new(
        id: impl Into<String>,
        call: Option<String>,
        read: ConversationBuilder,
    ) -> Self {
        let (entries, spent, unknown) = read.entries();
        Self {
            id: id.into(),
            call,
            title: None,
            damage: Vec::new(),
            entries,
            spent,
            unknown,
        }
    }

    /// Its announcement, its updates, and its end. `title` is that of the call that started it.
    fn into_entries(self, session: &str, title: Option<&str>) -> Vec<NewRecord> {
        let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) else {
            return Vec::new();
        };
        let (began, ended) = (first.at, last.at);
        let reason = string_member(&last.payload, "stopReason");
        let is_cancelled = reason.as_deref() == Some("cancelled");
        let id = format!("{session}/{}", self.id);
        let about = |at, members: Value| {
            let mut update = json!({"sessionUpdate": "subagent_update", "sessionId": id});
            if let (Value::Object(update), Value::Object(members)) = (&mut update, members) {
                update.extend(members.into_iter().filter(|(_, value)| !value.is_null()));
            }
            NewRecord {
                at,
                kind: Kind::Update,
                id: None,
                payload: update.to_string(),
            }
        };
        let link = self
            .call
            .map(|call| json!({"rejoin": {"toolCallId": call}}));
        let title = title.or(self.title.as_deref()).unwrap_or("Subagent");
        let mut entries = vec![about(began, json!({"title": title, "_meta": link}))];
        for entry in &self.entries {
            entries.extend(updates(entry).map(|update| NewRecord {
                at: entry.at,
                kind: Kind::Subagent,
                id: None,
                payload: subagents::payload(&id, &format!("{{\"update\":{update}}}")),
            }));
        }
        let reason = if is_cancelled {
            "cancelled"
        } else {
            "end_turn"
        };
        let state = json!({"state": {"state": "idle", "stopReason": reason}});
        entries.push(about(ended, state));
        entries
    }
}

/// A record of a session as updates of a subagent's: a prompt is a message to it.
fn updates(entry: &NewRecord) -> impl Iterator<Item = String> {
    let prompt: Value = match entry.kind {
        Kind::Prompt => serde_json::from_str(&entry.payload).unwrap_or_default(),
        _ => Value::Null,
    };
    let blocks = prompt["prompt"].as_array().cloned().unwrap_or_default();
    let messages = blocks.into_iter().map(|block| {
        let message = json!({
            "sessionUpdate": "user_message_chunk", "content": block, "messageId": entry.id,
        });
        message.to_string()
    });
    let update = (entry.kind == Kind::Update).then(|| entry.payload.clone());
    messages.chain(update)
}

/// Puts what subagents did into a conversation: each behind the call that started it, in the order of
/// time. The records of the conversation itself stay as they are.
pub(super) fn merge(conversation: &mut ToolConversation, subagents: Vec<SourceSubagent>) {
    if subagents.is_empty() || conversation.entries.is_empty() {
        return;
    }
    let mut own = std::mem::take(&mut conversation.entries);
    let calls: HashMap<String, usize> = own.iter().enumerate().filter_map(call).collect();
    // Before which of the conversation's own records each one comes.
    let mut placed: Vec<(usize, Timestamp, NewRecord)> = Vec::new();
    for subagent in subagents {
        let call = subagent.call.as_ref().and_then(|call| calls.get(call));
        let title = call.and_then(|call| string_member(&own[*call].payload, "title"));
        let mut place = call.map_or(1, |call| call + 1);
        let damage = subagent.damage.iter().map(|damage| DamagedPlace {
            subagent: Some(subagent.id.clone()),
            ..damage.clone()
        });
        conversation.damage.extend(damage);
        conversation.unknown.extend(subagent.unknown.clone());
        let spent_at = call.copied().unwrap_or(own.len());
        usage::add_to_turn(&mut own, spent_at, &subagent.spent);
        let mut latest = Timestamp::from_millis(0);
        for entry in subagent.into_entries(&conversation.id, title.as_deref()) {
            latest = latest.max(entry.at);
            while own.get(place).is_some_and(|own| own.at < latest) {
                place += 1;
            }
            placed.push((place, latest, entry));
        }
    }
    placed.sort_by_key(|(place, at, _)| (*place, *at));
    let mut placed = placed.into_iter().peekable();
    for (at, entry) in own.into_iter().enumerate() {
        while let Some((_, _, before)) = placed.next_if(|(place, _, _)| *place <= at) {
            conversation.entries.push(before);
        }
        conversation.entries.push(entry);
    }
    let rest = placed.map(|(_, _, entry)| entry);
    conversation.entries.extend(rest);
}

/// The tool call that a record begins.
fn call((at, entry): (usize, &NewRecord)) -> Option<(String, usize)> {
    let is_call = entry.kind == Kind::Update
        && string_member(&entry.payload, "sessionUpdate").as_deref() == Some("tool_call");
    let id = is_call.then(|| string_member(&entry.payload, "toolCallId"));
    Some((id.flatten()?, at))
}

#[cfg(test)]
mod tests {
    use super::super::content::text;
    use super::super::tool;
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn subagent(id: &str, call: Option<&str>, times: [i64; 2]) -> SourceSubagent {
        let mut builder = ConversationBuilder::default();
        builder.user(at(times[0]), Some("p"), vec![text("Do.")]);
        builder.agent(at(times[1]), Some("m"), text("Done."));
        SourceSubagent::new(id, call.map(str::to_owned), builder)
    }

    #[test]
    fn what_subagents_did_comes_behind_their_calls_in_the_order_of_time() {
        let mut builder = ConversationBuilder::default();
        builder.user(at(1), None, vec![text("Go.")]);
        let input = json!({"description": "Look"});
        builder.call(at(2), tool::call("a", "Task", "Task", &input));
        builder.call(at(3), tool::call("b", "Task", "Task", &input));
        builder.result(at(7), "a", true, json!({}));
        builder.result(at(9), "b", true, json!({}));
        let mut conversation = builder.finish(Some("s".to_owned()), None);
        let own: Vec<String> = conversation
            .entries
            .iter()
            .map(|it| it.payload.clone())
            .collect();
        let subagents = vec![
            subagent("x", Some("a"), [4, 6]),
            subagent("y", Some("b"), [5, 8]),
            subagent("early", Some("b"), [0, 0]),
            subagent("late", None, [20, 21]),
        ];
        merge(&mut conversation, subagents);
        let shown: Vec<String> = conversation
            .entries
            .iter()
            .map(|entry| {
                let payload: Value = serde_json::from_str(&entry.payload).unwrap();
                let session = payload["sessionId"].as_str().unwrap_or("-");
                let update = if entry.kind == Kind::Subagent {
                    &payload["update"]
                } else {
                    &payload
                };
                let is = update["state"]["state"]
                    .as_str()
                    .or(update["sessionUpdate"].as_str());
                format!("{session} {}", is.unwrap_or(entry.kind.as_str()))
            })
            .collect();
        let expected = [
            "- prompt",
            "- tool_call",
            "- tool_call",
            "s/early subagent_update",
            "s/early user_message_chunk",
            "s/early agent_message_chunk",
            "s/early idle",
            "s/x subagent_update",
            "s/x user_message_chunk",
            "s/y subagent_update",
            "s/y user_message_chunk",
            "s/x agent_message_chunk",
            "s/x idle",
            "- tool_call_update",
            "s/y agent_message_chunk",
            "s/y idle",
            "- tool_call_update",
            "- end",
            "s/late subagent_update",
            "s/late user_message_chunk",
            "s/late agent_message_chunk",
            "s/late idle",
        ];
        assert_eq!(shown, expected);
        let announced = &conversation.entries[7].payload;
        assert_eq!(
            announced,
            r#"{"sessionUpdate":"subagent_update","sessionId":"s/x","title":"Look","_meta":{"rejoin":{"toolCallId":"a"}}}"#
        );
        let kept = conversation
            .entries
            .iter()
            .filter(|it| !it.payload.contains("s/"));
        assert_eq!(kept.map(|it| it.payload.clone()).collect::<Vec<_>>(), own);
    }
}
