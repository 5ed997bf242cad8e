//! Conversations that other tools keep in files of their own, read as records of our log.
//!
//! A source is read-only. It finds the conversations of one tool and turns each of them into the
//! records that a session of ours would have had. [`SOURCES`] is the table of them; a new one is one
//! more file or folder, and one more row there.

mod aider;
mod amp;
mod antigravity;
mod blocks;
mod branch;
mod chat;
mod chosen;
mod claude_code;
mod cline;
mod cline_tasks;
mod codex;
mod content;
mod conversation;
mod copilot;
mod crush;
mod cursor;
mod damage;
mod database;
mod deletion;
mod droid;
mod file;
mod gemini;
mod preview;
mod goose;
mod grok;
mod grown;
#[cfg(test)]
mod grown_tests;
mod hermes;
pub mod import;
mod kimi;
mod kimi_cli;
mod kiro;
mod lines;
mod live;
mod opencode;
mod openhands;
mod pi;
mod prompts;
mod qwen;
mod raw;
mod scan;
mod since;
mod usage;
mod vibe;
mod vscode;
mod zed;
mod sought;
pub mod stream;
mod subagents;
mod table;
mod tool;
mod unknown;
mod updates;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::sys::Timestamp;

pub use chosen::ChosenFiles;
pub use conversation::{NewRecord, ToolConversation, UNNAMED};
pub use damage::{DamageKind, DamagedPlace};
use deletion::ToolDeletion;
pub use deletion::{DueConversation, soon_deleted};
use file::{bytes, has_any, json_file, no_file, open, read_into};
use grown::RecordLinks;
pub use live::LiveSources;
pub use preview::LARGEST;
use prompts::PromptHistory;
pub use prompts::gone;
pub use raw::FilePart;
use sought::SoughtWord;
use subagents::SourceSubagent;
pub use table::SOURCES;
pub use unknown::UnknownKinds;

/// A tool whose conversations can be read.
#[derive(Debug)]
pub struct Source {
    /// The name on the command line.
    pub name: &'static str,
    /// The name of the tool's ACP agent, as the log has it. A wrap of that agent opens an imported
    /// conversation by the tool's own id.
    pub agent: &'static str,
    /// The variables of the environment that name the tool's folders.
    pub variables: &'static [&'static str],
    /// The folders with the conversations: one, or several if several programs have the tool.
    pub roots: fn(&ToolFolders) -> Vec<PathBuf>,
    reader: SourceReader,
    /// How the tool deletes conversations; none if it is not known to do so unless it is asked to.
    deletion: Option<ToolDeletion>,
    /// The tool's history of the user's prompts, if it keeps one beside the conversations.
    prompts: Option<PromptHistory>,
    /// The tool's ids of the conversations that the user has pinned; none if it has no pins.
    pins: Option<fn(&ToolFolders) -> HashSet<String>>,
}

/// How a tool keeps its conversations.
#[derive(Debug)]
enum SourceReader {
    /// A file for each conversation.
    Files(FileReader),
    /// A database with all of them, or several.
    Database {
        find: fn(&Path, &mut FoundConversations),
        /// Reads a conversation up to this number of messages, or all of it if that is negative.
        read: fn(&FoundConversation, i64) -> io::Result<ToolConversation>,
    },
}

/// Reads the conversations of a tool that has a file for each.
#[derive(Debug)]
struct FileReader {
    /// Whether a file below the folder is a conversation: its path from there.
    is_conversation: fn(&Path) -> bool,
    /// The path of the file with the state of a conversation, such as its title, if the file at
    /// this path has none of it.
    state: fn(&Path) -> Option<PathBuf>,
    /// Reads a conversation from a file's bytes, and its subagents, which may have files of their
    /// own, if they are wanted.
    read: fn(&FoundConversation, &[u8], Wanted<'_>) -> ToolConversation,
    /// The other files that have words of the conversation, if the file has one of the `marks`
    /// or not; none if words are put together from parts, so that they cannot be looked for in
    /// files.
    others: fn(&FoundConversation, &[u8], bool) -> Option<Vec<PathBuf>>,
    /// See `others`.
    marks: &'static [&'static str],
    /// How many folders deep below the tool's folder its conversations are, at most.
    depth: usize,
    /// Leaves out the files that others have taken the place of.
    choose: fn(&mut Vec<FoundConversation>),
    /// How records follow from each other, if the tool only appends them, so that a file that has
    /// grown can be read from there.
    links: Option<RecordLinks>,
}

