//! The state of an open session: its settings, the user's decisions, its MCP servers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::engine::process::Launch;
use crate::engine::{AttachOutcome, Block, Called, EngineError, History, SessionConfig};
use crate::protocol::UpdateKind;
use crate::record::Kind;
use crate::sys::lock;

use super::mcp::McpServers;
use super::settings::{DemoSettings, NAME};

/// The state of one open session. The history is the only state that outlives it.
#[derive(Debug)]
pub(super) struct SessionState {
    /// The mode and the options, read from the log when they are first needed.
    settings: Mutex<Option<DemoSettings>>,
    /// The actions that the user always allows (`true`) or always rejects, by their `about`.
    decisions: Mutex<BTreeMap<String, bool>>,
    /// Its MCP servers.
    pub(super) servers: Arc<McpServers>,
    servers_started: AtomicBool,
    /// How its processes are started.
    pub(super) launch: Launch,
}

impl SessionState {
    /// The state of a session that was just opened.
    pub(super) fn new(launch: Launch) -> Self {
        Self {
            settings: Mutex::default(),
            decisions: Mutex::default(),
            servers: Arc::new(McpServers::new(launch.clone())),
            servers_started: AtomicBool::new(false),
            launch,
        }
    }

    /// The current settings.
    pub(super) fn settings(&self, history: &dyn History) -> DemoSettings {
        let mut settings = lock(&self.settings);
        *settings.get_or_insert_with(|| DemoSettings::restored(&history.current_settings()))
    }

    /// Serves a request that changes a setting.
    pub(super) fn serve(
        &self,
        history: &dyn History,
        method: &str,
        params: &str,
    ) -> Result<Called, EngineError> {
        let mut changed = self.settings(history);
        let called = changed.serve(method, params)?;
        *lock(&self.settings) = Some(changed);
        Ok(called)
    }

    /// The settings to report when the session is opened, with the values that the client has given
    /// options. Updates in the log from another agent that had the session before are not sent again.
    pub(super) fn attached(&self, history: &dyn History, given: Option<&str>) -> AttachOutcome {
        let before = self.settings(history);
        let mut settings = before;
        settings.give(given.unwrap_or("[]"));
        *lock(&self.settings) = Some(settings);
        let changes = settings.changes_since(before);
        let logged = history.current_settings();
        let (mut outdated, mut snapshots) = settings.since(&logged);
        // The client learns what it has given from the answer.
        snapshots.retain(|snapshot| !changes.contains(snapshot));
        if !changes.is_empty() {
            outdated
                .extend([UpdateKind::CurrentMode, UpdateKind::ConfigOptions].map(UpdateKind::name));
        }
        // Our own commands are announced separately.
        outdated.push(UpdateKind::AvailableCommands.name());
        AttachOutcome {
            answer: Some(settings.answer()),
            // If that agent gets the session back, it must learn that it has missed a part of it.
            agent_session_id: logged
                .agent
                .filter(|agent| agent != NAME)
                .map(|_| continued_here()),
            snapshots: Block::of_all(Kind::Info, snapshots),
            info: Block::of_all(Kind::Info, changes),
            gone: outdated,
            ..AttachOutcome::default()
        }
    }

    /// The user's decision about such actions for as long as the session is open.
    pub(super) fn decision(&self, about: &str) -> Option<bool> {
        lock(&self.decisions).get(about).copied()
    }

    /// Remembers that the user always allows or always rejects this.
    pub(super) fn decide(&self, about: &str, allowed: bool) {
        lock(&self.decisions).insert(about.to_owned(), allowed);
    }

    /// Starts the MCP servers of the session, and waits a while for them.
    pub(super) async fn start_servers(&self, config: &SessionConfig) {
        self.servers.configure(config);
        self.servers_started.store(true, Ordering::Release);
        self.servers.wait_until_started().await;
    }

    /// Whether the servers were started.
    pub(super) fn are_servers_started(&self) -> bool {
        self.servers_started.load(Ordering::Acquire)
    }
}

/// The settings to report for a session that another process has open: its log has the current
/// ones.
pub(super) fn attached_elsewhere(history: &dyn History) -> AttachOutcome {
    AttachOutcome {
        answer: Some(DemoSettings::restored(&history.current_settings()).answer()),
        ..AttachOutcome::default()
    }
}

/// The record that the session of another agent is continued here.
fn continued_here() -> String {
    let agent = json!({ "name": NAME, "version": env!("CARGO_PKG_VERSION") });
    json!({ "agent": agent, "how": "resume" }).to_string()
}
