//! What a person sees of a session, and whether a replay shows all of it.

use rejoin::conversation::{Transcript, TranscriptEntry};
use rejoin::protocol::Role;
use serde_json::Value;

/// Shows a prompt as the client that sent it does. The id is the client's own: it keeps the
/// messages of two prompts apart and is compared with nothing.
pub(crate) fn prompt(shown: &mut Transcript, id: u64, params: &Value) {
    shown.user_prompt(Some(&format!("own-{id}")), &params.to_string());
}

/// Takes the prompt that was shown last off the screen.
pub(crate) fn take_back_prompt(shown: &mut Transcript) {
    let last = shown.entries.pop();
    let user = matches!(
        last,
        Some(TranscriptEntry::Message {
            role: Role::User,
            ..
        }) | None
    );
    assert!(user, "not a prompt: {last:?}");
}

/// Whether two transcripts show the same.
pub(crate) fn same(one: &Transcript, other: &Transcript) -> Result<(), String> {
    let (one, other) = (one.seen(), other.seen());
    for at in 0..one.len().max(other.len()) {
        let (one, other) = (one.get(at), other.get(at));
        if one != other {
            return Err(format!("entry {at} is {one:?}, and {other:?}"));
        }
    }
    Ok(())
}

/// Whether everything that was seen is in what was replayed, in order and equal. At its end the
/// replay may have more, and a tool call that was seen open may have gone on.
pub(crate) fn is_prefix(seen: &Transcript, replayed: &Transcript) -> Result<(), String> {
    let (seen, replayed) = (seen.seen(), replayed.seen());
    for (at, entry) in seen.iter().enumerate() {
        let last = at + 1 == seen.len();
        match replayed.get(at) {
            Some(other) if other == entry => {}
            Some(other) if goes_on(entry, other, last) => {}
            other => {
                return Err(format!(
                    "entry {at} of {} was {entry:?}, and came back as {other:?}",
                    seen.len()
                ));
            }
        }
    }
    Ok(())
}

/// Whether `longer` is `shorter` with more behind it.
fn goes_on(shorter: &TranscriptEntry, longer: &TranscriptEntry, last: bool) -> bool {
    match (shorter, longer) {
        (
            TranscriptEntry::Message {
                role: Role::Agent | Role::Thought,
                blocks: short,
                ..
            },
            TranscriptEntry::Message { blocks: long, .. },
        ) if last => {
            let mut same = longer.clone();
            if let TranscriptEntry::Message { blocks, .. } = &mut same {
                blocks.clone_from(short);
            }
            same == *shorter && blocks_go_on(short, long)
        }
        (TranscriptEntry::ToolCall { id, call }, TranscriptEntry::ToolCall { id: other, .. }) => {
            id == other && !is_final(&call["status"])
        }
        _ => false,
    }
}

fn blocks_go_on(short: &[Value], long: &[Value]) -> bool {
    let Some((last, rest)) = short.split_last() else {
        return true;
    };
    let Some(grown) = long.get(rest.len()) else {
        return false;
    };
    let longer_text = match (last["text"].as_str(), grown["text"].as_str()) {
        (Some(text), Some(grown)) => grown.starts_with(text),
        _ => false,
    };
    long.starts_with(rest) && (last == grown || longer_text)
}

/// The tool calls of a transcript that have not ended.
pub(crate) fn open_calls(shown: &Transcript) -> Vec<&str> {
    let calls = shown.entries.iter().filter_map(|entry| match entry {
        TranscriptEntry::ToolCall { id, call } if !is_final(&call["status"]) => Some(id.as_str()),
        _ => None,
    });
    calls.collect()
}

fn is_final(status: &Value) -> bool {
    status == "completed" || status == "failed"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chunk(shown: &mut Transcript, id: &str, text: &str) {
        let content = json!({ "type": "text", "text": text });
        let update = json!({
            "sessionUpdate": "agent_message_chunk", "messageId": id, "content": content,
        });
        shown.update(&update.to_string());
    }

    fn call(shown: &mut Transcript, status: &str) {
        let update = json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "status": status });
        shown.update(&update.to_string());
    }

    fn shown(steps: &[(&str, &str)]) -> Transcript {
        let mut shown = Transcript::default();
        for (id, text) in steps {
            match *id {
                "call" => call(&mut shown, text),
                id => chunk(&mut shown, id, text),
            }
        }
        shown
    }

    #[test]
    fn only_the_end_may_be_longer() {
        let seen = [("a", "one"), ("call", "in_progress"), ("b", "tw")];
        for (replayed, good) in [
            (&seen[..], true),
            (&seen[..2], false),
            (
                &[("a", "one"), ("call", "failed"), ("b", "two"), ("c", "3")],
                true,
            ),
            (&[("a", "one"), ("call", "failed"), ("b", "t")], false),
            (&[("a", "one"), ("call", "failed"), ("x", "two")], false),
            (&[("a", "one!"), ("call", "failed"), ("b", "two")], false),
            (&[("a", "one"), ("b", "two")], false),
        ] {
            let result = is_prefix(&shown(&seen), &shown(replayed));
            assert_eq!(result.is_ok(), good, "{replayed:?}: {result:?}");
        }
        let done = [("call", "completed")];
        assert!(is_prefix(&shown(&done), &shown(&[("call", "failed")])).is_err());
        assert_eq!(open_calls(&shown(&seen)), ["t"]);
        assert_eq!(open_calls(&shown(&done)), [""; 0]);
    }
}
