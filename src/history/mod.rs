//! The history API: sessions searched and counted, and what is in one, turn by turn, without
//! loading it; and which sessions are so old that they may go.
//!
//! It stands beside the protocol's own methods and is the same for all of its versions, so this
//! folder knows neither requests nor errors of any: text and numbers in, JSON text out.

pub mod aging;
pub mod entry;
pub mod query;
pub mod turns;

mod block;
mod call;
mod place;
mod turn;

pub use aging::{Retired, has_aged, last_used, retire};
pub use entry::entry;
pub use place::Place;
pub use query::{ListQuery, MAX_RESULTS, TurnsQuery};
pub use turns::{Page, Stopped, page};
