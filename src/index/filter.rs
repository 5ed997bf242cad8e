//! Which sessions a list is about.

use super::search::Search;

/// What a list does with archived sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Archived {
    /// It leaves them out.
    #[default]
    Exclude,
    /// It has them among the others.
    Include,
    /// It has nothing else.
    Only,
}

/// Which sessions a list is about; by default all that are not archived.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Filter {
    /// Only those whose working directory is this one, to the letter.
    pub cwd: Option<String>,
    /// What becomes of those that are archived.
    pub archived: Archived,
    /// Only those in which all of this was said.
    pub search: Option<Search>,
    /// Only those that were prompted at this time or later; in the form of
    /// [`Timestamp`](crate::sys::Timestamp)'s `Display`.
    pub since: Option<String>,
}
