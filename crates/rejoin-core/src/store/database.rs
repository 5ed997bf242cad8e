//! The database of a store for those that keep tables of their own in it.

use super::folder::Store;
pub(crate) use super::postgres::{
    Database, Param, Row, flags, int, ints, text, texts, uuid, uuids,
};

impl Store {
    /// The database that has the store; none for a folder.
    pub(crate) fn database(&self) -> Option<Database> {
        self.context.database.clone()
    }
}
