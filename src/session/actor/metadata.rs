//! Records a title that a client gives a session, and that the session is archived.

use crate::engine::{Attached, Block};
use crate::history::metadata::{change_metadata, is_change};
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

    /// Restores the title that a client has given after an update that changes it.
    pub(super) fn with_title(&self, mut block: Block) -> Block {
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

    /// The same for the snapshots of an engine that has attached.
    pub(super) fn restore_title(&self, attached: &mut Attached) {
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

/// Whether an update gives the session another title, or removes it.
fn changes_title(payload: &str, title: &str) -> bool {
    named(payload).is_some_and(|named| named.as_deref() != Some(title))
}
