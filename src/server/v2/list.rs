//! `session/list`: the protocol's own list, and what the history tells more, which version 2 wants
//! under `_meta`.

use serde_json::{Map, Value, json};

use crate::json;
use crate::server::methods::context::{Context, Responds};
use crate::server::methods::list::list;

/// The members of a session that are the protocol's own.
const OWN: [&str; 7] = [
    "sessionId",
    "cwd",
    "additionalDirectories",
    "title",
    "updatedAt",
    "archived",
    "_meta",
];

pub(super) fn serve(context: &Context, params: &str, responder: Responds) {
    list(context, &asked(params), responder, page);
}

/// What is asked of the history may stand under `_meta.rejoin`.
fn asked(params: &str) -> String {
    let ours =
        json::text_member(params, "_meta").and_then(|meta| json::text_member(meta, "rejoin"));
    let ours = ours.map(json::text_members).unwrap_or_default();
    let ours = ours
        .into_iter()
        .filter(|(name, _)| matches!(name.as_str(), "limit" | "offset" | "search"));
    let all = json::text_members(params)
        .into_iter()
        .filter(|(name, _)| name != "_meta");
    json::object(all.chain(ours))
}

fn page(mut page: Value) -> Value {
    if let Some(page) = page.as_object_mut() {
        set_aside(page, &["sessions", "nextCursor", "_meta"]);
    }
    for session in page["sessions"].as_array_mut().into_iter().flatten() {
        if let Some(session) = session.as_object_mut() {
            set_aside(session, &OWN);
        }
    }
    page
}

/// Moves members that are not the protocol's own to `_meta.rejoin`.
fn set_aside(object: &mut Map<String, Value>, own: &[&str]) {
    let (ours, others): (Map<_, _>, Map<_, _>) = std::mem::take(object)
        .into_iter()
        .partition(|(name, _)| own.contains(&name.as_str()));
    *object = ours;
    if others.is_empty() {
        return;
    }
    let meta = object.entry("_meta").or_insert_with(|| json!({}));
    let mut notes = meta["rejoin"].take();
    match notes.as_object_mut() {
        Some(notes) => notes.extend(others),
        None => notes = others.into(),
    }
    meta["rejoin"] = notes;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_history_is_asked_may_stand_beside_or_under_meta() {
        for (params, plain) in [
            (r#"{"cwd":"/w","limit":7}"#, r#"{"cwd":"/w","limit":7}"#),
            (
                r#"{"cursor":"c","_meta":{"rejoin":{"search":"a\"b","cwd":"/x"},"limit":1}}"#,
                r#"{"cursor":"c","search":"a\"b"}"#,
            ),
            (r#"{"_meta":{"rejoin":7}}"#, "{}"),
            ("{}", "{}"),
        ] {
            assert_eq!(asked(params), plain, "{params}");
        }
    }

    #[test]
    fn what_is_not_the_protocols_own_is_under_meta() {
        let v1 = json!({
            "sessions": [{ "sessionId": "s", "cwd": "/w", "messageCount": 2 }],
            "total": 1,
            "_meta": { "rejoin": { "searchIncomplete": true } },
        });
        let v2 = json!({
            "sessions": [
                { "sessionId": "s", "cwd": "/w", "_meta": { "rejoin": { "messageCount": 2 } } },
            ],
            "_meta": { "rejoin": { "searchIncomplete": true, "total": 1 } },
        });
        assert_eq!(page(v1), v2);
    }
}
