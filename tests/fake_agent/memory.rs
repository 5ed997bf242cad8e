//! The sessions that the agent knows, and the file that keeps them over restarts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::message::{chunk, text_block};

/// The folder of conversations that are not ours.
pub(crate) const FOLDER: &str = if cfg!(windows) { r"C:\w" } else { "/w" };

/// The time of all sessions, so that what tests see never differs.
const WHEN: &str = "2026-01-02T03:04:05Z";

/// All that is kept.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// In the order they were made, since their ids sort so.
    pub(crate) sessions: BTreeMap<String, Session>,
    /// How many of the next starts are to fail.
    #[serde(default)]
    pub(crate) fail_starts: usize,
    #[serde(skip)]
    file: Option<PathBuf>,
}

/// One conversation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) cwd: String,
    pub(crate) title: Option<String>,
    pub(crate) updated_at: String,
    /// The JSON texts of what a load replays: `update` objects.
    pub(crate) updates: Vec<String>,
    /// How many prompts there were.
    pub(crate) prompts: usize,
    /// Whether prompts to it are refused.
    #[serde(default)]
    pub(crate) refuses: bool,
    pub(crate) mode: Option<String>,
    #[serde(default)]
    pub(crate) config: BTreeMap<String, String>,
}

impl Memory {
    /// Reads what was kept. Without a file nothing is.
    pub(crate) fn open(file: Option<&Path>, foreign: usize) -> Self {
        let text = file.and_then(|file| std::fs::read_to_string(file).ok());
        let kept = text.and_then(|text| serde_json::from_str(&text).ok());
        let mut memory: Self = kept.unwrap_or_default();
        memory.file = file.map(Path::to_owned);
        for number in 1..=foreign {
            let id = format!("foreign-{number}");
            memory
                .sessions
                .entry(id)
                .or_insert_with(|| Session::foreign(number));
        }
        memory
    }

    /// Removes so many turns from the end of each session.
    pub(crate) fn lose_turns(&mut self, turns: usize) {
        for session in self.sessions.values_mut() {
            session.keep(session.prompts.saturating_sub(turns));
        }
        self.save();
    }

    /// Makes a session and returns its id.
    pub(crate) fn add(&mut self, session: Session) -> String {
        let id = format!("inner_{}", Uuid::now_v7().simple());
        self.sessions.insert(id.clone(), session);
        self.save();
        id
    }

    /// The id of the only session, which is made if it is not there.
    pub(crate) fn only(&mut self, cwd: &str) -> String {
        let id = "inner_only".to_owned();
        let session = self.sessions.entry(id.clone());
        session.or_insert_with(|| Session::new(cwd));
        self.save();
        id
    }

    /// Writes everything down, in one step.
    pub(crate) fn save(&self) {
        if let Some(file) = &self.file {
            let text = serde_json::to_vec(self).expect("all of it is plain");
            // Other agents may write theirs at the same time.
            let new = file.with_extension(format!("{}.new", std::process::id()));
            std::fs::write(&new, text).expect("the state can be written");
            std::fs::rename(&new, file).expect("the state can be written");
        }
    }
}

impl Session {
    /// One without anything in it.
    pub(crate) fn new(cwd: &str) -> Self {
        Self {
            cwd: cwd.to_owned(),
            updated_at: WHEN.to_owned(),
            ..Self::default()
        }
    }

    /// Removes all but so many turns.
    fn keep(&mut self, turns: usize) {
        let is_user = |update: &String| update.contains(r#""sessionUpdate":"user_message"#);
        let begins = |at: &usize| {
            let before = at.checked_sub(1).map(|before| &self.updates[before]);
            is_user(&self.updates[*at]) && !before.is_some_and(is_user)
        };
        let end = (0..self.updates.len()).filter(begins).nth(turns);
        self.updates.truncate(end.unwrap_or(self.updates.len()));
        self.prompts = self.prompts.min(turns);
    }

    /// One of a time before this program.
    fn foreign(number: usize) -> Self {
        let text = |text: &str| text_block(text);
        let call = format!("old-{number}");
        Self {
            title: Some(format!("Foreign {number}")),
            prompts: 2,
            updates: vec![
                chunk("user_message_chunk", None, &text("what was")),
                chunk("agent_thought_chunk", None, &text("long ago")),
                format!(
                    r#"{{"sessionUpdate":"tool_call","toolCallId":"{call}","title":"Look","kind":"read","status":"pending"}}"#
                ),
                format!(
                    r#"{{"sessionUpdate":"tool_call_update","toolCallId":"{call}","status":"completed"}}"#
                ),
                chunk("agent_message_chunk", None, &text("this was ")),
                chunk("agent_message_chunk", None, &text("and that")),
                chunk("user_message_chunk", None, &text("and then")),
                chunk("agent_message_chunk", None, &text("nothing")),
            ],
            ..Self::new(FOLDER)
        }
    }
}
