//! Which file a conversation is read from, where several have it: a tool may leave one in an older form, a
//! compressed one, or one in the folder that a project had before.
//!
//! What counts is the file in which something was said last; of those that are equal in that, the longest;
//! then the one whose name comes last. The catalog has the same order of the files that it lists
//! (`index/sqlite/tool_files.rs`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::index::read_all;
use crate::sys::{SessionId, Timestamp};

use super::import::session_id;
use super::live::summary;
use super::{FoundConversation, Source};

/// The files that were looked at, and the conversations that they have. A file is looked at again when it
/// has changed.
#[derive(Debug, Default)]
pub struct ChosenFiles {
    known: HashMap<(PathBuf, Option<String>), KnownFile>,
}

#[derive(Debug)]
struct KnownFile {
    modified: Timestamp,
    size: u64,
    id: Option<SessionId>,
    /// When something was said last; none as long as no other file has the conversation.
    ends: Option<String>,
}

impl ChosenFiles {
    /// Leaves out of the files of a source those whose conversations are read from other ones, and returns
    /// how many these are.
    pub fn choose(&mut self, source: &Source, found: &mut Vec<FoundConversation>) -> usize {
        if found.len() < 2 {
            return 0;
        }
        self.look_at(source, found);
        let mut files: HashMap<&SessionId, Vec<usize>> = HashMap::new();
        for (at, found) in found.iter().enumerate() {
            if let Some(id) = &self.known[&name(found)].id {
                files.entry(id).or_default().push(at);
            }
        }
        let several = files.into_values().filter(|files| files.len() > 1);
        let several: Vec<Vec<usize>> = several.collect();
        for found in several.iter().flatten().map(|at| &found[*at]) {
            if let Some(known) = self.known.get_mut(&name(found))
                && known.ends.is_none()
            {
                known.ends = ends(source, found);
            }
        }
        let mut is_left_out = vec![false; found.len()];
        for files in several {
            let rank = |at: &usize| {
                let found = &found[*at];
                let ends = &self.known[&name(found)].ends;
                (ends, found.size, &found.path, &found.key)
            };
            let chosen = files.iter().copied().max_by_key(rank);
            for at in files {
                is_left_out[at] = Some(at) != chosen;
            }
        }
        let mut left_out = is_left_out.iter();
        found.retain(|_| left_out.next() != Some(&true));
        is_left_out.iter().filter(|out| **out).count()
    }

    /// Looks at the files that are new or have changed.
    fn look_at(&mut self, source: &Source, found: &[FoundConversation]) {
        let is_new = |found: &&FoundConversation| {
            let known = self.known.get(&name(found));
            known.is_none_or(|known| (known.modified, known.size) != (found.modified, found.size))
        };
        let new: Vec<_> = found.iter().filter(is_new).collect();
        let ids = read_all(&new, |found| {
            let glance = source.glance(found).ok()?;
            session_id(source.agent, &glance.conversation)
        });
        for (found, id) in new.into_iter().zip(ids) {
            let known = KnownFile {
                modified: found.modified,
                size: found.size,
                id,
                ends: None,
            };
            self.known.insert(name(found), known);
        }
    }
}

/// When something was said last in the conversation in a file.
fn ends(source: &Source, found: &FoundConversation) -> Option<String> {
    let read = source.read_if_small(found, &mut Vec::new());
    let read = read.or_else(|_| source.glance(found)).ok()?;
    summary(source, found, &read, Path::new("/"))?.updated_at
}

/// The name of a file, and of the part of it that a conversation is.
fn name(found: &FoundConversation) -> (PathBuf, Option<String>) {
    (found.path.clone(), found.key.clone())
}
