//! Which process may append to a log: claims, their tokens, and signs of life.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::store::medium::{Durability, Holder, StoreError, TakenOver};
use crate::sys::{Ids, SessionId, boot_id, is_running, lock};

use super::StoreTables;
use super::driver::{Param, Repeat, StatementRunner, flag, int, ints, text, uuid, uuids};
use super::failure::DatabaseFailure;

/// How long a process counts as alive after its last sign of life. The function `claim` has the same.
const LEASE: &str = "interval '15 s'";
/// The time between two signs of life.
const SIGN: Duration = Duration::from_secs(5);

/// The sessions whose claims do not count any longer, among those with these numbers and tokens.
const LOST: &str = "
    SELECT held.id FROM unnest($1, $2, $3) AS held (id, no, token) LEFT JOIN @.fence f USING (no)
    WHERE f.token IS DISTINCT FROM held.token";

const SIGN_OF_LIFE: &str = "SELECT @.sign_of_life($1, $2, $3, $4, $5, $6)";

/// Ends claims of this process.
pub(super) const RELEASE: &str = "SELECT @.release($1, $2)";

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoredState {
    Live,
    /// In the trash since this time, in milliseconds.
    Trashed(i64),
}

/// A claim. Its token is that of no other one, whatever the database has forgotten.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) no: i64,
    pub(super) token: Uuid,
}

/// The claims of this process.
#[derive(Debug)]
pub(super) struct Claims {
    /// This process.
    pub(super) me: Uuid,
    pub(super) ids: Arc<dyn Ids>,
    boot: String,
    /// The name of the connected client, once it is known.
    pub(super) client: OnceLock<String>,
    /// Who learns of sessions that another process has taken over.
    pub(super) on_taken_over: OnTakenOver,
    state: Mutex<HeldClaims>,
}

/// Who learns of sessions that another process has taken over.
#[derive(Default)]
pub(super) struct OnTakenOver(pub(super) OnceLock<TakenOver>);

impl fmt::Debug for OnTakenOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnTakenOver").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct HeldClaims {
    /// The sessions that are open here, and their claims once these are made.
    sessions: BTreeMap<SessionId, Option<Claim>>,
    /// The tokens of claims that may count in the database although nobody has them here.
    strays: Vec<Uuid>,
    ending: bool,
    /// Whether a task gives signs of life.
    is_alive: bool,
}

impl Claims {
    pub(super) fn new(ids: Arc<dyn Ids>) -> Self {
        Self {
            me: ids.uuid(),
            ids,
            boot: boot(),
            client: OnceLock::new(),
            on_taken_over: OnTakenOver::default(),
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
        let mut held = lock(&self.state);
        let is_new = !held.sessions.contains_key(id);
        if is_new {
            held.sessions.insert(id.clone(), None);
        }
        is_new
    }

    /// A session that this process holds was claimed.
    pub(super) fn claimed(&self, id: &SessionId, claim: Claim) {
        lock(&self.state).sessions.insert(id.clone(), Some(claim));
    }

    /// The claim of a session that is open here.
    pub(super) fn of(&self, id: &SessionId) -> Option<Claim> {
        *lock(&self.state).sessions.get(id)?
    }

    pub(super) fn let_go(&self, id: &SessionId) {
        lock(&self.state).sessions.remove(id);
    }

    /// A claim may count although nobody has it: it is ended with the next sign of life.
    pub(super) fn leave_behind(&self, token: Uuid) {
        lock(&self.state).strays.push(token);
    }
}

impl StoreTables {
    /// Makes this process the writer of a log. By force, even if another process has it, which can
    /// then append nothing more.
    pub(super) fn claim(
        &self,
        id: &SessionId,
        state: StoredState,
        by_force: bool,
    ) -> Result<Claim, StoreError> {
        self.hold(id)?;
        let claimed = self.claim_held(id, state, by_force);
        match &claimed {
            Ok(claim) => self.claims.claimed(id, *claim),
            Err(_) => self.claims.let_go(id),
        }
        claimed
    }

    /// Notes that this process has a session open, unless it has already.
    pub(super) fn hold(&self, id: &SessionId) -> Result<(), StoreError> {
        if !self.claims.hold(id) {
            return Err(StoreError::InUse {
                id: id.clone(),
                holder: Some(self.claims.this()),
            });
        }
        let alive = self.keep_alive();
        alive.map_err(|failure| {
            self.claims.let_go(id);
            self.cannot_write(id, failure)
        })
    }

    fn claim_held(
        &self,
        id: &SessionId,
        state: StoredState,
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
        state: StoredState,
        by_force: bool,
        gone: Option<Uuid>,
    ) -> Result<Option<Claim>, StoreError> {
        let token = self.claims.ids.uuid();
        let trashed = match state {
            StoredState::Live => None,
            StoredState::Trashed(since) => Some(since),
        };
        let sql = "SELECT log FROM @.claim($1, $2, $3, $4, $5, $6, $7)";
        let params = vec![
            uuid(id.to_uuid()),
            (Box::new(trashed), Type::INT8),
            flag(by_force),
            uuid(self.claims.me),
            uuid(gone),
            uuid(token),
            flag(self.durability != Durability::Os),
        ];
        match self.driver.query(sql, params, Repeat::YesIfWritable) {
            Ok(rows) => Ok(rows.first().map(|row| Claim {
                no: row.get(0),
                token,
            })),
            Err(failure) => {
                if failure.may_have_run() {
                    self.claims.leave_behind(token);
                }
                Err(self.cannot_write(id, failure))
            }
        }
    }

