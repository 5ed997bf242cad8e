//! Which records of a file are the conversation as it is now.
//!
//! Records name their parents, so a file is a tree: a prompt that was edited leaves a branch behind.
//! But most forks are no edits. Calls of several tools at once are records in a row, and each result
//! is a child of its own call, so walking from the last record up to the root loses results. After a
//! compaction the parent is missing and a logical parent is named instead.
//!
//! So the records shown are the ancestors of the last message, and also the parts of a message of
//! which another part is shown, and the results of tool calls that are shown.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// Records that have the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SameId {
    /// A compaction may write records again: the first one counts.
    Copies,
    /// Fragments of one message: each counts that says something else.
    Fragments,
}

/// For each record, whether it is shown.
pub(super) fn shown(records: &[Value], same_id: SameId) -> Vec<bool> {
    let is_node = |record: &Value| record["uuid"].is_string() && !is_sidechain(record);
    let mut at_uuid: HashMap<&str, usize> = HashMap::new();
    for (at, record) in records.iter().enumerate() {
        if let (true, Some(uuid)) = (is_node(record), record["uuid"].as_str()) {
            at_uuid.entry(uuid).or_insert(at);
        }
    }
    let is_first = |at: usize| {
        let uuid = records[at]["uuid"].as_str();
        uuid.is_none_or(|uuid| at_uuid.get(uuid) == Some(&at))
    };
    // What is no part of the tree, such as a title, is shown, other than of subagents.
    let mut shown: Vec<bool> = records
        .iter()
        .map(|record| !record["uuid"].is_string() && !is_sidechain(record))
        .collect();
    let is_message = |at: &usize| {
        let record = &records[*at];
        let is_message = matches!(
            record["type"].as_str(),
            Some("user" | "assistant" | "tool_result")
        );
        is_message && is_node(record) && is_first(*at)
    };
    let mut next = (0..records.len()).rev().find(is_message);
    while let Some(at) = next {
        // A record that is its own ancestor ends the walk.
        if std::mem::replace(&mut shown[at], true) {
            break;
        }
        let record = &records[at];
        let parent = PARENTS.iter().find_map(|name| record[*name].as_str());
        let parent = parent.and_then(|parent| at_uuid.get(parent).copied());
        // A parent that is missing: the record before is the best guess.
        next = parent.or_else(|| (0..at).rev().find(|at| is_node(&records[*at])));
    }
    let messages: HashSet<&str> = of_shown(records, &shown).filter_map(message_id).collect();
    for (at, record) in records.iter().enumerate() {
        let is_part = message_id(record).is_some_and(|id| messages.contains(id));
        shown[at] |= is_part && is_node(record) && is_first(at);
    }
    let calls: HashSet<&str> = of_shown(records, &shown)
        .flat_map(blocks)
        .filter(|block| block["type"] == "tool_use")
        .filter_map(|block| block["id"].as_str())
        .collect();
    for (at, record) in records.iter().enumerate() {
        let mut results = blocks(record).iter();
        let answers = results.any(|block| {
            let call = block["tool_use_id"].as_str();
            call.is_some_and(|call| calls.contains(call))
        });
        shown[at] |= answers && is_node(record) && is_first(at);
    }
    if same_id == SameId::Fragments {
        let mut messages: HashMap<&str, Vec<&Value>> = HashMap::new();
        for (at, record) in records.iter().enumerate() {
            let Some(uuid) = record["uuid"].as_str().filter(|_| is_node(record)) else {
                continue;
            };
            let (known, message) = (messages.entry(uuid).or_default(), &record["message"]);
            let is_new = !known.contains(&message);
            known.push(message);
            shown[at] = is_new && at_uuid.get(uuid).is_some_and(|first| shown[*first]);
        }
    }
    // Records about the state of the session have a place in the tree, but no other branch.
    for (at, record) in records.iter().enumerate() {
        let is_note = matches!(record["type"].as_str(), Some("system" | "attachment"));
        let parent = record["parentUuid"].as_str();
        let parent = parent.and_then(|parent| at_uuid.get(parent));
        let follows_shown = parent.is_some_and(|parent| *parent < at && shown[*parent]);
        shown[at] |= is_note && is_node(record) && is_first(at) && follows_shown;
    }
    shown
}

