//! Updates of tool calls whose beginning is lost: the first of them becomes the call.
//!
//! In a damaged log the record that began a call may be the one that cannot be read. A client that
//! meets an update of a call it does not know shows an error, or nothing. So the first update of
//! such a call is replayed as the call itself, with what it has. The log stays as it is.

use std::collections::HashSet;

use memchr::memmem::Finder;

use crate::record::json;

/// What a call is called whose title is lost with its beginning.
const TITLE: &[u8] = br#""title":"[the beginning of this tool call is damaged]""#;

/// Knows which calls a replay has begun.
#[derive(Debug)]
pub(super) struct Orphans {
    word: Finder<'static>,
    /// Ids of calls, escaped.
    known: HashSet<Vec<u8>>,
}

impl Orphans {
    pub(super) fn new() -> Self {
        Self {
            word: Finder::new(b"\"tool_call"),
            known: HashSet::new(),
        }
    }

    /// Writes the update as a call to `out`; false, with nothing written, if it is none or if its
    /// call is known.
    pub(super) fn adopt(&mut self, update: &[u8], out: &mut Vec<u8>) -> bool {
        self.word.find(update).is_some() && self.rewrite(update, out).is_some()
    }

    fn rewrite(&mut self, update: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let name = json::member(update, 0, "sessionUpdate")?;
        let id = json::member(update, 0, "toolCallId")?;
        let is_update = match &update[name] {
            b"\"tool_call\"" => false,
            b"\"tool_call_update\"" => true,
            _ => return None,
        };
        if !self.known.insert(update[id].to_vec()) || !is_update {
            return None;
        }
        let start = out.len();
        out.extend_from_slice(b"{\"sessionUpdate\":\"tool_call\"");
        let mut titled = false;
        let mut members = json::members(update, 0)?;
        while let Some(member) = members.member() {
            let key = &update[member.key.clone()];
            let value = &update[member.value.clone()];
            // In an update `null` is no change, which a call has no room for.
            let is_raw = matches!(key, b"rawInput" | b"rawOutput");
            if key == b"sessionUpdate" || (value == b"null" && !is_raw) {
                continue;
            }
            titled |= key == b"title";
            out.push(b',');
            out.extend_from_slice(&update[member.key.start - 1..member.value.end]);
        }
        if members.end() != Some(update.len()) {
            out.truncate(start);
            return None;
        }
        if !titled {
            out.push(b',');
            out.extend_from_slice(TITLE);
        }
        out.push(b'}');
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adopted(orphans: &mut Orphans, update: &str) -> Option<String> {
        let mut out = b"before".to_vec();
        let changed = orphans.adopt(update.as_bytes(), &mut out);
        let out = String::from_utf8(out).unwrap();
        let out = out.strip_prefix("before").unwrap().to_owned();
        assert_eq!(changed, !out.is_empty());
        changed.then_some(out)
    }

    #[test]
    fn the_first_update_of_a_lost_call_is_the_call() {
        let mut orphans = Orphans::new();
        let lost = r#"{ "toolCallId" : "c" ,"sessionUpdate":"tool_call_update","kind":null,"rawInput":null,"status":"failed","n":1e400}"#;
        let call = r#"{"sessionUpdate":"tool_call","toolCallId" : "c","rawInput":null,"status":"failed","n":1e400,"title":"[the beginning of this tool call is damaged]"}"#;
        assert_eq!(adopted(&mut orphans, lost), Some(call.to_owned()));
        assert_eq!(adopted(&mut orphans, lost), None);
        let titled = r#"{"sessionUpdate":"tool_call_update","toolCallId":"d","title":"t"}"#;
        let call = r#"{"sessionUpdate":"tool_call","toolCallId":"d","title":"t"}"#;
        assert_eq!(adopted(&mut orphans, titled), Some(call.to_owned()));
    }

    #[test]
    fn what_is_no_orphan_stays() {
        let mut orphans = Orphans::new();
        for update in [
            r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"t"}"#,
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}"#,
            r#"{"sessionUpdate":"tool_call_update"}"#,
            r#"{"sessionUpdate":"moon","toolCallId":"d","x":"\"tool_call"}"#,
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"e","#,
        ] {
            assert_eq!(adopted(&mut orphans, update), None, "{update}");
        }
    }
}
