//! Brings the catalog up to date with the tools' files: finds those that are new, have changed or are
//! gone, and reads the beginning and the end of what has changed.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, DefaultHasher, Hash};
use std::io::Error;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use crate::index::{Catalog, Edition, FileOfTool, ListError, ReadFile, ToolFiles, read_all};
use crate::store::Store;
use crate::sys::{SessionId, Timestamp, in_parallel, lock};

use super::live::{LiveSources, as_file};
use super::{FoundConversation, Source};

/// How many files are read between two reports to the catalog.
const BATCH: usize = 512;

/// If more files than this have changed, their words are read later.
const INDEXED_AT_ONCE: usize = 64;

/// The files as they were when this process last looked at them: the catalog does not say which
/// changes other processes have reported.
#[derive(Debug, Default)]
pub(super) struct SeenFiles {
    /// Of each tool, by a number for the file's name.
    files: HashMap<&'static str, HashMap<u64, SeenFile>>,
    /// When all files were last looked at.
    looked_at: Option<Timestamp>,
    /// The catalog when it had all of these files as they are.
    settled: Option<Edition>,
}

/// A file that this process has looked at.
#[derive(Debug)]
struct SeenFile {
    /// A number for its size and time.
    state: u64,
    /// Its conversation.
    id: Option<SessionId>,
}

/// A file that was found.
#[derive(Debug)]
struct Present {
    source: &'static Source,
    found: FoundConversation,
    file: FileOfTool,
    /// Whether the catalog has it as it was before.
    was_reported: bool,
}

impl Present {
    /// A number for its name.
    fn name(&self) -> u64 {
        number((&self.file.path, &self.file.part))
    }

    /// A number for its size and time.
    fn state(&self) -> u64 {
        number((self.file.size, self.file.changed))
    }
}