/// The members that name a record's parent.
const PARENTS: [&str; 2] = ["parentUuid", "logicalParentUuid"];

/// Adds the parents that a record names.
pub(super) fn parents<'a>(record: &'a Value, needed: &mut Vec<&'a str>) {
    needed.extend(PARENTS.iter().filter_map(|name| record[*name].as_str()));
}

/// The id of the API's message that a record is a part of.
pub(super) fn message_id(record: &Value) -> Option<&str> {
    record["message"]["id"].as_str()
}

/// The blocks of a record's message.
pub(super) fn blocks(record: &Value) -> &[Value] {
    let content = record["message"]["content"].as_array();
    content.map_or(&[], Vec::as_slice)
}

fn of_shown<'a>(records: &'a [Value], shown: &[bool]) -> impl Iterator<Item = &'a Value> {
    let records = records.iter().zip(shown);
    records
        .filter(|(_, shown)| **shown)
        .map(|(record, _)| record)
}

/// Whether a record is of a subagent that earlier versions wrote into the same file.
fn is_sidechain(record: &Value) -> bool {
    record["isSidechain"] == true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user(uuid: &str, parent: Option<&str>) -> Value {
        json!({"type": "user", "uuid": uuid, "parentUuid": parent, "message": {"content": uuid}})
    }

    fn call(uuid: &str, parent: &str, message: &str, call: &str) -> Value {
        let content = [json!({"type": "tool_use", "id": call})];
        json!({"type": "assistant", "uuid": uuid, "parentUuid": parent,
            "message": {"id": message, "content": content}})
    }

    fn result(uuid: &str, parent: &str, call: &str) -> Value {
        let content = [json!({"type": "tool_result", "tool_use_id": call})];
        json!({"type": "user", "uuid": uuid, "parentUuid": parent, "message": {"content": content}})
    }

    fn names(records: &[Value]) -> String {
        let shown = shown(records, SameId::Copies);
        let shown = records.iter().zip(shown).filter(|(_, shown)| *shown);
        shown
            .map(|(record, _)| record["uuid"].as_str().unwrap_or("-"))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn results_of_tools_that_ran_at_once_are_kept() {
        let records = [
            user("a", None),
            call("b", "a", "m", "1"),
            call("c", "b", "m", "2"),
            result("d", "c", "2"),
            result("e", "b", "1"),
            call("f", "e", "n", "3"),
        ];
        assert_eq!(names(&records), "a b c d e f");
    }

    #[test]
    fn a_prompt_that_was_edited_is_left_out() {
        let records = [
            user("a", None),
            call("b", "a", "m", "1"),
            user("c", Some("b")),
            json!({"type": "summary"}),
            user("d", Some("b")),
        ];
        assert_eq!(names(&records), "a b - d");
    }

    #[test]
    fn a_compaction_and_a_missing_parent_hide_nothing() {
        let mut after = user("c", None);
        after["logicalParentUuid"] = "b".into();
        let records = [
            user("a", None),
            user("b", Some("a")),
            after,
            user("d", Some("gone")),
            user("b", Some("d")),
        ];
        assert_eq!(names(&records), "a b c d");
        let circle = [user("a", Some("b")), user("b", Some("a"))];
        assert_eq!(names(&circle), "a b");
    }

    #[test]
    fn fragments_of_a_message_are_shown_with_it() {
        let mut more = user("b", Some("a"));
        more["message"]["content"] = "more".into();
        let records = [
            user("a", None),
            user("b", Some("a")),
            more.clone(),
            more,
            user("x", Some("a")),
            user("x", Some("a")),
            user("c", Some("b")),
        ];
        let found = shown(&records, SameId::Fragments);
        assert_eq!(found, [true, true, true, false, false, false, true]);
        assert_eq!(names(&records), "a b c");
    }
}
