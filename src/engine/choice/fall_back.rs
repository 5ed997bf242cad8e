//! Opens a session in its agent, or in the one before it.

use crate::engine::{AttachOutcome, AttachReason, CloseReason, EngineError};
use crate::json::Object;
use crate::protocol::{Role, UpdateKind};
use crate::sys::lock;

use super::found::FoundAgent;
use super::session::{ChoiceSessionInner, Current, with_agent};

impl ChoiceSessionInner {
    /// Opens the session in its agent. One that was chosen and has not answered since may not be able
    /// to; then the one before it goes on.
    pub(super) async fn open(&self, how: AttachReason) -> Result<AttachOutcome, EngineError> {
        let current = self.current_or_first()?;
        let attached = current.conversation.attach(how).await;
        let error = match &attached {
            Ok(attached) => attached.agent_error.clone(),
            Err(error) => Some(error.message.clone()),
        };
        if let Some(error) = error
            && let Some(attached) = self.fall_back(&current, &error).await
        {
            return Ok(attached);
        }
        match attached {
            Ok(attached) => Ok(current.opened(attached)),
            Err(error) => Err(self.failed(&current, error).await),
        }
    }

    /// Opens the session in the agent that has answered last, if it is another one. `error` says why
    /// the chosen one cannot take over.
    async fn fall_back(&self, chosen: &Current, error: &str) -> Option<AttachOutcome> {
        let last = self.opening.history.current_settings().agent?;
        let found = self.agents.found();
        let before = found.iter().find(|found| found.names().include(&last))?;
        if before.id == chosen.found.id {
            return None;
        }
        let before = self.start(before, &found);
        let attached = before.conversation.attach(AttachReason::Again).await;
        let Ok(attached) = attached.and_then(with_agent) else {
            before.leave(CloseReason::Refused);
            return None;
        };
        tracing::warn!(agent = chosen.found.id, error, "could not change the agent");
        *lock(&self.current) = Some(before.clone());
        chosen.leave(CloseReason::Refused);
        self.agents.forget(&chosen.found.id, &before.found.id);
        let said = self.could_not_take_over(&chosen.found, error, &before.found);
        *lock(&self.notice) = Some(said);
        Some(before.opened(attached))
    }

    /// The message that an agent could not take over, as an update.
    pub(super) fn could_not_take_over(
        &self,
        chosen: &FoundAgent,
        error: &str,
        before: &FoundAgent,
    ) -> String {
        let text = format!(
            "[rejoin] {} could not take over: {error}. {} goes on.\n\n",
            chosen.name, before.name
        );
        let content = Object::new().string("type", "text").string("text", &text);
        let said = UpdateKind::Chunk(Role::Agent).object();
        let said = said.raw("content", &content.end());
        said.string("messageId", &self.opening.ids.message()).end()
    }
}
