//! Replays updates of an agent of version 2: as they were recorded to a client of that version,
//! converted to any other.

use crate::json;
use crate::protocol::update::{self, UpdateKind};
use crate::record::{InVersion1, Record, subagents};

use super::Replay;
use super::calls::Disposition;
use super::envelope::EnvelopeWriter;

/// The state for updates of version 2, once there is one.
#[derive(Debug)]
pub(super) enum Version2 {
    /// The client speaks another version.
    Converted(Box<InVersion1>),
    /// The envelope of the lines.
    Shown(EnvelopeWriter),
}

impl Replay {
    /// Takes a record of a log that has such updates.
    pub(super) fn mixed(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let converted = self.version_2.take();
        let converted = converted.unwrap_or_else(|| {
            if self.options.version_2 {
                Version2::Shown(self.envelope.in_version_2())
            } else {
                Version2::Converted(Box::new(InVersion1::with_originals()))
            }
        });
        match converted {
            Version2::Converted(mut converted) => {
                converted.record(record, &mut |record| self.take(record, out));
                self.version_2 = Some(Version2::Converted(converted));
            }
            shown @ Version2::Shown(_) => {
                self.version_2 = Some(shown);
                self.take(record, out);
            }
        }
    }

    /// Shows what the conversion has held until now. It goes on with what it knows of tool calls.
    pub(super) fn finish_mixed(&mut self, out: &mut Vec<u8>) {
        let mut version_2 = self.version_2.take();
        if let Some(Version2::Converted(converted)) = &mut version_2 {
            converted.finish(&mut |record| self.take(record, out));
        }
        self.version_2 = version_2;
    }

    /// Exchanges the envelope with that of lines in the form of version 2.
    fn swap(&mut self) {
        if let Some(Version2::Shown(envelope)) = &mut self.version_2 {
            std::mem::swap(&mut self.envelope, envelope);
        }
    }

    /// Shows an update of the session itself as it was recorded.
    pub(super) fn native(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let params = record.payload;
        let update = json::text_member(params, "update").unwrap_or_default();
        let has_more = subagents::only_update(params.get(1..).unwrap_or_default()).is_none();
        let params = has_more.then_some(params.as_bytes());
        self.swap();
        self.native_update(record.at, update.as_bytes(), params, out);
        self.swap();
    }

    fn native_update(&mut self, at: &str, update: &[u8], params: Option<&[u8]>, out: &mut Vec<u8>) {
        let kind = match UpdateKind::of(update) {
            // What the session is doing now is not part of its history.
            UpdateKind::SessionState => return self.pending.flush(out),
            UpdateKind::ToolCallContent => UpdateKind::ToolCallUpdate,
            kind => kind,
        };
        if kind == UpdateKind::ConfigOptions {
            // The mode is one of the options.
            self.withdraw(UpdateKind::CurrentMode.name());
        }
        let id = kind.is_call().then(|| update::call_id(update)).flatten();
        if self.disposition(kind, id, at, update, params) == Disposition::Hidden {
            return self.pending.flush(out);
        }
        if let Some(line) = self.join_or_write(at, update, params, out) {
            self.finish_line(line, at, UpdateKind::Other, Disposition::Shown, out);
        }
    }
}
