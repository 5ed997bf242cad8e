//! `rejoin import --watch`: imports what changes, until it is interrupted.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::cli::exit::Failure;
use crate::cli::global::Global;
use crate::cli::logging::StandardError;
use crate::cli::serve::stop_signal;
use crate::cli::term::{Look, Output, masked_keys, note, printable};
use rejoin::index::Catalog;
use rejoin::sources::import::{ImportOutcome, Importer};
use rejoin::sources::{ChosenFiles, FoundConversation, Source, ToolFolders};
use rejoin::store::Store;
use rejoin::sys::{Clock, Sys, Timestamp, Watch, lock, watch_tree};

use super::{Args, import, lines_of};

/// How long a file must be left alone before it is read: a tool writes its answer in many pieces.
const QUIET: Duration = Duration::from_millis(500);
/// The longest time in which a tool that never stops writing is waited for.
const AT_MOST: Duration = Duration::from_secs(5);
/// The time between two looks at all files: some file systems report no changes.
const POLL: Duration = Duration::from_secs(30);
/// A file that was changed less than this before it was read may change again without another time.
const RESOLUTION: i64 = 1000;

/// Imports everything, and then what changes.
pub(super) fn run(
    global: &Global,
    args: &Args,
    store: Store,
    catalog: Catalog,
    places: ToolFolders,
    output: &mut Output,
) -> Result<(), Failure> {
    let follower = Follower {
        sources: args.chosen().collect(),
        redacts: args.redact,
        store,
        catalog,
        places,
        clock: Sys::real().clock,
        look: output.look().clone(),
        read: HashMap::new(),
        chosen: ChosenFiles::default(),
        noted: BTreeSet::new(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::cannot_start)?;
    runtime.block_on(async {
        let stop = stop_signal().map_err(Failure::cannot_start)?;
        tokio::pin!(stop);
        let (sender, mut said) = mpsc::channel(64);
        // Nothing waits for the thread: the store is sound whenever the process ends.
        std::thread::spawn(move || follower.run(&sender));
        loop {
            tokio::select! {
                () = &mut stop => return Ok(()),
                message = said.recv() => match message {
                    Some(FollowerMessage::Line(line)) => {
                        output.line(line)?;
                        output.flush()?;
                        if output.closed() {
                            return Ok(());
                        }
                    }
                    Some(FollowerMessage::Note(text)) => note(global, &text, None),
                    Some(FollowerMessage::Failure(failure)) => return Err(failure),
                    None => return Err(Failure::new("cannot follow changes any longer")),
                },
            }
        }
    })
}

/// A message of the follower.
enum FollowerMessage {
    /// For stdout.
    Line(String),
    /// For stderr.
    Note(String),
    /// The end.
    Failure(Failure),
}

/// Imports from sources as they change.
struct Follower {
    sources: Vec<&'static Source>,
    redacts: bool,
    store: Store,
    catalog: Catalog,
    places: ToolFolders,
    clock: Arc<dyn Clock>,
    look: Look,
    /// When the conversations that were read had been changed.
    read: HashMap<(PathBuf, Option<String>), Timestamp>,
    chosen: ChosenFiles,
    /// The errors that were reported.
    noted: BTreeSet<String>,
}

impl Follower {
    /// Runs until nobody listens any longer.
    fn run(mut self, said: &mpsc::Sender<FollowerMessage>) {
        let all: BTreeSet<usize> = (0..self.sources.len()).collect();
        let changes = ChangedSources::default();
        let mut watches: HashMap<PathBuf, Watch> = HashMap::new();
        let mut due = all.clone();
        let mut is_first = true;
        loop {
            // What changes from here on is noticed, or is read below.
            for (at, source) in self.sources.iter().enumerate() {
                for root in (source.roots)(&self.places) {
                    if !watches.contains_key(&root)
                        && let Some(watch) = changes.watch(at, &root)
                    {
                        watches.insert(root, watch);
                    }
                }
            }
            if let Err(end) = self.import(&due, is_first, said) {
                if let Some(failure) = end {
                    said.blocking_send(FollowerMessage::Failure(failure)).ok();
                }
                return;
            }
            if std::mem::take(&mut is_first) && StandardError::is_terminal() {
                let text = "waiting for changes; press Ctrl-C to end".to_owned();
                said.blocking_send(FollowerMessage::Note(text)).ok();
            }
            due = changes.wait().unwrap_or_else(|| all.clone());
        }
    }

    /// Imports what has changed in these sources. Fails without a failure if nobody listens.
    fn import(
        &mut self,
        due: &BTreeSet<usize>,
        is_first: bool,
        said: &mpsc::Sender<FollowerMessage>,
    ) -> Result<(), Option<Failure>> {
        let say = |message| said.blocking_send(message).map_err(|_| None);
        let importer = Importer::new(&self.store, &self.catalog, &self.places.home);
        let importer = importer.map_err(|error| Some(error.into()))?;
        let importer = importer.redacting(self.redacts);
        for source in due.iter().map(|at| self.sources[*at]) {
            let now = self.clock.now().as_millis();
            let mut search = source.find(&self.places);
            self.chosen.choose(source, &mut search.found);
            let key = |found: &FoundConversation| (found.path.clone(), found.key.clone());
            search
                .found
                .retain(|found| self.read.get(&key(found)) != Some(&found.modified));
            let (mut lines, mut read) = (Vec::new(), Vec::new());
            let tally = import(&importer, source, search, |found, outcome| {
                // A conversation that is in use, or cannot be read, is tried again.
                if found.modified.as_millis() + RESOLUTION < now {
                    read.push((key(found), found.modified));
                }
                let became = match outcome {
                    ImportOutcome::Imported => "imported",
                    ImportOutcome::Extended => "extended",
                    ImportOutcome::Renewed => "renewed",
                    _ => return,
                };
                let path = printable(&found.path.to_string_lossy());
                let key = found.key.as_deref().unwrap_or_default();
                let line = format!("{:<12} {became} {path} {}", source.name, printable(key));
                lines.push(line.trim_end().to_owned());
            });
            self.read.extend(read);
            for error in &tally.errors {
                if self.noted.insert(error.clone()) {
                    say(FollowerMessage::Note(error.clone()))?;
                }
            }
            if is_first {
                lines = lines_of(source, &tally, &self.places, &self.look);
            }
            for line in lines {
                say(FollowerMessage::Line(line))?;
            }
        }
        if let Some(masked) = importer.masked().filter(|masked| is_first || *masked > 0) {
            say(FollowerMessage::Note(masked_keys(masked)))?;
        }
        if let Err(error) = importer.erase_unmasked() {
            let why = format!("what is masked may be left in index.sqlite: {error}");
            say(FollowerMessage::Note(why))?;
        }
        Ok(())
    }
}

/// The sources in which something has changed.
struct ChangedSources {
    changed: Arc<Mutex<BTreeSet<usize>>>,
    sender: SyncSender<()>,
    receiver: Receiver<()>,
}

impl Default for ChangedSources {
    fn default() -> Self {
        let (sender, receiver) = sync_channel(1);
        Self {
            changed: Arc::default(),
            sender,
            receiver,
        }
    }
}

impl ChangedSources {
    /// Watches the folder of a source, if it is there and can be watched.
    fn watch(&self, source: usize, root: &std::path::Path) -> Option<Watch> {
        let (changed, sender) = (Arc::clone(&self.changed), self.sender.clone());
        let watched = watch_tree(root, move || {
            lock(&changed).insert(source);
            // If it is full, the receiver is about to look.
            sender.try_send(()).ok();
        });
        if let Err(error) = &watched {
            tracing::debug!(%error, root = %root.display(), "it is looked at now and then");
        }
        watched.ok()
    }

    /// Waits for changes and until they have paused. `None` if there were none for long.
    fn wait(&self) -> Option<BTreeSet<usize>> {
        self.receiver.recv_timeout(POLL).ok()?;
        let end = Instant::now() + AT_MOST;
        while Instant::now() < end {
            match self.receiver.recv_timeout(QUIET) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        Some(std::mem::take(&mut *lock(&self.changed)))
    }
}
