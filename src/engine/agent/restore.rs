//! Brings an agent to where a session is: its own `session/resume`, its `session/load`, or a new
//! session of it that is given a transcript.
//!
//! What an agent declares is tried, and may fail, take too long or even end the agent. What it does
//! not declare is never called.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use serde_json::json;

use crate::engine::{Block, EngineError, SessionConfig};
use crate::json::{self, string_member, text_member};
use crate::sys::Ids;

use super::import::Import;
use super::link::Link;
use super::route::Route;
use super::said::with_members;
use super::settings::{self, Settings};
use super::shared_agent::Agent;

/// How an agent came to where the session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    New,
    /// The agent's own fork of another session.
    Fork,
    Resume,
    Load,
    /// The agent does not know the conversation.
    Transcript,
    /// The agent has loaded it and shows nothing of it, so it may not know it.
    EmptyLoad,
    Import,
}

impl How {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Fork => "fork",
            Self::Resume => "resume",
            Self::Load => "load",
            Self::Transcript | Self::EmptyLoad => "transcript",
            Self::Import => "import",
        }
    }
}

/// A session that is open in the agent.
#[derive(Debug)]
pub(super) struct Restored {
    pub(super) how: How,
    /// The agent's id of it.
    pub(super) inner: String,
    /// What the agent answered.
    pub(super) answer: String,
    /// Updates that say how things are now.
    pub(super) snapshots: Vec<String>,
}

impl Restored {
    /// What the log is to know of it: the payload of an `inner` record.
    pub(super) fn record(&self, agent: &str, version: Option<&str>) -> String {
        let inner = json!({
            "id": self.inner,
            "agent": { "name": agent, "version": version },
            "how": self.how.as_str(),
        });
        let told = settings::told(&self.answer);
        let told = told.as_deref().map(|told| ("answer", told));
        with_members(&inner.to_string(), &[], told.as_slice())
    }
}

/// Whether an answer of the agent says that another process has its session.
pub(super) fn is_held_elsewhere(answer: &str) -> bool {
    let mut path = ["_meta", "rejoin", "holder"].into_iter();
    path.try_fold(answer, text_member).is_some()
}

/// Which of the agent's own ways back are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ways {
    /// `session/resume`, then `session/load`.
    All,
    /// Only `session/load`, which shows whether the agent knows the conversation.
    Load,
}

/// A session that is to be opened in the agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task<'a> {
    pub(super) agent: &'a Agent,
    /// The parameters of the client's request.
    pub(super) params: &'a str,
    /// Where the agent's updates go.
    pub(super) route: &'a Arc<Route>,
    /// How long the agent may be silent before it answers.
    pub(super) limit: Duration,
}

/// Makes a session with the client's own request.
pub(super) async fn fresh(link: &Arc<Link>, task: Task<'_>) -> Result<Restored, EngineError> {
    let params = with_members(task.params, &["sessionId"], &[]);
    let answer = ask(link, "session/new", &params, task, Hears::Born).await?;
    let Some(inner) = string_member(&answer, "sessionId") else {
        let message = "the agent made a session without an id";
        return Err(EngineError::internal(message));
    };
    Ok(Restored {
        how: How::New,
        inner,
        answer,
        snapshots: Vec::new(),
    })
}

