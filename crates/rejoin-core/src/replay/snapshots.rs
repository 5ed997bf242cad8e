//! The last snapshot of each kind, held back until the end of the history.
//!
//! A snapshot is the current state, so it is not replayed in its place: only the last of each kind
//! counts, and it is sent once, after the last entry of the history. A snapshot of the session's
//! info may leave out members that have not changed, so members of an earlier one are added to the
//! last.

use crate::json::{self, Members};
use crate::protocol::UpdateKind;
use crate::protocol::update;

use super::live::LiveForm;
use super::{REPEATED, Replay, put_instead};

/// How many kinds of snapshots that are unknown are held.
const OTHERS: usize = 16;
/// The longest name of such a kind, in bytes.
const NAME: usize = 256;
/// A buffer with a larger capacity than this is freed when a shorter line replaces its content, in
/// bytes.
const KEPT: usize = 64 * 1024;

/// The lines to be sent at the end.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// In the order in which their kinds first came.
    held: Vec<HeldSnapshot>,
}

#[derive(Debug)]
struct HeldSnapshot {
    name: Vec<u8>,
    line: Vec<u8>,
    /// Whether the line was truncated.
    cut: bool,
}

impl Snapshots {
    /// Whether a snapshot of this name can be held.
    pub(super) fn takes(&self, name: &[u8]) -> bool {
        let others = self
            .held
            .iter()
            .filter(|held| rank(&held.name) == usize::MAX);
        rank(name) != usize::MAX
            || self.held.iter().any(|held| held.name == name)
            || (name.len() <= NAME && others.count() < OTHERS)
    }

    /// Drops the snapshot of this name.
    pub(super) fn withdraw(&mut self, name: &[u8]) {
        self.held.retain(|held| held.name != name);
    }

    /// Holds a line, in place of the previous one of this name.
    pub(super) fn hold(&mut self, name: &[u8], line: &[u8], cut: bool) {
        let place = self.held.iter().position(|held| held.name == name);
        let place = place.unwrap_or_else(|| {
            self.held.push(HeldSnapshot {
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

    /// Writes to `out` the update of this name, completed with the members of the held one that are
    /// still valid. In version 2 its `_meta` changes single keys of the held one's. Returns false, with
    /// nothing written, if there is nothing to add.
    pub(super) fn complete(
        &self,
        name: &[u8],
        update: &[u8],
        is_version_2: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        name == UpdateKind::SessionInfo.name().as_bytes()
            && self.add_older(update, is_version_2, out).is_some()
    }

    fn add_older(&self, update: &[u8], is_version_2: bool, out: &mut Vec<u8>) -> Option<()> {
        let name = UpdateKind::SessionInfo.name().as_bytes();
        let held = self.held.iter().find(|held| held.name == name)?;
        let params = json::member(&held.line, 0, "params")?;
        let older = json::member(&held.line, params.start, "update")?;
        let older = &held.line[older];
        // An older update that was truncated to a placeholder has no name.
        memchr::memmem::find(older, name)?;
        let patched = is_version_2
            .then(|| with_older_meta(update, older))
            .flatten();
        let is_patched = patched.is_some();
        let update = patched.as_deref().unwrap_or(update);
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
        if out.len() == before && !is_patched {
            out.truncate(start);
            return None;
        }
        out.extend_from_slice(&update[close..]);
        Some(())
    }

    /// Writes all held lines and forgets them. Returns how many of them were truncated.
    pub(super) fn release(&mut self, out: &mut Vec<u8>) -> u64 {
        let mut cut = 0;
        self.held.sort_by_key(|held| rank(&held.name));
        for held in self.held.drain(..) {
            out.extend_from_slice(&held.line);
            cut += u64::from(held.cut);
        }
        cut
    }
}

/// An update whose `_meta` is a patch by its keys, with those of an older one; a key with `null` is
/// removed. `None` if not both have an object there.
fn with_older_meta(update: &[u8], older: &[u8]) -> Option<Vec<u8>> {
    let meta = |update: &[u8]| {
        let range = json::member(update, 0, "_meta")?;
        let text = std::str::from_utf8(&update[range.clone()]).ok()?;
        text.starts_with('{').then(|| (range, text.to_owned()))
    };
    let (place, patch) = meta(update)?;
    let (_, older) = meta(older)?;
    let merged = Members::of(&older).overlaid(Members::of(&patch)).text();
    let merged = json::remade(&merged, |_, value| (value != "null").then(|| value.into()));
    Some(
        [
            &update[..place.start],
            merged.as_bytes(),
            &update[place.end..],
        ]
        .concat(),
    )
}

/// The position of a kind of snapshot in the order of sending. Unknown kinds come last.
fn rank(name: &[u8]) -> usize {
    let place = UpdateKind::of_name(name).snapshot_order();
    place.unwrap_or(usize::MAX)
}

impl Replay {
    /// Takes a snapshot that is not in the log: `update` is the JSON of the update object, on one
    /// line, and `at` is when it was taken, in the form of
    /// [`Record::at`](crate::record::Record::at). It counts as the latest of its kind so far.
    /// Anything but a snapshot is ignored.
    pub fn snapshot(&mut self, at: &str, update: &str) {
        self.info(at, update.as_bytes());
    }

    /// Leaves out the snapshot of this name, which is no longer valid.
    pub fn withdraw(&mut self, name: &str) {
        self.snapshots.withdraw(name.as_bytes());
    }

    /// Holds the snapshot in an `info` record, if there is one.
    pub(super) fn info(&mut self, at: &str, payload: &[u8]) {
        let (update, params) = match LiveForm::of(payload) {
            Some(LiveForm::Update) => (payload, None),
            Some(LiveForm::Params) => match json::member(payload, 0, "update") {
                Some(update) => (&payload[update], Some(payload)),
                None => return,
            },
            None => return,
        };
        if let Some(name) = update::name(update)
            && let kind = UpdateKind::of_name(&name)
            && (kind == UpdateKind::Other || kind.is_snapshot())
            && self.snapshots.takes(&name)
        {
            self.hold(&name, at, update, params);
        }
    }

    /// Holds a snapshot as the line that will be sent.
    pub(super) fn hold(&mut self, name: &[u8], at: &str, update: &[u8], params: Option<&[u8]>) {
        let is_version_2 = self.envelope.is_version_2();
        let mut out = std::mem::take(&mut self.held);
        if let Some(mut line) = self.envelope.line(at, update, params, &mut out) {
            self.scratch.clear();
            if self.snapshots.complete(
                name,
                &out[line.update.clone()],
                is_version_2,
                &mut self.scratch,
            ) {
                put_instead(&mut self.scratch, &mut line, &mut out);
            }
            let cut = self.part_or_cut(&line, at, &mut out);
            self.snapshots.hold(name, &out, cut);
        }
        if out.capacity() <= REPEATED {
            out.clear();
            self.held = out;
        }
    }
}
