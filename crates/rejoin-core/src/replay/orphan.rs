//! Updates of tool calls that never began: a call is replayed before the first one.
//!
//! An agent may send the update before the call, or never send the call. In a damaged log the
//! record that began the call may be unreadable. The log is not changed, nor is the update.

use crate::json;

/// The title of a call whose title is unknown.
const TITLE: &[u8] = br#""[the beginning of this tool call is missing]""#;

/// The call that an update is about, with its title if the update has one. `None` if the update is not a
/// complete object.
pub(super) fn call(update: &[u8]) -> Option<Vec<u8>> {
    let (mut id, mut title) = (None, None);
    let mut members = json::members(update, 0)?;
    while let Some(member) = members.member() {
        let value = &update[member.value.clone()];
        match &update[member.key] {
            b"toolCallId" => id = Some(value),
            b"title" if value != b"null" => title = Some(value),
            _ => {}
        }
    }
    if json::skip_space(update, members.end()?) != update.len() {
        return None;
    }
    let head = br#"{"sessionUpdate":"tool_call","toolCallId":"#.as_slice();
    let title = title.unwrap_or(TITLE);
    Some([head, id?, br#","title":"#, title, b"}"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(update: &str) -> Option<String> {
        let call = call(update.as_bytes())?;
        Some(String::from_utf8(call).unwrap())
    }

    #[test]
    fn an_update_has_a_call() {
        let lost = r#"{ "toolCallId" : "c" ,"sessionUpdate":"tool_call_update","title":null,"status":"failed","n":1e400} "#;
        let call = r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"[the beginning of this tool call is missing]"}"#;
        assert_eq!(made(lost), Some(call.to_owned()));
        let titled = r#"{"sessionUpdate":"tool_call_update","toolCallId":"d","title":"t"}"#;
        let call = r#"{"sessionUpdate":"tool_call","toolCallId":"d","title":"t"}"#;
        assert_eq!(made(titled), Some(call.to_owned()));
    }

    #[test]
    fn what_is_no_update_of_a_call_has_none() {
        for update in [
            "",
            "7",
            r#"{"toolCallId":"e","#,
            r#"{"toolCallId":"e"}}"#,
            "{}",
        ] {
            assert_eq!(made(update), None, "{update}");
        }
    }
}
