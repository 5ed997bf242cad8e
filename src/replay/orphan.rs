//! Updates of tool calls that never began: the first update is replayed as the call.
//!
//! An agent may send the update before the call, or never send the call. In a damaged log the
//! record that began the call may be unreadable. The log is not changed.

use crate::json;

/// The title of a call whose title is unknown.
const TITLE: &[u8] = br#""title":"[the beginning of this tool call is missing]""#;

/// Writes the update as a call to `out`. Returns false, with nothing written, if it is not a
/// complete object.
pub(super) fn synthesize_tool_call(update: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let adopted = rewrite(update, out).is_some();
    if !adopted {
        out.truncate(start);
    }
    adopted
}

fn rewrite(update: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(b"{\"sessionUpdate\":\"tool_call\"");
    let mut titled = false;
    let mut members = json::members(update, 0)?;
    while let Some(member) = members.member() {
        let key = &update[member.key.clone()];
        let value = &update[member.value.clone()];
        // In an update `null` means no change, which a call cannot express.
        let is_raw = matches!(key, b"rawInput" | b"rawOutput");
        if key == b"sessionUpdate" || (value == b"null" && !is_raw) {
            continue;
        }
        titled |= key == b"title";
        out.push(b',');
        out.extend_from_slice(&update[member.key.start - 1..member.value.end]);
    }
    if json::skip_space(update, members.end()?) != update.len() {
        return None;
    }
    if !titled {
        out.push(b',');
        out.extend_from_slice(TITLE);
    }
    out.push(b'}');
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adopted(update: &str) -> Option<String> {
        let mut out = b"before".to_vec();
        let changed = synthesize_tool_call(update.as_bytes(), &mut out);
        let out = String::from_utf8(out).unwrap();
        let out = out.strip_prefix("before").unwrap().to_owned();
        assert_eq!(changed, !out.is_empty());
        changed.then_some(out)
    }

    #[test]
    fn an_update_becomes_a_call_with_what_it_has() {
        let lost = r#"{ "toolCallId" : "c" ,"sessionUpdate":"tool_call_update","kind":null,"rawInput":null,"status":"failed","n":1e400} "#;
        let call = r#"{"sessionUpdate":"tool_call","toolCallId" : "c","rawInput":null,"status":"failed","n":1e400,"title":"[the beginning of this tool call is missing]"}"#;
        assert_eq!(adopted(lost), Some(call.to_owned()));
        let titled = r#"{"sessionUpdate":"tool_call_update","toolCallId":"d","title":"t"}"#;
        let call = r#"{"sessionUpdate":"tool_call","toolCallId":"d","title":"t"}"#;
        assert_eq!(adopted(titled), Some(call.to_owned()));
    }

    #[test]
    fn what_is_no_object_stays() {
        for update in ["", "7", r#"{"toolCallId":"e","#, r#"{"toolCallId":"e"}}"#] {
            assert_eq!(adopted(update), None, "{update}");
        }
    }
}
