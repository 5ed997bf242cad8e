//! The conversations that tools keep, as entries of the catalog, brought up to date with the files.
//!
//! The first look at a file reads its beginning and its end, which is enough for an entry. What can
//! only be counted, such as prompts, is read later, while nothing else is done.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tokio::sync::Notify;

use crate::conversation::{Passage, SearchText};
use crate::index::{Catalog, FileOfTool, KeptText, ListError, Pins, ReadFile, Summary, ToolTexts};
use crate::record::{Kind, Record};
use crate::store::{LogReader, Store, StoreError};
use crate::sys::{SessionId, Timestamp, lock, with_causes};

use super::conversation::NewRecord;
use super::grown::{ReadSoFar, read_grown};
use super::import::{ImportError, Importer, folder, fork, log, session_id};
use super::preview::{Glance, LARGEST};
use super::scan::SeenFiles;
use super::since::TurnsSince;
use super::sought::SoughtWord;
use super::{FoundConversation, Source, ToolConversation, ToolFolders};

/// How many files of a source are likely to change.
const NEWEST: u32 = 8;

/// The least length of a piece of text that is indexed, in bytes.
pub(super) const PIECE: usize = 32 * 1024;

/// How many files are read as a whole in one step.
const COUNTED: u32 = 64;

/// The largest buffer that is kept, in bytes.
const LARGEST_BUFFER: usize = 4 << 20;

/// How much text is written at once, in bytes. Other processes wait for a write.
const WRITTEN_AT_ONCE: usize = 2 << 20;

