//! The rights of database roles on the tables.

use std::path::Path;

use crate::store::medium::{self, StoreError};

use super::address::Address;
use super::driver::{Driver, Repeat};
use super::failure::DatabaseFailure;
use super::tables;

/// The rights of a role. Each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Sees sessions.
    Read,
    /// Also makes sessions and appends to their logs. What is in a log stays as it is: the database
    /// refuses to change or remove it.
    Write,
    /// Also removes what is in the trash, compacts blocks, and truncates torn ends.
    Clean,
}

const READ: &str = "
    GRANT USAGE ON SCHEMA @ TO ?;
    GRANT SELECT ON ALL TABLES IN SCHEMA @ TO ?;
    GRANT SELECT ON ALL SEQUENCES IN SCHEMA @ TO ?;";

/// Logs, claims and processes are changed by functions only; what is read from logs, directly.
const WRITE: &str = "
    GRANT EXECUTE ON FUNCTION @.sign_of_life, @.draft, @.claim, @.release, @.sync, @.publish,
        @.abandon, @.move, @.cut, @.append(bigint, uuid, bigint, bigint, bool, bytea, int),
        @.append_rewind TO ?;
    GRANT INSERT ON @.agent_id, @.note, @.words TO ?;
    GRANT UPDATE (summary, scanned, cwd, source, known_as, updated_at, prompted_at, restored_at,
        archived, prompts, title, noted_at, text_len, text_from, text_pieces) ON @.session TO ?;
    GRANT UPDATE (text) ON @.note TO ?;
    GRANT DELETE ON @.words TO ?;";

const CLEAN: &str = "
    GRANT EXECUTE ON FUNCTION @.keep_aside, @.join_blocks TO ?;
    GRANT DELETE ON @.session, @.writer, @.block, @.torn, @.agent_id TO ?;";

/// Whatever a role was granted before.
const NOTHING: &str = "
    REVOKE ALL ON ALL TABLES IN SCHEMA @ FROM ?;
    REVOKE ALL ON ALL SEQUENCES IN SCHEMA @ FROM ?;
    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @ FROM ?;";

/// The statements that let a role use the tables of a schema, and no further than that.
pub(super) fn grants(schema: &str, role: &str, rights: Rights) -> String {
    let granted: &[&str] = match rights {
        Rights::Read => &[NOTHING, READ],
        Rights::Write => &[NOTHING, READ, WRITE],
        Rights::Clean => &[NOTHING, READ, WRITE, CLEAN],
    };
    let name = format!("\"{}\"", role.replace('"', "\"\""));
    granted.concat().replace('@', schema).replace('?', &name)
}

/// The roles that may use the tables, apart from their owner, by what tables of any version say.
pub(super) fn granted(driver: &Driver) -> Result<Vec<(String, Rights)>, DatabaseFailure> {
    let sql = "
        SELECT r.rolname::text, bool_or(c.relname = 'agent_id' AND a.privilege_type = 'INSERT'),
            bool_or(c.relname = 'block' AND a.privilege_type = 'DELETE')
        FROM pg_class c CROSS JOIN aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee
        WHERE c.oid IN ('@.agent_id'::regclass, '@.block'::regclass) AND a.grantee <> c.relowner
        GROUP BY 1";
    let rows = driver.query(sql, Vec::new(), Repeat::Yes)?;
    let rights = |writes, cleans| match (writes, cleans) {
        (_, true) => Rights::Clean,
        (true, false) => Rights::Write,
        (false, false) => Rights::Read,
    };
    let roles = rows.iter();
    let roles = roles.map(|row| (row.get(0), rights(row.get(1), row.get(2))));
    Ok(roles.collect())
}

/// Lets a role use the tables at an address, and no further than that.
pub(in crate::store) fn grant(place: &Path, role: &str, rights: Rights) -> Result<(), StoreError> {
    let failed = |reason: String| StoreError::Unusable {
        place: medium::place::shown(place),
        reason,
    };
    let driver = Driver::new(Address::parse(place).map_err(failed)?);
    let done = driver.batch(&grants(driver.schema(), role, rights));
    done.map_err(|failure| tables::error(&driver, "grant rights in", failure))
}
