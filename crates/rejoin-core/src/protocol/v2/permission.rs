//! Converts a request for permission and its outcome.

use crate::json;
use crate::protocol::meta::add_note;

use super::call;
use super::terminal::V2Terminals;
use crate::json::Splice;

/// The title of a request whose tool call has no title.
const TITLE: &str = "\"Allow this?\"";

/// Converts the parameters of `session/request_permission` from version 1 to version 2, with or
/// without `sessionId`. Anything but such an object is returned unchanged.
///
/// The tool call is the request's subject. Its title is also that of the request, since version 1
/// has no other description.
pub fn permission(params: &str) -> String {
    shown(params).unwrap_or_else(|| params.to_owned())
}

fn shown(params: &str) -> Option<String> {
    let text = params.as_bytes();
    let start = json::skip_space(text, 0);
    let mut members = json::members(text, start)?;
    let (mut call, mut titled) = (None, false);
    while let Some(member) = members.member() {
        match &text[member.key.clone()] {
            b"toolCall" => call = Some(member),
            b"title" => titled = true,
            _ => {}
        }
    }
    let call = call?;
    let mut subject = Vec::new();
    let mut splice = Splice::new(text);
    let mut fields = json::members(text, call.value.start)?;
    let members: Vec<_> = std::iter::from_fn(|| fields.member()).collect();
    fields.end()?;
    call::change(text, &members, &V2Terminals::default(), &mut splice);
    splice.write(call.value.clone(), &mut subject);
    let title = json::member(text, call.value.start, "title");
    let title = title.filter(|title| text[title.start] == b'"');
    let mut splice = Splice::new(text);
    let mut instead = Vec::new();
    if !titled {
        instead.extend(b"title\":");
        instead.extend(title.map_or(TITLE.as_bytes(), |title| &text[title]));
        instead.extend(b",\"");
    }
    instead.extend(b"subject\":{\"type\":\"tool_call\",\"toolCall\":");
    instead.extend(subject);
    instead.extend(b"}");
    splice.replace(call.key.start..call.value.end, instead);
    String::from_utf8(splice.into_bytes()).ok()
}

/// The result of such a request in the form of version 1. An outcome that version 1 does not know
/// counts as cancelled and is kept verbatim in `_meta.rejoin`.
pub fn permission_outcome(result: &str) -> String {
    read(result).unwrap_or_else(|| result.to_owned())
}

fn read(result: &str) -> Option<String> {
    let text = result.as_bytes();
    let start = json::skip_space(text, 0);
    let outcome = json::member(text, start, "outcome")?;
    let kind = json::member(text, outcome.start, "outcome")?;
    if matches!(&text[kind], b"\"selected\"" | b"\"cancelled\"") {
        return None;
    }
    let mut splice = Splice::new(text);
    let note = [b"\"outcome\":", &text[outcome.clone()]].concat();
    splice.replace(outcome, br#"{"outcome":"cancelled"}"#);
    add_note(&mut splice, start, &note);
    String::from_utf8(splice.into_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_call_is_the_subject() {
        let params = r#"{"sessionId":"s", "toolCall":{"toolCallId":"c","title":"Run \"x\"","kind":null,"rawInput":1e400} ,"options":[{"optionId":"a"}],"_meta":{"a":1.0}}"#;
        let expected = r#"{"sessionId":"s", "title":"Run \"x\"","subject":{"type":"tool_call","toolCall":{"toolCallId":"c","title":"Run \"x\"","rawInput":1e400}} ,"options":[{"optionId":"a"}],"_meta":{"a":1.0}}"#;
        assert_eq!(permission(params), expected);
        let untitled = r#"{"toolCall":{"toolCallId":"c","title":null}}"#;
        let expected = r#"{"title":"Allow this?","subject":{"type":"tool_call","toolCall":{"toolCallId":"c"}}}"#;
        assert_eq!(permission(untitled), expected);
        for other in ["", "{}", "7", r#"{"options":[]}"#, r#"{"toolCall":{"#] {
            assert_eq!(permission(other), other);
        }
    }

    #[test]
    fn outcomes_are_those_of_version_1() {
        for known in [
            r#"{"outcome":{"outcome":"selected","optionId":"a"},"_meta":{"x":1e400}}"#,
            r#"{"outcome":{"outcome":"cancelled"}}"#,
            "{}",
            "7",
            "",
        ] {
            assert_eq!(permission_outcome(known), known);
        }
        let new = r#"{"outcome":{"outcome":"_later","n":1e400}}"#;
        let expected = r#"{"_meta":{"rejoin":{"outcome":{"outcome":"_later","n":1e400}}},"outcome":{"outcome":"cancelled"}}"#;
        assert_eq!(permission_outcome(new), expected);
    }
}
