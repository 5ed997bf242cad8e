//! What the commands about sessions share: the store, its catalog, and messages for users.

use crate::cli::count::count;
use crate::cli::exit::Failure;
use crate::cli::global::Global;
use crate::cli::note::note;
use crate::cli::terminal::busy;
use crate::index::Catalog;
use crate::store::Store;
use crate::sys::Sys;

/// What the commands work with.
pub(super) struct Context<'a> {
    pub(super) global: &'a Global,
    pub(super) sys: Sys,
    pub(super) store: Store,
    pub(super) catalog: Catalog,
}

impl Context<'_> {
    /// Reports that there is nothing to show.
    pub(super) fn nothing(&self, what: &str) {
        note(self.global, what, None);
    }

    /// Reports why there are no sessions to show.
    pub(super) fn no_sessions(&self) {
        let root = self.store.root().display();
        self.nothing(&match self.store.ids().map_or(0, |ids| ids.len()) {
            0 => format!("there are no sessions in {root}"),
            unprompted => format!(
                "no session in {root} can be listed: {} there, none prompted and readable",
                count(unprompted, "session")
            ),
        });
    }

    /// Removes what is left of deleted sessions from the catalog's files.
    pub(super) fn erase_from_catalog(&self) -> Result<(), Failure> {
        let doing = || "Removing words from the index …".to_owned();
        busy(doing, || self.catalog.erase_deleted()).map_err(|error| {
            let why = format!("words of removed sessions may be left in index.sqlite: {error}");
            let hint = format!(
                "stop the processes that use it and try again, or remove {}*: it is only a cache",
                self.store.catalog().display()
            );
            Failure::new(why).hint(hint)
        })
    }

    /// Runs `work` on the catalog, which may have to read all sessions first, and says so if it
    /// takes long.
    pub(super) fn reading<T>(&self, work: impl FnOnce(&Catalog) -> T) -> T {
        let doing = || {
            let sessions = self.store.ids().map_or(0, |ids| ids.len());
            format!("Reading {} …", count(sessions, "session"))
        };
        busy(doing, || work(&self.catalog))
    }
}
