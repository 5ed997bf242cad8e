//! Metadata that clients set on a session: its title, whether it is archived, its system prompt.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::title::{named, plain};
use crate::json;
use crate::protocol::UpdateKind;

/// A change of metadata by a client, to be written as an `info` record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// The system prompt in the parameters of a request that opens a session, as JSON text, or in the
/// payload of an `info` record.
pub fn system_prompt(text: &str) -> Option<&str> {
    own_member(text, SYSTEM_PROMPT).filter(|prompt| prompt.starts_with('{'))
}

/// The payload of an `info` record with the system prompt in these parameters. A record is one line.
pub fn system_prompt_record(params: &str) -> Option<String> {
    let prompt = system_prompt(params)?.replace('\r', " ");
    Some(format!(r#"{{"{SYSTEM_PROMPT}":{prompt}}}"#))
}

/// The member with the system prompt, in requests and records.
pub const SYSTEM_PROMPT: &str = "systemPrompt";

/// The payload of an `info` record which says that the session was restored from the trash.
/// Restoring counts as use, even without a prompt.
pub const RESTORED: &str = r#"{"restored":true}"#;

/// The payload of an `info` record behind the records that an import has written: up to here the log
/// is a copy of another tool's conversation.
pub const IMPORTED: &str = r#"{"imported":true}"#;

/// Whether an `info` record with this payload says so.
pub fn imported(payload: &str) -> bool {
    own_flag(payload, "imported") == Some(true)
}

/// The payloads of `info` records which say that the conversation's own tool has put it away, and that
/// it has fetched it back.
pub const ARCHIVED_BY_TOOL: &str = r#"{"archived":true,"by":"tool"}"#;
/// See [`ARCHIVED_BY_TOOL`].
pub const UNARCHIVED_BY_TOOL: &str = r#"{"archived":false,"by":"tool"}"#;

/// Whether an `info` record with this payload says that the session was restored.
pub fn restored(payload: &str) -> bool {
    own_flag(payload, "restored") == Some(true)
}

/// The value of a flag that is for this program and not for clients.
fn own_flag(payload: &str, name: &str) -> Option<bool> {
    match own_member(payload, name)? {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// A member of an object that is not an update.
fn own_member<'a>(payload: &'a str, name: &str) -> Option<&'a str> {
    // Nearly all payloads are about something else.
    memchr::memmem::find(payload.as_bytes(), name.as_bytes())?;
    let about_us = json::text_member(payload, "sessionUpdate").is_none()
        && json::text_member(payload, "update").is_none();
    json::text_member(payload, name).filter(|_| about_us)
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
        assert!(imported(IMPORTED) && !imported(RESTORED));
        assert_eq!(archived(ARCHIVED_BY_TOOL), Some(true));
        assert_eq!(archived(UNARCHIVED_BY_TOOL), Some(false));
        assert_eq!(archived(RESTORED), None);
        for state in [true, false] {
            let payload = MetadataChange::Archived(state).payload();
            assert_eq!(archived(&payload), Some(state));
            assert!(!restored(&payload));
            assert_eq!(title_of_client(&payload), None);
        }
    }

    #[test]
    fn a_system_prompt_is_recorded_as_it_is_spelled() {
        let params = "{\"cwd\":\"/w\", \"systemPrompt\" : {\"mode\":\"append\",\r\"n\":1e400} }";
        let record = system_prompt_record(params).unwrap();
        let expected = r#"{"systemPrompt":{"mode":"append", "n":1e400}}"#;
        assert_eq!(record, expected);
        assert_eq!(
            system_prompt(&record),
            Some(&expected[16..expected.len() - 1])
        );
        for none in [
            "{}",
            r#"{"systemPrompt":null}"#,
            r#"{"systemPrompt":"text"}"#,
            r#"{"sessionUpdate":"x","systemPrompt":{}}"#,
        ] {
            assert_eq!(system_prompt_record(none), None, "{none}");
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