    /// The process that has a session open; none if the session does not exist.
    fn writer_of(
        &self,
        id: &SessionId,
        state: StoredState,
    ) -> Result<Option<WriterProcess>, StoreError> {
        let sql = format!(
            "SELECT w.id, w.host, w.pid, w.boot, w.client, w.ending,
                 coalesce(w.seen > now() - {LEASE}, false)
             FROM @.session s JOIN @.fence f USING (no) LEFT JOIN @.writer w ON w.id = f.writer
             WHERE s.id = $1 AND {}",
            state.condition()
        );
        let rows = self.ask("look at", &sql, vec![uuid(id.to_uuid())])?;
        Ok(rows.first().map(|row| WriterProcess {
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
        let writer = self.writer_of(id, StoredState::Live).ok().flatten()?;
        let is_there = writer.is_alive && !self.is_gone(&writer);
        is_there.then_some(writer.holder)
    }

    /// Whether a process was on this machine and has ended.
    fn is_gone(&self, writer: &WriterProcess) -> bool {
        let is_here = !self.claims.boot.is_empty()
            && writer.boot == self.claims.boot
            && writer.holder.is_on_this_host();
        is_here && writer.id != self.claims.me && !is_running(writer.holder.pid)
    }

    /// Lets other processes know that this one is about to release its sessions. Does not wait for that.
    pub(super) fn ending(&self) {
        self.driver.ending();
        let was_ending = std::mem::replace(&mut lock(&self.claims.state).ending, true);
        if was_ending || lock(&self.claims.state).sessions.is_empty() {
            return;
        }
        let sign = self.claims.sign_of_life();
        if let Err(error) = self.driver.begin(SIGN_OF_LIFE, sign, Repeat::No) {
            tracing::debug!(%error, "cannot tell other processes that this one ends");
        }
    }

    /// Gives a sign of life now, and then again and again while this process has sessions open.
    fn keep_alive(&self) -> Result<(), DatabaseFailure> {
        if lock(&self.claims.state).is_alive {
            return Ok(());
        }
        let sign = self.claims.sign_of_life();
        self.driver
            .query(SIGN_OF_LIFE, sign, Repeat::YesIfWritable)?;
        let handle = self.driver.handle()?;
        if !std::mem::replace(&mut lock(&self.claims.state).is_alive, true) {
            let (claims, remote) = (self.claims.clone(), self.driver.remote());
            handle.spawn(async move { claims.stay_alive(&remote).await });
        }
        Ok(())
    }
}

impl Claims {
    /// Gives signs of life for as long as the process has sessions open, and looks whether another one
    /// has taken them over.
    async fn stay_alive(&self, remote: &StatementRunner) {
        loop {
            tokio::time::sleep(SIGN).await;
            {
                let mut held = lock(&self.state);
                if held.sessions.is_empty() && held.strays.is_empty() {
                    held.is_alive = false;
                    return;
                }
            }
            if let Err(error) = self.give_sign(remote).await {
                tracing::debug!(%error, "cannot give a sign of life");
            }
        }
    }

    async fn give_sign(&self, remote: &StatementRunner) -> Result<(), DatabaseFailure> {
        let rows = remote.query(SIGN_OF_LIFE, self.sign_of_life()).await?;
        remote.set_crowded(rows.first().is_some_and(|row| row.get(0)));
        let strays = lock(&self.state).strays.clone();
        if !strays.is_empty() {
            let params = vec![uuid(self.me), uuids(strays.clone())];
            remote.query(RELEASE, params).await?;
            lock(&self.state)
                .strays
                .retain(|stray| !strays.contains(stray));
        }
        let Some(notify) = self.on_taken_over.0.get() else {
            return Ok(());
        };
        let (mut ids, mut numbers, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
        for (id, claim) in &lock(&self.state).sessions {
            if let Some(claim) = claim {
                ids.push(id.to_uuid());
                numbers.push(claim.no);
                tokens.push(claim.token);
            }
        }
        let params = vec![uuids(ids), ints(numbers), uuids(tokens)];
        for row in &remote.query(LOST, params).await? {
            notify(&SessionId::from_uuid(row.get(0)));
        }
        Ok(())
    }
}

/// A process that writes.
struct WriterProcess {
    id: Uuid,
    holder: Holder,
    boot: String,
    is_alive: bool,
}

impl StoredState {
    /// The condition for such a row of `session s`.
    fn condition(self) -> String {
        match self {
            Self::Live => "s.state = 'l'".to_owned(),
            Self::Trashed(since) => format!("s.state = 't' AND s.since = {since}"),
        }
    }
}

/// The common mark of processes that see each other's ids: the boot of the system, and the
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
