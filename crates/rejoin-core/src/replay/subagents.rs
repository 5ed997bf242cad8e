//! Replays what subagents did, in the order of the log, under the ids that their sessions had.

use crate::json;
use crate::protocol::{Id, IdSet, UpdateClass, UpdateKind};
use crate::record::{Kind, Record, subagents};

use super::Replay;
use super::calls::Disposition;
use super::envelope::EnvelopeWriter;

/// Which subagents were announced to the client, and which one the last record was of.
#[derive(Debug, Default)]
pub(super) struct ShownSubagents {
    announced: IdSet,
    turn: u64,
    /// The session of the last record, if it was a subagent's, its kind, and the envelope of its
    /// lines.
    current: Option<(String, Kind, EnvelopeWriter)>,
    /// Whether the last record was of this subagent.
    is_inside: bool,
}

impl ShownSubagents {
    /// Takes an update about a subagent that is shown.
    pub(super) fn announce(&mut self, update: &[u8]) {
        let update = std::str::from_utf8(update).unwrap_or_default();
        if let Some(session) = subagents::announced(update) {
            self.announced.add(Id::of(session.as_bytes()));
        }
    }

    /// From now on, lines belong to this turn.
    pub(super) fn set_turn(&mut self, turn: u64) {
        self.turn = turn;
        if let Some((_, _, envelope)) = &mut self.current {
            envelope.set_turn(turn);
        }
    }

    /// The next record is of this kind. Returns whether a subagent's records end with it.
    pub(super) fn leave(&mut self, kind: Kind) -> bool {
        let is_of_one = matches!(kind, Kind::Subagent | Kind::SubagentV2);
        !is_of_one && std::mem::take(&mut self.is_inside)
    }

    /// The next record is of this subagent and has this kind. Returns whether the one before it was of another
    /// session. `None` if the subagent was not announced.
    pub(super) fn enter(&mut self, session: &str, kind: Kind) -> Option<bool> {
        let known = self.current.as_ref();
        let same = known.is_some_and(|(current, of, _)| current == session && *of == kind);
        if !same {
            if !self.announced.has(Id::of(session.as_bytes())) {
                self.is_inside = false;
                return None;
            }
            let mut envelope = EnvelopeWriter::new(session);
            envelope.set_turn(self.turn);
            if kind == Kind::SubagentV2 {
                envelope = envelope.in_version_2();
            }
            self.current = Some((session.to_owned(), kind, envelope));
        }
        let stays = std::mem::replace(&mut self.is_inside, true) && same;
        Some(!stays)
    }

    /// Exchanges an envelope with that of the current subagent.
    pub(super) fn swap(&mut self, envelope: &mut EnvelopeWriter) {
        if let Some((_, _, current)) = &mut self.current {
            std::mem::swap(current, envelope);
        }
    }
}

impl Replay {
    /// Shows an update that begins, changes or ends a subagent, if the client knows subagents.
    pub(super) fn announcement(&mut self, update: &[u8]) -> Disposition {
        if self.options.hide_subagents || self.is_skipping() {
            return Disposition::Hidden;
        }
        self.subagents.announce(update);
        Disposition::Shown
    }

    /// Shows an update of a subagent's session, if the subagent was shown.
    pub(super) fn subagent(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let Some((session, params)) = subagents::parse(record.payload) else {
            return self.pending.flush(out);
        };
        match self.subagents.enter(&session, record.kind) {
            None => return self.pending.flush(out),
            Some(true) => self.pending.flush(out),
            Some(false) => {}
        }
        // The lines have the subagent's envelope instead of ours.
        self.subagents.swap(&mut self.envelope);
        if let Some(update) = subagents::only_update(params) {
            self.subagent_update(record, update.as_bytes(), None, out);
        } else {
            let params = ["{", params].concat().into_bytes();
            if let Some(update) = json::member(&params, 0, "update") {
                self.subagent_update(record, &params[update], Some(&params), out);
            }
        }
        self.subagents.swap(&mut self.envelope);
    }

    /// Shows an update of the current subagent. `params` are the parameters around it, if they have
    /// more members.
    fn subagent_update(
        &mut self,
        record: &Record<'_>,
        update: &[u8],
        params: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) {
        let at = record.at;
        let mut kind = UpdateKind::of(update);
        if kind.class() == UpdateClass::Event {
            return self.pending.flush(out);
        }
        if kind == UpdateKind::Subagent {
            self.subagents.announce(update);
        }
        if let Some(line) = self.join_or_write(at, update, params, out) {
            if record.kind == Kind::SubagentV2 {
                // Its terminals are the agent's.
                kind = UpdateKind::Other;
            }
            self.finish_line(line, at, kind, Disposition::Shown, out);
        }
    }
}
