//! Which sessions a list is about.

use super::search::Search;
use super::summary::Summary;

/// The treatment of archived sessions in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Archived {
    /// Archived sessions are left out.
    #[default]
    Exclude,
    /// Archived sessions are listed among the others.
    Include,
    /// Only archived sessions are listed.
    Only,
}

/// The time by which a list is sorted, the latest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// The last activity of any kind.
    #[default]
    Active,
    /// The last prompt.
    Prompted,
}

impl Order {
    /// The time by which a session is sorted.
    pub fn time(self, summary: &Summary) -> Option<&str> {
        match self {
            Self::Active => summary.updated_at.as_deref(),
            Self::Prompted => summary.activity.last_prompt_at.as_deref(),
        }
    }

    /// The column with this time.
    pub(super) fn column(self) -> &'static str {
        match self {
            Self::Active => "updated_at",
            Self::Prompted => "last_prompt_at",
        }
    }
}

/// Which sessions a list is about, and in which order; by default all that are not archived.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Filter {
    /// Only those with exactly this working directory.
    pub cwd: Option<String>,
    /// Also those with one of these working directories: the same one in other worktrees.
    pub worktrees: Option<Vec<String>>,
    /// Only those that one of these agents answers, or the tools' of which they are the agents, if there
    /// are any.
    pub agents: Vec<String>,
    /// The order of the sessions.
    pub order: Order,
    /// Whether archived sessions are listed.
    pub archived: Archived,
    /// Only those that match this search.
    pub search: Option<Search>,
    /// Only those that were prompted at this time or later; in the format of
    /// [`Timestamp`](crate::sys::Timestamp)'s `Display`.
    pub since: Option<String>,
}

impl Filter {
    /// Whether the filter leaves out nothing but sessions that are archived, or that are not.
    pub(super) fn is_of_all(&self) -> bool {
        let (order, archived) = (self.order, self.archived);
        *self
            == Self {
                order,
                archived,
                ..Self::default()
            }
    }

    /// Whether sessions with this working directory are listed.
    pub fn covers(&self, cwd: &str) -> bool {
        let others = self.worktrees.iter().flatten();
        let mut folders = self.cwd.iter().chain(others);
        self.cwd.is_none() || folders.any(|folder| folder == cwd)
    }
}
