//! Plays a log into the writer's bulk lane, on a thread where waiting hurts nobody.

use std::sync::Arc;

use crate::json;
use crate::protocol::v2::View;
use crate::replay::FindMessage;
use crate::replay::{Options, Replay};
use crate::store::{Entry, Reader, Store};
use crate::sys::SessionId;
use crate::transport::Writer;

use super::outcome::Refusal;
use super::pace::Pace;
use super::refusal::storage;

/// How much is put into the writer at once, in bytes.
const BLOCK: usize = 64 * 1024;

/// A replay that can be continued where it stopped.
pub(super) struct Playback {
    replay: Replay,
    pace: Pace,
    writer: Writer,
    cancelled: Arc<dyn Fn() -> bool + Send + Sync>,
    lines: Vec<u8>,
    /// How the client sees them, if not as they are in the log.
    view: Option<View>,
    /// How far the log has been replayed, in bytes.
    pub(super) end: u64,
    /// Whether a turn that was replayed has no end so far.
    pub(super) in_turn: bool,
}

impl Playback {
    /// A replay that has sent nothing yet, of the session that the client knows by this name. It
    /// stops when `cancelled`.
    pub(super) fn new(
        name: &str,
        options: Options,
        pace: Pace,
        writer: &Writer,
        view: Option<View>,
        cancelled: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Self {
        Self {
            replay: Replay::new(name, options),
            pace,
            writer: writer.clone(),
            cancelled,
            lines: Vec::new(),
            view,
            end: 0,
            in_turn: false,
        }
    }

    /// From now on it goes on to its end, whatever the client wants.
    pub(super) fn cannot_be_cancelled(&mut self) {
        self.cancelled = Arc::new(|| false);
    }

    /// Makes sure that a message is in the log, which ends at `end`.
    pub(super) fn seek(
        &self,
        message: &str,
        store: &Store,
        id: &SessionId,
        end: Option<u64>,
    ) -> Result<(), Refusal> {
        let mut reader = store.read(id).map_err(|error| storage(&error))?;
        if let Some(end) = end {
            reader.limit(end);
        }
        let mut search = FindMessage::new(message);
        while let Some(entry) = reader.next().map_err(|error| storage(&error))? {
            if search.record(&entry.record) {
                return Ok(());
            }
            if (self.cancelled)() {
                return Err(Refusal::Cancelled);
            }
        }
        if search.finish() {
            Ok(())
        } else {
            Err(Refusal::ReplayStartNotFound)
        }
    }

    /// Replays what `reader` still has. What it takes to join the last chunk with one that may
    /// follow stays here until [`finish`](Self::finish).
    pub(super) fn play(&mut self, reader: &mut Reader) -> Result<(), Refusal> {
        while let Some(entry) = reader.next().map_err(|error| storage(&error))? {
            self.record(&entry)?;
        }
        self.put()
    }

    /// Replays the next record.
    pub(super) fn record(&mut self, entry: &Entry<'_>) -> Result<(), Refusal> {
        self.note_record(entry);
        if self.lines.len() >= BLOCK || self.pace.is_limited() {
            self.put()?;
        }
        Ok(())
    }

    fn note_record(&mut self, entry: &Entry<'_>) {
        self.replay.record(&entry.record, &mut self.lines);
        self.end = entry.end;
        self.in_turn = self.replay.is_in_turn();
    }

    /// Replays the log from `shown` to `end`. What comes before that the client has seen.
    pub(super) fn go_on(
        &mut self,
        store: &Store,
        id: &SessionId,
        shown: u64,
        end: Option<u64>,
    ) -> Result<(), Refusal> {
        let open = || store.read(id).map_err(|error| storage(&error));
        let mut seen = open()?;
        seen.limit(shown);
        while let Some(entry) = seen.next().map_err(|error| storage(&error))? {
            self.note_record(&entry);
            self.lines.clear();
        }
        self.replay.finish(&mut self.lines);
        self.lines.clear();
        let mut missed = open()?;
        missed.seek(shown);
        if let Some(end) = end {
            missed.limit(end);
        }
        self.play(&mut missed)
    }

    /// Sends the lines that are ready.
    pub(super) fn put(&mut self) -> Result<(), Refusal> {
        if (self.cancelled)() {
            return Err(Refusal::Cancelled);
        }
        self.show(View::lines);
        let limited = self.pace.is_limited();
        let lines = limited.then(|| memchr::memchr_iter(b'\n', &self.lines).count() as u64);
        let put = self.writer.bulk(&mut self.lines);
        put.map_err(|_| Refusal::Gone)?;
        if let Some(lines) = lines {
            self.pace.rest(lines, &*self.cancelled);
        }
        Ok(())
    }

    /// Gives the lines that are ready the form in which the client sees them.
    fn show(&mut self, how: fn(&mut View, &[u8], &mut Vec<u8>)) {
        if let Some(view) = &mut self.view {
            let mut shown = Vec::with_capacity(self.lines.len());
            how(view, &self.lines, &mut shown);
            self.lines = shown;
        }
    }

    /// Takes note of what the answer will tell of settings: the snapshots are about them.
    pub(super) fn note(&mut self, own: &str) {
        if let Some(view) = &mut self.view {
            let member = |name| json::text_member(own, name);
            view.settings(member("configOptions"), member("modes"));
        }
    }

    /// How the client sees what follows.
    pub(super) fn view(self) -> Option<View> {
        self.view
    }

    /// Takes updates that say how things are now; they are sent behind all others.
    pub(super) fn snapshots(&mut self, at: &str, snapshots: &[String], gone: &[&str]) {
        for name in gone {
            self.replay.withdraw(name);
        }
        for snapshot in snapshots {
            self.replay.snapshot(at, snapshot);
        }
    }

    /// Sends what is left, and waits until nothing can overtake it.
    pub(super) fn finish(&mut self) -> Result<(), Refusal> {
        self.replay.finish(&mut self.lines);
        self.show(View::last_lines);
        let put = self.writer.bulk(&mut self.lines);
        put.map_err(|_| Refusal::Gone)?;
        self.settle()?;
        if self.replay.cut() > 0 {
            tracing::warn!(
                messages = self.replay.cut(),
                "messages beyond the bound were cut"
            );
        }
        Ok(())
    }

    /// Waits until nothing can overtake what was sent: nothing of a replay may follow the answer to
    /// its request.
    pub(super) fn settle(&self) -> Result<(), Refusal> {
        self.writer.bulk_taken().map_err(|_| Refusal::Gone)
    }
}

impl std::fmt::Debug for Playback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Playback")
            .field("replay", &self.replay)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}
