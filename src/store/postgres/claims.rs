//! Which process may append to a log: claims, their epochs, and signs of life.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use uuid::Uuid;

use crate::store::medium::{Holder, Lost, StoreError};
use crate::sys::{SessionId, boot_id, is_running, lock};

use super::Tables;
use super::driver::{Param, Repeat, flag, int, text, uuid, uuids};

/// How long a process counts as alive after its last sign of life.
const LEASE: &str = "interval '15 s'";
/// The time between two signs of life.
const SIGN: Duration = Duration::from_secs(5);

/// The sessions among these that a process has which is not this one, or none.
const LOST: &str = "
    SELECT s.id FROM @.session s JOIN @.fence f USING (no)
    WHERE s.id = ANY ($1) AND s.state = 'l' AND f.writer IS DISTINCT FROM $2";

const SIGN_OF_LIFE: &str = "
    INSERT INTO @.writer (id, host, pid, boot, client, ending, seen)
    VALUES ($1, $2, $3, $4, $5, $6, now())
    ON CONFLICT (id) DO UPDATE SET client = excluded.client, ending = excluded.ending, seen = now()";

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Live,
    /// In the trash since this time, in milliseconds.
    Trashed(i64),
}

/// A claim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) no: i64,
    pub(super) epoch: i64,
}

/// The claims of this process.
#[derive(Debug)]
pub(super) struct Claims {
    /// This process.
    pub(super) me: Uuid,
    boot: String,
    /// The name of the connected client, once it is known.
    pub(super) client: OnceLock<String>,
    /// Who learns of sessions that another process has taken over.
    pub(super) on_loss: Arc<OnLoss>,
    state: Mutex<Held>,
}

/// Who learns of sessions that another process has taken over.
#[derive(Default)]
pub(super) struct OnLoss(pub(super) OnceLock<Lost>);

impl fmt::Debug for OnLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnLoss").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Held {
    ids: BTreeSet<SessionId>,
    ending: bool,
    /// Whether a task gives signs of life.
    is_alive: bool,
}

impl Claims {
    pub(super) fn new(me: Uuid) -> Self {
        Self {
            me,
            boot: boot(),
            client: OnceLock::new(),
            on_loss: Arc::default(),
            state: Mutex::default(),
        }
    }

    fn this(&self) -> Holder {
        let client = self.client.get().map(String::as_str);
        Holder {
            ending: lock(&self.state).ending,
            ..Holder::this_process(client)
        }
    }

    fn sign_of_life(&self) -> Vec<Param> {
        let this = self.this();
        vec![
            uuid(self.me),
            text(this.host),
            int(i64::from(this.pid)),
            text(self.boot.clone()),
            text(this.client),
            flag(this.ending),
        ]
    }

    fn hold(&self, id: &SessionId) -> bool {
        lock(&self.state).ids.insert(id.clone())
    }

    pub(super) fn let_go(&self, id: &SessionId) {
        lock(&self.state).ids.remove(id);
    }
}

impl Tables {
    /// Makes this process the writer of a log. By force, even if another process has it, which can
    /// then append nothing more.
    pub(super) fn claim(
        self: &Arc<Self>,
        id: &SessionId,
        state: State,
        by_force: bool,
    ) -> Result<Claim, StoreError> {
        self.hold(id)?;
        let claimed = self.claim_held(id, state, by_force);
        if claimed.is_err() {
            self.claims.let_go(id);
        }
        claimed
    }

    /// Notes that this process has a session open, unless it has already.
    pub(super) fn hold(self: &Arc<Self>, id: &SessionId) -> Result<(), StoreError> {
        if !self.claims.hold(id) {
            return Err(StoreError::InUse {
                id: id.clone(),
                holder: Some(self.claims.this()),
            });
        }
        let alive = self.keep_alive();
        if alive.is_err() {
            self.claims.let_go(id);
        }
        alive
    }

    fn claim_held(
        &self,
        id: &SessionId,
        state: State,
        by_force: bool,
    ) -> Result<Claim, StoreError> {
        let mut gone = None;
        loop {
            if let Some(claim) = self.try_claim(id, state, by_force, gone)? {
                return Ok(claim);
            }
            match self.writer_of(id, state)? {
                None => return Err(StoreError::NotFound { id: id.clone() }),
                Some(writer) if gone.is_none() && self.is_gone(&writer) => gone = Some(writer.id),
                Some(writer) => {
                    return Err(StoreError::InUse {
                        id: id.clone(),
                        holder: Some(writer.holder),
                    });
                }
            }
        }
    }

    /// Claims a log that nobody holds, or whose holder is not alive or is `gone`.
    fn try_claim(
        &self,
        id: &SessionId,
        state: State,
        by_force: bool,
        gone: Option<Uuid>,
    ) -> Result<Option<Claim>, StoreError> {
        let sql = format!(
            "UPDATE @.fence f SET epoch = epoch + 1, writer = $2
             FROM @.session s
             WHERE s.id = $1 AND {} AND f.no = s.no AND
                 ($3 OR f.writer IS NULL OR f.writer = $2 OR f.writer = $4 OR NOT EXISTS
                     (SELECT FROM @.writer w WHERE w.id = f.writer AND w.seen > now() - {LEASE}))
             RETURNING f.no, f.epoch",
            state.condition()
        );
        let params = vec![
            uuid(id.to_uuid()),
            uuid(self.claims.me),
            flag(by_force),
            uuid(gone),
        ];
        let rows = self.driver.query(&sql, params, Repeat::Yes);
        let rows = rows.map_err(|failure| self.cannot_write(id, failure))?;
        Ok(rows.first().map(|row| Claim {
            no: row.get(0),
            epoch: row.get(1),
        }))
    }

