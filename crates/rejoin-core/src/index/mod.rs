//! The catalog behind `session/list`: a summary of each session, and a full-text index of its words.
//!
//! A store in a folder has a catalog in SQLite, a store in PostgreSQL has tables for it (`backend`, `sqlite`,
//! `postgres`). The one in SQLite is a cache, built from the logs and checked against them. It may be
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
//!    (`hits`). The text of other tools' conversations is kept in the index (`kept_text`), beside what
//!    is known of their files (`tool_files`). When a file has grown, its reader goes on from there, and the
//!    pieces of text that are the same stay.
//! 7. The file is used only if it is ours (`ownership`), rebuilt if it is damaged, and replaced by a
//!    database in memory if it cannot be used (`database`, `schema`).

pub mod catalog;
pub mod filter;
pub mod hits;
pub mod search;
pub mod summary;

mod apart;
mod backend;
mod cursor;
mod kept_text;
mod logs;
mod observe;
#[cfg(feature = "store-postgres")]
mod postgres;
mod snippets;
mod sqlite;
mod tokens;

#[cfg(test)]
mod tests;

pub use backend::{BeforeChange, ListError, Listed, PINNED, TOOL_BRANCH, ToolBranch};
pub use catalog::{Catalog, SessionPage};
pub use cursor::{cursor_after, seal, unseal};
pub use filter::{Archived, Filter, Order};
pub use hits::{Hit, HitCall, Hits, HitsError, Pattern, Query};
pub use logs::read_all;
pub use observe::ObservedSession;
pub use search::{Search, Term};
pub use sqlite::database::DatabaseError;
pub use sqlite::tool_files::{
    ConversationFile, Edition, FileOfTool, KeptText, Pins, ReadFile, ReportedFile, ToolFiles,
    ToolTexts,
};
pub use summary::Summary;
pub use tokens::Tokens;
