//! Plays a log into the writer's bulk lane, on a thread where waiting hurts nobody.

use std::sync::Arc;

use crate::replay::{Options, Replay};
use crate::store::Reader;
use crate::wire::Writer;

use super::outcome::Refusal;
use super::pace::Pace;
use super::refusal::storage;

/// How much is put into the writer at once, in bytes.
const BLOCK: usize = 64 * 1024;

/// A replay that can be continued where it stopped.
#[derive(Debug)]
pub(super) struct Playback {
    replay: Replay,
    pace: Pace,
    lines: Vec<u8>,
    /// How far the log has been replayed, in bytes.
    pub(super) end: u64,
}

impl Playback {
    /// A replay that has sent nothing yet.
    pub(super) fn new(session_id: &str, options: Options, pace: Pace) -> Self {
        Self {
            replay: Replay::new(session_id, options),
            pace,
            lines: Vec::new(),
            end: 0,
        }
    }

    /// Replays what `reader` still has. What it takes to join the last chunk with one that may
    /// follow stays here until [`finish`](Self::finish).
    pub(super) fn play(
        &mut self,
        reader: &mut Reader,
        writer: &Writer,
        cancelled: &Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Result<(), Refusal> {
        loop {
            let Some(entry) = reader.next().map_err(|error| storage(&error))? else {
                return self.put(writer, cancelled);
            };
            self.replay.record(&entry.record, &mut self.lines);
            self.end = entry.end;
            if self.lines.len() >= BLOCK || self.pace.is_limited() {
                self.put(writer, cancelled)?;
            }
        }
    }

    /// Sends what is left, and waits until nothing can overtake it.
    pub(super) fn finish(&mut self, writer: &Writer) -> Result<(), Refusal> {
        self.replay.finish(&mut self.lines);
        writer
            .bulk(&mut self.lines)
            .and_then(|()| writer.bulk_taken())
            .map_err(|_| Refusal::Gone)?;
        if self.replay.cut() > 0 {
            tracing::warn!(
                messages = self.replay.cut(),
                "messages beyond the bound were cut"
            );
        }
        Ok(())
    }

    fn put(
        &mut self,
        writer: &Writer,
        cancelled: &Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Result<(), Refusal> {
        if cancelled() {
            // Nothing of the replay may follow the answer.
            writer.bulk_taken().map_err(|_| Refusal::Gone)?;
            return Err(Refusal::Cancelled);
        }
        let lines = if self.pace.is_limited() {
            memchr::memchr_iter(b'\n', &self.lines).count() as u64
        } else {
            0
        };
        writer.bulk(&mut self.lines).map_err(|_| Refusal::Gone)?;
        if self.pace.is_limited() {
            self.pace.rest(lines, &**cancelled);
        }
        Ok(())
    }
}
