//! What clients note of a session beside its conversation: the title that they give it, and that it
//! is archived.

use serde_json::json;

use super::json;
use super::title::{named, plain};
use super::transcript::SESSION_INFO;

/// A note of a client, on its way into an `info` record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The session's title, as it is to be shown.
    Title(String),
    /// Whether lists leave the session out.
    Archived(bool),
}

impl Note {
    /// A title, made fit to be shown; nothing if there is nothing to see in it.
    pub fn title(text: &str) -> Option<Self> {
        plain(text).map(Self::Title)
    }

    /// The record's payload. A title is an update that clients are sent; the other is our own.
    pub fn payload(&self) -> String {
        match self {
            Self::Title(title) => json!({
                "sessionUpdate": SESSION_INFO,
                "title": title,
                "_meta": { "rejoin": { "titleSetBy": "client" } },
            })
            .to_string(),
            Self::Archived(archived) => json!({ "archived": archived }).to_string(),
        }
    }
}

/// Whether an `info` record with this payload archives the session or brings it back; nothing if it
/// is about something else.
pub fn archived(payload: &str) -> Option<bool> {
    // Nearly all are about something else.
    memchr::memmem::find(payload.as_bytes(), b"\"archived\"")?;
    let about_us = json::text_member(payload, "sessionUpdate").is_none()
        && json::text_member(payload, "update").is_none();
    match json::text_member(payload, "archived").filter(|_| about_us)? {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// The title in an `info` record with this payload, if a client gave it.
pub fn title_of_client(payload: &str) -> Option<String> {
    memchr::memmem::find(payload.as_bytes(), b"\"titleSetBy\"")?;
    let ours = json::text_member(json::text_member(payload, "_meta")?, "rejoin")?;
    let by = json::string_member(ours, "titleSetBy")?;
    (by == "client").then(|| named(payload)).flatten().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_read_back() {
        let title = Note::title("  a \"title\"\nand more").unwrap();
        assert_eq!(title, Note::Title("a \"title\"".to_owned()));
        let payload = title.payload();
        assert_eq!(title_of_client(&payload).as_deref(), Some("a \"title\""));
        assert_eq!(archived(&payload), None);
        assert_eq!(Note::title(" \n\u{200d}"), None);
        for state in [true, false] {
            let payload = Note::Archived(state).payload();
            assert_eq!(archived(&payload), Some(state));
            assert_eq!(title_of_client(&payload), None);
        }
    }

    #[test]
    fn what_agents_say_is_none_of_them() {
        for payload in [
            r#"{"sessionUpdate":"session_info_update","title":"a","archived":true}"#,
            r#"{"update":{"sessionUpdate":"x"},"archived":true}"#,
            r#"{"archived":1}"#,
            r#"{"modelId":"\"archived\""}"#,
            r#"{"sessionUpdate":"session_info_update","title":"a","_meta":{"titleSetBy":"client"}}"#,
            "7",
        ] {
            assert_eq!(archived(payload), None, "{payload}");
            assert_eq!(title_of_client(payload), None, "{payload}");
        }
    }
}