/// A number for a value.
pub(super) fn number(value: impl Hash) -> u64 {
    std::hash::BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

impl SeenFiles {
    /// The catalog may no longer have what this process has reported.
    pub(super) fn unsettle(&mut self) {
        self.settled = None;
    }

    /// Whether these are the files of a tool as they were.
    fn has_all(&self, tool: &str, present: &[Present]) -> bool {
        let none = HashMap::new();
        let before = self.files.get(tool).unwrap_or(&none);
        let is_same = |file: &Present| {
            let seen = before.get(&file.name());
            seen.is_some_and(|seen| seen.state == file.state())
        };
        before.len() == present.len() && present.iter().all(is_same)
    }
}

impl LiveSources {
    /// Scans as [`scan`](Self::scan) does, unless that was done within this time: for searches,
    /// which follow each other as somebody types.
    pub fn scan_again_after(
        &self,
        time: Duration,
        store: &Store,
        catalog: &Catalog,
    ) -> Result<(), ListError> {
        let mut seen = lock(&self.seen);
        let now = store.sys().clock.now().as_millis();
        let is_recent = seen
            .looked_at
            .is_some_and(|at| u128::from(now.abs_diff(at.as_millis())) < time.as_millis());
        if is_recent {
            return Ok(());
        }
        self.look(store, catalog, &mut seen)
    }

    /// Looks for files that are new, have changed or are gone, and reports them to the catalog: those
    /// that changed last first.
    pub fn scan(&self, store: &Store, catalog: &Catalog) -> Result<(), ListError> {
        self.look(store, catalog, &mut lock(&self.seen))
    }

    fn look(
        &self,
        store: &Store,
        catalog: &Catalog,
        seen: &mut SeenFiles,
    ) -> Result<(), ListError> {
        let began = store.sys().clock.now();
        let searches = in_parallel(&self.sources, usize::MAX, |source| {
            source.search(&self.places)
        });
        // What changes while the files are compared is noticed next time.
        let edition = catalog.tool_files().edition()?;
        let is_settled = seen.settled.as_ref() == Some(&edition);
        seen.settled = None;
        let mut found = Vec::new();
        for (source, search) in self.sources.iter().zip(searches) {
            let present = search.found.into_iter().filter_map(|found| {
                let file = as_file(&found)?;
                Some(Present {
                    source,
                    found,
                    file,
                    was_reported: false,
                })
            });
            let present: Vec<_> = present.collect();
            if is_settled && search.errors.is_empty() && seen.has_all(source.name, &present) {
                continue;
            }
            found.push((*source, present, search.errors));
        }
        let known = known(catalog.tool_files(), &found)?;
        let (mut changed, mut gone) = (Vec::new(), Vec::new());
        for ((source, present, errors), known) in found.into_iter().zip(known) {
            let compared = compare(catalog.tool_files(), seen, source, present, known, &errors);
            changed.extend(compared.0);
            gone.push((source.name, compared.1));
        }
        let nothing_new = changed.is_empty() && gone.iter().all(|(_, gone)| gone.is_empty());
        changed.sort_by_key(|one| Reverse(one.found.modified));
        self.report(store, catalog, seen, &changed)?;
        let mut has_others = false;
        for (tool, gone) in gone {
            has_others |= catalog.tool_files().remove(tool, &gone)?;
        }
        if seen.looked_at.is_none() {
            // An earlier process may have ended before it had read them as a whole.
            self.uncounted.notify_one();
        }
        seen.looked_at = Some(began);
        // The next look sees whether what was reported has changed other entries.
        seen.settled = nothing_new.then_some(edition);
        if has_others {
            // What was moved may be read from its new place only now.
            return self.look(store, catalog, seen);
        }
        Ok(())
    }

    /// Reads files and reports them, one batch while the next one is read.
    fn report(
        &self,
        store: &Store,
        catalog: &Catalog,
        seen: &mut SeenFiles,
        changed: &[Present],
    ) -> Result<(), ListError> {
        let with_text = changed.len() <= INDEXED_AT_ONCE;
        let (send, batches) = sync_channel::<Vec<(&Present, ReadFile)>>(1);
        thread::scope(|scope| {
            let put = scope.spawn(move || {
                for batch in batches {
                    self.put(store, catalog, seen, batch)?;
                }
                Ok(())
            });
            for batch in changed.chunks(BATCH) {
                let read = read_all(batch, |one| {
                    let glance = one.source.glance(&one.found);
                    self.as_read(one.source, &one.found, &one.file, glance, with_text)
                });
                let read = batch.iter().zip(read);
                let read = read.filter_map(|(one, read)| Some((one, read?)));
                if send.send(read.collect()).is_err() {
                    break;
                }
            }
            drop(send);
            put.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn put(
        &self,
        store: &Store,
        catalog: &Catalog,
        seen: &mut SeenFiles,
        batch: Vec<(&Present, ReadFile)>,
    ) -> Result<(), ListError> {
        let mut of_tools = Vec::with_capacity(batch.len());
        let mut changed = HashSet::new();
        for (present, read) in batch {
            let id = read.conversation.as_ref().map(|(id, _)| id.clone());
            changed.extend(id.filter(|_| present.was_reported));
            let seen = seen.files.entry(present.source.name).or_default();
            if let Some(seen) = seen.get_mut(&present.name()) {
                seen.id = read.conversation.as_ref().map(|(id, _)| id.clone());
            }
            of_tools.push((present.source.name, read));
        }
        let mut with_log: BTreeSet<_> = catalog.tool_files().put(&of_tools)?.into_iter().collect();
        // The catalog may not have heard of a log yet.
        let is_logged = |id: &&SessionId| store.exists(id).unwrap_or(false);
        with_log.extend(changed.iter().filter(is_logged).cloned());
        for id in with_log {
            self.follow_logged(store, catalog, &id, changed.contains(&id));
        }
        if of_tools.iter().any(|(_, read)| !read.counted) {
            self.uncounted.notify_one();
        }
        Ok(())
    }
}

/// What the catalog has of the files of a tool.
struct KnownFiles {
    /// Of each file that was found, if the catalog has it: whether as it is, and its session.
    present: Vec<Option<(bool, Option<SessionId>)>>,
    /// The others, with their sessions.
    others: Vec<(FileOfTool, Option<SessionId>)>,
}

/// The files of a tool that were found, and what could not be looked into.
type FoundFiles = (&'static Source, Vec<Present>, Vec<(PathBuf, Error)>);

/// What the catalog has of the files of each of these tools.
fn known(files: &ToolFiles, found: &[FoundFiles]) -> Result<Vec<KnownFiles>, ListError> {
    let nothing = |(_, present, _): &FoundFiles| KnownFiles {
        present: vec![None; present.len()],
        others: Vec::new(),
    };
    let mut known: Vec<_> = found.iter().map(nothing).collect();
    if found.is_empty() {
        return Ok(known);
    }
    let names = found.iter().map(|(_, present, _)| {
        let names = present.iter().zip(0..);
        let names = names.map(|(one, at)| ((&*one.file.path, &*one.file.part), at));
        names.collect::<HashMap<_, usize>>()
    });
    let names: Vec<_> = names.collect();
    let tools: Vec<_> = found.iter().map(|(source, ..)| source.name).collect();
    let looked = files.known(|file| {
        let tool = tools.iter().position(|tool| *tool == file.tool)?;
        let at = names[tool].get(&(file.path, file.part)).copied();
        let here = at.map(|at| {
            let now = &found[tool].1[at].file;
            (at, (now.size, now.changed) == (file.size, file.changed))
        });
        Some((tool, here.ok_or_else(|| file.to_file()), file.session))
    })?;
    for (tool, here, session) in looked.into_iter().flatten() {
        match here {
            Ok((at, is_same)) => known[tool].present[at] = Some((is_same, session)),
            Err(file) => known[tool].others.push((file, session)),
        }
    }
    Ok(known)
}

/// Compares the files of a tool with what the catalog has of them, and with what was seen before:
/// those that the catalog does not have as they are, and those that are gone.
fn compare(
    files: &ToolFiles,
    seen: &mut SeenFiles,
    source: &'static Source,
    present: Vec<Present>,
    known: KnownFiles,
    errors: &[(PathBuf, Error)],
) -> (Vec<Present>, Vec<FileOfTool>) {
    let mut before = seen.files.remove(source.name).unwrap_or_default();
    let mut now = HashMap::with_capacity(present.len());
    let mut changed = Vec::new();
    for (mut one, known) in present.into_iter().zip(known.present) {
        let (name, state) = (one.name(), one.state());
        let was = before.remove(&name);
        let is_new = seen.looked_at.is_some() && was.as_ref().is_none_or(|was| was.state != state);
        let mut id = was.and_then(|was| was.id);
        match known {
            Some((true, reported)) => {
                // Another process was first.
                if let Some(reported) = reported.as_ref().filter(|_| is_new) {
                    files.heard_of(reported);
                }
                id = reported;
            }
            known => {
                one.was_reported = known.is_some();
                changed.push(one);
            }
        }
        now.insert(name, SeenFile { state, id });
    }
    // Another process has reported that these are gone.
    let known_ids: HashSet<_> = known
        .others
        .iter()
        .filter_map(|(_, id)| id.as_ref())
        .collect();
    let gone = before.values().filter_map(|was| was.id.as_ref());
    gone.filter(|id| !known_ids.contains(id))
        .for_each(|id| files.heard_of(id));
    seen.files.insert(source.name, now);
    for (path, error) in errors {
        let path = path.display();
        tracing::debug!(%path, %error, "cannot look for conversations");
    }
    // What cannot be looked into may have all that it had.
    let is_hidden = |file: &FileOfTool| {
        let path = Path::new(&file.path);
        errors.iter().any(|(folder, _)| path.starts_with(folder))
    };
    let others = known.others.into_iter().map(|(file, _)| file);
    (changed, others.filter(|file| !is_hidden(file)).collect())
}
