//! The earlier part of a conversation, as far as engines need it.

use std::fmt;

use crate::record::{Record, Stands};

use super::prompt::Prompt;

/// What was said before. All of it may read the disk.
pub trait History: Send + Sync + fmt::Debug {
    /// How many prompts came before the one being answered.
    fn prompts(&self) -> u64;

    /// An earlier prompt; `index` counts from 0, the oldest.
    fn prompt(&self, index: u64) -> Result<Prompt, HistoryError>;

    /// What the log says last of the session's mode and options.
    fn stands(&self) -> Stands {
        Stands::default()
    }

    /// Shows every record before the prompt that is being answered, in order. A session without a
    /// log has none.
    fn walk(&self, visit: &mut dyn FnMut(&Record<'_>)) -> Result<(), HistoryError>;
}

/// A part of the history could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {what} of the session: {reason}")]
pub struct HistoryError {
    /// What was asked for, in words.
    pub what: String,
    /// Why it cannot be read.
    pub reason: String,
}
