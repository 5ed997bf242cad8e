//! Holds what an agent sends on a connection of version 2 against that version's schema.

use agent_client_protocol_schema::v2;
use serde_json::Value;

use super::conform::{cursors, entries, hits, list_notification, members, of, turns};

/// The parameters of a notification of the agent.
pub(super) fn notification(method: &str, params: &Value) -> Result<(), String> {
    match method {
        "session/update" => {
            of::<v2::UpdateSessionNotification>("v2 update", params)?;
            history_truncated(&params["update"])
        }
        "$/cancel_request" => of::<v2::CancelRequestNotification>("v2 cancel", params),
        method if list_notification(method) => {
            of::<v2::ListSessionsResponse>("v2 changes", &entries(params))
        }
        _ => Err(format!("an unknown notification: {method}")),
    }
}

/// An update of the rewind drafts, which no schema has: it names the message that is left, if one is.
fn history_truncated(update: &Value) -> Result<(), String> {
    if update["sessionUpdate"] != "history_truncated" {
        return Ok(());
    }
    members(update, &["sessionUpdate", "lastMessageId"])?;
    match update.get("lastMessageId") {
        Some(Value::String(_) | Value::Null) => Ok(()),
        other => Err(format!("no id of the last message: {other:?}")),
    }
}

/// The parameters of a request of the agent to its client.
pub(super) fn request(method: &str, params: &Value) -> Result<(), String> {
    match method {
        "session/request_permission" => of::<v2::RequestPermissionRequest>("v2 permission", params),
        "elicitation/create" => of::<v2::CreateElicitationRequest>("v2 elicitation", params),
        _ => Err(format!("an unexpected request: {method}")),
    }
}

/// An error.
pub(super) fn error(error: &Value) -> Result<(), String> {
    of::<v2::Error>("v2 error", error)
}

/// What a request of the client is answered with; `None` if the method is none of those.
pub(super) fn result(method: &str, result: &Value) -> Option<Result<(), String>> {
    Some(match method {
        "initialize" => of::<v2::InitializeResponse>("v2 initialize", result),
        "auth/login" => of::<v2::LoginAuthResponse>("v2 login", result),
        "auth/logout" => of::<v2::LogoutAuthResponse>("v2 logout", result),
        "session/new" => of::<v2::NewSessionResponse>("v2 new", result),
        "session/resume" => of::<v2::ResumeSessionResponse>("v2 resume", result),
        "session/list" | "session/list/subscribe" => {
            of::<v2::ListSessionsResponse>("v2 list", result)
        }
        "session/list/unsubscribe" => Ok(()),
        "session/fork" => of::<v2::ForkSessionResponse>("v2 fork", result),
        "session/set_title" => of::<v2::SetSessionTitleResponse>("v2 title", result),
        "session/archive" => of::<v2::ArchiveSessionResponse>("v2 archive", result),
        "session/unarchive" => of::<v2::UnarchiveSessionResponse>("v2 unarchive", result),
        "session/status" => of::<v2::SessionStatusResponse>("v2 status", result),
        "session/get" => turns(result),
        "_rejoin/search" => hits(result),
        "_rejoin/cursors" => cursors(result, |_, it| of::<v2::CursorUpdate>("v2 cursor", it)),
        "_rejoin/rewind" => members(result, &[]),
        "session/rewind" => members(result, &["lastMessageId"]),
        "session/prompt" | "session/edit_prompt" => of::<v2::PromptResponse>("v2 prompt", result),
        "session/set_config_option" => {
            of::<v2::SetSessionConfigOptionResponse>("v2 option", result)
        }
        "session/options" => of::<v2::SessionOptionsResponse>("v2 options", result),
        "session/close" => of::<v2::CloseSessionResponse>("v2 close", result),
        "session/delete" => of::<v2::DeleteSessionResponse>("v2 delete", result),
        _ => return None,
    })
}