/// Continues a session that the agent once knew as `inner`. Answers with `None` if it does not know
/// it any more; fails if it cannot be started or wants its user to sign in. An agent that ends
/// while it opens the session is started again for the next way: `link` is the connection then.
pub(super) async fn again(
    link: &mut Arc<Link>,
    task: Task<'_>,
    inner: &str,
    prompts: u64,
    ways: Ways,
) -> Result<Option<Restored>, EngineError> {
    let route = task.route;
    let id = Value::from(inner).to_string();
    let params = with_members(task.params, &[], &[("sessionId", &id)]);
    for (method, how) in [("session/resume", How::Resume), ("session/load", How::Load)] {
        let mut tries = 0;
        loop {
            if link.is_dead() {
                *link = task.agent.link().await?;
            }
            let abilities = link.abilities();
            let possible = match how {
                How::Resume => abilities.resume && ways == Ways::All,
                _ => abilities.load,
            };
            if !possible {
                break;
            }
            // Heard before it is asked for: agents replay before they answer.
            route.swallow();
            link.hear(inner, route);
            let answer = ask(link, method, &params, task, Hears::Known).await;
            let error = match answer {
                Ok(answer) => match other_session(&answer, inner) {
                    None => {
                        return Ok(Some(opened(link, route, how, inner, answer, prompts).await));
                    }
                    Some(other) => {
                        EngineError::internal(format!("it has opened another one, {other}"))
                    }
                },
                Err(error) => error,
            };
            link.forget(inner);
            if error.code == EngineError::SIGN_IN {
                return Err(error);
            }
            route.go_live(false);
            if !link.is_dead() {
                tracing::info!(method, %error, "the agent does not have the session any more");
                break;
            }
            tracing::warn!(method, %error, "the agent has ended while it opened a session");
            tries += 1;
            // What else was under way may have ended it.
            if link.ended_alone() || tries > 1 {
                break;
            }
        }
    }
    Ok(None)
}

/// A session that the agent has opened.
async fn opened(
    link: &Link,
    route: &Route,
    how: How,
    inner: &str,
    answer: String,
    prompts: u64,
) -> Restored {
    let replays = how == How::Load && prompts > 0;
    if replays {
        let before = route.shown() > 0;
        route.late(link.replays_first(before)).await;
    }
    let swallowed = route.go_live(replays);
    let empty = replays && swallowed.history == 0;
    Restored {
        // An agent that shows nothing of what was said does not know it.
        how: if empty { How::EmptyLoad } else { how },
        inner: inner.to_owned(),
        answer,
        snapshots: swallowed.snapshots(),
    }
}

/// The id of the session that an agent has opened in the place of another one, if its answer has
/// one: as the protocol's own member, or as what an agent calls the protocol's id among its own.
fn other_session(answer: &str, inner: &str) -> Option<String> {
    fn named(value: &Value, inner: &str) -> Option<String> {
        match value {
            Value::Object(members) => members.iter().find_map(|(name, value)| {
                let id = value.as_str().filter(|id| *id != inner);
                match (name.as_str(), id) {
                    ("acpSessionId", Some(id)) => Some(id.to_owned()),
                    _ => named(value, inner),
                }
            }),
            _ => None,
        }
    }
    let own = string_member(answer, "sessionId").filter(|id| id != inner);
    own.or_else(|| named(&json::tree(text_member(answer, "_meta")?)?, inner))
}

/// How the agent's updates of a session that is asked for are heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hears {
    /// By the id that the request names.
    Known,
    /// By the id that the answer names.
    Born,
}

/// Sends a request that opens a session, and waits as long as the agent is not silent for too long.
pub(super) async fn ask(
    link: &Arc<Link>,
    method: &str,
    params: &str,
    task: Task<'_>,
    hears: Hears,
) -> Result<String, EngineError> {
    let mut pending = match hears {
        Hears::Known => link.request(method, params),
        Hears::Born => link.request_for(method, params, task.route),
    };
    tokio::select! {
        biased;
        outcome = pending.settled() => return outcome,
        () = task.route.silence(task.limit) => {}
    }
    pending.abandon();
    let limit = humantime::format_duration(task.limit);
    Err(EngineError::named(
        EngineError::INTERNAL,
        "agent_timeout",
        format!("the agent did not answer `{method}` within {limit} (`--load-timeout`)"),
    ))
}

