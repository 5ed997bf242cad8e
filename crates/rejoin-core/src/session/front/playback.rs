//! Replays a log into the writer's bulk lane, on a thread that may block.

use std::collections::HashSet;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::engine::Block;
use crate::protocol::{ClientView, UpdateKind};
use crate::record::{Kind, Record};
use crate::replay::{FindMessage, Options, Replay, live_line, live_params_line};
use crate::store::{DamageReport, LogReader, PositionedRecord, Store};
use crate::sys::SessionId;
use crate::transport::Writer;

use crate::session::cursors::Cursors;
use crate::session::outcome::Refusal;
use crate::session::phase::Phase;

/// How much is passed to the writer at once, in bytes.
const BLOCK: usize = 64 * 1024;

/// A replay that can continue where it stopped.
pub(in crate::session) struct Playback {
    /// The name of the session for the client.
    name: String,
    replay: Replay,
    pace: Pace,
    writer: Writer,
    request: CancellationToken,
    lines: Vec<u8>,
    /// How the client sees the session.
    view: ClientView,
    /// How far the log has been replayed, in bytes.
    pub(in crate::session) end: u64,
    /// Whether a turn that was replayed has no end so far.
    pub(in crate::session) in_turn: bool,
    /// How many lines were sent, if that is logged.
    pub(in crate::session) sent: u64,
    /// Which states of the session are shown where they are in the log, if the client's version has states.
    states: ShownStates,
    /// The prompts that the client shows without being sent them, by the ids of their messages.
    hidden_prompts: HashSet<String>,
    /// Where the log is read that is followed.
    reader: Option<Box<LogReader>>,
    /// Whether an update is to say that the history was replayed whole, if the client's version has one
    /// for that.
    marks_end: bool,
    /// Where the replay begins in the log, in bytes, if its client has asked for a part.
    begins_at: u64,
    /// Whether something of what is replayed could not be read.
    is_damaged: bool,
    /// The session cursors that the client is sent behind what is replayed, if it is sent any.
    cursors: Option<Cursors>,
}

/// The states of a session that a replay shows: where turns begin and end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShownStates {
    None,
    All,
    /// All but the end of the turn that is open where the replay begins: the client knows that it is over.
    ButOpenEnd,
    /// All but the next one, which is that end.
    ButNext,
}

impl Playback {
    /// A replay of the session that the client knows by this name. It stops when the request is
    /// cancelled.
    pub(in crate::session) fn new(
        name: &str,
        options: Options,
        pace: Pace,
        writer: &Writer,
        view: ClientView,
        request: CancellationToken,
    ) -> Self {
        let options = Options {
            version_2: view.shows_version_2(),
            ..options
        };
        Self {
            name: name.to_owned(),
            replay: Replay::new(name, options),
            pace,
            writer: writer.clone(),
            request,
            lines: Vec::new(),
            view,
            end: 0,
            in_turn: false,
            sent: 0,
            states: ShownStates::None,
            hidden_prompts: HashSet::new(),
            reader: None,
            marks_end: false,
            begins_at: 0,
            is_damaged: false,
            cursors: None,
        }
    }

    /// The client is sent these session cursors.
    #[must_use]
    pub(in crate::session) fn with_cursors(self, cursors: Option<Cursors>) -> Self {
        Self { cursors, ..self }
    }

    /// The session is replayed for a request: unless something of it is missing, an update says where the
    /// history ends.
    #[must_use]
    pub(in crate::session) fn with_end_mark(mut self) -> Self {
        self.marks_end = true;
        self
    }

    /// The log that was read has this damage.
    pub(in crate::session) fn note_damage(&mut self, damage: &[DamageReport]) {
        let lost = |report: &DamageReport| {
            report.reason.is_loss() && report.offset.saturating_add(report.len) >= self.begins_at
        };
        self.is_damaged |= damage.iter().any(lost);
    }

