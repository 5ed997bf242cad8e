//! Records the output of the client's terminals, which no longer exist when their session is loaded again.

use std::ops::Range;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::engine::terminal_text::Exit;
use crate::engine::{Block, EngineEvent, Question};
use crate::json::{self, string_member, text_member};
use crate::protocol::method;
use crate::record::Kind;
use crate::transport::Outcome;

use crate::engine::agent::route::SessionRoute;

/// Requests the output of a terminal that is about to be released. `params` are the parameters of
/// the request that releases it; `at` is the position of the session's id in them.
pub(super) async fn capture(route: &SessionRoute, params: &str, at: Range<usize>) {
    let Some(terminal) = string_member(params, "terminalId") else {
        return;
    };
    if route.with_terminals(|terminals| terminals.released(&terminal)) {
        return;
    }
    let Some(session) = params.get(at) else {
        return;
    };
    let name = serde_json::Value::from(terminal.as_str());
    let begin = r#"{"sessionId":"#;
    let at = begin.len()..begin.len() + session.len();
    let params = format!(r#"{begin}{session},"terminalId":{name}}}"#);
    let (reply, answer) = oneshot::channel();
    let question = Question {
        method: method::TERMINAL_OUTPUT.to_owned(),
        params,
        session: Some(at),
        logged: false,
        is_native: false,
        cancel: CancellationToken::new(),
        reply,
    };
    if route.out.send(EngineEvent::Ask(question)).await.is_err() {
        return;
    }
    if let Ok(Ok(result)) = answer.await {
        log_output(route, &terminal, &result).await;
    }
}

/// Logs the output of a terminal if a request of the agent was answered with it, and its command has
/// ended.
pub(super) async fn record(route: &SessionRoute, method: &str, params: &str, outcome: &Outcome) {
    if method != method::TERMINAL_OUTPUT {
        return;
    }
    if let (Some(terminal), Ok(result)) = (string_member(params, "terminalId"), outcome)
        && exit(result).is_some()
        && route.with_terminals(|terminals| terminals.command_ends(&terminal))
    {
        log_output(route, &terminal, result).await;
    }
}

async fn log_output(route: &SessionRoute, terminal: &str, result: &str) {
    let output = string_member(result, "output").unwrap_or_default();
    let truncated = text_member(result, "truncated") == Some("true");
    let exit = exit(result);
    let updates = route
        .with_terminals(|terminals| terminals.ended(terminal, &output, truncated, exit.as_ref()));
    route.send(Block::of_all(Kind::Output, updates)).await;
}

/// How a terminal's command ended, if it has.
fn exit(result: &str) -> Option<Exit> {
    let status = text_member(result, "exitStatus")?;
    let status = json::tree(status)?;
    status.is_object().then(|| Exit {
        code: status["exitCode"]
            .as_u64()
            .and_then(|code| u32::try_from(code).ok()),
        signal: status["signal"].as_str().map(str::to_owned),
    })
}
