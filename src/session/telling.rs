//! How an actor tells its client of turns by updates that are in no log.

use crate::json;
use crate::record::Kind;
use crate::replay::live_params_line;
use crate::store::Sync;

use super::actor::Actor;
use super::open_session::OpenSession;
use super::outcome::{Done, Refusal};
use super::phase::Phase;
use super::version::ProtocolVersion;

impl Actor {
    /// Shows the client the user's message that was logged last.
    pub(super) async fn echo(&mut self, message_id: &str, params: &str) {
        let id = serde_json::Value::from(message_id);
        let blocks = json::text_member(params, "prompt").unwrap_or("[]");
        let update = format!(
            r#"{{"update":{{"sessionUpdate":"user_message","messageId":{id},"content":{blocks}}}}}"#
        );
        self.send_own(&update).await;
    }

    /// Tells the client what the session is doing. Whoever is told that a turn has ended has been
    /// told all of it, as far as the log can be read.
    pub(super) async fn tell(&mut self, phase: &Phase) {
        if let Err(refusal) = self.send_missed().await {
            tracing::warn!(session = %self.id, error = %refusal, "updates cannot be sent yet");
        }
        let phase = self.seen(phase.clone());
        let mut update = format!(r#"{{"update":{}}}"#, phase.update());
        let history = self.session.as_ref().map(|session| &session.history);
        let interrupted = history.is_some_and(|history| history.was_interrupted());
        if interrupted && phase == Phase::Idle(None) {
            // Nothing else says why the history breaks off.
            update.insert_str(1, r#""_meta":{"rejoin":{"interrupted":true}},"#);
        }
        self.send_own(&update).await;
    }

    /// Appends the end of a turn, and in front of it what the session is called, if nothing else
    /// has said so by now.
    pub(super) async fn append_end(
        &mut self,
        id: Option<&str>,
        payload: &str,
        sync: Sync,
    ) -> Result<(), Refusal> {
        let Some(title) = self.own_title() else {
            self.append(Kind::End, id, payload, sync)?;
            self.note_end(payload);
            return Ok(());
        };
        let records = [(Kind::Info, None, &*title), (Kind::End, id, payload)];
        self.append_all(records.into_iter(), sync)?;
        self.note_end(payload);
        // A replay that is on its way comes to it, and so does what sends all that was missed.
        if self.replay.is_none() && !self.has_missed() {
            self.send_live(Kind::Info, &title).await;
        }
        Ok(())
    }

    /// The `info` record that calls the session after its first prompt. There is none if it was
    /// given a title: an agent may do so until the first turn ends.
    fn own_title(&self) -> Option<String> {
        let session = self.session.as_ref()?;
        let title = session.summary.title.as_deref()?;
        let title = serde_json::Value::from(title);
        (!session.history.is_titled())
            .then(|| format!(r#"{{"sessionUpdate":"session_info_update","title":{title}}}"#))
    }

    /// What the session is doing, as far as this process can know: nothing here is no news of a
    /// turn that runs in another process.
    pub(super) fn seen(&self, phase: Phase) -> Phase {
        let elsewhere = self.session.as_ref().and_then(OpenSession::elsewhere);
        match (phase, elsewhere) {
            (Phase::Idle(_), Some(elsewhere)) if elsewhere.running => Phase::Running,
            (phase, _) => phase,
        }
    }

    /// The update that says which commands there are.
    pub(super) fn commands(&self) -> Option<String> {
        let commands = self.session.as_ref()?.conversation.commands()?;
        Some(format!(
            r#"{{"sessionUpdate":"available_commands_update","availableCommands":{commands}}}"#
        ))
    }

    /// An answer with what its client looks for in it: the commands that there are. What it tells of
    /// settings is noted, since later updates are about them.
    pub(super) fn shown(&mut self, done: Done) -> Done {
        let version = self.deps.version();
        if let (
            Some(view),
            Done::Created(Some(own))
            | Done::Forked(Some(own))
            | Done::Loaded(Some(own))
            | Done::Resumed(Some(own))
            | Done::Served(own),
        ) = (&mut self.view, &done)
        {
            let member = |name| json::text_member(own, name);
            view.settings(member("configOptions"), member("modes"));
        }
        let with = |own: Option<String>| match self.commands() {
            Some(update) => Some(version.with_commands(own, &update)),
            None => own,
        };
        match (version, done) {
            (ProtocolVersion::V2, Done::Created(own)) => Done::Created(with(own)),
            (ProtocolVersion::V2, Done::Forked(own)) => Done::Forked(with(own)),
            (ProtocolVersion::V2, Done::Loaded(own)) => Done::Loaded(with(own)),
            (ProtocolVersion::V2, Done::Resumed(own)) => Done::Resumed(with(own)),
            (_, Done::Status { open, phase }) => Done::Status {
                open,
                phase: self.seen(phase),
            },
            (_, done) => done,
        }
    }

    /// Sends an update that has the form of the client's version already. `params` are the
    /// parameters of the notification without the session's id.
    async fn send_own(&mut self, params: &str) {
        let mut line = Vec::new();
        live_params_line(&self.name, params, &mut line);
        // A client that is gone needs no update.
        self.deps.wire.writer.control(&line).await.ok();
    }
}
