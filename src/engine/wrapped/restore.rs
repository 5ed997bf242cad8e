//! Brings an agent to where a session is: its own `session/resume`, its `session/load`, or a new
//! session of it that is given a transcript.
//!
//! What an agent declares is tried, and may fail. What it does not declare is never called.

use std::sync::Arc;

use crate::engine::{Block, EngineError, Wanted};
use crate::record::json::{string_member, text_member};
use crate::sys::Ids;

use super::import::Import;
use super::link::Link;
use super::route::Route;
use super::said::with_members;
use super::settings::Settings;

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
    Import,
}

impl How {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Fork => "fork",
            Self::Resume => "resume",
            Self::Load => "load",
            Self::Transcript => "transcript",
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

/// Makes a session with the client's own request.
pub(super) async fn fresh(
    link: &Arc<Link>,
    params: &str,
    route: &Arc<Route>,
) -> Result<Restored, EngineError> {
    let params = with_members(params, &["sessionId"], &[]);
    let pending = link.request_for("session/new", &params, route);
    let answer = pending.outcome().await?;
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
/// it any more; fails if the agent is gone or wants its user to sign in.
pub(super) async fn again(
    link: &Arc<Link>,
    params: &str,
    route: &Arc<Route>,
    inner: &str,
    prompts: u64,
) -> Result<Option<Restored>, EngineError> {
    let abilities = link.abilities();
    let id = serde_json::Value::from(inner).to_string();
    let params = with_members(params, &[], &[("sessionId", &id)]);
    for (method, how, declared) in [
        ("session/resume", How::Resume, abilities.resume),
        ("session/load", How::Load, abilities.load),
    ] {
        if !declared {
            continue;
        }
        // Heard before it is asked for: agents replay before they answer.
        route.swallow();
        link.hear(inner, route);
        match link.request(method, &params).outcome().await {
            Ok(answer) => {
                let replays = how == How::Load && prompts > 0;
                if replays {
                    route.late().await;
                }
                let swallowed = route.go_live(replays);
                let forgot = replays && swallowed.history == 0;
                return Ok(Some(Restored {
                    // An agent that shows nothing of what was said does not know it.
                    how: if forgot { How::Transcript } else { how },
                    inner: inner.to_owned(),
                    answer,
                    snapshots: swallowed.snapshots(),
                }));
            }
            Err(error) if link.is_dead() || error.code == EngineError::SIGN_IN => {
                link.forget(inner);
                return Err(error);
            }
            Err(error) => {
                link.forget(inner);
                route.go_live(false);
                tracing::info!(method, %error, "the agent does not have the session any more");
            }
        }
    }
    Ok(None)
}

/// Opens a session that the agent made without us. Answers with all that it shows of it. An agent
/// that refuses does not know it, as far as anybody can tell, unless it wants its user to sign in.
pub(super) async fn import(
    link: &Arc<Link>,
    wanted: &Wanted,
    route: &Arc<Route>,
    ids: Arc<dyn Ids>,
) -> Result<(Restored, Block), EngineError> {
    let abilities = link.abilities();
    let method = match (abilities.load, abilities.resume) {
        (true, _) => "session/load",
        (false, true) => "session/resume",
        (false, false) => return Err(EngineError::unknown_session()),
    };
    route.import(Import::new(ids));
    let heard = Heard::new(link, &wanted.name, route);
    let id = serde_json::Value::from(wanted.name.as_str()).to_string();
    let params = with_members(&wanted.params.0, &[], &[("sessionId", &id)]);
    let mut answer = match link.request(method, &params).outcome().await {
        Ok(answer) => answer,
        Err(error) if link.is_dead() || error.code == EngineError::SIGN_IN => return Err(error),
        Err(error) => {
            tracing::info!(method, %error, "the agent does not open the session");
            return Err(EngineError::unknown_session());
        }
    };
    if abilities.load {
        route.late().await;
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
        inner: wanted.name.clone(),
        answer,
        snapshots: Vec::new(),
    };
    Ok((restored, block))
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
) -> (String, Settings) {
    let mut now = Settings::default();
    now.opened(answer);
    for wish in before.wishes(answer) {
        let mut params = wish.params;
        params["sessionId"] = inner.into();
        let params = params.to_string();
        match link.request(wish.method, &params).outcome().await {
            Ok(result) => {
                now.served(wish.method, &params, &result);
            }
            Err(error) => {
                tracing::warn!(method = wish.method, %error, "a setting cannot be restored");
            }
        }
    }
    (now.apply(answer), now)
}
