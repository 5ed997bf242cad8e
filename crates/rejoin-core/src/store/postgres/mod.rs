//! Logs as rows in PostgreSQL. `docs/postgres.md` describes the tables.
//!
//! A log is its blocks in their order. What a writer appends is there as a whole or not at all, and
//! only if its claim still counts: `claims.rs` makes claims, and functions in the newest `version_N.sql`
//! compare them.

mod address;
mod claims;
mod connect;
mod driver;
mod failure;
mod fingerprint;
mod image;
mod join;
mod writable;
mod password;
mod pool;
mod roles;
mod tables;
mod tls;
mod trash;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::sys::{SessionId, Sys, Timestamp, Watch};

use super::medium::{
    Durability, Holder, Image, LogChanged, LogInfo, Medium, StoreError, TakenOver, Trashed, Wanted,
    WritableLog,
};

use address::Address;
use claims::{Claim, Claims, StoredState};
use driver::{Driver, Repeat};
pub(crate) use driver::{Param, flags, int, ints, text, texts, uuid, uuids};
use image::Pages;
pub use roles::Rights;
pub(in crate::store) use roles::grant;
use tables::TablesVersion;
pub(in crate::store) use tables::migrate;
pub(crate) use tokio_postgres::Row;
use writable::Claimed;

/// The variables of the environment that lead to the store at an address. One that cannot be read
/// leads nowhere.
pub(in crate::store) fn variables(place: &Path) -> Vec<String> {
    let address = Address::parse(place);
    let variables = address.iter().flat_map(Address::variables);
    variables.map(str::to_owned).collect()
}

/// The tables of a store, and the claims of this process.
#[derive(Debug)]
pub(in crate::store) struct StoreTables {
    driver: Driver,
    claims: Arc<Claims>,
    durability: Durability,
    /// The version of the tables, once it was found to be one that this program can read.
    version: OnceLock<TablesVersion>,
}

impl StoreTables {
    /// Whether what was answered is to survive a crash of the database's machine.
    fn is_safe(&self) -> bool {
        self.durability != Durability::Os
    }

    /// A note of this role.
    fn note(&self, name: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT text FROM @.note WHERE name = $1 AND owner = session_user";
        let rows = self.ask("read", sql, vec![text(name.to_owned())])?;
        Ok(rows.first().map(|row| row.get(0)))
    }

    fn set_note(&self, name: &str, note: &str) -> Result<(), StoreError> {
        let sql = "INSERT INTO @.note (name, text)
                   SELECT $1, $2 FROM (SELECT set_config('synchronous_commit', 'off', true)) AS mode
                   ON CONFLICT (name, owner) DO UPDATE SET text = excluded.text";
        let params = vec![text(name.to_owned()), text(note.to_owned())];
        self.ask("write to", sql, params).map(drop)
    }
}

/// The database of a store for those that keep tables of their own in it. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Database(Arc<StoreTables>);

impl Database {
    /// Runs a statement that may be repeated, in which `@` is the schema.
    pub(crate) fn ask(&self, sql: &str, params: Vec<Param>) -> Result<Vec<Row>, StoreError> {
        self.0.check_reads()?;
        self.0.ask("look at", sql, params)
    }

    /// Runs a statement that changes something and may be repeated, in which `@` is the schema;
    /// false if this role may not do that, or if the only server accepts no writes.
    pub(crate) fn change(&self, sql: &str, params: Vec<Param>) -> Result<bool, StoreError> {
        match self.0.driver.query(sql, params, Repeat::YesIfWritable) {
            Ok(_) => Ok(true),
            Err(failure) if failure.is_forbidden() || failure.is_read_only() => Ok(false),
            Err(failure) => Err(self.0.failed("write to", failure)),
        }
    }
}

/// A store in PostgreSQL.
#[derive(Debug)]
pub(in crate::store) struct Postgres {
    tables: Result<Arc<StoreTables>, String>,
    place: PathBuf,
}

