//! What roles of the database may do with the tables.

use std::path::Path;

use crate::store::medium::{self, StoreError};

use super::address::Address;
use super::driver::Driver;
use super::tables;

/// What a role is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Sees sessions.
    Read,
    /// Also makes sessions and appends to their logs. What is in a log stays as it is: the database
    /// refuses to change or remove it.
    Write,
    /// Also removes what is in the trash, joins small blocks, and cuts off what is no record.
    Clean,
}

const READ: &str = "
    GRANT USAGE ON SCHEMA @ TO ?;
    GRANT SELECT ON ALL TABLES IN SCHEMA @ TO ?;";

const WRITE: &str = "
    GRANT INSERT ON @.session, @.fence, @.writer, @.block, @.torn, @.agent_id, @.note, @.words TO ?;
    GRANT UPDATE ON @.session, @.fence, @.writer, @.note, @.words TO ?;
    GRANT DELETE ON @.words TO ?;
    GRANT EXECUTE ON FUNCTION @.append TO ?;";

const CLEAN: &str = "
    GRANT DELETE ON @.session, @.writer, @.block, @.torn, @.agent_id TO ?;";

/// Lets a role use the tables at an address, and no further than that.
pub(in crate::store) fn grant(place: &Path, role: &str, rights: Rights) -> Result<(), StoreError> {
    let failed = |reason: String| StoreError::Unusable {
        place: medium::place::shown(place),
        reason,
    };
    let driver = Driver::new(Address::parse(place).map_err(failed)?);
    let granted = match rights {
        Rights::Read => [READ].concat(),
        Rights::Write => [READ, WRITE].concat(),
        Rights::Clean => [READ, WRITE, CLEAN].concat(),
    };
    let name = format!("\"{}\"", role.replace('"', "\"\""));
    let taken = "REVOKE ALL ON ALL TABLES IN SCHEMA @ FROM ?;
        REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @ FROM ?;";
    let sql = [taken, &granted].concat().replace('@', driver.schema());
    let done = driver.batch(&sql.replace('?', &name));
    done.map_err(|failure| tables::error(&driver, "grant rights in", failure))
}
