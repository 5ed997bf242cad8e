//! Sends a session's updates to its client, and answers its requests.

use std::sync::Arc;

use serde_json::json;

use crate::engine::{Block, Prompt};
use crate::json;
use crate::protocol::UpdateKind;
use crate::protocol::meta::{CLIENT, REJOIN};
use crate::record::{AgentSessionId, Kind};
use crate::replay::{live_params_line, live_record_line};
use crate::session::effect::Notification;
use crate::session::open_session::OpenSession;
use crate::session::outcome::{Done, Refusal};
use crate::session::phase::Phase;
use crate::session::reply::{Answer, Reply};

use super::Actor;

/// The memory of a longer line is freed, in bytes.
const LINE_KEPT: usize = 256 * 1024;

impl Actor {
    /// Sends updates that were just logged, or all that the client has missed.
    pub(super) async fn send_logged(&mut self, block: &Block) {
        if self.has_missed() {
            // What is still unsent afterwards is sent before the turn is answered.
            self.send_missed().await.ok();
            return;
        }
        self.line.clear();
        for entry in block.iter() {
            live_record_line(&self.name, entry.kind, entry.payload, &mut self.line);
        }
        self.put_lines().await;
        self.all_is_sent();
    }

    /// Sends a payload in the form that the client sees live.
    pub(super) async fn send_live(&mut self, kind: Kind, payload: &str) {
        self.line.clear();
        live_record_line(&self.name, kind, payload, &mut self.line);
        self.put_lines().await;
    }

    pub(super) async fn put_lines(&mut self) {
        if self.links.is_detached {
            return;
        }
        let mut line = std::mem::take(&mut self.line);
        self.view.lines(&mut line);
        self.put(&line).await;
        if line.capacity() <= LINE_KEPT {
            self.line = line;
        }
    }

    /// Sends an update that is not in the log.
    pub(super) async fn notify(&mut self, notification: Notification) {
        match notification {
            Notification::Snapshots(snapshots) => {
                for snapshot in snapshots.iter() {
                    self.send_live(snapshot.kind, snapshot.payload).await;
                }
            }
            Notification::Commands => {
                if self.view.announces_commands()
                    && let Some(commands) = self.commands()
                {
                    let update = json::Object::new()
                        .string("sessionUpdate", UpdateKind::AvailableCommands.name())
                        .raw("availableCommands", &commands)
                        .end();
                    self.send_live(Kind::Info, &update).await;
                }
            }
            // Version 1 has no such update; the prompt of a client elsewhere is shown when it begins.
            Notification::UserMessage(_) if !self.view.has_state() => {}
            Notification::UserMessage(prompt) => {
                self.send_user_message(&prompt).await;
                self.all_is_sent();
            }
            Notification::State(phase) => self.send_state(&phase).await,
        }
    }

    pub(super) async fn send_user_message(&mut self, prompt: &Prompt) {
        let blocks = json::text_member(&prompt.params, "prompt").unwrap_or("[]");
        let update = json::Object::new()
            .string("sessionUpdate", "user_message")
            .string("messageId", &prompt.message_id)
            .raw("content", blocks)
            .end();
        let mut params = json::Object::new();
        if self.prompted_elsewhere(&prompt.message_id).is_some()
            && let Some(client) = self.sender_of(&prompt.message_id)
        {
            params = params.raw("_meta", &json!({ REJOIN: { CLIENT: client } }).to_string());
        }
        self.send_own(&params.raw("update", &update).end()).await;
    }

    /// Reports what the session is doing. A client that gets the end of a turn has been sent all of
    /// the turn, as far as the log can be read.
    pub(super) async fn send_state(&mut self, phase: &Phase) {
        if !self.view.has_state() {
            return;
        }
        if let Err(refusal) = self.send_missed().await {
            tracing::warn!(session = %self.id, error = %refusal, "updates cannot be sent yet");
        }
        let phase = self.known_phase(phase.clone());
        let mut params = phase.params();
        let history = self.session.as_ref().map(|session| &session.history);
        let interrupted = history.is_some_and(|history| history.was_interrupted());
        if interrupted && phase == Phase::Idle(None) {
            // Nothing else says why the history ends there.
            let meta = json!({ "rejoin": { "interrupted": true } }).to_string();
            let update = json::text_member(&params, "update").unwrap_or("{}");
            let noted = json::Object::new().raw("_meta", &meta);
            params = noted.raw("update", update).end();
        }
        self.send_own(&params).await;
    }

