//! The sessions on disk: an append-only log of records for each. `docs/format.md` specifies the
//! files.
//!
//! [`Store`] is the folder of all sessions. [`Store::create`] and [`Store::open_log`] return the
//! [`Log`] of a session, the only thing that appends; it holds the session's lock until it is
//! dropped. [`Store::read`] returns a [`LogReader`], which neither locks nor writes and works while a
//! log is being written.
//!
//! Everything here is synchronous and knows nothing of the protocol, except that recovery closes
//! the tool calls that a crash left open.

pub mod medium;
mod files;
#[cfg(feature = "store-postgres")]
mod postgres;
mod context;
pub mod cleanup;
pub mod damage;
mod lines;
mod damaged_line;
mod records;
mod header;
pub mod scan;
pub mod reader;
pub mod log;
mod note;
mod recover;
mod rewind;
mod in_memory;
mod renaming;
pub mod trash;
pub mod folder;
pub mod fork;
pub mod copy;
#[cfg(feature = "store-postgres")]
pub(crate) mod database;
pub mod hosts;
mod sockets;

pub use cleanup::LastCleanup;
pub use copy::Copied;
pub use damage::{DamageReason, DamageReport, Torn};
pub use folder::Store;
pub use fork::{ForkError, ForkPoint, Forked};
pub use hosts::{Host, Hosting};
pub use in_memory::log_in_memory;
pub use log::{Appended, Log};
pub use medium::{Durability, Holder, StoreError, Sync, Trashed, place};
#[cfg(feature = "store-postgres")]
pub use postgres::Rights;
pub use reader::{LogReader, PositionedRecord};
pub use recover::{CALL_INTERRUPTED, OpenedLog, TURN_INTERRUPTED};
pub use rewind::RewindError;
pub use scan::Scan;
