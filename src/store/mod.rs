//! The sessions on disk: one append-only file of records for each. `docs/format.md` is the
//! specification of the files.
//!
//! [`Store`] is the folder of them all. [`Store::create`] and [`Store::open_log`] give the [`Log`]
//! of a session, which alone may append, and holds the session's lock for as long as it lives.
//! [`Store::read`] gives a [`Reader`], which neither locks nor writes and may read while a log is
//! being written.
//!
//! Everything here is synchronous and knows nothing of the protocol, except that recovery closes
//! the tool calls that a crash left open.

mod erase;
pub mod error;
pub mod durability;
mod layout;
mod base;
pub mod cleaned;
pub mod damage;
mod lines;
mod resync;
mod pieces;
mod records;
mod header;
pub mod scan;
pub mod reader;
pub mod holder;
mod lock;
pub mod log;
mod recover;
mod restore;
pub mod trash;
pub mod folder;
pub mod fork;

pub use cleaned::Cleaned;
pub use damage::{DamageReport, Reason, Torn};
pub use durability::{Durability, Sync};
pub use error::StoreError;
pub use folder::{Opened, Store};
pub use fork::{ForkError, Forked};
pub use holder::Holder;
pub use log::{Appended, Log};
pub use reader::{Entry, Reader};
pub use scan::Scan;
pub use trash::Trashed;