/// The sources that are listed beside the sessions of a store.
#[derive(Debug)]
pub struct LiveSources {
    pub(super) sources: Vec<&'static Source>,
    pub(super) places: ToolFolders,
    /// The files that this process has seen. Locked while the files are looked at.
    pub(super) seen: Mutex<SeenFiles>,
    /// Notified when there are files that were not read as a whole.
    pub(super) uncounted: Notify,
    /// The sessions that had changed in their tools' files while they were in use.
    missed: Mutex<HashSet<SessionId>>,
    /// Buffers for files that are searched, one for each thread that does it.
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl LiveSources {
    /// The conversations of these sources, in these places. Reads nothing yet.
    pub fn new(sources: Vec<&'static Source>, places: ToolFolders) -> Self {
        Self {
            sources,
            places,
            seen: Mutex::default(),
            uncounted: Notify::new(),
            missed: Mutex::default(),
            buffers: Mutex::default(),
        }
    }

    /// The report of a file, with the text of one that was read as a whole if `with_text`; nothing
    /// if it could not be read.
    pub(super) fn as_read(
        &self,
        source: &Source,
        found: &FoundConversation,
        file: &FileOfTool,
        read: std::io::Result<Glance>,
        with_text: bool,
    ) -> Option<ReadFile> {
        let glance = match read {
            Ok(glance) => Some(glance),
            Err(error) => {
                let path = found.path.display();
                tracing::debug!(%path, %error, "cannot list a conversation");
                // A file that is too long stays so.
                let is_long = error.kind() == std::io::ErrorKind::FileTooLarge;
                return is_long.then(|| ReadFile {
                    file: file.clone(),
                    conversation: None,
                    counted: true,
                    text: Vec::new(),
                    so_far: None,
                    after: None,
                });
            }
        };
        let conversation = glance.as_ref().and_then(|glance| {
            let id = session_id(source.agent, &glance.conversation)?;
            let summary = summary(source, found, glance, &self.places.home)?;
            Some((id, summary))
        });
        let so_far = glance.as_ref().zip(conversation.as_ref());
        let so_far = so_far
            .filter(|_| with_text)
            .and_then(|(glance, (_, summary))| {
                let so_far = glance.end?.kept(&glance.conversation, summary);
                serde_json::to_string(&so_far).ok()
            });
        Some(ReadFile {
            file: file.clone(),
            conversation,
            so_far,
            after: None,
            text: match &glance {
                Some(glance) if glance.is_whole && with_text => {
                    text(&glance.conversation, false, PIECE)
                }
                _ => Vec::new(),
            },
            counted: glance.is_none_or(|glance| glance.is_whole && with_text),
        })
    }

    /// The report of a file that has grown since it was read as a whole; nothing if that has to be done
    /// again. `kept` is the end of its text in the index.
    fn as_grown(
        &self,
        source: &Source,
        found: &FoundConversation,
        file: &FileOfTool,
        so_far: String,
        kept: &KeptText,
    ) -> Option<ReadFile> {
        let before: ReadSoFar = serde_json::from_str(&so_far).ok()?;
        let mut grown = read_grown(source, found, before, kept).ok()??;
        let id = session_id(source.agent, &grown.new)?;
        let text = std::mem::take(&mut grown.text);
        let entry = grown.entry(|glance| summary(source, found, glance, &self.places.home));
        let (summary, now) = entry?;
        Some(ReadFile {
            file: file.clone(),
            conversation: Some((id, summary)),
            counted: true,
            text,
            so_far: serde_json::to_string(&now).ok(),
            after: Some((so_far, kept.from)),
        })
    }

    /// Resolves when there are files that were not read as a whole.
    pub async fn uncounted(&self) {
        self.uncounted.notified().await;
    }

    /// Reads some files as a whole, those that changed last first. Returns whether there were any.
    pub fn count_some(&self, catalog: &Catalog) -> Result<bool, ListError> {
        let files = catalog.tool_files().uncounted(LARGEST, COUNTED)?;
        let any = !files.is_empty();
        let (mut batch, mut buffer) = (Vec::new(), Vec::new());
        let mut len = 0;
        for (tool, file, is_known) in files {
            let Some(source) = self.source(&tool) else {
                continue;
            };
            let found = self.found_in(source, &file);
            let kept = if is_known {
                catalog.tool_files().so_far(source.name, &file)?
            } else {
                None
            };
            let grown =
                kept.and_then(|(so_far, kept)| self.as_grown(source, &found, &file, so_far, &kept));
            let read = grown.or_else(|| {
                let read = source.read_if_small(&found, &mut buffer);
                if buffer.capacity() > LARGEST_BUFFER {
                    buffer = Vec::new();
                }
                self.as_read(source, &found, &file, read, true)
            });
            let Some(read) = read else {
                // The next scan looks for it again.
                catalog.tool_files().remove(source.name, &[file])?;
                continue;
            };
            let passages = read.text.iter().flatten();
            len += passages.map(|passage| passage.text.len()).sum::<usize>();
            batch.push((source.name, read));
            if len >= WRITTEN_AT_ONCE {
                catalog.tool_files().put(&std::mem::take(&mut batch))?;
                len = 0;
            }
        }
        catalog.tool_files().put(&batch)?;
        if any {
            lock(&self.seen).unsettle();
        }
        Ok(any)
    }

    /// Makes a listed conversation a session of the store. If it is one already, and was not
    /// continued there, brings it up to date with the tool's file.
    pub fn follow(
        &self,
        store: &Store,
        catalog: &Catalog,
        id: &SessionId,
    ) -> Result<(), ImportError> {
        self.follow_if(store, catalog, id, false)
    }

    /// Follows the file as [`follow`](Self::follow) does; `is_changed` says that the file was another one
    /// when it was last listed, which its time need not show.
    fn follow_if(
        &self,
        store: &Store,
        catalog: &Catalog,
        id: &SessionId,
        is_changed: bool,
    ) -> Result<(), ImportError> {
        let Some((source, mut found)) = self.find(catalog, id)? else {
            return Ok(());
        };
        let changed = source.changed(&found)?;
        let was_missed = lock(&self.missed).remove(id);
        let is_changed = is_changed || was_missed || changed != found.modified;
        found.modified = changed;
        let logged = store.changed_at(id)?;
        if !is_changed && logged.is_some_and(|logged| logged > found.modified) {
            return Ok(());
        }
        let importer = Importer::new(store, catalog, &self.places.home)?;
        match importer.import(source, &found) {
            Ok(_) => Ok(()),
            Err(error) => {
                lock(&self.missed).insert(id.clone());
                match error {
                    // The session is being continued here, or may be.
                    ImportError::Store(StoreError::InUse { .. }) => Ok(()),
                    error => Err(error),
                }
            }
        }
    }

    /// Makes a listed conversation a session of the store, or extends that, as
    /// [`follow`](Self::follow) does; logs why it fails.
    pub fn follow_logged(
        &self,
        store: &Store,
        catalog: &Catalog,
        id: &SessionId,
        is_changed: bool,
    ) {
        if let Err(error) = self.follow_if(store, catalog, id, is_changed) {
            let error = with_causes(&error);
            tracing::warn!(session = %id, error, "cannot import a conversation of another tool");
        }
    }

    /// The folders where changes are likely: those of each tool, and those of the files that changed
    /// last.
    pub fn folders(&self, catalog: &Catalog) -> Result<BTreeSet<PathBuf>, ListError> {
        let mut folders = BTreeSet::new();
        for source in &self.sources {
            let roots = (source.roots)(&self.places);
            let is_inside = |folder: &&Path| roots.iter().any(|root| folder.starts_with(root));
            for path in catalog.tool_files().newest(source.name, NEWEST)? {
                let above = Path::new(&path).ancestors().skip(1);
                folders.extend(above.take_while(is_inside).map(Path::to_owned));
            }
            folders.extend(roots);
        }
        Ok(folders)
    }

    /// Whether conversations of the tool with this agent are shown.
    pub fn shows(&self, agent: &str) -> bool {
        self.sources.iter().any(|source| source.agent == agent)
    }

    /// The source and the file of a listed conversation.
    pub fn find(
        &self,
        catalog: &Catalog,
        id: &SessionId,
    ) -> Result<Option<(&'static Source, FoundConversation)>, ListError> {
        let Some((tool, file)) = catalog.tool_files().file_of(id)? else {
            return Ok(None);
        };
        let source = self.source(&tool);
        Ok(source.map(|source| (source, self.found_in(source, &file))))
    }

    /// Takes a conversation whose file is gone from the list, and returns the source that had it; none if
    /// its file is there.
    pub fn forget_deleted(
        &self,
        catalog: &Catalog,
        id: &SessionId,
    ) -> Result<Option<&'static Source>, ListError> {
        let Some((source, found)) = self.find(catalog, id)? else {
            return Ok(None);
        };
        if !matches!(found.path.try_exists(), Ok(false)) {
            return Ok(None);
        }
        let file = as_file(&found).into_iter().collect::<Vec<_>>();
        catalog.tool_files().remove(source.name, &file)?;
        lock(&self.seen).unsettle();
        Ok(Some(source))
    }