    /// Sends an update that has the form of the client's version already. `params` are the
    /// parameters of the notification without the session's id.
    async fn send_own(&mut self, params: &str) {
        let mut line = Vec::new();
        live_params_line(&self.name, params, &mut line);
        self.put(&line).await;
    }

    /// What the session is doing, as far as this process can know: that it does nothing here does
    /// not say that no turn runs in another process.
    fn known_phase(&self, phase: Phase) -> Phase {
        let elsewhere = self.session.as_ref().and_then(OpenSession::elsewhere);
        match (phase, elsewhere) {
            (Phase::Idle(_), Some(elsewhere)) if elsewhere.running => Phase::Running,
            (phase, _) => phase,
        }
    }

    /// The array of the available commands.
    fn commands(&self) -> Option<String> {
        match &self.front {
            Some(front) => front.commands.clone(),
            None => self.session.as_ref()?.conversation.commands(),
        }
    }

    /// Answers a request, and waits until the answer precedes all later updates: those of a prompt
    /// that was sent without waiting follow it.
    pub(super) async fn answer(&mut self, reply: Reply, result: Result<Done, Refusal>) {
        let Some((reply, mut result)) = self.deliver(reply, result) else {
            return;
        };
        if let Err(refusal) = self.send_missed().await {
            tracing::warn!(session = %self.id, error = %refusal, "updates cannot be sent yet");
            // A client that gets the end of a turn has been sent all of the turn.
            if let Ok(Done::Stopped(ended)) = result {
                result = refusal.of_turn(ended.is_cancelled()).map(Done::Stopped);
            }
        }
        // A client that has cancelled a request gets that as its answer.
        if reply.cancellation().is_cancelled() && matches!(result, Err(Refusal::Unreachable(_))) {
            result = Err(Refusal::Cancelled);
        }
        if let Err(Refusal::PromptInProgress { client: None }) = result {
            let client = self.prompting_client();
            result = Err(Refusal::PromptInProgress { client });
        }
        self.trace_answer(&result);
        let damage = match &mut self.session {
            // The damage of a fork is in the session that it was made from.
            Some(session) if matches!(result, Ok(Done::Forked(_))) => {
                std::mem::replace(&mut session.damage, Arc::from([]))
            }
            Some(session) => session.damage.clone(),
            None => Arc::from([]),
        };
        let accepted = matches!(result, Ok(Done::Accepted(_)));
        let session = self.session.as_ref();
        let mut elsewhere = session.and_then(OpenSession::elsewhere).cloned();
        if let Some(elsewhere) = &mut elsewhere {
            elsewhere.attached = self.front.is_some();
        }
        let read_only = session.and_then(OpenSession::read_only).map(str::to_owned);
        let answer = result.map(|done| Answer {
            done: self.complete(done),
            damage,
            elsewhere,
            read_only,
        });
        let busy = reply.send(answer.map_err(|refusal| self.for_client(refusal)));
        if accepted {
            self.accepted = Some(busy);
        } else {
            self.answered.push(busy);
        }
        self.announce_alias().await;
    }

    /// Notifies the client of a new id that the agent has for the session.
    pub(super) async fn announce_alias(&mut self) {
        let Some(session) = &mut self.session else {
            return;
        };
        if !std::mem::take(&mut session.has_new_alias) || !self.deps.offers_aliases() {
            return;
        }
        let pending = session.agent_session_id.as_deref();
        let pending = pending.and_then(AgentSessionId::read);
        let known = session.summary.agent_ids.iter().chain(&pending);
        let agents = self.deps.engine.agent_names();
        let aliases = AgentSessionId::aliases(known, &agents, &self.name);
        if !aliases.is_empty() {
            let kind = UpdateKind::SessionInfo.name();
            let update = json!({ "sessionUpdate": kind, "aliases": aliases });
            self.send_live(Kind::Info, &update.to_string()).await;
        }
    }

    /// Gives an answer the form in which the client sees it.
    fn complete(&mut self, done: Done) -> Done {
        use Done::{Created, Forked, Loaded, Resumed, Status};
        let mut opening = |own| {
            let commands = self.commands();
            self.view.opening_answer(own, commands.as_deref())
        };
        match done {
            Created(own) => Created(opening(own)),
            Forked(own) => Forked(opening(own)),
            Loaded(own) => Loaded(opening(own)),
            Resumed(own) => Resumed(opening(own)),
            Status { open, phase } => Status {
                open,
                phase: self.known_phase(phase),
            },
            done => done,
        }
    }
}
