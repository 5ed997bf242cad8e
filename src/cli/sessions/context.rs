//! What the commands about sessions share: the store, its catalog, and messages for users.

use std::error::Error;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::cli::count::count;
use crate::cli::exit::Failure;
use crate::cli::global::Global;
use crate::cli::note::note;
use crate::cli::sources::{Choice, places};
use crate::cli::store;
use crate::cli::terminal::busy;
use crate::index::{Catalog, ListError};
use crate::sources::import::Importer;
use crate::sources::{LiveSources, Places};
use crate::store::{Durability, Reader, Store, StoreError};
use crate::sys::sim::SimDisk;
use crate::sys::{SessionId, Sys, with_causes};

/// What the commands work with.
pub(in crate::cli) struct Context<'a> {
    pub(in crate::cli) global: &'a Global,
    pub(in crate::cli) sys: Sys,
    pub(in crate::cli) store: Store,
    pub(in crate::cli) catalog: Catalog,
    /// Looked for when they are first needed.
    pub(super) tools: OnceLock<Option<OtherTools>>,
}

/// The conversations of other tools.
#[derive(Debug)]
pub(in crate::cli) struct OtherTools {
    /// Lists them beside the sessions of the store.
    pub(super) catalog: Catalog,
    live: Arc<LiveSources>,
    places: Places,
}

impl OtherTools {
    fn scan(store: &Store, live: Arc<LiveSources>, places: Places) -> Result<Self, ListError> {
        let catalog = Catalog::open(store.clone()).with_tools(live.clone());
        live.scan(store, &catalog)?;
        Ok(Self {
            catalog,
            live,
            places,
        })
    }

    /// The log that an import of this conversation would write.
    fn read(&self, id: &SessionId) -> Result<Option<Reader>, Failure> {
        let found = self.live.find(&self.catalog, id);
        let Some((source, found)) = found.map_err(|error| unread(&error))? else {
            return Ok(None);
        };
        let memory = Store::open(Path::new("/"), SimDisk::new().sys(), Durability::Os)?;
        let catalog = Catalog::open(memory.clone());
        let importer = Importer::new(&memory, &catalog, &self.places.home)?;
        let imported = importer.import(source, &found);
        imported.map_err(|error| unread(&error))?;
        Ok(Some(memory.read(id)?))
    }
}

fn unread(error: &dyn Error) -> Failure {
    let why = with_causes(error);
    Failure::new(format!("cannot read conversations of other tools: {why}"))
}

impl<'a> Context<'a> {
    /// Opens the store at `root`.
    pub(in crate::cli) fn open(global: &'a Global, root: &Path, sys: Sys) -> Result<Self, Failure> {
        let store = Store::open(root, sys.clone(), Durability::Turn)?;
        let catalog = Catalog::open(store.clone());
        Ok(Self {
            global,
            sys,
            store,
            catalog,
            tools: OnceLock::new(),
        })
    }

    /// Opens the store that the command line names, for a command that needs one.
    pub(in crate::cli) fn existing(global: &'a Global) -> Result<Self, Failure> {
        let root = store::root(global)?;
        let sys = Sys::real();
        // Reading must not create a store.
        if !Store::is_at(&root, &sys)? {
            return Err(store::missing(&root));
        }
        Self::open(global, &root, sys)
    }

    /// The log of a session. A conversation of another tool, as clients list them beside the sessions
    /// of the user's own store, has the log that an import would write, in memory.
    pub(in crate::cli) fn read(&self, id: &SessionId) -> Result<Reader, Failure> {
        match self.store.read(id) {
            Err(StoreError::NotFound { .. }) => {}
            read => return Ok(read?),
        }
        let read = match self.tools()? {
            Some(tools) => busy_with_tools(|| tools.read(id))?,
            None => None,
        };
        read.ok_or_else(|| StoreError::NotFound { id: id.clone() }.into())
    }

    /// The conversations of other tools, as far as the environment says that they are listed.
    pub(super) fn tools(&self) -> Result<Option<&OtherTools>, Failure> {
        if let Some(known) = self.tools.get() {
            return Ok(known.as_ref());
        }
        let choice = Choice::of_environment()?;
        let tools = match (choice.live(self.global.store().is_none()), places()) {
            (Some(live), Some(places)) => {
                let scanned = busy_with_tools(|| OtherTools::scan(&self.store, live, places));
                Some(scanned.map_err(|error| unread(&error))?)
            }
            _ => None,
        };
        Ok(self.tools.get_or_init(|| tools).as_ref())
    }

    /// Reports that there is nothing to show.
    pub(in crate::cli) fn nothing(&self, what: &str) {
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
    pub(in crate::cli) fn reading<T>(&self, work: impl FnOnce(&Catalog) -> T) -> T {
        let doing = || {
            let sessions = self.store.ids().map_or(0, |ids| ids.len());
            format!("Reading {} …", count(sessions, "session"))
        };
        busy(doing, || work(&self.catalog))
    }
}

/// Does some work on the conversations of other tools, and says so if it takes long.
pub(super) fn busy_with_tools<T>(work: impl FnOnce() -> T) -> T {
    let doing = || "Looking for conversations of other tools …".to_owned();
    busy(doing, work)
}
