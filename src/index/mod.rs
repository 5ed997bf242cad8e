//! The catalog behind `session/list`: a summary of each session, available without opening its log,
//! and the words that were said in it.
//!
//! It is a cache in SQLite, built from the logs and checked against them. It may be missing, stale,
//! damaged or impossible to write at any time; that costs only speed.

pub mod catalog;
pub mod filter;
pub mod search;
pub mod summary;

mod cursor;
mod database;
mod erasing;
mod fill;
mod generation;
mod inners;
mod logs;
mod ownership;
mod refresh;
mod reporter;
mod reports;
mod rows;
mod schema;
mod snippets;
mod texts;

#[cfg(test)]
mod tests;

pub use catalog::{Catalog, ListError, Listed, Page};
pub use cursor::{cursor_after, seal, unseal};
pub use database::DatabaseError;
pub use filter::{Archived, Filter};
pub use reports::BeforeChange;
pub use search::Search;
pub use summary::{Summary, first_title};
