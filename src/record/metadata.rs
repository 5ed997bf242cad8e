//! Metadata that clients set on a session: its title and whether it is archived.

use serde_json::json;

use super::title::{named, plain};
use crate::json;
use crate::protocol::UpdateKind;

/// A change of metadata by a client, to be written as an `info` record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataChange {
    /// The session's title, in the form to be shown.
    Title(String),
    /// Whether lists leave the session out.
    Archived(bool),
}

impl MetadataChange {
    /// A title in the form to be shown. `None` if it has no visible character.
    pub fn title(text: &str) -> Option<Self> {
        plain(text).map(Self::Title)
    }

    /// The record's payload. A title is an update that clients are sent; the other is for our own
    /// use.
    pub fn payload(&self) -> String {
        match self {
            Self::Title(title) => json!({
                "sessionUpdate": UpdateKind::SessionInfo.name(),
                "title": title,
                "_meta": { "rejoin": { "titleSetBy": "client" } },
            })
            .to_string(),
            Self::Archived(archived) => json!({ "archived": archived }).to_string(),
        }
    }
}

/// Whether an `info` record with this payload archives the session (`true`) or unarchives it
/// (`false`). `None` if it is about something else.
pub fn archived(payload: &str) -> Option<bool> {
    own_flag(payload, "archived")
}

/// The payload of an `info` record which says that the session was restored from the trash.
/// Restoring counts as use, even without a prompt.
pub const RESTORED: &str = r#"{"restored":true}"#;

/// Whether an `info` record with this payload says so.
pub fn restored(payload: &str) -> bool {
    own_flag(payload, "restored") == Some(true)
}

/// The value of a member that is for this program and not for clients.
fn own_flag(payload: &str, name: &str) -> Option<bool> {
    // Nearly all payloads are about something else.
    memchr::memmem::find(payload.as_bytes(), name.as_bytes())?;
    let about_us = json::text_member(payload, "sessionUpdate").is_none()
        && json::text_member(payload, "update").is_none();
    match json::text_member(payload, name).filter(|_| about_us)? {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// The title in an `info` record with this payload, if a client set it.
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
        let title = MetadataChange::title("  a \"title\"\nand more").unwrap();
        assert_eq!(title, MetadataChange::Title("a \"title\"".to_owned()));
        let payload = title.payload();
        assert_eq!(title_of_client(&payload).as_deref(), Some("a \"title\""));
        assert_eq!(archived(&payload), None);
        assert_eq!(MetadataChange::title(" \n\u{200d}"), None);
        assert!(restored(RESTORED));
        assert_eq!(archived(RESTORED), None);
        for state in [true, false] {
            let payload = MetadataChange::Archived(state).payload();
            assert_eq!(archived(&payload), Some(state));
            assert!(!restored(&payload));
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
            assert!(
                !restored(&payload.replace("archived", "restored")),
                "{payload}"
            );
            assert_eq!(title_of_client(payload), None, "{payload}");
        }
    }
}