    /// From now on, each chunk is sent as it was logged. Whatever is held back is sent when the
    /// replay [finishes](Self::finish), after which it may go on.
    pub(in crate::session) fn follow(&mut self) {
        self.replay.follow();
    }

    /// From now on, the client is shown where turns begin and end.
    pub(in crate::session) fn show_states(&mut self) {
        self.states = ShownStates::All;
    }

    /// From now on, the client is shown where turns begin and end. It was shown already that the turn which
    /// is open where the replay begins is over.
    pub(in crate::session) fn show_states_but_open_end(&mut self) {
        self.states = ShownStates::ButOpenEnd;
    }

    /// From now on, the prompts with these ids are not sent.
    pub(in crate::session) fn hide_prompts(&mut self, ids: HashSet<String>) {
        self.hidden_prompts = ids;
    }

    /// From now on it does not stop before its end.
    pub(in crate::session) fn ignore_cancellation(&mut self) {
        self.request = CancellationToken::new();
    }

    /// The replay begins at a message. Fails unless that is in the log, which ends at `end`.
    pub(in crate::session) fn find(
        &mut self,
        message: &str,
        store: &Store,
        id: &SessionId,
        end: Option<u64>,
    ) -> Result<(), Refusal> {
        let mut reader = store.read(id)?;
        if let Some(end) = end {
            reader.limit(end);
        }
        let mut search = FindMessage::new(message);
        let mut before = 0;
        while let Some(entry) = reader.next()? {
            if search.record(&entry.record) {
                // What the record before it has may have been held until now.
                self.begins_at = before;
                return Ok(());
            }
            before = entry.offset;
            if self.request.is_cancelled() {
                return Err(Refusal::Cancelled);
            }
        }
        if search.finish() {
            Ok(())
        } else {
            Err(Refusal::ReplayStartNotFound)
        }
    }

    /// Replays the rest of `reader`. The last chunk, which another may continue, is held until
    /// [`finish`](Self::finish).
    pub(in crate::session) fn play(&mut self, reader: &mut LogReader) -> Result<(), Refusal> {
        while let Some(entry) = reader.next()? {
            self.record(&entry)?;
        }
        self.note_damage(reader.damage());
        self.put()
    }

    /// Replays the next record.
    pub(in crate::session) fn record(
        &mut self,
        entry: &PositionedRecord<'_>,
    ) -> Result<(), Refusal> {
        self.read_record(entry);
        if self.lines.len() >= BLOCK || self.pace.is_limited() {
            self.put()?;
        }
        Ok(())
    }

    fn read_record(&mut self, entry: &PositionedRecord<'_>) {
        let id = entry
            .record
            .id
            .filter(|_| entry.record.kind == Kind::Prompt);
        if id.is_some_and(|id| self.hidden_prompts.contains(id)) {
            // What was held back belongs to what came before it.
            self.replay.finish(&mut self.lines);
            let before = self.lines.len();
            self.replay.record(&entry.record, &mut self.lines);
            self.replay.finish(&mut self.lines);
            self.lines.truncate(before);
        } else {
            self.replay.record(&entry.record, &mut self.lines);
        }
        self.end = entry.end;
        if let Some(cursors) = &mut self.cursors {
            cursors.record(&entry.record, entry.end);
        }
        let was_in_turn = std::mem::replace(&mut self.in_turn, self.replay.is_in_turn());
        if self.in_turn != was_in_turn {
            self.show_state(&entry.record);
        }
    }

    /// Shows that a turn has begun or ended with this record, each in its place: a turn may be so short
    /// that both are read at once.
    fn show_state(&mut self, record: &Record<'_>) {
        if self.states == ShownStates::ButNext {
            self.states = ShownStates::All;
            return;
        }
        if self.states == ShownStates::None || !self.view.has_state() {
            return;
        }
        let phase = if self.in_turn {
            Phase::Running
        } else {
            Phase::Idle(Some(record.payload.to_owned()))
        };
        self.replay.finish_history(&mut self.lines);
        live_params_line(&self.name, &phase.params(), &mut self.lines);
    }

