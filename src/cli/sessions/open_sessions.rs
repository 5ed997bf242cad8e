//! The sessions that some process has open.

use crate::cli::exit::Failure;
use rejoin::index::Listed;
use rejoin::record::ActivityState;
use rejoin::store::Holder;
use rejoin::sys::SessionId;

use super::context::CommandContext;

/// A session that a process has open.
pub(in crate::cli) struct ListedOpenSession {
    pub(in crate::cli) listed: Listed,
    pub(in crate::cli) state: ActivityState,
    pub(in crate::cli) holder: Holder,
}

impl ListedOpenSession {
    /// Its ID.
    pub(in crate::cli) fn id(&self) -> &SessionId {
        &self.listed.id
    }

    /// The socket of the process that has it, if that can be reached from here.
    pub(in crate::cli) fn socket(&self) -> Option<&str> {
        self.holder.local_socket()
    }
}

/// The sessions that processes have open, those first that were used last.
pub(in crate::cli) fn open_sessions(
    context: &CommandContext<'_>,
) -> Result<Vec<ListedOpenSession>, Failure> {
    let failed = |error| Failure::new(format!("cannot list sessions: {error}"));
    let mut live = Vec::new();
    let mut after = None;
    loop {
        let page = context.reading(|catalog| catalog.every(after.as_ref()));
        let page = page.map_err(failed)?;
        let Some(last) = page.last() else {
            break;
        };
        after = Some(last.id.clone());
        for listed in page {
            if let Some(holder) = context.store.holder(&listed.id) {
                live.push(ListedOpenSession {
                    state: context.catalog.state(&listed),
                    listed,
                    holder,
                });
            }
        }
    }
    live.sort_by(|one, other| {
        let used = |live: &ListedOpenSession| live.listed.summary.updated_at.clone();
        used(other).cmp(&used(one))
    });
    Ok(live)
}
