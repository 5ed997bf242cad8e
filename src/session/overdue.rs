//! How long the client may take for what it does for an engine, and what the engine is answered in
//! its place after that.

use std::time::Duration;

use serde_json::json;

use crate::protocol::error::{CLIENT_TIMEOUT, INTERNAL_ERROR, error_data};

/// The limit for a request by this name. Files and terminals are the work of programs. What a
/// person has to decide takes as long as it takes, and so does a command.
pub(super) fn limit(method: &str, timeout: Option<Duration>) -> Option<Duration> {
    let limited = method.starts_with("fs/")
        || matches!(
            method,
            "terminal/create" | "terminal/output" | "terminal/release" | "terminal/kill"
        );
    timeout.filter(|_| limited)
}

/// Resolves with a limit when it has passed; never if there is none.
pub(super) async fn passed(limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            tokio::time::sleep(limit).await;
            limit
        }
        None => std::future::pending().await,
    }
}

/// The error that an engine is answered.
pub(super) fn error(method: &str, limit: Duration) -> String {
    let waited = humantime::format_duration(limit);
    let message =
        format!("the client did not answer `{method}` within {waited} (`--client-timeout`)");
    let mut data = error_data(CLIENT_TIMEOUT, &message);
    data.insert("method".to_owned(), method.into());
    json!({ "code": INTERNAL_ERROR, "message": message, "data": data }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_programs_do_has_a_limit() {
        let timeout = Some(Duration::from_secs(3));
        for method in [
            "fs/read_text_file",
            "fs/write_text_file",
            "terminal/create",
            "terminal/output",
            "terminal/release",
            "terminal/kill",
        ] {
            assert_eq!(limit(method, timeout), timeout, "{method}");
            assert_eq!(limit(method, None), None, "{method}");
        }
        for method in [
            "session/request_permission",
            "elicitation/create",
            "terminal/wait_for_exit",
            "_x/ask",
        ] {
            assert_eq!(limit(method, timeout), None, "{method}");
        }
    }

    #[test]
    fn an_error_says_what_was_asked_and_how_long_was_waited() {
        let error = error("fs/read_text_file", Duration::from_secs(90));
        let said =
            "the client did not answer `fs/read_text_file` within 1m 30s (`--client-timeout`)";
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&error).unwrap(),
            json!({
                "code": -32603,
                "message": said,
                "data": { "error": "client_timeout", "details": said, "method": "fs/read_text_file" },
            })
        );
    }
}
