//! The context that the commands about sessions share: the store, its catalog, and messages for
//! users.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::cli::exit::{Failure, NOT_FOUND};
use crate::cli::global::Global;
use crate::cli::sources;
use crate::cli::store_path;
use crate::cli::term::{Output, busy, count, cut, note, one_line};
use rejoin::engine::known::title;
use rejoin::index::{Catalog, ListError, Listed, ToolBranch};
use rejoin::sources::{LiveSources, Source};
use rejoin::store::{Durability, LogReader, Store, StoreError};
use rejoin::sys::{SessionId, Sys, with_causes};

use super::named::ShortIds;

/// How many columns of a title are part of a message.
const TITLE: usize = 40;

/// The context of the commands.
pub(in crate::cli) struct CommandContext<'a> {
    pub(in crate::cli) global: &'a Global,
    pub(in crate::cli) sys: Sys,
    pub(in crate::cli) store: Store,
    pub(in crate::cli) catalog: Catalog,
    /// The tools whose conversations are shown, too.
    pub(in crate::cli) live: Option<Arc<LiveSources>>,
    /// Their conversations, looked for when they are first needed.
    pub(super) tools: OnceLock<Option<Arc<OtherTools>>>,
}

/// The conversations of other tools.
#[derive(Debug)]
pub(in crate::cli) struct OtherTools {
    /// Lists them beside the sessions of the store.
    pub(in crate::cli) catalog: Catalog,
    pub(in crate::cli) live: Arc<LiveSources>,
}

impl OtherTools {
    /// The conversations as far as the index has them.
    pub(super) fn unscanned(store: &Store, live: Arc<LiveSources>) -> Self {
        let catalog = Catalog::with_tools(store.clone(), Some(live.clone()));
        Self { catalog, live }
    }

    fn scan(store: &Store, live: Arc<LiveSources>) -> Result<Self, ListError> {
        let tools = Self::unscanned(store, live);
        tools.live.scan(store, &tools.catalog)?;
        Ok(tools)
    }

    /// The log that an import of this conversation would write.
    pub(in crate::cli) fn read(&self, id: &SessionId) -> Result<Option<LogReader>, Failure> {
        let read = self.live.read(&self.catalog, id);
        read.map_err(|error| self.deleted(id).unwrap_or_else(|| unread(&error)))
    }

    /// The failure if the tool has deleted this conversation, which is then no longer listed.
    pub(super) fn deleted(&self, id: &SessionId) -> Option<Failure> {
        let source = self.live.forget_deleted(&self.catalog, id).ok()??;
        Some(deleted_by(source.agent))
    }

    /// The conversations that are no sessions of the store.
    pub(in crate::cli) fn ids(&self) -> Result<Vec<SessionId>, Failure> {
        let ids = self.catalog.tool_files().ids();
        ids.map_err(|error| unread(&error))
    }

    /// The tool that keeps this conversation.
    pub(super) fn tool_of(&self, id: &SessionId) -> Option<&'static Source> {
        let found = self.live.find(&self.catalog, id).ok()??;
        Some(found.0)
    }

    /// The file with this conversation.
    pub(in crate::cli) fn file_of(&self, id: &SessionId) -> Option<PathBuf> {
        let found = self.live.find(&self.catalog, id).ok()??;
        Some(found.1.path)
    }

    /// Reads all that was not read as a whole so far, so that searches find everything.
    pub(super) fn read_all(&self) -> Result<(), ListError> {
        while self.live.count_some(&self.catalog)? {}
        Ok(())
    }
}

/// The failure if the tool with this agent has deleted a conversation.
pub(super) fn deleted_by(agent: &str) -> Failure {
    let why = format!("{} has deleted this conversation", title(agent));
    Failure::with_code(NOT_FOUND, why)
}

/// Why conversations of other tools are not shown.
pub(in crate::cli) fn unread(error: &dyn Error) -> Failure {
    let why = with_causes(error);
    Failure::new(format!("cannot read conversations of other tools: {why}"))
}

impl<'a> CommandContext<'a> {
    /// Opens the store at `root`.
    pub(in crate::cli) fn open(global: &'a Global, root: &Path, sys: Sys) -> Result<Self, Failure> {
        let store = Store::open(root, sys.clone(), Durability::Turn)?;
        Ok(Self::of(global, sys, store))
    }

    /// Works with this store.
    pub(super) fn of(global: &'a Global, sys: Sys, store: Store) -> Self {
        Self {
            global,
            sys,
            catalog: Catalog::open(store.clone()),
            store,
            live: None,
            tools: OnceLock::new(),
        }
    }

    /// Opens the store that the command line names, which must exist.
    pub(in crate::cli) fn of_existing(global: &'a Global) -> Result<Self, Failure> {
        let (root, sys) = (store_path::root(global)?, Sys::real());
        if !store_path::is_there(&root, &sys)? {
            return Err(store_path::missing(&root));
        }
        Self::open(global, &root, sys)
    }

    /// Opens the store that the command line names, for a command that shows what is there: sessions,
    /// and the conversations of these tools. If there is no store, but such a tool, it is created, for
    /// the index.
    pub(in crate::cli) fn of_sources(
        global: &'a Global,
        sources: &sources::Args,
    ) -> Result<Self, Failure> {
        let root = store_path::root(global)?;
        let sys = Sys::real();
        let live = sources.live(global, true)?;
        // Reading must not create a store without need.
        if !store_path::is_there(&root, &sys)?
            && !live.as_ref().is_some_and(|live| live.are_there())
        {
            return Err(store_path::missing(&root));
        }
        Ok(Self {
            live,
            ..Self::open(global, &root, sys)?
        })
    }

