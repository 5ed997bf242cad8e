//! Holds back the most recent line until it is known whether its turn was interrupted there.

use crate::json;

/// The member of our note on the last line of an interrupted turn.
pub(super) const INTERRUPTED: &[u8] = b",\"interrupted\":true";

/// The most recent line.
#[derive(Debug, Default)]
pub(super) struct LastLine {
    /// Empty if no line is held.
    line: Vec<u8>,
    /// The turn that the line belongs to.
    turn: u64,
}

impl LastLine {
    /// Whether no line is held.
    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Takes the last of the lines in `out` from `start` on, if there are any. No line may be held.
    pub(super) fn hold(&mut self, turn: u64, start: usize, out: &mut Vec<u8>) {
        debug_assert!(self.line.is_empty(), "what is held is released first");
        let Some((_, before)) = out[start..].split_last() else {
            return;
        };
        let start = memchr::memrchr(b'\n', before).map_or(start, |at| start + at + 1);
        if start == 0 {
            // Swapped and not copied, since it may be long.
            std::mem::swap(&mut self.line, out);
        } else {
            self.line.extend_from_slice(&out[start..]);
            out.truncate(start);
        }
        self.turn = turn;
    }

    /// Takes new lines and holds the last of them. All others go to `out`. Leaves `lines` empty.
    pub(super) fn replace(&mut self, turn: u64, lines: &mut Vec<u8>, out: &mut Vec<u8>) {
        if lines.is_empty() {
            return;
        }
        self.release(out);
        self.hold(turn, 0, lines);
        out.append(lines);
    }

    /// Writes the held line.
    pub(super) fn release(&mut self, out: &mut Vec<u8>) {
        append(&mut self.line, out);
    }

    /// Marks the last line of the interrupted turn with this number, if it has one.
    pub(super) fn interrupt(&mut self, turn: u64) {
        if self.turn < turn {
            return;
        }
        if let Some(end) = end_of_note(&self.line) {
            self.line.splice(end..end, INTERRUPTED.iter().copied());
        }
    }
}

/// Moves lines to the end of `out`.
pub(super) fn append(lines: &mut Vec<u8>, out: &mut Vec<u8>) {
    if out.is_empty() {
        // Swapped and not copied, since they may be long.
        std::mem::swap(lines, out);
    } else {
        out.append(lines);
    }
}

