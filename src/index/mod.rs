//! The catalog behind `session/list`: what each session is about, without opening its log, and the
//! words that were said in it.
//!
//! It is a cache in SQLite, made from the logs and checked against them. It may be missing, stale,
//! damaged or impossible to write at any time; only speed depends on it.

pub mod catalog;
pub mod filter;
pub mod logs;
pub mod search;

mod cursor;
mod database;
mod fill;
mod inners;
mod refresh;
mod rows;
mod schema;
mod texts;

#[cfg(test)]
mod tests;

pub use catalog::{BeforeChange, Catalog, ListError, Listed, Page};
pub use cursor::{cursor_after, seal, unseal};
pub use database::DatabaseError;
pub use filter::{Archived, Filter};
pub use logs::{Logs, Summary, Texts};
pub use search::Search;
