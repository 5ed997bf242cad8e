//! How an actor tells its client of turns by updates that are in no log.

use crate::record::json;
use crate::replay::live_line;

use super::actor::Actor;
use super::dialect::Dialect;
use super::outcome::Done;
use super::phase::Phase;

impl Actor {
    /// Shows the client the user's message that was logged last.
    pub(super) async fn echo(&mut self, message_id: &str, params: &str) {
        let id = serde_json::Value::from(message_id);
        let blocks = json::text_member(params, "prompt").unwrap_or("[]");
        let update =
            format!(r#"{{"sessionUpdate":"user_message","messageId":{id},"content":{blocks}}}"#);
        self.send_own(&update).await;
    }

    /// Tells the client what the session is doing. Whoever is told that a turn has ended has been
    /// told all of it, as far as the log can be read.
    pub(super) async fn tell(&mut self, phase: &Phase) {
        if let Err(refusal) = self.send_missed().await {
            tracing::warn!(session = %self.id, error = %refusal, "updates cannot be sent yet");
        }
        self.send_own(&phase.update()).await;
    }

    /// The update that says which commands there are.
    pub(super) fn commands(&self) -> Option<String> {
        let commands = self.seat.as_ref()?.conversation.commands()?;
        Some(format!(
            r#"{{"sessionUpdate":"available_commands_update","availableCommands":{commands}}}"#
        ))
    }

    /// An answer with what its client looks for in it: the commands that there are. What it tells of
    /// settings is noted, since later updates are about them.
    pub(super) fn shown(&mut self, done: Done) -> Done {
        let dialect = self.deps.dialect();
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
            Some(update) => Some(dialect.with_commands(own, &update)),
            None => own,
        };
        match (dialect, done) {
            (Dialect::Told, Done::Created(own)) => Done::Created(with(own)),
            (Dialect::Told, Done::Forked(own)) => Done::Forked(with(own)),
            (Dialect::Told, Done::Loaded(own)) => Done::Loaded(with(own)),
            (Dialect::Told, Done::Resumed(own)) => Done::Resumed(with(own)),
            (_, done) => done,
        }
    }

    /// Sends an update that has the form of the client's version already.
    async fn send_own(&mut self, update: &str) {
        let mut line = Vec::new();
        live_line(&self.name, update, &mut line);
        // A client that is gone needs no update.
        self.deps.wire.writer.control(&line).await.ok();
    }
}
