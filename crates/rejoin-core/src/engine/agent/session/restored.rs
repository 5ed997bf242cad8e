//! A session that is open in the agent, and how it was opened.

use serde_json::json;

use crate::engine::agent::route::settings;
use crate::json::with_members;

/// How a session was opened in the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestoreMethod {
    New,
    /// The agent's own fork of another session.
    Fork,
    Resume,
    Load,
    /// The agent loaded it and has lost its last turns: it has so many of the prompts.
    PartialLoad(u64),
    /// A new session; the agent does not know the conversation.
    Transcript,
    /// The agent loaded it and replayed nothing, so it may not know the conversation.
    EmptyLoad,
    Import,
    /// The agent has gone on in another session of its own, after it has cleared its context.
    Clear,
}

impl RestoreMethod {
    /// Whether the agent has said that it has the conversation, and shown nothing of it.
    pub(super) fn is_unproven(self) -> bool {
        matches!(self, Self::Resume | Self::EmptyLoad)
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Fork => "fork",
            Self::Resume => "resume",
            Self::Load | Self::PartialLoad(_) => "load",
            Self::Transcript | Self::EmptyLoad => "transcript",
            Self::Import => "import",
            Self::Clear => "clear",
        }
    }
}

/// A session that is open in the agent.
#[derive(Debug)]
pub(super) struct Restored {
    pub(super) how: RestoreMethod,
    /// The agent's session id.
    pub(super) session_id: String,
    /// The agent's response.
    pub(super) answer: String,
    /// The snapshots that the agent sent while it opened the session.
    pub(super) snapshots: Vec<String>,
}

impl Restored {
    /// The payload of an `inner` record for the log. `instead` is the agent's session that it could not
    /// open, and that is tried again next time.
    pub(super) fn record(
        &self,
        agent: &str,
        version: Option<&str>,
        instead: Option<&str>,
    ) -> String {
        let mut payload = json!({
            "id": self.session_id,
            "agent": { "name": agent, "version": version },
            "how": self.how.as_str(),
        });
        if let Some(instead) = instead {
            payload["instead"] = instead.into();
        }
        let payload = payload.to_string();
        match settings::reported(&self.answer) {
            Some(reported) => with_members(&payload, &[], &[("answer", &reported)]),
            None => payload,
        }
    }
}
