//! Takes over a session that another process had open, as soon as that has released it.

use crate::index::Summary;
use crate::store::{Opened, Scan, StoreError};
use crate::sys::blocking;

use super::access::{lock_or_read, released};
use super::actor::Actor;
use super::open_session::{LogAccess, OpenSession};
use super::outcome::Refusal;
use super::phase::Phase;
use super::refusal::storage;

impl Actor {
    /// Tries again to lock the log of an open session that another process had, or that another
    /// program has replaced. If another process still has it, the session stays as it is.
    pub(super) async fn look_again(&mut self) -> Result<(), Refusal> {
        // A running turn finds out by itself.
        if self.turns.is_empty()
            && let Some(session) = &mut self.session
            && let LogAccess::Own(log) = &session.log
            && let Err(error) = blocking(|| log.check_name())
        {
            tracing::warn!(session = %self.id, %error, "opened anew");
            session.failed_to_append(&error);
        }
        let reads_only = self.session.as_ref().is_some_and(OpenSession::reads_only);
        let (true, Some(store)) = (reads_only, self.deps.store.clone()) else {
            return Ok(());
        };
        released(&store, &self.id).await;
        let (log, scan) = blocking(|| lock_or_read(&store, &self.id, &mut |_| {}))?;
        self.refresh(log, scan);
        Ok(())
    }

    /// The same for a request that cannot do without the lock. The client is sent what it missed,
    /// and that a turn which ran there is over.
    pub(super) async fn take_over(&mut self) -> Result<(), Refusal> {
        if let Some(store) = self.deps.store.clone() {
            released(&store, &self.id).await;
        }
        let elsewhere = self.session.as_ref().and_then(OpenSession::elsewhere);
        let was_running = elsewhere.is_some_and(|elsewhere| elsewhere.running);
        self.lock_again()?;
        self.send_missed().await?;
        if was_running && self.machine.is_told() {
            self.tell(&Phase::Idle(None)).await;
        }
        Ok(())
    }

    /// Locks and recovers the log of an open session anew.
    pub(super) fn lock_again(&mut self) -> Result<(), Refusal> {
        let (Some(session), Some(store)) = (&mut self.session, &self.deps.store) else {
            return Ok(());
        };
        match blocking(|| store.open_log(&self.id)) {
            Ok(Opened { log, scan, .. }) => {
                self.refresh(LogAccess::Own(log), scan);
                Ok(())
            }
            Err(error) => {
                match (&error, &mut session.log) {
                    (StoreError::ReadOnly { .. }, log) => {
                        *log = LogAccess::ReadOnly(error.to_string());
                    }
                    (StoreError::InUse { holder, .. }, LogAccess::Shared(elsewhere)) => {
                        elsewhere.holder.clone_from(holder);
                    }
                    _ => {}
                }
                Err(storage(&error))
            }
        }
    }

    /// Takes the log of an open session as it was just read.
    pub(super) fn refresh(&mut self, log: LogAccess, scan: Scan) {
        let Some(session) = &mut self.session else {
            return;
        };
        // After a failed write of this process, what was not sent is its own and is sent live.
        let known = session
            .elsewhere()
            .is_some_and(|other| other.holder.is_some());
        let by_another = session.reads_only() && (known || !session.broken);
        session.log = log;
        session.broken = false;
        if let Some(end) = session.log_end() {
            session.behind |= by_another && session.shown < end;
            // Another program may have put a shorter log in its place.
            session.shown = session.shown.min(end);
        }
        if by_another && !session.reads_only() {
            tracing::info!(session = %self.id, missed = session.behind, "taken over");
        }
        session.history.reset(&scan);
        session.summary = Summary::of(&scan);
        session.titled = scan.titles.set().map(str::to_owned);
        session.recorded = scan.place;
        session.damage = scan.damage.into();
    }

    /// A refusal in the client's words: it may know the session by another id, and can open only
    /// what has a log.
    pub(super) fn named(&self, refusal: Refusal) -> Refusal {
        match refusal {
            Refusal::NotOpen if self.deps.store.is_none() => Refusal::Forgotten,
            Refusal::InUse { message, holder } => Refusal::InUse {
                message: message.replace(self.id.as_str(), &self.name),
                holder,
            },
            refusal => refusal,
        }
    }
}
