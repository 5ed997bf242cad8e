//! How an actor tells its client of turns by updates that are in no log.

use crate::record::json;
use crate::replay::live_line;

use super::actor::Actor;
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

    /// Sends an update that has the form of the client's version already.
    async fn send_own(&mut self, update: &str) {
        let mut line = Vec::new();
        live_line(&self.name, update, &mut line);
        // A client that is gone needs no update.
        self.deps.wire.writer.control(&line).await.ok();
    }
}