    /// The process that has a session open; none if the session does not exist.
    fn writer_of(&self, id: &SessionId, state: State) -> Result<Option<Writer>, StoreError> {
        let sql = format!(
            "SELECT w.id, w.host, w.pid, w.boot, w.client, w.ending,
                 coalesce(w.seen > now() - {LEASE}, false)
             FROM @.session s JOIN @.fence f USING (no) LEFT JOIN @.writer w ON w.id = f.writer
             WHERE s.id = $1 AND {}",
            state.condition()
        );
        let rows = self.ask("look at", &sql, vec![uuid(id.to_uuid())])?;
        Ok(rows.first().map(|row| Writer {
            id: row.get::<_, Option<Uuid>>(0).unwrap_or_default(),
            holder: Holder {
                socket: None,
                started: None,
                host: row.get::<_, Option<String>>(1).unwrap_or_default(),
                pid: row
                    .get::<_, Option<i64>>(2)
                    .and_then(|pid| u32::try_from(pid).ok())
                    .unwrap_or_default(),
                client: row.get(4),
                ending: row.get::<_, Option<bool>>(5).unwrap_or_default(),
            },
            boot: row.get::<_, Option<String>>(3).unwrap_or_default(),
            is_alive: row.get(6),
        }))
    }

    /// The process that has a session open, if one has.
    pub(super) fn holder(&self, id: &SessionId) -> Option<Holder> {
        let writer = self.writer_of(id, State::Live).ok().flatten()?;
        let is_there = writer.is_alive && !self.is_gone(&writer);
        is_there.then_some(writer.holder)
    }

    /// Whether a process was on this machine and has ended.
    fn is_gone(&self, writer: &Writer) -> bool {
        let is_here = !self.claims.boot.is_empty()
            && writer.boot == self.claims.boot
            && writer.holder.is_on_this_host();
        is_here && writer.id != self.claims.me && !is_running(writer.holder.pid)
    }

    /// Lets other processes know that this one is about to release its sessions.
    pub(super) fn ending(&self) {
        let was_ending = std::mem::replace(&mut lock(&self.claims.state).ending, true);
        if was_ending || lock(&self.claims.state).ids.is_empty() {
            return;
        }
        if let Err(error) = self
            .driver
            .query(SIGN_OF_LIFE, self.claims.sign_of_life(), Repeat::Yes)
        {
            tracing::debug!(%error, "cannot tell other processes that this one ends");
        }
    }

    /// Gives a sign of life now, and then again and again while this process has sessions open.
    fn keep_alive(self: &Arc<Self>) -> Result<(), StoreError> {
        if lock(&self.claims.state).is_alive {
            return Ok(());
        }
        self.ask("write to", SIGN_OF_LIFE, self.claims.sign_of_life())?;
        let handle = self.driver.handle();
        let handle = handle.map_err(|failure| self.failed("write to", failure))?;
        if !std::mem::replace(&mut lock(&self.claims.state).is_alive, true) {
            handle.spawn(stay_alive(Arc::downgrade(self)));
        }
        Ok(())
    }
}

/// Gives signs of life for as long as the process has sessions open, and looks whether another one
/// has taken them over.
async fn stay_alive(tables: Weak<Tables>) {
    loop {
        tokio::time::sleep(SIGN).await;
        let Some(tables) = tables.upgrade() else {
            return;
        };
        let ids: Vec<Uuid> = {
            let mut held = lock(&tables.claims.state);
            if held.ids.is_empty() {
                held.is_alive = false;
                return;
            }
            held.ids.iter().map(SessionId::to_uuid).collect()
        };
        let (remote, sign) = (tables.driver.remote(), tables.claims.sign_of_life());
        let (held, on_loss) = (
            vec![uuids(ids), uuid(tables.claims.me)],
            tables.claims.on_loss.clone(),
        );
        // Otherwise the last use of the tables could end here, on the driver's own thread.
        drop(tables);
        let lost = match remote.query(SIGN_OF_LIFE, &sign).await {
            Ok(_) => remote.query(LOST, &held).await,
            Err(failure) => Err(failure),
        };
        match (lost, on_loss.0.get()) {
            (Ok(lost), Some(notify)) => {
                for row in &lost {
                    notify(&SessionId::from_uuid(row.get(0)));
                }
            }
            (Ok(_), None) => {}
            (Err(error), _) => tracing::debug!(%error, "cannot give a sign of life"),
        }
    }
}

/// A process that writes.
struct Writer {
    id: Uuid,
    holder: Holder,
    boot: String,
    is_alive: bool,
}

impl State {
    /// The condition for such a row of `session s`.
    fn condition(self) -> String {
        match self {
            Self::Live => "s.state = 'l'".to_owned(),
            Self::Trashed(since) => format!("s.state = 't' AND s.since = {since}"),
        }
    }
}

/// What is the same for processes that see each other's ids: the boot of the system, and the
/// namespace of processes, which each container has for itself. Empty if it is unknown.
fn boot() -> String {
    let Some(boot) = boot_id() else {
        return String::new();
    };
    match std::fs::read_link("/proc/self/ns/pid") {
        Ok(namespace) => format!("{boot} {}", namespace.display()),
        Err(_) => String::new(),
    }
}
