//! The conversations that tools keep, as entries of the catalog, brought up to date with the files.
//!
//! The first look at a file reads its beginning and its end, which is enough for an entry. What can
//! only be counted, such as prompts, is read later, while nothing else is done.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tokio::sync::Notify;

use crate::index::{Catalog, FileOfTool, ListError, ReadFile, Summary, read_all};
use crate::sys::{SessionId, Timestamp, lock};

use super::glance::{Glance, LARGEST};
use super::import::{folder, session_id};
use super::{Found, Places, Search, Source};

/// How many files are read between two reports to the catalog.
const BATCH: usize = 512;

/// How many files of a source are read as a whole in one step.
const COUNTED: u32 = 8;

/// The sources that are listed beside the sessions of a store.
#[derive(Debug)]
pub struct LiveSources {
    sources: Vec<&'static Source>,
    places: Places,
    /// Held while the files are looked at.
    scanning: Mutex<()>,
    /// Notified when there are files that were not read as a whole.
    uncounted: Notify,
}

impl LiveSources {
    /// These sources, in these places. Reads nothing yet.
    pub fn new(sources: Vec<&'static Source>, places: Places) -> Self {
        Self {
            sources,
            places,
            scanning: Mutex::default(),
            uncounted: Notify::new(),
        }
    }

    /// The names of the sources, for the catalog.
    pub fn names(&self) -> Vec<String> {
        let names = self.sources.iter().map(|source| source.name.to_owned());
        names.collect()
    }

    /// Looks for files that are new, have changed or are gone, and reports them to the catalog.
    pub fn scan(&self, catalog: &Catalog) -> Result<(), ListError> {
        let _scanning = lock(&self.scanning);
        for source in &self.sources {
            self.scan_source(source, catalog)?;
        }
        Ok(())
    }

    fn scan_source(&self, source: &Source, catalog: &Catalog) -> Result<(), ListError> {
        let Search { found, errors } = source.find(&self.places);
        let known = catalog.files(source.name)?.into_iter();
        let mut known: HashMap<_, _> = known
            .map(|(file, _)| ((file.path.clone(), file.part.clone()), file))
            .collect();
        let changed = found.into_iter().filter_map(|found| {
            let file = as_file(&found)?;
            let before = known.remove(&(file.path.clone(), file.part.clone()));
            (before.as_ref() != Some(&file)).then_some((found, file))
        });
        let changed: Vec<_> = changed.collect();
        for batch in changed.chunks(BATCH) {
            let read = read_all(batch, |(found, file)| {
                let glance = source.glance(found);
                self.as_read(source, found, file, glance)
            });
            let read: Vec<_> = read.into_iter().flatten().collect();
            catalog.put_files(source.name, &read)?;
            if read.iter().any(|read| !read.counted) {
                self.uncounted.notify_one();
            }
        }
        for (path, error) in &errors {
            tracing::debug!(path = %path.display(), %error, "cannot look for conversations");
        }
        // What cannot be looked into may have all that it had.
        let is_hidden = |file: &FileOfTool| {
            let path = Path::new(&file.path);
            errors.iter().any(|(folder, _)| path.starts_with(folder))
        };
        let gone: Vec<_> = known
            .into_values()
            .filter(|file| !is_hidden(file))
            .collect();
        catalog.remove_files(source.name, &gone)
    }

    /// What is reported of a file; nothing if it could not be read.
    fn as_read(
        &self,
        source: &Source,
        found: &Found,
        file: &FileOfTool,
        read: std::io::Result<Glance>,
    ) -> Option<ReadFile> {
        let glance = match read {
            Ok(glance) => Some(glance),
            Err(error) => {
                let path = found.path.display();
                tracing::debug!(%path, %error, "cannot list a conversation");
                // One that is too long stays so.
                let is_long = error.kind() == std::io::ErrorKind::FileTooLarge;
                return is_long.then(|| ReadFile {
                    file: file.clone(),
                    conversation: None,
                    counted: true,
                });
            }
        };
        let conversation = glance.as_ref().and_then(|glance| {
            let id = session_id(source, &glance.conversation)?;
            let summary = summary(source, found, glance, &self.places.home)?;
            Some((id, summary))
        });
        Some(ReadFile {
            file: file.clone(),
            conversation,
            counted: glance.is_none_or(|glance| glance.is_whole),
        })
    }

    /// Resolves when there are files that were not read as a whole.
    pub async fn uncounted(&self) {
        self.uncounted.notified().await;
    }

    /// Reads some files as a whole, those that changed last first. Returns whether there were any.
    pub fn count_some(&self, catalog: &Catalog) -> Result<bool, ListError> {
        let mut any = false;
        for source in &self.sources {
            let files = catalog.uncounted(source.name, LARGEST, COUNTED)?;
            any |= !files.is_empty();
            for file in files {
                let found = self.found_in(source, &file);
                let read = source.read_if_small(&found);
                match self.as_read(source, &found, &file, read) {
                    Some(read) => catalog.put_files(source.name, &[read])?,
                    // The next scan looks for it again.
                    None => catalog.remove_files(source.name, &[file])?,
                }
            }
        }
        Ok(any)
    }

    /// The source and the file of a listed conversation.
    pub fn find(
        &self,
        catalog: &Catalog,
        id: &SessionId,
    ) -> Result<Option<(&'static Source, Found)>, ListError> {
        let Some((tool, file)) = catalog.file_of(id)? else {
            return Ok(None);
        };
        let source = self.sources.iter().find(|source| source.name == tool);
        Ok(source.map(|source| (*source, self.found_in(source, &file))))
    }

    fn found_in(&self, source: &Source, file: &FileOfTool) -> Found {
        Found {
            root: (source.root)(&self.places),
            path: PathBuf::from(&file.path),
            key: Some(file.part.clone()).filter(|part| !part.is_empty()),
            modified: Timestamp::from_millis(file.changed),
            size: file.size,
        }
    }
}

/// A file as the catalog knows it; none if its name is not text.
fn as_file(found: &Found) -> Option<FileOfTool> {
    Some(FileOfTool {
        path: found.path.to_str()?.to_owned(),
        part: found.key.clone().unwrap_or_default(),
        size: found.size,
        changed: found.modified.as_millis(),
    })
}

/// The entry of a conversation; none if there is no prompt in it.
fn summary(source: &Source, found: &Found, glance: &Glance, home: &Path) -> Option<Summary> {
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
    // A database has the time of the last change.
    let end = match &found.key {
        Some(_) => found.modified,
        None => or_changed(last.at),
    };
    summary.set_active(&end.to_string());
    if !glance.is_whole {
        summary.prompts = 0;
        let at = summary.updated_at.clone();
        summary.activity.last_prompt_at = at;
    }
    Some(summary)
}