impl Postgres {
    /// Connects when something is asked of it.
    pub(in crate::store) fn new(place: &Path, sys: &Sys, durability: Durability) -> Self {
        let tables = Address::parse(place).map(|address| {
            Arc::new(StoreTables {
                driver: Driver::new(address),
                claims: Arc::new(Claims::new(sys.ids.clone())),
                durability,
                version: OnceLock::new(),
            })
        });
        Self {
            tables,
            place: super::medium::place::shown(place).into(),
        }
    }

    /// The database, if the address names one.
    pub(in crate::store) fn database(&self) -> Option<Database> {
        self.tables.clone().ok().map(Database)
    }

    fn tables(&self) -> Result<&Arc<StoreTables>, StoreError> {
        self.tables.as_ref().map_err(|why| StoreError::Unusable {
            place: self.place.display().to_string(),
            reason: why.clone(),
        })
    }

    fn claimed(
        &self,
        id: &SessionId,
        state: StoredState,
        by_force: bool,
    ) -> Result<Box<dyn WritableLog>, StoreError> {
        let tables = self.tables()?;
        tables.check_writes(id)?;
        let claim = tables.claim(id, state, by_force)?;
        Ok(Box::new(Claimed::new(
            tables.clone(),
            id.clone(),
            claim,
            false,
        )))
    }

    fn opened(&self, id: &SessionId, condition: &str) -> Result<Box<dyn Image>, StoreError> {
        let tables = self.tables()?;
        tables.check_reads()?;
        let sql = format!("SELECT no FROM @.session WHERE id = $1 AND {condition}");
        let rows = tables.ask("open", &sql, vec![uuid(id.to_uuid())])?;
        let row = rows
            .first()
            .ok_or_else(|| StoreError::NotFound { id: id.clone() })?;
        let path = tables.path_of(id);
        Ok(Box::new(Pages::new(tables.clone(), row.get(0), path)))
    }
}

impl Medium for Postgres {
    /// The tables must be there: programs that serve do not make them.
    fn prepare(&self) -> Result<(), StoreError> {
        self.tables()?.check_reads()
    }

    fn is_there(&self) -> Result<bool, StoreError> {
        self.tables()?.version().map(|version| version.is_some())
    }

    fn serves(&self, client: &str) {
        if let Ok(tables) = &self.tables {
            // The first one counts, as with `initialize`.
            tables.claims.client.set(client.to_owned()).ok();
        }
    }

    fn draft(&self, id: &SessionId) -> Result<Box<dyn WritableLog>, StoreError> {
        let tables = self.tables()?;
        tables.check_writes(id)?;
        tables.hold(id)?;
        let token = tables.claims.ids.uuid();
        let params = vec![uuid(id.to_uuid()), uuid(tables.claims.me), uuid(token)];
        // A second row would never be published, and be removed some time.
        let sql = "SELECT @.draft($1, $2, $3)";
        let rows = tables.driver.query(sql, params, Repeat::YesIfWritable);
        let rows = rows.map_err(|failure| tables.cannot_write(id, failure));
        let made = rows.and_then(|rows| match rows.first() {
            Some(row) => Ok(row.get(0)),
            None => Err(StoreError::NotFound { id: id.clone() }),
        });
        if made.is_err() {
            tables.claims.let_go(id);
        }
        let claim = Claim { no: made?, token };
        tables.claims.claimed(id, claim);
        let draft = Claimed::new(tables.clone(), id.clone(), claim, true);
        Ok(Box::new(draft))
    }

    fn claim(&self, id: &SessionId, by_force: bool) -> Result<Box<dyn WritableLog>, StoreError> {
        self.claimed(id, StoredState::Live, by_force)
    }

    fn on_taken_over(&self, taken: TakenOver) -> bool {
        // The first one counts; there is one for each process.
        self.tables
            .as_ref()
            .is_ok_and(|tables| tables.claims.on_taken_over.0.set(taken).is_ok())
    }

    fn waits(&self) -> bool {
        true
    }

    fn open(&self, id: &SessionId) -> Result<Box<dyn Image>, StoreError> {
        self.opened(id, "state = 'l'")
    }

