//! Sees to it that what the client's terminals show is kept: a terminal is gone with its session.

use std::ops::Range;

use tokio::sync::oneshot;

use crate::engine::{Block, Cancel, EngineEvent, Question};
use crate::json;
use crate::json::{string_member, text_member};
use crate::record::Kind;
use crate::transport::Outcome;

use super::route::Route;

use super::shape::Exit;

/// Whether a request lets go of a terminal.
pub(super) fn is_release(method: &str) -> bool {
    method == "terminal/release"
}

/// Asks the client what a terminal shows that is about to be released. `params` are those of the
/// request that releases it; `at` is where the session's id stands in them.
pub(super) async fn capture_output(route: &Route, params: &str, at: Range<usize>) {
    let Some(terminal) = string_member(params, "terminalId") else {
        return;
    };
    if route.terminal_goes(&terminal) {
        return;
    }
    let Some(session) = params.get(at) else {
        return;
    };
    let name = serde_json::Value::from(terminal.as_str());
    let begin = r#"{"sessionId":"#;
    let at = begin.len()..begin.len() + session.len();
    let params = format!(r#"{begin}{session},"terminalId":{name}}}"#);
    let (_keep, cancel) = Cancel::new();
    let (reply, answer) = oneshot::channel();
    let question = Question {
        method: "terminal/output".to_owned(),
        params,
        session: at,
        logged: false,
        cancel,
        reply,
    };
    if route.out.say(EngineEvent::Ask(question)).await.is_err() {
        return;
    }
    if let Ok(Ok(shown)) = answer.await {
        keep(route, &terminal, &shown).await;
    }
}

/// A request of the agent was answered: if the answer tells what a terminal showed to its end, that
/// is kept.
pub(super) async fn answered(route: &Route, method: &str, params: &str, outcome: &Outcome) {
    if method != "terminal/output" {
        return;
    }
    if let (Some(terminal), Ok(shown)) = (string_member(params, "terminalId"), outcome)
        && exit(shown).is_some()
        && route.terminal_ends(&terminal)
    {
        keep(route, &terminal, shown).await;
    }
}

async fn keep(route: &Route, terminal: &str, shown: &str) {
    let output = string_member(shown, "output").unwrap_or_default();
    let truncated = text_member(shown, "truncated") == Some("true");
    let exit = exit(shown);
    let updates = route
        .with_terminals(|terminals| terminals.ended(terminal, &output, truncated, exit.as_ref()));
    write(route, updates).await;
}

/// Writes down updates that only replays send.
pub(super) async fn write(route: &Route, updates: Vec<String>) {
    let block = block(updates);
    if !block.is_empty() {
        // A session that was closed needs none.
        route.out.say(EngineEvent::Block(block)).await.ok();
    }
}

/// Updates that only replays send, as they are written.
pub(super) fn block(updates: Vec<String>) -> Block {
    let mut block = Block::default();
    for update in &updates {
        block.push(Kind::Output, update);
    }
    block
}

/// How a terminal's command ended, if it has.
fn exit(shown: &str) -> Option<Exit> {
    let status = text_member(shown, "exitStatus")?;
    let status = json::tree(status)?;
    status.is_object().then(|| Exit {
        code: status["exitCode"]
            .as_u64()
            .and_then(|code| u32::try_from(code).ok()),
        signal: status["signal"].as_str().map(str::to_owned),
    })
}
