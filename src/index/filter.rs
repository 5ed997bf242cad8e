//! Which sessions a list is about.

use super::search::Search;

/// Which sessions a list is about; all by default.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Filter {
    /// Only those whose working directory is this one, to the letter.
    pub cwd: Option<String>,
    /// Only those in which all of this was said.
    pub search: Option<Search>,
    /// Only those that were prompted at this time or later; in the form of
    /// [`Timestamp`](crate::sys::Timestamp)'s `Display`.
    pub since: Option<String>,
}
