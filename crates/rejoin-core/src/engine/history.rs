//! The earlier part of a conversation, for engines.

use std::fmt;

use crate::record::{CurrentSettings, Record};

use super::prompt::Prompt;

/// The earlier part of a conversation. Every method may read the disk.
pub trait History: Send + Sync + fmt::Debug {
    /// How many prompts came before the one being answered.
    fn prompts(&self) -> u64;

    /// An earlier prompt; `index` counts from 0, the oldest.
    fn prompt(&self, index: u64) -> Result<Prompt, HistoryError>;

    /// The mode and options of the session according to its log.
    fn current_settings(&self) -> CurrentSettings {
        CurrentSettings::default()
    }

    /// Visits every record before the prompt that is being answered, in order. A session without a
    /// log has no records.
    fn walk(&self, visit: &mut dyn FnMut(&Record<'_>)) -> Result<(), HistoryError>;
}

/// A part of the history could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {what} of the session: {reason}")]
pub struct HistoryError {
    /// Which part was requested.
    pub what: String,
    /// Why it cannot be read.
    pub reason: String,
}