impl FileReader {
    /// A reader of files that have all of a conversation, with its words as they are.
    const fn new(
        is_conversation: fn(&Path) -> bool,
        read: fn(&FoundConversation, &[u8], Wanted<'_>) -> ToolConversation,
    ) -> Self {
        Self {
            is_conversation,
            state: |_| None,
            read,
            others: |_, _, _| Some(Vec::new()),
            marks: &[],
            depth: DEPTH,
            choose: |_| {},
            links: None,
        }
    }

    /// Reads a conversation with its subagents from all bytes of its file.
    fn whole(&self, found: &FoundConversation, bytes: &[u8]) -> ToolConversation {
        let mut subagents = Vec::new();
        let mut conversation = (self.read)(found, bytes, Some(&mut subagents));
        subagents::merge(&mut conversation, subagents);
        conversation
    }
}

/// Where subagents are put, if they are wanted.
type Wanted<'a> = Option<&'a mut Vec<SourceSubagent>>;

/// The names of editors that are made from Visual Studio Code.
const EDITORS: [&str; 6] = [
    "Code",
    "Code - Insiders",
    "VSCodium",
    "Cursor",
    "Windsurf",
    "Kiro",
];

/// Their folders on machines that they work on from afar.
const SERVERS: [&str; 4] = [
    ".vscode-server",
    ".vscode-server-insiders",
    ".cursor-server",
    ".windsurf-server",
];

/// The variables by which [`ToolFolders::settings`] is found.
const SETTINGS: &[&str] = &["XDG_CONFIG_HOME", "APPDATA"];

/// Where tools keep their files.
#[derive(Clone, Debug, Default)]
pub struct ToolFolders {
    /// The user's home folder.
    pub home: PathBuf,
    /// The folders that environment variables name.
    pub variables: BTreeMap<&'static str, PathBuf>,
    /// The folder above the settings that are for every user of the machine; none if those are not
    /// looked at.
    pub system: Option<PathBuf>,
}

impl ToolFolders {
    /// The variables that name the tools' folders, each once.
    pub fn names() -> BTreeSet<&'static str> {
        let all = SOURCES.iter().flat_map(|source| source.variables);
        all.copied().collect()
    }

    /// The folder that a variable names, else one in the home folder.
    fn folder(&self, variable: &str, in_home: &str) -> PathBuf {
        let named = self.variables.get(variable).cloned();
        named.unwrap_or_else(|| self.home.join(in_home))
    }

    /// The folder in which programs keep their settings.
    fn settings(&self) -> PathBuf {
        if cfg!(target_os = "macos") {
            self.home.join("Library/Application Support")
        } else if cfg!(windows) {
            self.folder("APPDATA", "AppData/Roaming")
        } else {
            self.folder("XDG_CONFIG_HOME", ".config")
        }
    }

    /// A path in the folder with the settings that are for every user of the machine, which has these
    /// names on Linux, macOS and Windows.
    fn of_system(&self, [linux, macos, windows]: [&str; 3], path: &str) -> Option<PathBuf> {
        let folder = if cfg!(target_os = "macos") {
            macos
        } else if cfg!(windows) {
            windows
        } else {
            linux
        };
        Some(self.system.as_ref()?.join(folder).join(path))
    }

    /// The `User` folders of the editors that are made from Visual Studio Code, and of their parts on
    /// machines that they work on from afar. Extensions have their files in them.
    fn editors(&self) -> Vec<PathBuf> {
        let settings = self.settings();
        let here = EDITORS.iter().map(|name| settings.join(name));
        let afar = SERVERS.iter().map(|name| self.home.join(name).join("data"));
        here.chain(afar).map(|folder| folder.join("User")).collect()
    }
}

/// A conversation, as far as it is known before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundConversation {
    /// The source's folder.
    pub root: PathBuf,
    /// The file.
    pub path: PathBuf,
    /// Which one it is, in a file with several.
    pub key: Option<String>,
    /// When it was last changed.
    pub modified: Timestamp,
    /// The size of the file in bytes; 0 in a file with several.
    pub size: u64,
}

/// The files of a source.
#[derive(Debug, Default)]
pub struct FoundConversations {
    /// The conversations.
    pub found: Vec<FoundConversation>,
    /// The paths that could not be read.
    pub errors: Vec<(PathBuf, io::Error)>,
}

/// The names in a path below a source's folder; those that are not UTF-8 are left out.
fn parts(path: &Path) -> Vec<&str> {
    path.iter().filter_map(|name| name.to_str()).collect()
}

/// Whether a file has one of these extensions.
fn has_extension(name: impl AsRef<Path>, extensions: &[&str]) -> bool {
    let extension = name.as_ref().extension();
    extension.is_some_and(|extension| extensions.iter().any(|known| extension == *known))
}

/// Folders below a source's are not looked into deeper than this if it does not say how deep. No tool
/// nests that far; a loop of links would.
const DEPTH: usize = 8;

impl Source {
    /// The first of the tool's folders that is there; the first one if none is.
    pub fn folder(&self, places: &ToolFolders) -> PathBuf {
        let mut roots = (self.roots)(places);
        let there = roots.iter().position(|root| root.is_dir());
        roots.swap_remove(there.unwrap_or(0))
    }

    /// The conversations of the tool, the one that changed last first. There are none if it has no
    /// folder.
    pub fn find(&self, places: &ToolFolders) -> FoundConversations {
        let mut search = self.search(places);
        let newest_first = |a: &FoundConversation, b: &FoundConversation| {
            let by_time = b.modified.cmp(&a.modified);
            by_time.then_with(|| a.path.cmp(&b.path))
        };
        search.found.sort_by(newest_first);
        search
    }

