//! The history API: searches and counts sessions, reads the turns of one without loading it, and
//! decides which sessions are old enough to expire.
//!
//! The API exists beside the protocol's own methods and is the same for all of its versions. So
//! this folder knows no requests or errors of any version: text and numbers in, JSON text out.

pub mod metadata;
pub mod retention;
pub mod entry;
pub mod query;
pub mod prices;
pub mod stats;
pub mod turns;

mod cursors;
mod fork;
mod one_call;

pub use cursors::{CursorsPage, CursorsPosition, cursors};
pub use entry::entry;
pub use fork::{ForkAfterError, fork_after};
pub use metadata::{change_metadata, rewind};
pub use one_call::{OneCall, one_call};
pub use query::{Begin, ListQuery, MAX_RESULTS, TurnsQuery};
pub use retention::{Expired, Expiry, expire, expire_some, has_aged, last_used, long_before};
pub use turns::{TurnsError, TurnsPage, count, page};
