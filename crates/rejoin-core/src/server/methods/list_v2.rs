//! The parameters and results of lists in version 2 of the protocol.

use crate::json::{self, Members};

/// The members of a session that version 2 defines.
const V2_MEMBERS: [&str; 14] = [
    "sessionId",
    "cwd",
    "additionalDirectories",
    "title",
    "updatedAt",
    "archived",
    "aliases",
    "lastPromptAt",
    "model",
    "forkedFrom",
    "state",
    "lastTurnEndedAt",
    "cost",
    "_meta",
];

/// The parameters of version 2 in the form of version 1: those of the history may be in
/// `_meta.rejoin`.
pub(super) fn from_v2(params: &str) -> String {
    let ours =
        json::text_member(params, "_meta").and_then(|meta| json::text_member(meta, "rejoin"));
    let ours = Members::of(ours.unwrap_or_default()).only(&["limit", "offset", "search"]);
    Members::of(params)
        .without(&["_meta"])
        .overlaid(ours)
        .text()
}

/// A page in version 2: members that it does not define are in `_meta.rejoin`.
pub(super) fn in_v2(page: &str) -> String {
    let mut shown = move_to_meta(page, &["sessions", "nextCursor", "_meta"]);
    let mut sessions = Vec::new();
    if let Some(mut listed) = json::member_elements(page.as_bytes(), 0, "sessions") {
        while let Some(session) = listed.element() {
            let session = page.get(session).unwrap_or_default();
            sessions.push(row_in_v2(session));
        }
    }
    shown.set("sessions", format!("[{}]", sessions.join(",")));
    shown.text()
}

/// An entry in version 2.
pub(super) fn row_in_v2(row: &str) -> String {
    move_to_meta(row, &V2_MEMBERS).text()
}

/// An object whose members are in `_meta.rejoin`, except these.
fn move_to_meta(object: &str, own: &[&str]) -> Members {
    let mut shown = Members::of(object);
    let others = shown.take_others(own);
    if others.is_empty() {
        return shown;
    }
    let meta = json::text_member(object, "_meta").unwrap_or_default();
    let mut notes = Members::of(json::text_member(meta, "rejoin").unwrap_or_default());
    notes.set_all(&others.text());
    let meta = Members::of(meta).with("rejoin", notes.text());
    shown.with("_meta", meta.text())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn parameters_of_the_history_may_be_beside_or_under_meta() {
        for (params, plain) in [
            (r#"{"cwd":"/w","limit":7}"#, r#"{"cwd":"/w","limit":7}"#),
            (
                r#"{"cursor":"c","_meta":{"rejoin":{"search":"a\"b","cwd":"/x"},"limit":1}}"#,
                r#"{"cursor":"c","search":"a\"b"}"#,
            ),
            (r#"{"_meta":{"rejoin":7}}"#, "{}"),
            ("{}", "{}"),
        ] {
            assert_eq!(from_v2(params), plain, "{params}");
        }
    }

    #[test]
    fn members_that_version_2_does_not_define_are_under_meta() {
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
        let shown: Value = serde_json::from_str(&in_v2(&v1.to_string())).unwrap();
        assert_eq!(shown, v2);
    }
}
