//! The last snapshot of each kind, held back until the history is through.
//!
//! A snapshot says how things are now, so it is not replayed in its place: what counts is the last
//! of each kind, and it follows the last entry of the history, once. What tells of the session
//! itself may leave out what has not changed, so what an earlier one said is added to the last.

use crate::record::json;
use crate::record::transcript::{SESSION_INFO, SNAPSHOTS};

/// How many kinds are held that have no place in [`SNAPSHOTS`].
const OTHERS: usize = 16;
/// The longest name of such a kind, in bytes.
const NAME: usize = 256;
/// More memory than this is given back when a line takes the place of a longer one, in bytes.
const KEPT: usize = 64 * 1024;

/// The lines to be sent at the end.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// In the order in which their kinds first came.
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    name: Vec<u8>,
    line: Vec<u8>,
    /// Whether the line is not all that it was.
    cut: bool,
}

impl Snapshots {
    /// Whether a snapshot of this name can be held.
    pub(super) fn takes(&self, name: &[u8]) -> bool {
        let others = self.held.iter().filter(|held| rank(&held.name).is_none());
        rank(name).is_some()
            || self.held.iter().any(|held| held.name == name)
            || (name.len() <= NAME && others.count() < OTHERS)
    }

    /// Holds none of this name any more.
    pub(super) fn withdraw(&mut self, name: &[u8]) {
        self.held.retain(|held| held.name != name);
    }

    /// Holds a line instead of the one of this name that was held before.
    pub(super) fn hold(&mut self, name: &[u8], line: &[u8], cut: bool) {
        let place = self.held.iter().position(|held| held.name == name);
        let place = place.unwrap_or_else(|| {
            self.held.push(Held {
                name: name.to_vec(),
                line: Vec::new(),
                cut,
            });
            self.held.len() - 1
        });
        let held = &mut self.held[place];
        if held.line.capacity() > KEPT {
            held.line = Vec::new();
        }
        held.line.clear();
        held.line.extend_from_slice(line);
        held.cut = cut;
    }

    /// Writes to `out` the update of this name with what is still true of the one that is held;
    /// false, with nothing written, if there is nothing to be added.
    pub(super) fn complete(&self, name: &[u8], update: &[u8], out: &mut Vec<u8>) -> bool {
        name == SESSION_INFO.as_bytes() && self.add_older(update, out).is_some()
    }

    fn add_older(&self, update: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let held = self
            .held
            .iter()
            .find(|held| held.name == SESSION_INFO.as_bytes())?;
        let params = json::member(&held.line, 0, "params")?;
        let older = json::member(&held.line, params.start, "update")?;
        let older = &held.line[older];
        if older
            .windows(SESSION_INFO.len())
            .all(|name| name != SESSION_INFO.as_bytes())
        {
            // Nothing but a word on it was left when it was cut.
            return None;
        }
        let mut known = json::members(update, 0)?;
        while known.member().is_some() {}
        let close = known.end()? - 1;
        let start = out.len();
        out.extend_from_slice(&update[..close]);
        let before = out.len();
        let mut members = json::members(older, 0)?;
        while let Some(member) = members.member() {
            let key = &older[member.key.clone()];
            let mut newer = json::members(update, 0)?;
            let is_new = std::iter::from_fn(|| newer.member()).any(|new| &update[new.key] == key);
            if !is_new {
                out.push(b',');
                out.extend_from_slice(&older[member.key.start - 1..member.value.end]);
            }
        }
        if out.len() == before {
            out.truncate(start);
            return None;
        }
        out.extend_from_slice(&update[close..]);
        Some(())
    }

    /// Writes all that is held and forgets it. Answers how many of the lines were cut.
    pub(super) fn release(&mut self, out: &mut Vec<u8>) -> u64 {
        let mut cut = 0;
        self.held
            .sort_by_key(|held| rank(&held.name).unwrap_or(SNAPSHOTS.len()));
        for held in self.held.drain(..) {
            out.extend_from_slice(&held.line);
            cut += u64::from(held.cut);
        }
        cut
    }
}

/// Where a kind of snapshot stands among the others.
fn rank(name: &[u8]) -> Option<usize> {
    SNAPSHOTS
        .iter()
        .position(|snapshot| snapshot.as_bytes() == name)
}