    /// The log of a session. A conversation of another tool, as clients list them beside the sessions
    /// of the user's own store, has the log that an import would write, in memory.
    pub(in crate::cli) fn read(&self, id: &SessionId) -> Result<LogReader, Failure> {
        match self.store.read(id) {
            Err(StoreError::NotFound { .. }) => {}
            // The look at the tools' files may make a copy anew.
            Ok(log) if log.header().known_as.is_some() => {}
            read => return Ok(read?),
        }
        let tools = self.tools()?.map(Arc::as_ref);
        busy_with_tools(|| read(&self.store, tools, id))
    }

    /// The branch of the session with this log: turns that its tool has written since it was continued
    /// here, if that tool's conversations are shown.
    pub(in crate::cli) fn tool_branch(
        &self,
        log: &LogReader,
    ) -> Result<Option<ToolBranch>, Failure> {
        // A copy has the tool's id of the conversation.
        if log.header().known_as.is_none() {
            return Ok(None);
        }
        let tools = self.tools()?;
        Ok(tools.and_then(|tools| tools.catalog.tool_branch(log.id())))
    }

    /// The log of a session with all that was said in it: also what rewinds have undone, and what its tool
    /// has written since it was continued here.
    pub(in crate::cli) fn read_all(&self, id: &SessionId) -> Result<LogReader, Failure> {
        // The look at the tools' files may make a copy anew.
        let tools = self.tools()?;
        if !self.store.exists(id)? {
            return self.read(id);
        }
        let log = self.store.read_all(id)?;
        match tools {
            Some(tools) => {
                let log = tools.live.with_branch(&tools.catalog, log, title);
                log.map_err(|error| unread(&error))
            }
            None => Ok(log),
        }
    }

    /// The catalog for lists.
    pub(super) fn listed(&self) -> Result<&Catalog, Failure> {
        let tools = self.tools()?;
        Ok(tools.map_or(&self.catalog, |tools| &tools.catalog))
    }

    /// The conversations of other tools, if any are shown.
    pub(in crate::cli) fn tools(&self) -> Result<Option<&Arc<OtherTools>>, Failure> {
        if let Some(known) = self.tools.get() {
            return Ok(known.as_ref());
        }
        let tools = match self.live.clone() {
            Some(live) => {
                let scanned = busy_with_tools(|| OtherTools::scan(&self.store, live));
                Some(Arc::new(scanned.map_err(|error| unread(&error))?))
            }
            None => None,
        };
        Ok(self.tools.get_or_init(|| tools).as_ref())
    }

    /// The catalog for searches, also in the conversations of other tools, which are read first.
    pub(super) fn searched(&self) -> Result<&Catalog, Failure> {
        let Some(tools) = self.tools()? else {
            return Ok(&self.catalog);
        };
        let read = busy(
            || "Reading conversations of other tools …".to_owned(),
            || tools.read_all(),
        );
        read.map_err(|error| unread(&error))?;
        Ok(&tools.catalog)
    }

    /// The short form of the IDs of all sessions, and of these.
    pub(in crate::cli) fn short(&self, others: &[Listed]) -> Result<ShortIds, Failure> {
        let mut ids = self.store.ids()?;
        if let Some(Some(tools)) = self.tools.get() {
            ids.extend(tools.ids()?);
        }
        let others = others.iter().map(|listed| &listed.id);
        Ok(ShortIds::of(ids.iter().chain(others)))
    }

    /// The name of a session in a message: on a terminal, its title helps more than its whole ID.
    pub(in crate::cli) fn name(&self, id: &SessionId, output: &Output) -> Result<String, Failure> {
        if !output.is_terminal() {
            return Ok(id.to_string());
        }
        let title = self.catalog.find(id).and_then(|summary| summary.title);
        let short = self.short(&[])?.id(id);
        Ok(match title {
            Some(title) => format!("{short} ({})", cut(&one_line(&title), TITLE)),
            None => short,
        })
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
            let failure = Failure::new(why);
            match self.store.catalog() {
                Some(file) => failure.hint(format!(
                    "stop the processes that use it and try again, or remove {}*: it is only a cache",
                    file.display()
                )),
                None => failure,
            }
        })
    }

    /// Runs `work` on the catalog, which may have to read all sessions first, and says so if it
    /// takes long.
    pub(in crate::cli) fn reading<T>(&self, work: impl FnOnce(&Catalog) -> T) -> T {
        self.reading_from(&self.catalog, work)
    }

    /// Runs `work` on this catalog, such as the one for searches, which may have to read all
    /// sessions first, and says so if it takes long.
    pub(super) fn reading_from<T>(&self, catalog: &Catalog, work: impl FnOnce(&Catalog) -> T) -> T {
        let doing = || {
            let sessions = self.store.ids().map_or(0, |ids| ids.len());
            format!("Reading {} …", count(sessions, "session"))
        };
        busy(doing, || work(catalog))
    }
}

/// The log of a session of the store or of these tools.
pub(super) fn read(
    store: &Store,
    tools: Option<&OtherTools>,
    id: &SessionId,
) -> Result<LogReader, Failure> {
    match (store.read(id), tools) {
        (Err(error @ StoreError::NotFound { .. }), Some(tools)) => {
            tools.read(id)?.ok_or_else(|| error.into())
        }
        (read, _) => Ok(read?),
    }
}

/// Does some work on the conversations of other tools, and says so if it takes long.
pub(super) fn busy_with_tools<T>(work: impl FnOnce() -> T) -> T {
    let doing = || "Looking for conversations of other tools …".to_owned();
    busy(doing, work)
}