/// Opens a session that the agent made without us. Answers with all that it shows of it. An agent
/// that refuses does not know it, as far as anybody can tell, unless it wants its user to sign in.
pub(super) async fn import(
    link: &Arc<Link>,
    config: &SessionConfig,
    task: Task<'_>,
    ids: Arc<dyn Ids>,
) -> Result<(Restored, Block), EngineError> {
    let route = task.route;
    let abilities = link.abilities();
    let method = match (abilities.load, abilities.resume) {
        (true, _) => "session/load",
        (false, true) => "session/resume",
        (false, false) => return Err(EngineError::unknown_session()),
    };
    route.import(Import::new(ids));
    let heard = Heard::new(link, &config.name, route);
    let id = Value::from(config.name.as_str()).to_string();
    let params = with_members(task.params, &[], &[("sessionId", &id)]);
    let mut answer = match ask(link, method, &params, task, Hears::Known).await {
        Ok(answer) if other_session(&answer, &config.name).is_none() => answer,
        Err(error) if is_final(link, &error) => return Err(error),
        refused => {
            let error = refused.err();
            tracing::info!(method, ?error, "the agent does not open the session");
            return Err(EngineError::unknown_session());
        }
    };
    if abilities.load {
        let before = route.shown() > 0;
        route.late(link.replays_first(before)).await;
    }
    let Some(import) = route.imported(abilities.load) else {
        return Err(EngineError::internal("the agent's session was not heard"));
    };
    let Some(block) = import.finish() else {
        let message = "the agent's session is too long to be taken over";
        return Err(EngineError::internal(message));
    };
    if !abilities.load {
        answer = without_history(&answer);
    }
    heard.keep();
    let restored = Restored {
        how: How::Import,
        inner: config.name.clone(),
        answer,
        snapshots: Vec::new(),
    };
    Ok((restored, block))
}

/// Whether an error says nothing of whether the agent knows a session.
fn is_final(link: &Link, error: &EngineError) -> bool {
    link.is_dead() || error.code == EngineError::SIGN_IN || error.is_named("agent_timeout")
}

/// An answer that says that what was said before is not shown, since the agent cannot show it.
fn without_history(answer: &str) -> String {
    let meta = text_member(answer, "_meta").unwrap_or("{}");
    let note = r#"{"agent":{"historyShown":false}}"#;
    let meta = with_members(meta, &["rejoin"], &[("rejoin", note)]);
    with_members(answer, &["_meta"], &[("_meta", &meta)])
}

/// A session that is heard while it is asked for, and no longer if that comes to nothing.
struct Heard<'a> {
    link: &'a Link,
    session: &'a str,
    keep: bool,
}

impl<'a> Heard<'a> {
    fn new(link: &'a Link, session: &'a str, route: &Arc<Route>) -> Self {
        link.hear(session, route);
        Self {
            link,
            session,
            keep: false,
        }
    }

    fn keep(mut self) {
        self.keep = true;
    }
}

impl Drop for Heard<'_> {
    fn drop(&mut self) {
        if !self.keep {
            self.link.forget(self.session);
        }
    }
}

/// Sets again what was set before. Answers with the agent's answer as it is then.
pub(super) async fn settle(
    link: &Arc<Link>,
    inner: &str,
    answer: &str,
    before: &Settings,
    limit: Duration,
) -> (String, Settings) {
    let mut now = Settings::default();
    now.opened(answer);
    for wish in before.wishes(answer) {
        let mut params = wish.params;
        params["sessionId"] = inner.into();
        let params = params.to_string();
        let set = link.request(wish.method, &params).outcome();
        match tokio::time::timeout(limit, set).await {
            Ok(Ok(result)) => {
                now.served(wish.method, &params, &result);
            }
            Ok(Err(error)) => {
                tracing::warn!(method = wish.method, %error, "a setting cannot be restored");
            }
            Err(_) => tracing::warn!(method = wish.method, "the agent does not restore a setting"),
        }
    }
    (now.apply(answer), now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_name_another_session() {
        for (answer, other) in [
            ("{}", None),
            ("null", None),
            (r#"{"sessionId":"a"}"#, None),
            (r#"{"sessionId":"b"}"#, Some("b")),
            (
                r#"{"_meta":{"hermes":{"sessionProvenance":{"acpSessionId":"b"}}}}"#,
                Some("b"),
            ),
            (
                r#"{"_meta":{"hermes":{"acpSessionId":"a","sessionId":"x","n":1e400}}}"#,
                None,
            ),
            (r#"{"acpSessionId":"b"}"#, None),
        ] {
            assert_eq!(other_session(answer, "a").as_deref(), other, "{answer}");
        }
    }
}
