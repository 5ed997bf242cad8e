//! The titles of a session: those that a client has given it, that its engine gives it, and that are made
//! here.

use crate::engine::{AttachOutcome, Block};
use crate::json::{text_member, text_members};
use crate::record::Kind;
use crate::record::metadata::MetadataChange;
use crate::record::title::{self, named};

use super::open_session::OpenSession;

impl OpenSession {
    /// Restores the title that a client has given after an update that changes it, and leaves out a title
    /// that the clients have just been sent.
    pub(in crate::session) fn with_title(&mut self, block: Block) -> Block {
        let mut block = self.without_known_title(block);
        if let Some(title) = &self.client_title {
            let changes = |payload| changes_title(payload, title);
            if block
                .iter()
                .any(|entry| is_snapshot(entry.kind) && changes(entry.payload))
            {
                let restored = MetadataChange::Title(title.clone()).payload();
                block.push(Kind::Info, &restored);
            }
        }
        block
    }

    /// Leaves out the first title of the agent if it is the one that was made here.
    fn without_known_title(&mut self, block: Block) -> Block {
        if self.own_title.is_none() {
            return block;
        }
        let names = |payload| named(payload).is_some();
        if !block
            .iter()
            .any(|entry| is_snapshot(entry.kind) && names(entry.payload))
        {
            return block;
        }
        let own = self.own_title.take().and_then(|title| named(&title));
        let mut rest = Block::default();
        let mut is_first = true;
        for entry in block.iter() {
            let is_title = is_snapshot(entry.kind) && names(entry.payload);
            if is_title
                && std::mem::take(&mut is_first)
                && has_nothing_else(entry.payload)
                && named(entry.payload) == own
            {
                continue;
            }
            rest.push_entry(entry);
        }
        rest
    }

    /// Restores the title that a client has given after the snapshots of an engine that has attached.
    pub(in crate::session) fn restore_title(&self, attached: &mut AttachOutcome) {
        if let Some(title) = &self.client_title
            && attached
                .snapshots
                .iter()
                .any(|snapshot| changes_title(snapshot.payload, title))
        {
            let restored = MetadataChange::Title(title.clone()).payload();
            attached.snapshots.push(Kind::Info, &restored);
        }
    }

    /// The `info` record that names the session after its first prompt. `None` if it was given a
    /// title, as an agent may until the first turn ends, or if what was said so far makes none.
    pub(in crate::session) fn title_of_prompt(&self) -> Option<String> {
        let title = self.summary.title.as_deref();
        let title = title.filter(|title| !title::says_nothing(title))?;
        (!self.history.is_titled()).then(|| title::update(title))
    }

    /// The title of a session whose first turn was interrupted, so that its end has not named it, and
    /// when the session was last active. `None` if it has another title or will get one.
    pub(in crate::session) fn title_of_interrupted(
        &self,
        snapshots: &Block,
    ) -> Option<(String, String)> {
        if snapshots.iter().any(|entry| named(entry.payload).is_some()) {
            return None;
        }
        // Each replay has the same time.
        Some((self.summary.updated_at.clone()?, self.title_of_prompt()?))
    }
}

fn is_snapshot(kind: Kind) -> bool {
    matches!(kind, Kind::Info | Kind::UpdateV2)
}

/// Whether an update about the session, or the parameters with it, has nothing but a title.
fn has_nothing_else(payload: &str) -> bool {
    let update = text_member(payload, "update");
    let has_other = |object, known: &[&str]| {
        let mut members = text_members(object).into_iter();
        members.any(|(name, _)| !known.contains(&name.as_str()))
    };
    match update {
        Some(update) => {
            !has_other(payload, &["update"]) && !has_other(update, &["sessionUpdate", "title"])
        }
        None => !has_other(payload, &["sessionUpdate", "title"]),
    }
}

/// Whether an update gives the session another title, or removes it.
fn changes_title(payload: &str, title: &str) -> bool {
    named(payload).is_some_and(|named| named.as_deref() != Some(title))
}
