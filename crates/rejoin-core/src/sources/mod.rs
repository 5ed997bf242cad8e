//! Conversations that other tools keep in files of their own, read as records of our log.
//!
//! A source is read-only. It finds the conversations of one tool and turns each of them into the
//! records that a session of ours would have had. [`SOURCES`] is the table of them; a new one is one
//! more file or folder, and one more entry there.

mod branch;
mod claude_code;
mod codex;
mod content;
mod conversation;
mod copilot;
mod damage;
mod database;
mod file;
mod gemini;
mod preview;
mod goose;
pub mod import;
mod kimi;
mod kimi_cli;
mod lines;
mod live;
mod opencode;
mod pi;
mod qwen;
mod raw;
mod scan;
mod usage;
mod sought;
mod subagents;
mod tool;
mod unknown;

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::sys::Timestamp;

pub use conversation::{NewRecord, ToolConversation, UNNAMED};
pub use damage::{DamageKind, DamagedPlace};
use file::{bytes, has_any, json_file, no_file, open, read_into};
pub use live::LiveSources;
pub use preview::LARGEST;
pub use raw::FilePart;
use sought::SoughtWord;
use subagents::SourceSubagent;
pub use unknown::UnknownKinds;

/// A tool whose conversations can be read.
#[derive(Debug)]
pub struct Source {
    /// The name on the command line.
    pub name: &'static str,
    /// The name of the tool's ACP agent, as the log has it. A wrap of that agent opens an imported
    /// conversation by the tool's own id.
    pub agent: &'static str,
    /// The folder with the conversations.
    pub root: fn(&ToolFolders) -> PathBuf,
    reader: SourceReader,
}

/// How a tool keeps its conversations.
#[derive(Debug)]
enum SourceReader {
    /// A file for each conversation.
    Files {
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
    },
    /// A database with all of them, or several.
    Database {
        find: fn(&Path, &mut FoundConversations),
        /// Reads a conversation up to this number of messages, or all of it if that is negative.
        read: fn(&FoundConversation, i64) -> io::Result<ToolConversation>,
    },
}

/// Where subagents are put, if they are wanted.
type Wanted<'a> = Option<&'a mut Vec<SourceSubagent>>;

/// All of them.
pub static SOURCES: [Source; 10] = [
    Source {
        name: "claude-code",
        agent: "claude-agent-acp",
        root: claude_code::root,
        reader: SourceReader::Files {
            is_conversation: claude_code::is_conversation,
            state: |_| None,
            read: claude_code::read,
            others: |found, bytes, is_marked| Some(claude_code::others(found, bytes, is_marked)),
            marks: &claude_code::MARKS,
        },
    },
    Source {
        name: "codex",
        agent: "codex-acp",
        root: codex::root,
        reader: SourceReader::Files {
            is_conversation: codex::is_conversation,
            state: |_| None,
            read: codex::read,
            others: codex::others,
            marks: &codex::MARKS,
        },
    },
    Source {
        name: "copilot",
        agent: "Copilot",
        root: copilot::root,
        reader: SourceReader::Files {
            is_conversation: copilot::is_conversation,
            state: |_| None,
            read: copilot::read,
            others: |_, _, _| Some(Vec::new()),
            marks: &[],
        },
    },
    Source {
        name: "gemini",
        agent: "gemini-cli",
        root: gemini::root,
        reader: SourceReader::Files {
            is_conversation: gemini::is_conversation,
            state: |_| None,
            read: gemini::read,
            others: gemini::others,
            marks: &gemini::MARKS,
        },
    },
    Source {
        name: "goose",
        agent: "goose",
        root: goose::root,
        reader: SourceReader::Database {
            find: goose::find,
            read: goose::read,
        },
    },
    Source {
        name: "kimi",
        agent: "Kimi Code CLI",
        root: kimi::root,
        reader: SourceReader::Files {
            is_conversation: kimi::is_conversation,
            state: kimi::state,
            read: kimi::read,
            // Words are put together from parts.
            others: |_, _, _| None,
            marks: &[],
        },
    },
    Source {
        name: "kimi-cli",
        agent: "Kimi Code CLI",
        root: kimi_cli::root,
        reader: SourceReader::Files {
            is_conversation: kimi_cli::is_conversation,
            state: kimi_cli::state,
            read: kimi_cli::read,
            // Words are put together from parts.
            others: |_, _, _| None,
            marks: &[],
        },
    },
    Source {
        name: "opencode",
        agent: "OpenCode",
        root: opencode::root,
        reader: SourceReader::Database {
            find: opencode::find,
            read: opencode::read,
        },
    },
    Source {
        name: "pi",
        agent: "pi-acp",
        root: pi::root,
        reader: SourceReader::Files {
            is_conversation: pi::is_conversation,
            state: |_| None,
            read: pi::read,
            others: |_, _, _| Some(Vec::new()),
            marks: &[],
        },
    },
    Source {
        name: "qwen",
        agent: "qwen-code",
        root: qwen::root,
        reader: SourceReader::Files {
            is_conversation: qwen::is_conversation,
            state: |_| None,
            read: qwen::read,
            others: qwen::others,
            marks: &[],
        },
    },
];

