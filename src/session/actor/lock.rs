//! Locks and recovers the log of a session, and takes it over from another process.

use std::time::Duration;

use crate::engine::SessionConfig;
use crate::protocol::meta::{OBSERVE, TAKE_OVER, is_set};
use crate::session::open_session::{Elsewhere, LogAccess, OpenSession};
use crate::session::outcome::Refusal;
use crate::session::phase::Phase;
use crate::store::{OpenedLog, PositionedRecord, Scan, Store, StoreError, TURN_INTERRUPTED};
use crate::sys::{SessionId, blocking};

use super::Actor;

/// How long a process may take to release a session after it has announced that it is ending.
const ENDING: Duration = Duration::from_secs(2);
/// How often to check whether it has. Another process cannot notify this one.
const CHECK: Duration = Duration::from_millis(20);

impl Actor {
    /// Tries to lock the log of an open session that another process had, or that another program
    /// has replaced. If another process still has it, the session stays as it is.
    pub(super) async fn try_lock(&mut self) -> Result<(), Refusal> {
        self.check_claim();
        let unlocked = self.session.as_ref().is_some_and(OpenSession::is_unlocked);
        let (true, Some(store)) = (unlocked, self.deps.store.clone()) else {
            return Ok(());
        };
        released(&store, &self.id).await;
        let by_force = self
            .session
            .as_ref()
            .is_some_and(|session| takes_over(&session.config));
        let (log, scan) = blocking(|| lock_or_read(&store, &self.id, by_force, &mut |_| {}))?;
        self.refresh(log, scan);
        Ok(())
    }

    /// Checks that the log is still the one that this process may append to. A running turn finds out on
    /// its own.
    pub(super) fn check_claim(&mut self) {
        if self.turns.is_empty()
            && let Some(session) = &mut self.session
            && let LogAccess::Own(log) = &session.log
            && let Err(error) = blocking(|| log.check_name())
        {
            tracing::warn!(session = %self.id, %error, "no longer open for writing");
            session.failed_to_append(&error);
        }
    }

