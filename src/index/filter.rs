//! Which sessions a list is about.

use super::search::Search;

/// What a list does with archived sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Archived {
    /// It leaves them out.
    #[default]
    Exclude,
    /// It lists them among the others.
    Include,
    /// It lists nothing else.
    Only,
}

/// Which sessions a list is about; by default all that are not archived.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Filter {
    /// Only those with exactly this working directory.
    pub cwd: Option<String>,
    /// Whether archived sessions are listed.
    pub archived: Archived,
    /// Only those that match this search.
    pub search: Option<Search>,
    /// Only those that were prompted at this time or later; in the format of
    /// [`Timestamp`](crate::sys::Timestamp)'s `Display`.
    pub since: Option<String>,
}
