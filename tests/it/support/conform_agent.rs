//! Holds what a wrapped agent is sent against the schema of the version that it speaks.

use agent_client_protocol_schema::{v1, v2};
use serde_json::Value;

use super::conform::of;

/// Checks lines that agents have received, between notes of what happened to them. Methods that are not the
/// protocol's, and answers to requests of the agents, may be of any form.
pub(crate) fn received(lines: impl Iterator<Item = Value>) -> Result<(), String> {
    let mut version = 1;
    for line in lines {
        if let Some(speaks) = line["speaks"].as_u64() {
            version = speaks;
        }
        let Some(method) = line["method"].as_str() else {
            continue;
        };
        let params = &line["params"];
        // An MCP server has got the line: versions are dates there.
        if params["protocolVersion"].is_string() {
            continue;
        }
        let asked = params["protocolVersion"].as_u64();
        let checked = if asked.unwrap_or(version) == 2 {
            of_version_2(method, params)
        } else {
            of_version_1(method, params)
        };
        checked.map_err(|wrong| format!("{wrong}, in what an agent was sent: {line}"))?;
    }
    Ok(())
}

fn of_version_1(method: &str, params: &Value) -> Result<(), String> {
    match method {
        "initialize" => of::<v1::InitializeRequest>("to initialize", params),
        "authenticate" => of::<v1::AuthenticateRequest>("to authenticate", params),
        "session/new" => of::<v1::NewSessionRequest>("to new", params),
        "session/load" => of::<v1::LoadSessionRequest>("to load", params),
        "session/resume" => of::<v1::ResumeSessionRequest>("to resume", params),
        "session/fork" => of::<v1::ForkSessionRequest>("to fork", params),
        "session/list" => of::<v1::ListSessionsRequest>("to list", params),
        "session/prompt" => of::<v1::PromptRequest>("to prompt", params),
        "session/set_mode" => of::<v1::SetSessionModeRequest>("to mode", params),
        "session/set_config_option" => of::<v1::SetSessionConfigOptionRequest>("to option", params),
        "session/options" => of::<v1::SessionOptionsRequest>("to options", params),
        "session/close" => of::<v1::CloseSessionRequest>("to close", params),
        "session/delete" => of::<v1::DeleteSessionRequest>("to delete", params),
        "session/cancel" => of::<v1::CancelNotification>("to cancel", params),
        "$/cancel_request" => of::<v1::CancelRequestNotification>("to cancel one", params),
        _ => Ok(()),
    }
}

fn of_version_2(method: &str, params: &Value) -> Result<(), String> {
    match method {
        "initialize" => of::<v2::InitializeRequest>("v2 to initialize", params),
        "auth/login" => of::<v2::LoginAuthRequest>("v2 to login", params),
        "session/new" => of::<v2::NewSessionRequest>("v2 to new", params),
        "session/resume" => of::<v2::ResumeSessionRequest>("v2 to resume", params),
        "session/fork" => of::<v2::ForkSessionRequest>("v2 to fork", params),
        "session/list" => of::<v2::ListSessionsRequest>("v2 to list", params),
        "session/prompt" => of::<v2::PromptRequest>("v2 to prompt", params),
        "session/set_config_option" => {
            of::<v2::SetSessionConfigOptionRequest>("v2 to option", params)
        }
        "session/options" => of::<v2::SessionOptionsRequest>("v2 to options", params),
        "session/close" => of::<v2::CloseSessionRequest>("v2 to close", params),
        "session/delete" => of::<v2::DeleteSessionRequest>("v2 to delete", params),
        "session/cancel" => of::<v2::CancelSessionNotification>("v2 to cancel", params),
        "$/cancel_request" => of::<v2::CancelRequestNotification>("v2 to cancel one", params),
        _ => Ok(()),
    }
}
