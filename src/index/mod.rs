//! The catalog behind `session/list`: what each session is about, without opening its log.
//!
//! It is a cache in SQLite, made from the logs and checked against them. It may be missing, stale,
//! damaged or impossible to write at any time; only speed depends on it.

pub mod catalog;
pub mod logs;

mod cursor;
mod database;
mod refresh;
mod rows;
mod schema;

#[cfg(test)]
mod tests;

pub use catalog::{BeforeChange, Catalog, Filter, ListError, Listed, Page};
pub use database::DatabaseError;
pub use logs::{Logs, Summary};