    /// The log that the import of a listed conversation would write; none if it is not listed.
    pub fn read(
        &self,
        catalog: &Catalog,
        id: &SessionId,
    ) -> Result<Option<LogReader>, ImportError> {
        match self.find(catalog, id)? {
            Some((source, found)) => log(source, &found, &self.places.home),
            None => Ok(None),
        }
    }

    /// The log of a session with what its tool has written since it was continued here behind it; the
    /// log alone if there is nothing, or if the tool's file cannot be read. From its beginning. `title` is
    /// the name for people of an agent with this name.
    pub fn with_branch(
        &self,
        catalog: &Catalog,
        mut log: LogReader,
        title: fn(&str) -> &str,
    ) -> Result<LogReader, ImportError> {
        let Some((source, found)) = self.find(catalog, log.id())? else {
            return Ok(log);
        };
        let conversation = match source.read(&found) {
            Ok(conversation) => conversation,
            Err(error) => {
                let path = found.path.display();
                tracing::debug!(%path, %error, "cannot read what a tool has written");
                return Ok(log);
            }
        };
        match TurnsSince::find(&mut log, &conversation)? {
            Some(since) => {
                let names = (source.name, title(source.agent));
                Ok(since.behind(log, &conversation, names)?)
            }
            None => Ok(log),
        }
    }

    /// Creates the session `id` with the conversation of another session as its tool has it now: the
    /// agent that goes on with it gets it as a briefing. False if no tool that is listed has it.
    pub fn fork_branch(
        &self,
        store: &Store,
        catalog: &Catalog,
        of: &SessionId,
        id: &SessionId,
    ) -> Result<bool, ImportError> {
        let Some((source, found)) = self.find(catalog, of)? else {
            return Ok(false);
        };
        let conversation = source.read(&found)?;
        fork(
            store,
            source.agent,
            &conversation,
            &self.places.home,
            (of, id),
        )
    }

    /// Whether any of the tools was used here.
    pub fn are_there(&self) -> bool {
        let mut roots = self
            .sources
            .iter()
            .flat_map(|source| (source.roots)(&self.places));
        roots.any(|root| root.is_dir())
    }

    fn source(&self, tool: &str) -> Option<&'static Source> {
        let mut sources = self.sources.iter();
        sources.find(|source| source.name == tool).copied()
    }

    fn found_in(&self, source: &Source, file: &FileOfTool) -> FoundConversation {
        let path = PathBuf::from(&file.path);
        let mut roots = (source.roots)(&self.places);
        // A database may be elsewhere, as its list says.
        let root = roots.iter().position(|root| path.starts_with(root));
        FoundConversation {
            root: roots.swap_remove(root.unwrap_or(0)),
            path,
            key: Some(file.part.clone()).filter(|part| !part.is_empty()),
            modified: Timestamp::from_millis(file.changed),
            size: file.size,
        }
    }
}

