//! The views of a session's subagents: those that were used last.
//!
//! The past of a subagent only matters to its view for messages and tool calls that go on, so a
//! view that was not used for long can begin again.

use std::collections::BTreeMap;

use crate::protocol::{Id, IdSet};

use super::V2View;

/// How many views are kept, at least.
const KEPT: usize = 128;

/// The subagents of a session.
#[derive(Debug, Default)]
pub(super) struct Subagents {
    announced: IdSet,
    /// The announced subagents that are not shown.
    hidden: IdSet,
    /// By the ids of their sessions.
    views: BTreeMap<Vec<u8>, Used>,
    /// How often a view was used.
    uses: u64,
}

#[derive(Debug)]
struct Used {
    view: Box<V2View>,
    /// The number of its last use.
    last: u64,
}

/// A subagent that was announced.
pub(super) enum AnnouncedSubagent<'a> {
    Hidden,
    Shown(&'a mut V2View),
}

impl Subagents {
    /// Whether none was announced.
    pub(super) fn is_empty(&self) -> bool {
        self.announced.is_empty()
    }

    /// Takes note of a subagent. The first time counts.
    pub(super) fn announce(&mut self, session: &[u8], is_hidden: bool) {
        let id = Id::of(session);
        if self.announced.add(id) && is_hidden {
            self.hidden.add(id);
        }
    }

    /// Whether a subagent was announced and is not hidden.
    pub(super) fn shows(&self, session: &[u8]) -> bool {
        let id = Id::of(session);
        self.announced.has(id) && !self.hidden.has(id)
    }

    /// The subagent of this session. `None` if it was not announced.
    pub(super) fn get(&mut self, session: &[u8]) -> Option<AnnouncedSubagent<'_>> {
        if !self.announced.has(Id::of(session)) {
            return None;
        }
        if !self.shows(session) {
            return Some(AnnouncedSubagent::Hidden);
        }
        if !self.views.contains_key(session) && self.views.len() >= 2 * KEPT {
            let oldest = self.uses - KEPT as u64;
            self.views.retain(|_, used| used.last > oldest);
        }
        self.uses += 1;
        let used = self.views.entry(session.to_vec()).or_insert_with(|| Used {
            view: Box::default(),
            last: 0,
        });
        used.last = self.uses;
        Some(AnnouncedSubagent::Shown(&mut used.view))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_views_are_kept_and_all_subagents_are_known() {
        let mut subagents = Subagents::default();
        assert!(subagents.is_empty());
        assert!(subagents.get(b"s0").is_none());
        for count in 0..10 * KEPT {
            let session = format!("s{count}").into_bytes();
            subagents.announce(&session, count % 2 == 1);
            subagents.announce(&session, count % 2 == 0);
            subagents.get(&session);
        }
        assert!(!subagents.is_empty());
        assert!(subagents.views.len() <= 2 * KEPT);
        assert!(matches!(
            subagents.get(b"s0"),
            Some(AnnouncedSubagent::Shown(_))
        ));
        assert!(matches!(
            subagents.get(b"s1"),
            Some(AnnouncedSubagent::Hidden)
        ));
        assert!(subagents.shows(b"s2") && !subagents.shows(b"s3"));
        assert!(!subagents.shows(b"other"));
    }
}