    /// Replays the log from `shown` to `end`. The client has seen the records before that.
    pub(in crate::session) fn play_after(
        &mut self,
        store: &Store,
        id: &SessionId,
        shown: u64,
        end: Option<u64>,
    ) -> Result<(), Refusal> {
        let mut seen = store.read_all(id)?;
        seen.limit(shown);
        while let Some(entry) = seen.next()? {
            self.read_record(&entry);
            self.lines.clear();
        }
        self.replay.finish(&mut self.lines);
        self.lines.clear();
        if let Some(cursors) = &mut self.cursors {
            cursors.skip();
        }
        if self.states == ShownStates::ButOpenEnd && self.in_turn {
            self.states = ShownStates::ButNext;
        }
        self.end = shown;
        self.play_on(store, id, end)
    }

    /// Replays the log from where this replay is to `end`.
    pub(in crate::session) fn play_on(
        &mut self,
        store: &Store,
        id: &SessionId,
        end: Option<u64>,
    ) -> Result<(), Refusal> {
        // What was undone is shown as it was said, with the rewind behind it.
        let mut reader = store.read_all(id)?;
        reader.seek(self.end);
        // Without the lock, the end is wherever the file ends.
        if let Some(end) = end {
            reader.limit(end);
        }
        self.play(&mut reader)
    }

    /// Whether it goes on from here without a thread of its own: the client is to see everything from
    /// here on, as soon as possible.
    pub(in crate::session) fn is_live(&self, shown: u64) -> bool {
        self.end >= shown && !self.pace.is_limited()
    }

    /// Composes the lines of what was appended, but not many at once. Returns whether there are more.
    /// What comes next is sent as it is, so nothing may be left that was [put](Self::put).
    pub(in crate::session) fn compose(
        &mut self,
        store: &Store,
        id: &SessionId,
    ) -> Result<bool, Refusal> {
        let from = self.end;
        if let Some(reader) = self.reader.take() {
            let may_go_on = self.read_on(reader)?;
            if self.end > from {
                return Ok(may_go_on);
            }
        }
        // There may be another file by now.
        let mut reader = Box::new(store.read_all(id)?);
        reader.seek(from);
        self.read_on(reader)
    }

    fn read_on(&mut self, mut reader: Box<LogReader>) -> Result<bool, Refusal> {
        while self.lines.len() < BLOCK {
            let Some(entry) = reader.next()? else {
                self.view.lines(&mut self.lines);
                let mut rest = Vec::new();
                self.replay.finish(&mut rest);
                self.view.last_lines(&mut rest);
                self.lines.append(&mut rest);
                self.add_cursors();
                self.reader = Some(reader);
                return Ok(false);
            };
            self.read_record(&entry);
        }
        self.view.lines(&mut self.lines);
        self.reader = Some(reader);
        Ok(true)
    }

    /// The lines that are ready.
    pub(in crate::session) fn lines(&mut self) -> &mut Vec<u8> {
        &mut self.lines
    }

    /// Sends the lines that are ready.
    pub(in crate::session) fn put(&mut self) -> Result<(), Refusal> {
        if self.request.is_cancelled() {
            return Err(Refusal::Cancelled);
        }
        self.view.lines(&mut self.lines);
        let lines = self.send()?;
        self.pace.rest(lines, || self.request.is_cancelled());
        Ok(())
    }

    /// Passes the lines to the writer, and counts them if anyone wants to know.
    fn send(&mut self) -> Result<u64, Refusal> {
        let counts = self.pace.is_limited() || tracing::enabled!(tracing::Level::INFO);
        let lines = counts.then(|| memchr::memchr_iter(b'\n', &self.lines).count() as u64);
        let lines = lines.unwrap_or_default();
        self.sent += lines;
        let put = self.writer.bulk(&mut self.lines);
        put.map(|()| lines).map_err(|_| Refusal::Gone)
    }

    /// Reads the settings in the engine's part of the answer: the snapshots refer to them.
    pub(in crate::session) fn read_settings(&mut self, own: &str) {
        self.view.settings(own);
    }