    /// The conversations of the tool, in any order.
    fn search(&self, places: &ToolFolders) -> FoundConversations {
        let mut search = FoundConversations::default();
        for root in (self.roots)(places) {
            match &self.reader {
                SourceReader::Files(reader) => FolderSearch {
                    root: &root,
                    reader,
                    search: &mut search,
                }
                .look_into(Path::new(""), reader.depth),
                SourceReader::Database { find, .. } => find(&root, &mut search),
            }
        }
        if let SourceReader::Files(reader) = &self.reader {
            (reader.choose)(&mut search.found);
        }
        search
    }

    /// When the file of a conversation was changed last, as it is now; of one in a database, as it was
    /// found.
    fn changed(&self, found: &FoundConversation) -> io::Result<Timestamp> {
        match &self.reader {
            SourceReader::Files(reader) => {
                let file = fs::metadata(&found.path)?;
                Ok(last_change(file.modified()?, (reader.state)(&found.path)))
            }
            SourceReader::Database { .. } if found.key.is_none() => {
                let file = fs::metadata(&found.path)?;
                Ok(Timestamp::of_system(file.modified()?))
            }
            SourceReader::Database { .. } => Ok(found.modified),
        }
    }

    /// Reads a conversation, which is empty if the file does not have one. A file that is damaged is
    /// read as far as possible.
    pub fn read(&self, found: &FoundConversation) -> io::Result<ToolConversation> {
        let read = self.read_if(found, &SoughtWord::default(), &mut Vec::new())?;
        Ok(read.unwrap_or_default())
    }

    /// The same; nothing if none of the files with words of the conversation may have what is sought.
    /// The file is read into `buffer`.
    fn read_if(
        &self,
        found: &FoundConversation,
        sought: &SoughtWord<'_>,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Option<ToolConversation>> {
        let reader = match &self.reader {
            SourceReader::Files(reader) => reader,
            SourceReader::Database { read, .. } => return read(found, -1).map(Some),
        };
        let (mut may, mut is_marked) = (false, false);
        let bytes = read_into(&found.path, buffer, &mut |lines| {
            may = may || sought.may_be_in(lines);
            is_marked = is_marked || !may && has_any(lines, reader.marks);
        })?;
        if !may
            && let Some(others) = (reader.others)(found, bytes, is_marked)
            && !others
                .iter()
                .any(|path| self::bytes(path).is_ok_and(|bytes| sought.may_be_in(&bytes)))
        {
            return Ok(None);
        }
        Ok(Some(reader.whole(found, bytes)))
    }
}

/// When a file or the one with its state was changed last.
fn last_change(file: SystemTime, state: Option<PathBuf>) -> Timestamp {
    let state = state.and_then(|state| fs::metadata(state).ok()?.modified().ok());
    Timestamp::of_system(state.map_or(file, |state| state.max(file)))
}

/// A source's folder while conversations are looked for in it.
struct FolderSearch<'a> {
    root: &'a Path,
    reader: &'a FileReader,
    search: &'a mut FoundConversations,
}

impl FolderSearch<'_> {
    /// Looks for conversations in a folder and those in it; `inside` is its path from the source's.
    fn look_into(&mut self, inside: &Path, depth: usize) {
        let folder = self.root.join(inside);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.search.errors.push((folder, error)),
        };
        for entry in entries {
            let (path, error) = match entry {
                Ok(entry) => match self.look_at(inside, &entry, depth) {
                    Ok(()) => continue,
                    Err(error) => (entry.path(), error),
                },
                Err(error) => (folder.clone(), error),
            };
            if error.kind() != io::ErrorKind::NotFound {
                self.search.errors.push((path, error));
            }
        }
    }

    fn look_at(&mut self, inside: &Path, entry: &DirEntry, depth: usize) -> io::Result<()> {
        let inside = joined(inside, entry.file_name());
        // A link to a folder may lead to one above.
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if depth > 0 {
                self.look_into(&inside, depth - 1);
            }
            return Ok(());
        }
        if !(self.reader.is_conversation)(&inside) {
            return Ok(());
        }
        // Without looking up its path, unless it is a link.
        let file = if kind.is_symlink() {
            match fs::metadata(entry.path()) {
                // A link may lead nowhere, or to itself.
                Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Ok(()),
                file => file?,
            }
        } else {
            entry.metadata()?
        };
        // Reading a pipe would wait, and reading a device never end.
        if file.is_file() {
            let path = joined(self.root, &inside);
            let modified = last_change(file.modified()?, (self.reader.state)(&path));
            self.search.found.push(FoundConversation {
                root: self.root.to_owned(),
                path,
                key: None,
                modified,
                size: file.len(),
            });
        }
        Ok(())
    }
}

/// A path in a folder, made at once in the memory that it needs: lists do this for each file.
fn joined(folder: &Path, inside: impl AsRef<Path>) -> PathBuf {
    let inside = inside.as_ref();
    let len = folder.as_os_str().len() + 1 + inside.as_os_str().len();
    let mut path = PathBuf::with_capacity(len);
    path.extend([folder, inside]);
    path
}
