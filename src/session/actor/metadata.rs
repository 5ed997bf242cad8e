//! Records a title that a client gives a session, and that the session is archived.

use crate::engine::{AttachOutcome, Block};
use crate::history::metadata::{change_metadata, is_change};
use crate::json::{text_member, text_members};
use crate::record::Kind;
use crate::record::metadata::MetadataChange;
use crate::record::title::named;
use crate::session::outcome::Refusal;
use crate::store::Sync;
use crate::sys::blocking;

use super::Actor;

impl Actor {
    /// Records a change, whether the session is open or not, unless it changes nothing.
    pub(super) async fn change_metadata(&mut self, change: &MetadataChange) -> Result<(), Refusal> {
        if self.session.is_none() {
            return self.change_metadata_of_closed(change);
        }
        self.claim().await?;
        let Some(session) = &self.session else {
            return Ok(());
        };
        if is_change(session.summary.archived, change) {
            self.append(Kind::Info, None, &change.payload(), Sync::Turn)?;
        }
        if let (MetadataChange::Title(title), Some(session)) = (change, &mut self.session) {
            session.client_title = Some(title.clone());
            session.conversation.title_changed(title);
        }
        Ok(())
    }

    fn change_metadata_of_closed(&self, change: &MetadataChange) -> Result<(), Refusal> {
        let Some(store) = &self.deps.store else {
            return Err(Refusal::NotFound);
        };
        self.check()?;
        let catalog = self.deps.catalog.as_deref();
        blocking(|| change_metadata(store, catalog, &self.id, change))?;
        Ok(())
    }

    /// Restores the title that a client has given after an update that changes it, and leaves out a title
    /// that the client has just been sent.
    pub(super) fn with_title(&mut self, block: Block) -> Block {
        let mut block = self.without_known_title(block);
        if let Some(title) = self.client_title() {
            let changes = |payload| changes_title(payload, title);
            if block
                .iter()
                .any(|entry| is_snapshot(entry.kind) && changes(entry.payload))
            {
                let restored = MetadataChange::Title(title.to_owned()).payload();
                block.push(Kind::Info, &restored);
            }
        }
        block
    }

    /// Leaves out the first title of the agent if it is the one that was made here.
    fn without_known_title(&mut self, block: Block) -> Block {
        let Some(session) = self
            .session
            .as_mut()
            .filter(|session| session.own_title.is_some())
        else {
            return block;
        };
        let names = |payload| named(payload).is_some();
        if !block
            .iter()
            .any(|entry| is_snapshot(entry.kind) && names(entry.payload))
        {
            return block;
        }
        let own = session.own_title.take().and_then(|title| named(&title));
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

    /// The same for the snapshots of an engine that has attached.
    pub(super) fn restore_title(&self, attached: &mut AttachOutcome) {
        if let Some(title) = self.client_title()
            && attached
                .snapshots
                .iter()
                .any(|snapshot| changes_title(snapshot.payload, title))
        {
            let restored = MetadataChange::Title(title.to_owned()).payload();
            attached.snapshots.push(Kind::Info, &restored);
        }
    }

    fn client_title(&self) -> Option<&str> {
        self.session.as_ref()?.client_title.as_deref()
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
