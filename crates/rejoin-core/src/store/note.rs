//! Small texts beside the sessions, which may be lost at any time.

use super::folder::Store;
use super::medium::StoreError;

/// The agent that the user has chosen last.
const AGENT: &str = "agent";

impl Store {
    /// The agent that the user has chosen last for a session, by its id.
    pub fn last_agent(&self) -> Option<String> {
        let id = self.context.medium.note(AGENT)?;
        String::from_utf8(id).ok().filter(|id| !id.is_empty())
    }

    /// Records that the user has chosen an agent.
    pub fn set_last_agent(&self, id: &str) -> Result<(), StoreError> {
        self.context.medium.set_note(AGENT, id)
    }
}