    fn info(&self, id: &SessionId) -> Result<Option<LogInfo>, StoreError> {
        let sql = "SELECT end_off, changed FROM @.session JOIN @.fence USING (no)
                   WHERE id = $1 AND state = 'l'";
        let tables = self.tables()?;
        tables.check_reads()?;
        let rows = tables.ask("look at", sql, vec![uuid(id.to_uuid())])?;
        Ok(rows.first().map(|row| LogInfo {
            is_log: true,
            len: row.get::<_, i64>(0).unsigned_abs(),
            changed_at: Timestamp::from_millis(row.get(1)),
        }))
    }

    fn absent(&self, id: &SessionId) -> StoreError {
        StoreError::NotFound { id: id.clone() }
    }

    fn ids(&self) -> Result<Vec<SessionId>, StoreError> {
        let sql = "SELECT id FROM @.session WHERE state = 'l' ORDER BY id";
        let tables = self.tables()?;
        tables.check_reads()?;
        let rows = tables.ask("list", sql, Vec::new())?;
        Ok(rows
            .iter()
            .map(|row| SessionId::from_uuid(row.get(0)))
            .collect())
    }

    fn names_changed(&self) -> Result<Timestamp, StoreError> {
        let sql = "SELECT greatest(0, (SELECT max(since) FROM @.session WHERE state = 'l'),
                       (SELECT max(since) FROM @.session WHERE state = 't'))";
        let rows = self.tables()?.ask("look at", sql, Vec::new())?;
        let changed = rows.first().map_or(0, |row| row.get(0));
        Ok(Timestamp::from_millis(changed))
    }

    fn watch(&self, wanted: Wanted, changed: LogChanged) -> Result<Watch, StoreError> {
        watch::watch(self.tables()?, wanted, changed)
    }

    fn holder(&self, id: &SessionId) -> Option<Holder> {
        self.tables.as_ref().ok()?.holder(id)
    }

    fn is_open(&self, id: &SessionId) -> bool {
        self.holder(id).is_some()
    }

    fn is_being_released(&self, id: &SessionId) -> bool {
        self.holder(id).is_some_and(|holder| holder.ending)
    }

    fn ending(&self) {
        if let Ok(tables) = &self.tables {
            tables.ending();
        }
    }

    fn trashed(&self) -> Result<Vec<Trashed>, StoreError> {
        self.tables()?.trashed()
    }

    fn open_trashed(&self, trashed: &Trashed) -> Result<Box<dyn Image>, StoreError> {
        let condition = format!("state = 't' AND since = {}", trashed.at.as_millis());
        self.opened(&trashed.id, &condition)
    }

    fn claim_trashed(&self, trashed: &Trashed) -> Result<Option<Box<dyn WritableLog>>, StoreError> {
        if self.info(&trashed.id)?.is_some() {
            return Err(StoreError::Exists {
                id: trashed.id.clone(),
            });
        }
        let state = StoredState::Trashed(trashed.at.as_millis());
        match self.claimed(&trashed.id, state, false) {
            Err(StoreError::ReadOnly { .. }) => Ok(None),
            claimed => claimed.map(Some),
        }
    }

    fn restore(&self, trashed: &Trashed) -> Result<(), StoreError> {
        self.tables()?.restore(trashed)
    }

    fn count_trash(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.tables()?.count_trash(before)
    }

    fn empty_trash(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.tables()?.empty_trash(before)
    }

    fn may_remove(&self) -> Result<bool, StoreError> {
        self.tables()?.may_remove()
    }

    fn join_blocks(&self, before: Timestamp) -> Result<bool, StoreError> {
        self.tables()?.join_blocks(before)
    }

    fn has_traces_of(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.tables()?.has_traces_of(id)
    }

    fn erase(&self, id: &SessionId, wanted: &mut dyn FnMut() -> bool) -> Result<bool, StoreError> {
        let claim = match self.claim(id, false) {
            Ok(claim) => Some(claim),
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let erased = if wanted() {
            self.tables()?.erase(id)
        } else {
            Ok(false)
        };
        drop(claim);
        erased
    }

    fn note(&self, name: &str) -> Option<Vec<u8>> {
        let note = self.tables.as_ref().ok()?.note(name).ok()?;
        note.map(String::into_bytes)
    }

    fn set_note(&self, name: &str, note: &str) -> Result<(), StoreError> {
        self.tables()?.set_note(name, note)
    }
}
