//! How agents say that they do not have a session.
//!
//! Only such an answer means that the session is lost. Any other error may be gone the next time.

use crate::engine::EngineError;
use crate::json::{string_member, tree};

/// Words in the errors of agents that have lost a session, in the form that [`plain`] gives. They
/// count with any code, since agents change their codes more often than their words. The tests have
/// the whole answers.
///
/// Hermes, in versions of before August 2026, opens another session instead, and `gptme` has no
/// method to open one.
const WORDS: [&str; 15] = [
    // -32002: Claude Agent, Codex (Zed), Qwen Code, Cline, Hermes, and what the SDKs make of it.
    "resource not found",
    // -32002: Goose, fast-agent; -32602: OpenCode, Kilo Code, Mistral Vibe, kimi-cli, and Gemini CLI
    // for prompts; -32603: earlier versions of OpenCode.
    "session not found",
    // -32602: Kimi Code, pi-acp.
    "unknown sessionid",
    // -32602: Codex for methods of its own; -32603: Cline for prompts.
    "unknown session",
    // -32603: Codex, in the words of its app server.
    "no rollout found for thread id",
    "thread not found",
    // -32603: Gemini CLI.
    "invalid session identifier",
    "no previous sessions found",
    // -32603: earlier versions of Qwen Code.
    "no saved session found",
    // -32603: Claude Code, for agents that run it.
    "no conversation found with session id",
    // Agents that are not known.
    "conversation not found",
    "session does not exist",
    "no such session",
    "no session found",
    "session file not found",
];

/// Whether an error says that the agent does not have its session with this id.
pub(in crate::engine::agent) fn is_not_found(error: &EngineError, session_id: &str) -> bool {
    let data = error.data.as_deref().unwrap_or_default();
    // The error may be about another resource, such as the session's folder.
    let resource = string_member(data, "uri");
    if resource.is_some_and(|uri| !uri.contains(session_id)) {
        return false;
    }
    let said = plain(error, session_id);
    // A server of tools has sessions of its own.
    let is_of_server = said.contains("mcp");
    let says_so = WORDS.iter().any(|words| said.contains(words));
    error.code == EngineError::NOT_FOUND || says_so && !is_of_server
}

/// Whether an error says that the agent does not have the method, whatever it has declared.
pub(super) fn is_unsupported(error: &EngineError) -> bool {
    error.code == EngineError::METHOD_NOT_FOUND
}

/// The message and the texts of the data of an error, in lower case, without the session's id and
/// without punctuation.
fn plain(error: &EngineError, session_id: &str) -> String {
    let mut said = error.message.clone();
    if let Some(data) = error.data.as_deref().and_then(tree) {
        add_texts(&data, &mut said);
    }
    let said = said.replace(session_id, " ").to_lowercase();
    let words = said.split(|c: char| !c.is_alphanumeric());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

fn add_texts(value: &serde_json::Value, said: &mut String) {
    match value {
        serde_json::Value::String(text) => {
            said.push(' ');
            said.push_str(text);
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| add_texts(item, said)),
        serde_json::Value::Object(members) => {
            members.values().for_each(|member| add_texts(member, said));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ID: &str = "0199-a1b2";

    fn error(code: i32, message: &str, data: &Value) -> EngineError {
        let data = (!data.is_null()).then(|| data.to_string());
        EngineError::of_agent(code, message.to_owned(), data)
    }

    #[test]
    fn each_agent_says_it_in_its_own_way() {
        let unknown = format!("Unknown sessionId: {ID}");
        let details = |text: &str| json!({ "details": text });
        for (agent, code, message, data) in [
            (
                "Claude Agent",
                -32002,
                "Resource not found: 0199-a1b2",
                json!({ "uri": ID }),
            ),
            ("Codex (Zed)", -32002, "Resource not found", Value::Null),
            (
                "Cline",
                -32002,
                "Resource not found: 0199-a1b2",
                json!({ "uri": ID }),
            ),
            (
                "Qwen Code",
                -32002,
                "Resource not found: 0199-a1b2",
                json!({ "uri": ID }),
            ),
            (
                "Goose",
                -32002,
                "Resource not found",
                "Session not found: 0199-a1b2".into(),
            ),
            (
                "fast-agent",
                -32002,
                "Session not found: 0199-a1b2",
                json!({ "uri": ID, "reason": "Session not found", "details": "Session 0199-a1b2 could not be resolved from /w" }),
            ),
            (
                "pydantic-ai",
                -32002,
                "Resource not found",
                json!({ "uri": "acp-session:0199-a1b2" }),
            ),
            (
                "OpenCode",
                -32602,
                "Invalid params: session not found: 0199-a1b2",
                json!({ "sessionId": ID }),
            ),
            (
                "Mistral Vibe",
                -32602,
                "Session not found: 0199-a1b2",
                json!({ "session_id": ID }),
            ),
            (
                "Kimi Code",
                -32602,
                "Invalid params: Unknown sessionId: 0199-a1b2",
                json!({ "sessionId": ID }),
            ),
            (
                "kimi-cli",
                -32602,
                "Invalid params",
                json!({ "session_id": "Session not found" }),
            ),
            ("pi-acp", -32602, "Invalid params", unknown.into()),
            (
                "Codex",
                -32603,
                "Internal error",
                details("no rollout found for thread id 0199-a1b2"),
            ),
            (
                "Gemini CLI",
                -32603,
                "Internal error",
                details(
                    "Invalid session identifier \"0199-a1b2\".\n  Searched for sessions in /h.",
                ),
            ),
            (
                "Gemini CLI",
                -32603,
                "Internal error",
                details("No previous sessions found for this project."),
            ),
            (
                "another",
                -32603,
                "session \"0199-a1b2\" not found",
                Value::Null,
            ),
            (
                "another",
                -32000 - 99,
                "Session `0199-a1b2` does not exist.",
                Value::Null,
            ),
        ] {
            let error = error(code, message, &data);
            assert!(is_not_found(&error, ID), "{agent}: {error:?}");
        }
    }

    #[test]
    fn other_errors_do_not_say_it() {
        for (code, message, data) in [
            (-32603, "network unreachable", Value::Null),
            (
                -32603,
                "Internal error",
                json!({ "details": "spawn claude ENOENT" }),
            ),
            (
                -32603,
                "Runtime MCP server \"chk\" already registered",
                Value::Null,
            ),
            (
                -32603,
                "MCP server 'chk' failed to start",
                json!({ "details": "Streamable HTTP error: {\"code\":-32001,\"message\":\"Session not found\"}" }),
            ),
            // Mistral Vibe has this code for damage, too.
            (
                -32602,
                "Failed to load session 0199-a1b2: invalid JSON",
                Value::Null,
            ),
            (-32602, "Invalid params", Value::Null),
            // A folder that is gone.
            (-32002, "Resource not found: /w", json!({ "uri": "/w" })),
            (-32603, "Already open in another process", Value::Null),
            (-32601, "\"Method not found\": session/load", Value::Null),
            (-32603, "model not found: m", Value::Null),
        ] {
            let error = error(code, message, &data);
            assert!(!is_not_found(&error, ID), "{error:?}");
        }
        assert!(is_unsupported(&EngineError::unknown_method("session/load")));
    }
}
