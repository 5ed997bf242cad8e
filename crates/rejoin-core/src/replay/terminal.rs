//! Replaces terminals that no longer exist: a replayed tool call must not refer to one.
//!
//! A terminal belongs to the client and ends with its session, and a client may reject a call that
//! refers to an unknown one. So a note takes its place. Some agents show output in terminals for
//! display only: `_meta.terminal_info` of the call makes the client create one, in a replay as well
//! as live. Those are kept.

use memchr::memmem::Finder;

use crate::json;

use crate::protocol::{Id, IdSet};

const NOTE: &[u8] = br#"{"type":"content","content":{"type":"text","text":"[a terminal was shown here; it has ended]"}}"#;

/// Tracks which terminals a replay creates.
#[derive(Debug)]
pub(super) struct ReplayedTerminals {
    word: Finder<'static>,
    /// Ids of display terminals, escaped.
    display: IdSet,
}

impl ReplayedTerminals {
    pub(super) fn new() -> Self {
        Self {
            // Without the quote before it: nearly every update has several words with that quote.
            word: Finder::new(b"terminal"),
            display: IdSet::default(),
        }
    }

    /// Writes an update of a tool call to `out` without terminals that no longer exist. Returns
    /// false, with nothing written, if it refers to none.
    pub(super) fn replace(&mut self, update: &[u8], out: &mut Vec<u8>) -> bool {
        self.word.find(update).is_some() && self.rewrite(update, out).is_some()
    }

    fn rewrite(&mut self, update: &[u8], out: &mut Vec<u8>) -> Option<()> {
        if let Some(id) = display_terminal(update) {
            self.display.add(Id::of(id));
        }
        let content = json::member(update, 0, "content")?;
        let mut items = json::elements(update, content.start)?;
        let (begin, mut copied) = (out.len(), 0);
        while let Some(item) = items.element() {
            let dead = json::member(update, item.start, "type")
                .is_some_and(|kind| &update[kind] == b"\"terminal\"")
                && json::member(update, item.start, "terminalId")
                    .is_none_or(|id| !self.display.has(Id::of(&update[id])));
            if dead {
                out.extend_from_slice(&update[copied..item.start]);
                out.extend_from_slice(NOTE);
                copied = item.end;
            }
        }
        if copied == 0 {
            out.truncate(begin);
            return None;
        }
        out.extend_from_slice(&update[copied..]);
        Some(())
    }
}

fn display_terminal(update: &[u8]) -> Option<&[u8]> {
    let meta = json::member(update, 0, "_meta")?;
    let info = json::member(update, meta.start, "terminal_info")?;
    let id = json::member(update, info.start, "terminal_id")?;
    Some(&update[id])
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEAD: &str = r#"{"type":"terminal","terminalId":"t1"}"#;

    fn replaced(terminals: &mut ReplayedTerminals, update: &str) -> Option<String> {
        let mut out = Vec::new();
        let changed = terminals.replace(update.as_bytes(), &mut out);
        changed.then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_note_takes_the_place_of_a_terminal() {
        let note = std::str::from_utf8(NOTE).unwrap();
        for kind in ["tool_call", "tool_call_update"] {
            let update = |item: &str| {
                format!(r#"{{"sessionUpdate":"{kind}","content":[1, {item} ,{item}],"n":1e400}}"#)
            };
            let found = replaced(&mut ReplayedTerminals::new(), &update(DEAD));
            assert_eq!(found, Some(update(note)));
        }
    }

    #[test]
    fn what_names_no_dead_terminal_stays() {
        for update in [
            format!(r#"{{"sessionUpdate":"tool_call","rawInput":[{DEAD}]}}"#),
            r#"{"sessionUpdate":"tool_call","title":"\"terminal\"","content":[]}"#.to_owned(),
            r#"{"sessionUpdate":"tool_call","content":[{"type":"diff","kind":"terminal"}]}"#
                .to_owned(),
        ] {
            assert_eq!(
                replaced(&mut ReplayedTerminals::new(), &update),
                None,
                "{update}"
            );
        }
    }

    #[test]
    fn terminals_for_display_come_to_life_again() {
        let mut terminals = ReplayedTerminals::new();
        let begun = format!(
            r#"{{"sessionUpdate":"tool_call","content":[{DEAD}],"_meta":{{"terminal_info":{{"terminal_id":"t1"}}}}}}"#
        );
        let later = format!(r#"{{"sessionUpdate":"tool_call_update","content":[{DEAD}]}}"#);
        assert_eq!(replaced(&mut terminals, &begun), None);
        assert_eq!(replaced(&mut terminals, &later), None);
        let other = later.replace("t1", "t2");
        assert!(replaced(&mut terminals, &other).is_some());
    }
}