    /// Makes sure that this process may append to the log.
    pub(super) async fn claim(&mut self) -> Result<(), Refusal> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        match &session.log {
            LogAccess::Memory => return Ok(()),
            LogAccess::Own(_) => {}
            LogAccess::Failed(_) => {
                // The old lock must be released before the log can be locked and recovered.
                session.log = LogAccess::Failed(None);
                self.lock()?;
            }
            LogAccess::Shared(_) | LogAccess::ReadOnly(_) => self.take_over().await?,
        }
        self.send_missed().await
    }

    /// Recovers the log after a failed write, if the disk allows it now.
    pub(super) async fn retry_recovery(&mut self) {
        let session = self.session.as_ref();
        let failed = session.is_some_and(|session| matches!(session.log, LogAccess::Failed(_)));
        // Turns that are being cancelled have not ended.
        if failed
            && self.turns.is_empty()
            && let Err(error) = self.claim().await
        {
            tracing::warn!(session = %self.id, %error, "the log cannot be recovered yet");
        }
    }

    /// Locks the log of a session that another process had. The client is sent what it missed, and
    /// that a turn which ran there has ended.
    async fn take_over(&mut self) -> Result<(), Refusal> {
        if let Some(store) = self.deps.store.clone() {
            released(&store, &self.id).await;
        }
        let elsewhere = self.session.as_ref().and_then(OpenSession::elsewhere);
        let was_running = elsewhere.is_some_and(|elsewhere| elsewhere.running);
        self.lock()?;
        self.send_missed().await?;
        if was_running {
            let history = self.session.as_ref().map(|session| &session.history);
            let interrupted = history.is_some_and(|history| history.was_interrupted());
            let end = interrupted.then(|| TURN_INTERRUPTED.to_owned());
            self.send_state(&Phase::Idle(end)).await;
        }
        Ok(())
    }

    /// Locks and recovers the log of an open session.
    fn lock(&mut self) -> Result<(), Refusal> {
        let (Some(session), Some(store)) = (&mut self.session, &self.deps.store) else {
            return Ok(());
        };
        match blocking(|| store.open_log(&self.id)) {
            Ok(OpenedLog { log, scan, .. }) => {
                self.refresh(LogAccess::Own(log), scan);
                Ok(())
            }
            Err(error) => {
                match (&error, &mut session.log) {
                    (StoreError::InUse { holder, .. }, LogAccess::Shared(elsewhere)) => {
                        elsewhere.holder.clone_from(holder);
                    }
                    (StoreError::InUse { holder, .. }, log @ LogAccess::Failed(_))
                        if holder.is_some() =>
                    {
                        *log = LogAccess::Shared(Elsewhere {
                            holder: holder.clone(),
                            ..Elsewhere::default()
                        });
                    }
                    (StoreError::ReadOnly { .. }, LogAccess::Failed(_)) => {}
                    (StoreError::ReadOnly { .. }, log) => {
                        *log = LogAccess::ReadOnly(error.to_string());
                    }
                    _ => {}
                }
                Err(error.into())
            }
        }
    }

    /// Uses the log of an open session as it was just read.
    fn refresh(&mut self, log: LogAccess, scan: Scan) {
        let Some(session) = &mut self.session else {
            return;
        };
        // After a failed write of this process, the unsent records are its own and are sent live.
        let by_another = matches!(session.log, LogAccess::Shared(_) | LogAccess::ReadOnly(_));
        session.log = log;
        if let Some(end) = session.log_end() {
            session.missed_prompts |= by_another && session.shown < end;
            // Another program may have put a shorter log in its place.
            session.shown = session.shown.min(end);
        }
        if by_another && !session.is_unlocked() {
            tracing::info!(session = %self.id, missed = session.missed_prompts, "taken over");
        }
        session.read(scan);
    }

    /// A refusal in the client's terms: it may know the session by another id, and can open only a
    /// session that has a log.
    pub(super) fn for_client(&self, refusal: Refusal) -> Refusal {
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

/// Waits until a process that is ending has released the session, but not for long. A holder that
/// is not ending is not waited for.
pub(super) async fn released(store: &Store, id: &SessionId) {
    let released = async {
        while blocking(|| store.is_being_released(id)) {
            tokio::time::sleep(CHECK).await;
        }
    };
    tokio::time::timeout(ENDING, released).await.ok();
}

/// Whether the client has asked to take a session over from a process that has it open.
pub(super) fn takes_over(config: &SessionConfig) -> bool {
    is_set(&config.params.0, TAKE_OVER)
}

/// Whether the client only looks on.
pub(super) fn observes(config: &SessionConfig) -> bool {
    is_set(&config.params.0, OBSERVE)
}

/// Locks the log for this process, `by_force` even if another one has it. While another process has
/// it locked, or if the disk allows no writes, only reads it. Calls `visit` with each record, once.
pub(super) fn lock_or_read(
    store: &Store,
    id: &SessionId,
    by_force: bool,
    visit: &mut dyn FnMut(&PositionedRecord<'_>),
) -> Result<(LogAccess, Scan), Refusal> {
    let mut is_visited = false;
    let mut visit_once = |entry: &PositionedRecord<'_>| {
        is_visited = true;
        visit(entry);
    };
    let opened = if by_force {
        store.take_over_with(id, &mut visit_once)
    } else {
        store.open_log_with(id, &mut visit_once)
    };
    match opened {
        Ok(OpenedLog {
            log,
            scan,
            kept_aside,
        }) => {
            if let Some(path) = kept_aside {
                tracing::warn!(session = %id, path = %path.display(), "saved a torn end and removed it from the log");
            }
            Ok((LogAccess::Own(log), scan))
        }
        Err(error @ (StoreError::InUse { .. } | StoreError::ReadOnly { .. })) => {
            let mut log = store.read(id)?;
            // Where the recovery has failed, all records were read before.
            let scan = if is_visited {
                log.scan()?
            } else {
                log.scan_with(visit)?
            };
            let access = if let StoreError::InUse { holder, .. } = error {
                let running = scan.turn_open();
                LogAccess::Shared(Elsewhere {
                    holder,
                    running,
                    attached: false,
                })
            } else {
                tracing::warn!(session = %id, %error, "opened for reading only");
                LogAccess::ReadOnly(error.to_string())
            };
            Ok((access, scan))
        }
        Err(error) => Err(error.into()),
    }
}