    /// Exchanges the views: updates are sent through that of the playback while it is at work.
    pub(in crate::session) fn swap_view(&mut self, view: &mut ClientView) {
        std::mem::swap(&mut self.view, view);
    }

    /// Adds updates with the current state. They are sent after all others.
    pub(in crate::session) fn snapshots(&mut self, at: &str, snapshots: &Block, gone: &[&str]) {
        for name in gone {
            self.replay.withdraw(name);
        }
        for snapshot in snapshots.iter() {
            match snapshot.kind {
                Kind::Info => self.replay.snapshot(at, snapshot.payload),
                kind => {
                    let record = Record {
                        seq: 0,
                        at,
                        kind,
                        id: None,
                        payload: snapshot.payload,
                        parts: None,
                    };
                    self.replay.record(&record, &mut self.lines);
                }
            }
        }
    }

    fn add_cursors(&mut self) {
        if let Some(cursors) = &mut self.cursors {
            cursors.lines(&self.name, 0..u64::MAX, &mut self.lines);
        }
    }

    /// Sends the rest, and waits until nothing can overtake it.
    pub(in crate::session) fn finish(&mut self) -> Result<(), Refusal> {
        self.replay.finish_history(&mut self.lines);
        self.view.lines(&mut self.lines);
        let marks_end = std::mem::take(&mut self.marks_end) && self.view.has_state();
        if marks_end && !self.is_damaged && !self.replay.is_shortened() {
            let update = UpdateKind::ReplayComplete.object().end();
            live_line(&self.name, &update, &mut self.lines);
        }
        let mut present = Vec::new();
        self.replay.release_snapshots(&mut present);
        self.view.last_lines(&mut present);
        self.lines.append(&mut present);
        self.add_cursors();
        self.send()?;
        self.settle()?;
        if self.replay.cut() > 0 {
            tracing::warn!(
                messages = self.replay.cut(),
                "messages beyond the bound were cut"
            );
        }
        Ok(())
    }

    /// Waits until nothing can overtake what was sent: no part of a replay may follow the answer to
    /// its request.
    pub(in crate::session) fn settle(&self) -> Result<(), Refusal> {
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

/// The longest rest between two checks whether the replay was cancelled.
const STEP: Duration = Duration::from_millis(50);

/// How fast a replay may go.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Pace {
    /// Lines in a second.
    rate: Option<u64>,
}

impl Pace {
    /// Unlimited without a rate.
    pub(in crate::session) fn new(rate: Option<u64>) -> Self {
        Self { rate }
    }

    /// Whether lines are to be sent one by one.
    pub(in crate::session) fn is_limited(self) -> bool {
        self.rate.is_some()
    }

    /// Blocks the thread for as long as `lines` take at this pace, or until `cancelled`.
    pub(in crate::session) fn rest(self, lines: u64, cancelled: impl Fn() -> bool) {
        let mut left = self.time(lines);
        while !left.is_zero() && !cancelled() {
            let step = left.min(STEP);
            std::thread::sleep(step);
            left -= step;
        }
    }

    fn time(self, lines: u64) -> Duration {
        let Some(rate) = self.rate.filter(|rate| *rate > 0) else {
            return Duration::ZERO;
        };
        Duration::from_secs(1).saturating_mul(u32::try_from(lines).unwrap_or(u32::MAX))
            / u32::try_from(rate).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_take_the_time_that_the_rate_sets() {
        for (rate, lines, millis) in [
            (None, 1000, 0),
            (Some(1000), 1, 1),
            (Some(100), 50, 500),
            (Some(0), 9, 0),
        ] {
            assert_eq!(Pace::new(rate).time(lines), Duration::from_millis(millis));
        }
    }

    #[test]
    fn a_cancelled_replay_does_not_rest() {
        // At this pace one line would take the better part of a day.
        Pace::new(Some(1)).rest(80_000, || true);
    }
}
