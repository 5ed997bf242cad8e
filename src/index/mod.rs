//! The catalog behind `session/list`: a summary of each session, and a full-text index of its words.
//!
//! The catalog is a cache in SQLite, built from the logs and checked against them. It may be
//! missing, stale, damaged or impossible to write at any time; that costs only speed. In short:
//!
//! 1. One row for each log: its summary, and the log's length when it was read (`session_rows`).
//! 2. A session marks its row as dirty before it writes, and sends its new summary after (`reports`).
//! 3. A list first compares the folder's names with the rows if the folder has changed, then reads
//!    the ends of dirty logs, and finally those of its page whose length differs (`refresh`).
//! 4. Dirty marks can be lost in a power failure or with an older copy of the file. A number in the
//!    database and in a file beside it shows this; then all lengths are compared (`generation`).
//! 5. Words are read from the logs later, in pieces, in the background or by a search
//!    (`index_words`, `word_rows`). Words of deleted sessions are erased in small steps
//!    (`erase_words`).
//! 6. A search that asks for places gets them from the logs: the index says in which pieces
//!    (`hits`). The text of other tools' conversations is kept in the index (`kept_text`).
//! 7. A store in a database answers lists itself (`backend`, `tables`).
//! 8. The file is used only if it is ours (`ownership`), rebuilt if it is damaged, and replaced by a
//!    database in memory if it cannot be used (`database`, `schema`).

pub mod catalog;
pub mod filter;
pub mod hits;
pub mod search;
pub mod summary;

mod backend;
mod cursor;
mod database;
mod reports;
mod refresh;
mod sqlite;
mod observe;
mod logs;
mod generation;
mod index_words;
mod kept_text;
mod snippets;
mod erase_words;
mod session_rows;
mod word_rows;
mod tokens;
mod tool_rows;
mod agent_ids;
mod schema;
mod ownership;
#[cfg(feature = "store-postgres")]
mod conditions;
#[cfg(feature = "store-postgres")]
mod lexemes;
#[cfg(feature = "store-postgres")]
mod remote_words;
#[cfg(feature = "store-postgres")]
mod tables;

#[cfg(test)]
mod tests;

pub use backend::BeforeChange;
pub use catalog::{Catalog, ListError, Listed, SessionPage};
pub use cursor::{cursor_after, seal, unseal};
pub use database::DatabaseError;
pub use filter::{Archived, Filter, Order};
pub use hits::{Hit, HitCall, Hits, HitsError, Pattern, Query};
pub use observe::ObservedSession;
pub use refresh::read_all;
pub use search::{Search, Term};
pub use summary::{Summary, first_title};
pub use tokens::Tokens;
pub use tool_rows::{Edition, FileOfTool, MayHave, ReadFile, ToolFiles, ToolTexts};
