//! Conversations that other tools keep in files of their own, read as records of our log.
//!
//! A source is read-only. It finds the conversations of one tool and turns each of them into the
//! records that a session of ours would have had. [`SOURCES`] is the table of them; a new one is one
//! more folder and one more line there.

mod claude_code;
mod codex;
mod content;
mod conversation;
mod gemini;
pub mod import;
mod lines;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::sys::Timestamp;

pub use conversation::{Conversation, Entry};

/// A tool whose conversations can be read.
#[derive(Debug)]
pub struct Source {
    /// The name on the command line.
    pub name: &'static str,
    /// The name of the tool's ACP agent, as the log has it. A wrap of that agent opens an imported
    /// conversation by the tool's own id.
    pub agent: &'static str,
    /// The folder with the conversations.
    pub root: fn(&Places) -> PathBuf,
    /// Whether a file below the folder is a conversation: its path from there.
    is_conversation: fn(&Path) -> bool,
    /// Reads a conversation from a file's bytes. `None` if the file does not have one.
    read: fn(&Found, &[u8]) -> Option<Conversation>,
}

/// All of them.
pub static SOURCES: [Source; 3] = [
    Source {
        name: "claude-code",
        agent: "claude-agent-acp",
        root: claude_code::root,
        is_conversation: claude_code::is_conversation,
        read: claude_code::read,
    },
    Source {
        name: "codex",
        agent: "codex-acp",
        root: codex::root,
        is_conversation: codex::is_conversation,
        read: codex::read,
    },
    Source {
        name: "gemini",
        agent: "gemini",
        root: gemini::root,
        is_conversation: gemini::is_conversation,
        read: gemini::read,
    },
];

/// Where tools keep their files.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The user's home folder.
    pub home: PathBuf,
    /// The folders that environment variables name.
    pub variables: BTreeMap<&'static str, PathBuf>,
}

impl Places {
    /// The variables that name a tool's folder.
    pub const VARIABLES: [&'static str; 2] = ["CLAUDE_CONFIG_DIR", "CODEX_HOME"];

    /// The folder that a variable names, else one in the home folder.
    fn folder(&self, variable: &str, in_home: &str) -> PathBuf {
        let named = self.variables.get(variable).cloned();
        named.unwrap_or_else(|| self.home.join(in_home))
    }
}

/// A file with a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The source's folder.
    pub root: PathBuf,
    /// The file.
    pub path: PathBuf,
    /// When it was last changed.
    pub modified: Timestamp,
}

/// What a source has.
#[derive(Debug, Default)]
pub struct Search {
    /// The conversations, the one that changed last first.
    pub found: Vec<Found>,
    /// What could not be read.
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

/// The largest file that is read, in bytes.
const LARGEST: u64 = 4 << 30;

impl Source {
    /// The conversations of the tool. There are none if it has no folder.
    pub fn find(&self, places: &Places) -> Search {
        let root = (self.root)(places);
        let mut search = Search::default();
        self.look_into(&root, &root, DEPTH, &mut search);
        let newest_first = |found: &Found| (std::cmp::Reverse(found.modified), found.path.clone());
        search.found.sort_by_cached_key(newest_first);
        search
    }

    fn look_into(&self, root: &Path, folder: &Path, depth: usize, search: &mut Search) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return search.errors.push((folder.to_owned(), error)),
        };
        for entry in entries {
            let looked_at = entry.and_then(|entry| {
                let path = entry.path();
                // A link to a folder may lead to one above.
                if entry.file_type()?.is_dir() {
                    if depth > 0 {
                        self.look_into(root, &path, depth - 1, search);
                    }
                    return Ok(());
                }
                let inside = path.strip_prefix(root).unwrap_or(&path);
                if (self.is_conversation)(inside) {
                    let modified = Timestamp::of_system(fs::metadata(&path)?.modified()?);
                    let root = root.to_owned();
                    search.found.push(Found {
                        root,
                        path,
                        modified,
                    });
                }
                Ok(())
            });
            if let Err(error) = looked_at
                && error.kind() != io::ErrorKind::NotFound
            {
                search.errors.push((folder.to_owned(), error));
            }
        }
    }

    /// Reads a conversation. `None` if the file has none, such as one that was begun and never
    /// prompted. A file that is damaged is read as far as possible.
    pub fn read(&self, found: &Found) -> io::Result<Option<Conversation>> {
        let bytes = fs::metadata(&found.path)?.len();
        if bytes > LARGEST {
            let message = format!("the file has {bytes} bytes, and at most {LARGEST} are read");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        let bytes = fs::read(&found.path)?;
        Ok((self.read)(found, &bytes))
    }
}
