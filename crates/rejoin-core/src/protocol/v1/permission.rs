//! Converts a request for permission.

use crate::json::{self, Members, Object};

use super::Conversion;

/// The id of the tool call in a request that is about something else. Version 1 requires one.
const NO_CALL: &str = "permission";

/// Converts the parameters of `session/request_permission` from version 2 to version 1. What has no
/// subject is returned unchanged.
///
/// A tool call without a title gets that of the request.
pub fn permission(params: &str) -> String {
    let Some(subject) = json::text_member(params, "subject") else {
        return params.to_owned();
    };
    let title = json::text_member(params, "title").unwrap_or("\"Permission?\"");
    let call = match json::text_member(subject, "toolCall") {
        Some(call) => tool_call(call, title),
        None => Object::new()
            .string("toolCallId", NO_CALL)
            .raw("title", title)
            .raw("rawInput", subject)
            .end(),
    };
    let others = Members::of(params).without(&["title", "toolCall"]);
    let shown = others.renamed("subject", "toolCall");
    shown.with("toolCall", call).text()
}

fn tool_call(call: &str, title: &str) -> String {
    let mut update = Members::of(call).with("sessionUpdate", "\"tool_call_update\"");
    if json::text_member(call, "title").is_none_or(|title| title == "null") {
        update = update.without(&["title"]).with("title", title);
    }
    let (mut conversion, mut shown) = (Conversion::new(), None);
    let mut put = |update: &str| {
        let call = || Members::of(update).without(&["sessionUpdate"]).text();
        shown.get_or_insert_with(call);
    };
    conversion.update(&update.text(), &mut put);
    conversion.flush(&mut put);
    shown.unwrap_or_else(|| call.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::v2;

    #[test]
    fn the_subject_is_the_tool_call() {
        let old = r#"{"sessionId":"s","toolCall":{"toolCallId":"c","title":"Run","rawInput":1e400},"options":[{"optionId":"a"}],"_meta":{"a":1.0}}"#;
        let new = v2::permission(old);
        assert!(new.contains(r#""subject""#), "{new}");
        assert_eq!(permission(&new), old);
        let untitled =
            r#"{"title":"Run?","subject":{"type":"tool_call","toolCall":{"toolCallId":"c"}}}"#;
        let expected = r#"{"toolCall":{"toolCallId":"c","title":"Run?"}}"#;
        assert_eq!(permission(untitled), expected);
        assert_eq!(permission(old), old);
    }

    #[test]
    fn another_subject_is_the_input_of_a_tool_call() {
        let params = r#"{"title":"Go?","subject":{"type":"_plan"},"options":[]}"#;
        let expected = r#"{"toolCall":{"toolCallId":"permission","title":"Go?","rawInput":{"type":"_plan"}},"options":[]}"#;
        assert_eq!(permission(params), expected);
    }
}
