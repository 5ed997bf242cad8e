//! What an open session has beside what it was opened with.

use std::path::PathBuf;

use super::always::Always;
use super::chosen::Chosen;

/// The belongings of one open session.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Mode and options.
    pub(super) chosen: Chosen,
    /// What the user has allowed and rejected for good.
    pub(super) always: Always,
    /// The program that guards commands, if one is to.
    pub(super) guard: Option<PathBuf>,
}