/// The brace that closes our note in a line. `None` if the note is already marked as interrupted.
fn end_of_note(line: &[u8]) -> Option<usize> {
    let params = json::member(line, 0, "params")?;
    let meta = json::member(line, params.start, "_meta")?;
    let note = json::member(line, meta.start, "rejoin")?;
    let says = json::member(line, note.start, "interrupted").is_some();
    (!says).then_some(note.end - 1)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::record::{Kind, Record};
    use crate::replay::{Options, Replay};

    type Item = (Kind, Option<&'static str>, &'static str);

    const PROMPT: Item = (
        Kind::Prompt,
        Some("p"),
        r#"{"prompt":[{"type":"text","text":"p"}]}"#,
    );
    const A: Item = (
        Kind::Update,
        None,
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}"#,
    );
    const B: Item = (
        Kind::UpdateParams,
        None,
        r#"{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"b"}},"_meta":{"k":{}}}"#,
    );
    const FAILED: Item = (
        Kind::Update,
        None,
        r#"{"sessionUpdate":"tool_call","toolCallId":"c","status":"failed"}"#,
    );
    const USAGE: Item = (Kind::Info, None, r#"{"sessionUpdate":"usage_update"}"#);
    const END: Item = (Kind::End, None, r#"{"stopReason":"end_turn"}"#);
    const CUT: Item = (Kind::End, None, r#"{"interrupted":"x"}"#);

    /// Each line of a replay: its text or name, and a mark if its turn was interrupted there.
    fn shown(items: &[Item], options: Options) -> String {
        let (mut replay, mut out) = (Replay::new("s", options), Vec::new());
        for (kind, id, payload) in items {
            let record = Record {
                at: "2026-11-21T08:30:00.123Z",
                ..Record::sample(*kind, *id, payload)
            };
            replay.record(&record, &mut out);
        }
        replay.finish(&mut out);
        let lines = out.split_inclusive(|byte| *byte == b'\n').map(|line| {
            assert!(line.len() <= options.message_limit);
            let line: Value = serde_json::from_slice(line).unwrap();
            let (note, update) = (
                &line["params"]["_meta"]["rejoin"],
                &line["params"]["update"],
            );
            let text = update["content"]["text"].as_str();
            let name = text.or(update["sessionUpdate"].as_str()).unwrap();
            match &note["interrupted"] {
                Value::Null => name.to_owned(),
                Value::Bool(true) => format!("{name}!"),
                other => panic!("{other}"),
            }
        });
        lines.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_last_line_of_a_turn_that_was_cut_off_says_so() {
        for (items, merged, exact) in [
            (vec![PROMPT, CUT], "p!", "p!"),
            (vec![PROMPT, A, A, CUT], "p aa!", "p a a!"),
            (vec![PROMPT, A, B, CUT], "p a b!", "p a b!"),
            (
                vec![PROMPT, A, FAILED, CUT],
                "p a tool_call!",
                "p a tool_call!",
            ),
            (
                vec![PROMPT, A, USAGE, CUT, USAGE],
                "p a! usage_update",
                "p a! usage_update",
            ),
            (vec![PROMPT, A, CUT, PROMPT, A, END], "p a! p a", "p a! p a"),
            (vec![PROMPT, A, END, PROMPT, CUT], "p a p!", "p a p!"),
            // A running turn, one that has ended, and one in which nothing can be shown.
            (vec![PROMPT, A], "p a", "p a"),
            (vec![PROMPT, A, END, A], "p a a", "p a a"),
            (
                vec![PROMPT, A, END, (Kind::Prompt, None, "{}"), CUT],
                "p a",
                "p a",
            ),
        ] {
            assert_eq!(shown(&items, Options::default()), merged);
            let options = Options {
                exact: true,
                ..Options::default()
            };
            assert_eq!(shown(&items, options), exact);
        }
    }

    #[test]
    fn turns_that_overlap_are_cut_off_at_the_same_line() {
        let (mut q, mut first, mut second) = (PROMPT, CUT, CUT);
        (q.1, first.1, second.1) = (Some("q"), Some("p"), Some("q"));
        let items = [PROMPT, A, q, A, first, second, PROMPT, A, END];
        assert_eq!(shown(&items, Options::default()), "p a p a! p a");
        let mut ended = END;
        ended.1 = Some("q");
        let items = [PROMPT, A, q, A, ended, A, first];
        assert_eq!(shown(&items, Options::default()), "p a p a a!");
    }

    #[test]
    fn what_is_cut_for_its_length_has_room_for_it() {
        let long = format!(
            r#"{{"sessionUpdate":"plan","entries":[{{"content":"{}"}}]}}"#,
            "x".repeat(10_000)
        );
        let options = Options {
            message_limit: 4096,
            ..Options::default()
        };
        let items = [PROMPT, (Kind::Update, None, &*long.leak()), CUT];
        assert_eq!(shown(&items, options), "p plan!");
    }

    #[test]
    fn nothing_is_held_back_between_turns() {
        let (mut replay, mut out) = (Replay::new("s", Options::default()), Vec::new());
        for (kind, id, payload) in [PROMPT, A, END] {
            let record = Record {
                at: "2026-11-21T08:30:00.123Z",
                ..Record::sample(kind, id, payload)
            };
            replay.record(&record, &mut out);
        }
        assert_eq!(memchr::memchr_iter(b'\n', &out).count(), 2);
    }
}
