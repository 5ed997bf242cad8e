//! What a session does with what clients note of it: a title, that it is archived.

use crate::engine::{Attached, Block, CloseReason};
use crate::index::Summary;
use crate::record::Kind;
use crate::record::metadata::MetadataChange;
use crate::record::title::named;
use crate::store::{Opened, Sync};
use crate::sys::blocking;

use super::actor::Actor;
use super::effect::{Batch, Effect};
use super::machine::{Machine, Stage};
use super::outcome::{Done, Refusal};
use super::refusal::storage;

impl<R> Machine<R> {
    /// Takes a note. What is archived is closed.
    pub(super) fn note(&mut self, reply: R, note: MetadataChange) -> Batch<R> {
        if let Some(refusal) = self.broken() {
            return vec![Effect::Answer(reply, Err(refusal.clone()))];
        }
        let was_open = self.open;
        let mut batch = vec![Effect::MetadataChange(note.clone())];
        let done = match note {
            MetadataChange::Title(title) => {
                if was_open {
                    let update = MetadataChange::Title(title.clone()).payload();
                    batch.push(Effect::SendSnapshots(vec![update]));
                }
                Done::Titled(title)
            }
            MetadataChange::Archived(archived) => {
                if archived && was_open {
                    self.stage = Stage::Trashing { was_open };
                    self.open = false;
                    batch.push(Effect::Release(CloseReason::Closed));
                }
                Done::Noted
            }
        };
        batch.push(Effect::Answer(reply, Ok(done)));
        batch
    }

    /// Says how the session is, without touching it.
    pub(super) fn status(&self, reply: R) -> Batch<R> {
        let done = Done::Status {
            open: self.open,
            phase: self.phase(),
        };
        let mut batch = vec![Effect::Answer(reply, Ok(done))];
        if !self.open {
            batch.insert(0, Effect::Check);
        }
        batch
    }
}

impl Actor {
    /// Writes a note down, whether the session is open or not. One that says nothing new is not.
    pub(super) async fn note(&mut self, note: &MetadataChange) -> Result<(), Refusal> {
        if self.session.is_some() {
            self.claim().await?;
        } else {
            return self.note_of_closed(note);
        }
        let Some(session) = &self.session else {
            return Ok(());
        };
        if is_new(session.summary.archived, note) {
            self.append(Kind::Info, None, &note.payload(), Sync::Turn)?;
        }
        if let (MetadataChange::Title(title), Some(session)) = (note, &mut self.session) {
            session.titled = Some(title.clone());
            session.conversation.titled(title);
        }
        Ok(())
    }

    /// The same for a session that nobody has open here.
    fn note_of_closed(&self, note: &MetadataChange) -> Result<(), Refusal> {
        let Some(store) = &self.deps.store else {
            return Err(Refusal::NotFound);
        };
        self.check()?;
        let catalog = self.deps.catalog.as_ref();
        let noted = blocking(|| {
            let Opened { mut log, scan, .. } = store.open_log(&self.id)?;
            let mut summary = Summary::of(&scan);
            if is_new(summary.archived, note) {
                let payload = note.payload();
                let appended = log.append(Kind::Info, None, &payload, Sync::Turn)?;
                summary.apply(Kind::Info, &appended.at, &payload);
            }
            summary.scanned = log.end();
            if let Some(catalog) = catalog {
                // While the lock is held, as the next holder may have more to tell.
                catalog.closed(&self.id, &summary);
            }
            Ok(())
        });
        noted.map_err(|error| storage(&error))
    }

    /// What the engine says, with the title that a client has given put back behind another one.
    pub(super) fn with_title(&self, mut block: Block) -> Block {
        let titled = self
            .session
            .as_ref()
            .and_then(|session| session.titled.as_ref());
        if let Some(title) = titled
            && block
                .iter()
                .any(|entry| entry.kind == Kind::Info && is_other(entry.payload, title))
        {
            block.push(Kind::Info, &MetadataChange::Title(title.clone()).payload());
        }
        block
    }

    /// The same for what an engine says when it is ready.
    pub(super) fn with_title_of(&self, attached: &mut Attached) {
        let titled = self
            .session
            .as_ref()
            .and_then(|session| session.titled.clone());
        if let Some(title) = titled
            && attached.snapshots.iter().any(|it| is_other(it, &title))
        {
            attached
                .snapshots
                .push(MetadataChange::Title(title).payload());
        }
    }
}

/// Whether an update gives the session another title, or takes it away.
fn is_other(payload: &str, title: &str) -> bool {
    named(payload).is_some_and(|named| named.as_deref() != Some(title))
}

fn is_new(archived: bool, note: &MetadataChange) -> bool {
    *note != MetadataChange::Archived(archived)
}
