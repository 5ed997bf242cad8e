//! Finds out whether a session has a message, by the id that a client of version 2 knows.

use crate::protocol::v2::V2View;
use crate::record::Record;

use super::{Options, Replay};

/// Searches the records of a session for a message.
#[derive(Debug)]
pub struct FindMessage {
    replay: Replay,
    view: V2View,
    /// Lines of version 1, and of version 2.
    lines: [Vec<u8>; 2],
}

impl FindMessage {
    /// A search for the message with this id.
    pub fn new(id: &str) -> Self {
        Self {
            replay: Replay::new(
                "",
                Options {
                    version_2: true,
                    ..Options::default()
                },
            ),
            view: V2View::new().from_message(id),
            lines: Default::default(),
        }
    }

    /// Takes the next record of the session, starting with its first. Returns true if the message
    /// was found; then no further records are needed.
    pub fn record(&mut self, record: &Record<'_>) -> bool {
        self.replay.record(record, &mut self.lines[0]);
        self.look()
    }

    /// Whether the message was found, after all records.
    pub fn finish(mut self) -> bool {
        self.replay.finish(&mut self.lines[0]);
        self.look()
    }

    fn look(&mut self) -> bool {
        let [v1, v2] = &mut self.lines;
        self.view.lines(v1, v2);
        v1.clear();
        v2.clear();
        self.view.is_reached()
    }
}
