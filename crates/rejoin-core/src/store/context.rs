//! The context that all parts of a store share.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::sys::Sys;

#[cfg(feature = "store-postgres")]
use super::database::Database;
use super::medium::{Durability, Medium};

/// The shared state of one store.
#[derive(Debug)]
pub(super) struct StoreContext {
    pub(super) medium: Box<dyn Medium>,
    /// Its folder or address.
    pub(super) root: PathBuf,
    /// Where the file of the catalog is, if there is a place for one.
    pub(super) catalog: Option<PathBuf>,
    /// The database that has the store, if it is in one.
    #[cfg(feature = "store-postgres")]
    pub(super) database: Option<Database>,
    /// Whether sessions are taken over from processes that have them open.
    pub(super) takes_over: OnceLock<()>,
    pub(super) sys: Sys,
    pub(super) durability: Durability,
    /// The name of this process's socket, if it will make one.
    pub(super) socket: OnceLock<String>,
}
