//! The earlier prompts of a session, for its engine.

use std::sync::{Mutex, MutexGuard};

use crate::engine::{History, HistoryError, Prompt};
use crate::record::metadata::system_prompt;
use crate::record::title::named;
use crate::record::{CurrentSettings, Kind, Record, snapshot_of};
use crate::store::{Scan, Store, StoreError};
use crate::sys::{SessionId, lock};

/// The prompts of one session, read from its log when they are needed.
#[derive(Debug)]
pub(in crate::session) struct SessionHistory {
    id: SessionId,
    /// `None` for a session that is kept in memory.
    store: Option<Store>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    prompts: Vec<Known>,
    /// The prompts that are being answered, by their positions in `prompts`, with the ids of the
    /// messages.
    running: Vec<(usize, String)>,
    /// Whether the turn that ended last was interrupted, and none has begun since.
    interrupted: bool,
    /// Whether the log has a title.
    titled: bool,
    settings: CurrentSettings,
}

#[derive(Debug)]
enum Known {
    /// A prompt in the log: the offset of its record, in bytes.
    At(u64),
    Here(Prompt),
}

impl SessionHistory {
    /// An empty history, of a session that is kept in memory if there is no store.
    pub(in crate::session) fn new(id: SessionId, store: Option<Store>) -> Self {
        Self {
            id,
            store,
            state: Mutex::default(),
        }
    }

    /// The log was read.
    pub(in crate::session) fn reset(&self, scan: &Scan) {
        let mut state = self.lock();
        let offsets = scan.prompts.iter();
        state.prompts = offsets.map(|offset| Known::At(*offset)).collect();
        state.running.clear();
        state.interrupted = scan.interrupted;
        state.titled = scan.titles.is_named();
        state.settings.clone_from(&scan.settings);
    }

    /// A record was appended.
    pub(in crate::session) fn note(&self, kind: Kind, payload: &str) {
        if let Some(info) = snapshot_of(kind, payload) {
            return self.note(Kind::Info, &info);
        }
        let mut state = self.lock();
        state.settings.note(kind, payload);
        state.titled |= kind == Kind::Info && named(payload).is_some();
    }

    /// Whether the turn that ended last was interrupted by a crash, and none has begun since.
    pub(in crate::session) fn was_interrupted(&self) -> bool {
        self.lock().interrupted
    }

    /// Whether the log has the system prompt of this record.
    pub(in crate::session) fn has_system_prompt(&self, record: &str) -> bool {
        self.lock().settings.system_prompt.as_deref() == system_prompt(record)
    }

    /// Whether the log has a title.
    pub(in crate::session) fn is_titled(&self) -> bool {
        self.lock().titled
    }

    /// The turn of a prompt has ended: it belongs to the history now.
    pub(in crate::session) fn end(&self, message_id: &str) {
        self.lock().running.retain(|(_, id)| id != message_id);
    }

    /// Adds the prompt that is about to be answered; the engine sees those before it, and before
    /// all others that are being answered. `offset` is where its record begins in the log, if there
    /// is one.
    pub(in crate::session) fn begin(&self, offset: Option<u64>, prompt: &Prompt) {
        let mut state = self.lock();
        state.interrupted = false;
        let known = offset.and_then(|offset| state.position(offset));
        let position = known.unwrap_or(state.prompts.len());
        state.running.push((position, prompt.message_id.clone()));
        if known.is_none() {
            state
                .prompts
                .push(offset.map_or_else(|| Known::Here(prompt.clone()), Known::At));
        }
    }

    /// Whether the prompt whose record in the log begins at `offset` is a part of the conversation.
    pub(in crate::session) fn has_prompt(&self, offset: u64) -> bool {
        self.lock().position(offset).is_some()
    }

    /// The prompt whose record in the log begins at `offset`.
    pub(in crate::session) fn recorded(&self, offset: u64) -> Result<Prompt, HistoryError> {
        crate::sys::blocking(|| self.read(offset)).map_err(|reason| HistoryError {
            what: "a prompt".to_owned(),
            reason,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn read(&self, offset: u64) -> Result<Prompt, String> {
        let store = self.store.as_ref().ok_or("the session has no log")?;
        let mut reader = store
            .read_all(&self.id)
            .map_err(|error| error.to_string())?;
        reader.seek(offset);
        let entry = reader.next().map_err(|error| error.to_string())?;
        let record = entry
            .filter(|entry| entry.offset == offset)
            .map(|entry| entry.record);
        match record {
            Some(record) if record.kind == Kind::Prompt => Ok(Prompt {
                message_id: record.id.unwrap_or_default().to_owned(),
                params: record.payload.to_owned(),
            }),
            _ => Err("its record in the log is damaged".to_owned()),
        }
    }
}

impl State {
    /// The place of the prompt whose record begins at `offset`, if that was there before.
    fn position(&self, offset: u64) -> Option<usize> {
        let last = self.prompts.last();
        if !matches!(last, Some(Known::At(last)) if *last >= offset) {
            return None;
        }
        let mut prompts = self.prompts.iter();
        prompts.rposition(|known| matches!(known, Known::At(at) if *at == offset))
    }

    /// How many prompts the engine sees.
    fn visible(&self) -> usize {
        let first = self.running.first().map(|(position, _)| *position);
        first.unwrap_or(self.prompts.len())
    }
}

impl History for SessionHistory {
    fn prompts(&self) -> u64 {
        self.lock().visible() as u64
    }

    fn prompt(&self, index: u64) -> Result<Prompt, HistoryError> {
        let error = |reason: String| HistoryError {
            what: format!("prompt {index}"),
            reason,
        };
        let offset = {
            let state = self.lock();
            let at = usize::try_from(index).unwrap_or(usize::MAX);
            match state.prompts[..state.visible()].get(at) {
                Some(Known::At(offset)) => *offset,
                Some(Known::Here(prompt)) => return Ok(prompt.clone()),
                None => return Err(error("there is no such prompt".to_owned())),
            }
        };
        crate::sys::blocking(|| self.read(offset)).map_err(error)
    }

    fn current_settings(&self) -> CurrentSettings {
        self.lock().settings.clone()
    }

    fn walk(&self, visit: &mut dyn FnMut(&Record<'_>)) -> Result<(), HistoryError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        // The prompt that is being answered follows those that are visible.
        let end = {
            let state = self.lock();
            match state.prompts.get(state.visible()) {
                Some(Known::At(offset)) => Some(*offset),
                _ => None,
            }
        };
        let walk = || -> Result<(), StoreError> {
            let mut reader = store.read(&self.id)?;
            if let Some(end) = end {
                reader.limit(end);
            }
            while let Some(entry) = reader.next()? {
                visit(&entry.record);
            }
            Ok(())
        };
        crate::sys::blocking(walk).map_err(|error| HistoryError {
            what: "the history".to_owned(),
            reason: error.to_string(),
        })
    }
}