impl ToolTexts for LiveSources {
    fn names(&self) -> Vec<String> {
        let names = self.sources.iter().map(|source| source.name.to_owned());
        names.collect()
    }

    fn text(&self, tool: &str, file: &FileOfTool, sought: Option<&str>) -> Option<Vec<Passage>> {
        let source = self.source(tool)?;
        let found = self.found_in(source, file);
        // Memory that is new costs as much as reading.
        let mut buffer = lock(&self.buffers).pop().unwrap_or_default();
        let read = source.read_if(&found, &SoughtWord::of(sought), &mut buffer);
        if buffer.capacity() <= LARGEST_BUFFER {
            lock(&self.buffers).push(buffer);
        }
        match read.ok()? {
            Some(conversation) => text(&conversation, true, usize::MAX).pop(),
            None => Some(Vec::new()),
        }
    }

    fn pins(&self, agents: &HashSet<&str>) -> Pins {
        let sources = self.sources.iter();
        let sources = sources.filter(|source| agents.contains(source.agent));
        let pins = sources.filter_map(|source| Some((source.agent, source.pins?(&self.places))));
        pins.filter(|(_, pins)| !pins.is_empty()).collect()
    }

    fn turns_since(&self, tool: &str, file: &FileOfTool, log: &mut LogReader) -> Option<u64> {
        let source = self.source(tool)?;
        let conversation = source.read(&self.found_in(source, file)).ok()?;
        let since = TurnsSince::find(log, &conversation).ok()?;
        Some(since.map_or(0, |since| since.count()))
    }
}

/// The text of a conversation, in pieces that end with a turn and have at least so many bytes.
pub(super) fn text(
    conversation: &ToolConversation,
    whole: bool,
    piece: usize,
) -> Vec<Vec<Passage>> {
    let text = if whole {
        SearchText::whole()
    } else {
        SearchText::default()
    };
    pieces(text, (0..).zip(&conversation.entries), whole, piece)
}

/// The text of records with their numbers, behind this one, in pieces.
pub(super) fn pieces<'a>(
    mut text: SearchText,
    entries: impl Iterator<Item = (u64, &'a NewRecord)>,
    whole: bool,
    piece: usize,
) -> Vec<Vec<Passage>> {
    let mut pieces = Vec::new();
    for (seq, entry) in entries {
        let record = Record {
            seq,
            at: &entry.at.to_string(),
            kind: entry.kind,
            id: entry.id.as_deref(),
            payload: &entry.payload,
            parts: None,
        };
        // The note in the place of a result is nothing that was said, and may be gone soon.
        if whole || !entry.is_missing_result() {
            text.record(seq, &record);
        }
        if entry.kind == Kind::End && text.len() >= piece {
            pieces.push(text.take());
        }
    }
    pieces.push(text.take());
    pieces
}

/// A file as the catalog knows it; none if its name is not text.
pub(super) fn as_file(found: &FoundConversation) -> Option<FileOfTool> {
    Some(FileOfTool {
        path: found.path.to_str()?.to_owned(),
        part: found.key.clone().unwrap_or_default(),
        size: found.size,
        changed: found.modified.as_millis(),
    })
}

/// The entry of a conversation; none if there is no prompt in it.
pub(super) fn summary(
    source: &Source,
    found: &FoundConversation,
    glance: &Glance,
    home: &Path,
) -> Option<Summary> {
    let conversation = &glance.conversation;
    let first = conversation.entries.first()?;
    let mut all = conversation.entries.iter();
    let last = all.rfind(|entry| entry.kind.is_activity())?;
    // Some records have no time.
    let or_changed = |at: Timestamp| match at.as_millis() {
        0 => found.modified,
        _ => at,
    };
    let mut summary = Summary {
        cwd: folder(conversation, home),
        known_as: Some(conversation.id.clone()),
        source: source.agent.to_owned(),
        created_at: or_changed(first.at).to_string(),
        tool: Some(source.name.to_owned()),
        branch: conversation.branch.clone(),
        ..Summary::default()
    };
    for entry in &conversation.entries {
        let at = or_changed(entry.at);
        summary.apply(entry.kind, entry.id.as_deref(), &at, &entry.payload);
    }
    summary.activity.model.clone_from(&conversation.model);
    let end = match &found.key {
        // Of a conversation in a database, only the beginning was read.
        Some(_) if !glance.is_whole => found.modified,
        _ => or_changed(last.at),
    };
    summary.set_active(&end.to_string());
    if !glance.is_whole {
        summary.prompts = 0;
        summary.activity.cost = None;
        let at = summary.updated_at.clone();
        summary.activity.last_prompt_at = at;
    }
    Some(summary)
}
