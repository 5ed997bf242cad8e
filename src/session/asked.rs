//! The tool call that a request for permission is about, where nothing else announces it.
//!
//! Some agents ask for permission before they have shown the call, and show no more of it than its
//! end. A client knows the call from the request; a replay, which asks nothing, would not.

use crate::json;

/// The update that a replay is to show in the place of the request, with the call's id. `params`
/// are those of `session/request_permission`.
pub(super) fn call(params: &str) -> Option<(String, String)> {
    let mut update = r#"{"sessionUpdate":"tool_call""#.to_owned();
    let (mut id, mut titled) = (None, false);
    for (name, value) in json::text_members(json::text_member(params, "toolCall")?) {
        // As in an update, `null` is no change, which a call has no room for.
        let is_raw = matches!(name.as_str(), "rawInput" | "rawOutput");
        if name == "sessionUpdate" || (value == "null" && !is_raw) {
            continue;
        }
        if name == "toolCallId" {
            id = serde_json::from_str(value).ok();
        }
        titled |= name == "title";
        let name = serde_json::Value::from(name);
        update.extend([",", &name.to_string(), ":", value]);
    }
    if !titled {
        update.push_str(r#","title":"Tool call""#);
    }
    update.push('}');
    Some((id?, update))
}

/// The ids of the options that allow what is asked about.
pub(super) fn allowing(params: &str) -> Vec<String> {
    let tree = json::tree(params).unwrap_or_default();
    let options = tree["options"].as_array().into_iter().flatten();
    let allow = options.filter(|option| {
        let kind = option["kind"].as_str();
        kind.is_some_and(|kind| kind.starts_with("allow"))
    });
    allow
        .filter_map(|option| option["optionId"].as_str().map(str::to_owned))
        .collect()
}

/// Whether the client's answer chose one of these options.
pub(super) fn allows(allowing: &[String], answer: &str) -> bool {
    let outcome = json::text_member(answer, "outcome").unwrap_or_default();
    let chosen = json::string_member(outcome, "optionId");
    chosen.is_some_and(|chosen| allowing.contains(&chosen))
}

/// The update that ends a call of which nothing was said but the request.
pub(super) fn end(id: &str, is_allowed: bool) -> String {
    let id = serde_json::Value::from(id);
    let status = if is_allowed { "completed" } else { "failed" };
    format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":{id},"status":"{status}"}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_made_of_what_is_asked_about() {
        let params = r#"{ "toolCall" :{"toolCallId":"a","status":"pending","kind":null,"rawInput":null,"n":1e400},"options":[]}"#;
        let update = r#"{"sessionUpdate":"tool_call","toolCallId":"a","status":"pending","rawInput":null,"n":1e400,"title":"Tool call"}"#;
        assert_eq!(call(params), Some(("a".to_owned(), update.to_owned())));
        let titled = r#"{"toolCall":{"toolCallId":"b","title":"t"}}"#;
        let update = r#"{"sessionUpdate":"tool_call","toolCallId":"b","title":"t"}"#;
        assert_eq!(call(titled), Some(("b".to_owned(), update.to_owned())));
        for odd in ["{}", "[]", r#"{"toolCall":{}}"#, r#"{"toolCall":7}"#] {
            assert_eq!(call(odd), None, "{odd}");
        }
    }
}