/// Where tools keep their files.
#[derive(Clone, Debug, Default)]
pub struct ToolFolders {
    /// The user's home folder.
    pub home: PathBuf,
    /// The folders that environment variables name.
    pub variables: BTreeMap<&'static str, PathBuf>,
}

impl ToolFolders {
    /// The variables that name a tool's folder.
    pub const VARIABLES: [&'static str; 12] = [
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "COPILOT_HOME",
        "GEMINI_CLI_HOME",
        "GOOSE_PATH_ROOT",
        "KIMI_CODE_HOME",
        "KIMI_SHARE_DIR",
        "OPENCODE_DB",
        "PI_CODING_AGENT_DIR",
        "QWEN_HOME",
        "QWEN_RUNTIME_DIR",
        "XDG_DATA_HOME",
    ];

    /// The folder that a variable names, else one in the home folder.
    fn folder(&self, variable: &str, in_home: &str) -> PathBuf {
        let named = self.variables.get(variable).cloned();
        named.unwrap_or_else(|| self.home.join(in_home))
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

/// Folders below a source's are not looked into deeper than this. No tool nests that far; a loop of
/// links would.
const DEPTH: usize = 8;

impl Source {
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
        let root = (self.root)(places);
        let mut search = FoundConversations::default();
        match &self.reader {
            SourceReader::Files {
                is_conversation,
                state,
                ..
            } => FolderSearch {
                root: &root,
                is_conversation: *is_conversation,
                state: *state,
                search: &mut search,
            }
            .look_into(Path::new(""), DEPTH),
            SourceReader::Database { find, .. } => find(&root, &mut search),
        }
        search
    }

    /// When the file of a conversation was changed last, as it is now; of one in a database, as it was
    /// found.
    fn changed(&self, found: &FoundConversation) -> io::Result<Timestamp> {
        match &self.reader {
            SourceReader::Files { state, .. } => {
                let file = fs::metadata(&found.path)?;
                Ok(last_change(file.modified()?, state(&found.path)))
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
        let (read, others, marks) = match &self.reader {
            SourceReader::Files {
                read,
                others,
                marks,
                ..
            } => (read, others, marks),
            SourceReader::Database { read, .. } => return read(found, -1).map(Some),
        };
        let (mut may, mut is_marked) = (false, false);
        let bytes = read_into(&found.path, buffer, &mut |lines| {
            may = may || sought.may_be_in(lines);
            is_marked = is_marked || !may && has_any(lines, marks);
        })?;
        if !may
            && let Some(others) = others(found, bytes, is_marked)
            && !others
                .iter()
                .any(|path| self::bytes(path).is_ok_and(|bytes| sought.may_be_in(&bytes)))
        {
            return Ok(None);
        }
        let mut subagents = Vec::new();
        let mut conversation = read(found, bytes, Some(&mut subagents));
        subagents::merge(&mut conversation, subagents);
        Ok(Some(conversation))
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
    is_conversation: fn(&Path) -> bool,
    state: fn(&Path) -> Option<PathBuf>,
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
            let looked_at = entry.and_then(|entry| self.look_at(inside, &entry, depth));
            if let Err(error) = looked_at
                && error.kind() != io::ErrorKind::NotFound
            {
                self.search.errors.push((folder.clone(), error));
            }
        }
    }

    fn look_at(&mut self, inside: &Path, entry: &DirEntry, depth: usize) -> io::Result<()> {
        let inside = inside.join(entry.file_name());
        // A link to a folder may lead to one above.
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if depth > 0 {
                self.look_into(&inside, depth - 1);
            }
            return Ok(());
        }
        if !(self.is_conversation)(&inside) {
            return Ok(());
        }
        // Without looking up its path, unless it is a link.
        let file = if kind.is_symlink() {
            fs::metadata(entry.path())?
        } else {
            entry.metadata()?
        };
        // Reading a pipe would wait, and reading a device never end.
        if file.is_file() {
            let path = self.root.join(&inside);
            let modified = last_change(file.modified()?, (self.state)(&path));
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
