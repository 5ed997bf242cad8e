//! Conversations of other tools: the files as they were when they were last read, and their rows.
//!
//! The files are no part of the store: `sources` reads them and reports here what it has found. A
//! file without a conversation of its own is remembered, too, so that it is not read again before it
//! changes.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use rusqlite::{
    OptionalExtension, Result, Row as Columns, ToSql, Transaction, params, params_from_iter,
};

use crate::conversation::Passage;
use crate::store::LogReader;
use crate::sys::SessionId;

use super::database::CatalogDatabase;
use super::session_rows::{self, CatalogRow, int};
use super::word_rows;
use crate::index::backend::ListError;
use crate::index::observe::Observer;
use crate::index::summary::Summary;

/// The order of the files that have one conversation, the one first that it is read from: that in which
/// something was said last; of those that are equal in that, the longest.
const CHOSEN_FIRST: &str = "ends DESC, size DESC, path DESC, part DESC";

/// How many files are reported with one write, for which other processes wait.
const BATCH: usize = 256;

/// A conversation in a file of another tool, or in a part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileOfTool {
    /// The path of the file.
    pub path: String,
    /// The key of the conversation in a file that may have several; otherwise empty.
    pub part: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was changed, in milliseconds.
    pub changed: i64,
}

/// A file that was reported, as it was then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedFile<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The path of the file.
    pub path: &'a str,
    /// See [`FileOfTool::part`].
    pub part: &'a str,
    /// Its size in bytes.
    pub size: u64,
    /// When it was changed, in milliseconds.
    pub changed: i64,
    /// The session that it is.
    pub session: Option<SessionId>,
}

impl ReportedFile<'_> {
    /// The file itself.
    pub fn to_file(&self) -> FileOfTool {
        FileOfTool {
            path: self.path.to_owned(),
            part: self.part.to_owned(),
            size: self.size,
            changed: self.changed,
        }
    }
}

/// The file that has a conversation of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationFile {
    /// The ids by which it may be known here: that of its session, and the tool's own.
    pub names: Vec<String>,
    /// The path of the file; of several with the conversation, that of the one which was changed last.
    pub path: String,
    /// The working directory of the conversation.
    pub cwd: String,
    /// When the file was changed, in milliseconds.
    pub changed: i64,
    /// Whether the store has no copy of it, and the user has deleted none.
    pub is_only: bool,
}

/// A file that was read.
#[derive(Clone, Debug)]
pub struct ReadFile {
    /// As it was before it was read.
    pub file: FileOfTool,
    /// Its conversation, if it has one of its own.
    pub conversation: Option<(SessionId, Summary)>,
    /// Whether all of it was read.
    pub counted: bool,
    /// The text of its conversation in pieces, if all of it was read.
    pub text: Vec<Vec<Passage>>,
    /// How far it was read, in the words of the reader, which can go on from there.
    pub so_far: Option<String>,
    /// Where this reading went on: how far the file had been read then, and the number of the first of
    /// these pieces. None if all of the file was read now.
    pub after: Option<(String, usize)>,
}

/// The end of the text of a tool's conversation, as it is kept in the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptText {
    /// The number of the piece with which it begins.
    pub from: usize,
    /// The pieces.
    pub pieces: Vec<Vec<Passage>>,
}

/// The tools' own ids of pinned conversations, by the names of the agents.
pub type Pins = HashMap<&'static str, HashSet<String>>;

/// Reads conversations of the tools that are listed.
pub trait ToolTexts: Send + Sync {
    /// The names of the tools.
    fn names(&self) -> Vec<String>;

    /// The text of a conversation, with long input and output of its tools as a whole; none if it
    /// cannot be read. Offsets are the numbers of its records. There may be no text if it
    /// cannot have `sought`.
    fn text(&self, tool: &str, file: &FileOfTool, sought: Option<&str>) -> Option<Vec<Passage>>;

    /// The conversations that the user has pinned now in the tools of these agents, as the log has the
    /// agents and ids.
    fn pins(&self, agents: &HashSet<&str>) -> Pins;

    /// How many turns a tool has written to a conversation since it was continued here, in the
    /// session with this log; none if that cannot be read.
    fn turns_since(&self, tool: &str, file: &FileOfTool, log: &mut LogReader) -> Option<u64>;
}

/// A conversation in the file of another tool, beside the session here that continues it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::index) struct FileBeside {
    /// The tool.
    pub(in crate::index) tool: String,
    /// The file.
    pub(in crate::index) file: FileOfTool,
    /// When anything was said there last.
    pub(in crate::index) ends: Option<String>,
    /// How many turns the tool has written since, if they were counted, and when anything was said in the
    /// session last when they were.
    pub(in crate::index) since: Option<(u64, Option<String>)>,
}

/// A state of the catalog: another process that changes anything in it makes another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edition {
    epoch: String,
    version: i64,
}

/// The files of other tools that were reported, and the listed conversations in them. Only a catalog in
/// SQLite lists them: beside a store in a database, they are known to this process alone.
pub struct ToolFiles {
    pub(in crate::index) database: Arc<CatalogDatabase>,
    /// The tools whose conversations are listed.
    tools: Arc<[String]>,
    observer: Arc<Observer>,
}

impl ToolFiles {
    pub(in crate::index) fn new(
        database: Arc<CatalogDatabase>,
        tools: Arc<[String]>,
        observer: Arc<Observer>,
    ) -> Self {
        Self {
            database,
            tools,
            observer,
        }
    }

    /// The edition that the catalog has now.
    pub fn edition(&self) -> std::result::Result<Edition, ListError> {
        Ok(self.database.read(|tx| {
            Ok(Edition {
                epoch: session_rows::names(tx)?.epoch,
                version: tx.pragma_query_value(None, "data_version", |row| row.get(0))?,
            })
        })?)
    }

    /// What `look` makes of each file that was reported, in any order.
    pub fn known<T>(
        &self,
        look: impl Fn(ReportedFile<'_>) -> T,
    ) -> std::result::Result<Vec<T>, ListError> {
        Ok(self.database.read(|tx| {
            let sql = "SELECT tool, path, part, size, changed, session FROM files";
            let mut statement = tx.prepare_cached(sql)?;
            let known = statement.query_map([], |columns| {
                let text = |column| Ok::<_, rusqlite::Error>(columns.get_ref(column)?.as_str()?);
                let size: i64 = columns.get(3)?;
                let session = columns.get_ref(5)?.as_str_or_null()?;
                Ok(look(ReportedFile {
                    tool: text(0)?,
                    path: text(1)?,
                    part: text(2)?,
                    size: u64::try_from(size).unwrap_or_default(),
                    changed: columns.get(4)?,
                    session: session.and_then(SessionId::parse),
                }))
            })?;
            known.collect()
        })?)
    }

    /// Reports files that were read, each with its tool: their conversations are listed from now on,
    /// except for those that are sessions here, or were. Returns those that have a log.
    pub fn put(&self, read: &[(&str, ReadFile)]) -> std::result::Result<Vec<SessionId>, ListError> {
        let mut ours = Vec::new();
        for batch in read.chunks(BATCH) {
            let with_log = self.database.write(|tx| {
                let mut all = Vec::new();
                for (tool, read) in batch {
                    // Another process may have read on meanwhile: then the file is read again.
                    let is_next = match &read.after {
                        Some((before, _)) => so_far(tx, tool, &read.file)?.as_ref() == Some(before),
                        None => true,
                    };
                    if is_next {
                        all.push((tool, read));
                    }
                }
                let put = all.iter().map(|(tool, read)| put(tx, tool, read));
                let with_log = put.collect::<Result<Vec<_>>>()?;
                // When a row changes, the index writes all new words, so these come last.
                for (tool, read) in all {
                    put_words(tx, tool, read)?;
                }
                Ok(with_log)
            })?;
            ours.extend(with_log.into_iter().flatten());
            let read = batch
                .iter()
                .filter_map(|(_, read)| read.conversation.as_ref());
            read.for_each(|(id, _)| self.observer.changed(id));
        }
        Ok(ours)
    }

    /// Another process has reported a change of this conversation.
    pub fn heard_of(&self, id: &SessionId) {
        self.observer.changed(id);
    }

    /// Reports files of a tool that are gone, and so are their conversations. Returns whether one of these
    /// is in another file, which the next look at the files reads.
    pub fn remove(&self, tool: &str, gone: &[FileOfTool]) -> std::result::Result<bool, ListError> {
        let mut has_others = false;
        for batch in gone.chunks(BATCH) {
            let removed = self.database.write(|tx| {
                let removed = batch.iter().map(|file| remove(tx, tool, file));
                removed.collect::<Result<Vec<_>>>()
            })?;
            for (id, has_other) in removed.iter().flatten() {
                self.observer.changed(id);
                has_others |= has_other;
            }
        }
        Ok(has_others)
    }

    /// The file with a conversation of the tools that are listed, and which tool's it is; of several, the
    /// one that it is read from.
    pub fn file_of(
        &self,
        id: &SessionId,
    ) -> std::result::Result<Option<(String, FileOfTool)>, ListError> {
        Ok(self.database.read(|tx| file_of(tx, &self.tools, id))?)
    }

    /// The files of these conversations, as [`file_of`](Self::file_of) finds them.
    pub(in crate::index) fn files_of(
        &self,
        ids: &[&SessionId],
    ) -> std::result::Result<Vec<Option<(String, FileOfTool)>>, ListError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.database.read(|tx| {
            let files = ids.iter().map(|id| file_of(tx, &self.tools, id));
            files.collect::<Result<Vec<_>>>()
        })?)
    }

    /// The files of these conversations, as [`file_of`](Self::file_of) finds them, with what is known of
    /// what tools have written to them since they were continued here.
    pub(in crate::index) fn beside(
        &self,
        ids: &[&SessionId],
    ) -> std::result::Result<Vec<Option<FileBeside>>, ListError> {
        let sql = format!(
            "SELECT path, part, size, changed, tool, ends, since, since_at FROM files
             WHERE session = ? AND {} ORDER BY {CHOSEN_FIRST} LIMIT 1",
            session_rows::is_shown(&self.tools)
        );
        Ok(self.database.read(|tx| {
            let mut statement = tx.prepare_cached(&sql)?;
            let files = ids.iter().map(|id| {
                let tools = self.tools.iter().map(String::as_str);
                let values = std::iter::once(id.as_str()).chain(tools);
                let found = statement.query_row(params_from_iter(values), |columns| {
                    let since: Option<i64> = columns.get(6)?;
                    Ok(FileBeside {
                        tool: columns.get(4)?,
                        file: file(columns)?,
                        ends: columns.get(5)?,
                        since: match since {
                            Some(since) => Some((since.unsigned_abs(), columns.get(7)?)),
                            None => None,
                        },
                    })
                });
                found.optional()
            });
            files.collect::<Result<Vec<_>>>()
        })?)
    }

    /// Keeps how many turns a tool has written since, unless the file has changed meanwhile. Something
    /// was said in the session last at the time `at`.
    pub(in crate::index) fn keep_since(
        &self,
        of: &FileBeside,
        since: u64,
        at: Option<&str>,
    ) -> std::result::Result<(), ListError> {
        let FileOfTool {
            path,
            part,
            size,
            changed,
        } = &of.file;
        Ok(self.database.write(|tx| {
            tx.prepare_cached(
                "UPDATE files SET since = ?, since_at = ?
                 WHERE tool = ? AND path = ? AND part = ? AND size = ? AND changed = ?",
            )?
            .execute(params![
                int(since),
                at,
                of.tool,
                path,
                part,
                int(*size),
                changed
            ])?;
            Ok(())
        })?)
    }

    /// How far a file was read as a whole, in the words of the reader, and the end of its text: two
    /// pieces, since the last one may be the beginning of a turn.
    pub fn so_far(
        &self,
        tool: &str,
        file: &FileOfTool,
    ) -> std::result::Result<Option<(String, KeptText)>, ListError> {
        Ok(self.database.read(|tx| {
            let known = so_far(tx, tool, file)?;
            let session = session_of(tx, tool, file)?;
            Ok(match (known, session) {
                (Some(known), Some(session)) => {
                    word_rows::last_pieces(tx, &session, 2)?.map(|kept| (known, kept))
                }
                _ => None,
            })
        })?)
    }

    /// Whether this is a listed conversation of another tool that has no log.
    pub fn is_listed(&self, id: &SessionId) -> std::result::Result<bool, ListError> {
        if self.tools.is_empty() {
            return Ok(false);
        }
        let sql = format!(
            "SELECT 1 FROM sessions
             WHERE id = ? AND tool IS NOT NULL AND updated_at IS NOT NULL AND {}",
            session_rows::is_shown(&self.tools)
        );
        Ok(self.database.read(|tx| {
            let values = std::iter::once(id.as_str()).chain(self.tools.iter().map(String::as_str));
            tx.prepare_cached(&sql)?.exists(params_from_iter(values))
        })?)
    }

    /// The listed conversations of other tools that have no log.
    pub fn ids(&self) -> std::result::Result<Vec<SessionId>, ListError> {
        let sql = format!(
            "SELECT id FROM sessions
             WHERE tool IS NOT NULL AND updated_at IS NOT NULL AND {}",
            session_rows::is_shown(&self.tools)
        );
        Ok(self.database.read(|tx| {
            let mut statement = tx.prepare_cached(&sql)?;
            let ids = statement.query_map(params_from_iter(self.tools.iter()), session_rows::id)?;
            ids.collect()
        })?)
    }

    /// The listed conversations of other tools that have no log, with what
    /// [`keep_turns`](Self::keep_turns) has kept of each since its file changed.
    pub fn kept_turns(&self) -> std::result::Result<KeptTurns, ListError> {
        let sql = format!(
            "SELECT id, (SELECT turns FROM files WHERE session = id ORDER BY {CHOSEN_FIRST} LIMIT 1)
             FROM sessions WHERE tool IS NOT NULL AND updated_at IS NOT NULL AND {}",
            session_rows::is_shown(&self.tools)
        );
        Ok(self.database.read(|tx| {
            let mut statement = tx.prepare_cached(&sql)?;
            let kept = statement.query_map(params_from_iter(self.tools.iter()), |columns| {
                Ok((session_rows::id(columns)?, columns.get(1)?))
            })?;
            kept.collect()
        })?)
    }

    /// Keeps what was counted in files of tools, unless these have changed since.
    pub fn keep_turns(
        &self,
        counted: &[(String, FileOfTool, Vec<u8>)],
    ) -> std::result::Result<(), ListError> {
        for batch in counted.chunks(BATCH) {
            self.database.write(|tx| {
                let mut keep = tx.prepare_cached(
                    "UPDATE files SET turns = ?
                     WHERE tool = ? AND path = ? AND part = ? AND size = ? AND changed = ?",
                )?;
                for (tool, file, turns) in batch {
                    let FileOfTool { path, part, .. } = file;
                    keep.execute(params![
                        turns,
                        tool,
                        path,
                        part,
                        int(file.size),
                        file.changed
                    ])?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The files of a tool that changed last.
    pub fn newest(&self, tool: &str, limit: u32) -> std::result::Result<Vec<String>, ListError> {
        Ok(self.database.read(|tx| {
            let mut statement = tx.prepare_cached(
                "SELECT path FROM files WHERE tool = ? ORDER BY changed DESC LIMIT ?",
            )?;
            let paths = statement.query_map(params![tool, limit], |columns| columns.get(0))?;
            paths.collect()
        })?)
    }

    /// The conversations of a tool, those that changed last first, and whether their files are all that
    /// there is of them: a session that is in the store, or was deleted there, is kept or not wanted.
    pub fn conversations(
        &self,
        tool: &str,
    ) -> std::result::Result<Vec<ConversationFile>, ListError> {
        Ok(self.database.read(|tx| {
            let mut statement = tx.prepare_cached(
                "SELECT files.path, sessions.cwd, max(files.changed) AS changed,
                     sessions.tool IS NOT NULL AND sessions.updated_at IS NOT NULL,
                     sessions.id, sessions.known_as
                 FROM files JOIN sessions ON sessions.id = files.session
                 WHERE files.tool = ? GROUP BY sessions.id ORDER BY changed DESC",
            )?;
            let found = statement.query_map([tool], |columns| {
                let known_as: Option<String> = columns.get(5)?;
                Ok(ConversationFile {
                    names: [columns.get(4)?].into_iter().chain(known_as).collect(),
                    path: columns.get(0)?,
                    cwd: columns.get(1)?,
                    changed: columns.get(2)?,
                    is_only: columns.get(3)?,
                })
            })?;
            found.collect()
        })?)
    }

    /// The listed conversation that its tool knows by this id; the one that changed last, if there
    /// are several.
    pub fn named(&self, name: &str) -> std::result::Result<Option<SessionId>, ListError> {
        let sql = format!(
            "SELECT id FROM sessions WHERE known_as = ? AND tool IS NOT NULL AND updated_at IS NOT NULL AND {}
             ORDER BY updated_at DESC LIMIT 1",
            session_rows::is_shown(&self.tools)
        );
        Ok(self.database.read(|tx| {
            let values = std::iter::once(name).chain(self.tools.iter().map(String::as_str));
            tx.prepare_cached(&sql)?
                .query_row(params_from_iter(values), session_rows::id)
                .optional()
        })?)
    }

    /// The files of the tools that are listed that are longer than this, in bytes, so that their words are not in
    /// the index, those that changed last first.
    pub fn unread(&self, most: u64) -> std::result::Result<Vec<String>, ListError> {
        let sql = format!(
            "SELECT path, max(changed) FROM files
             WHERE session IS NOT NULL AND NOT counted AND {} AND size > ?
             GROUP BY path ORDER BY 2 DESC",
            session_rows::is_shown(&self.tools)
        );
        Ok(self.database.read(|tx| {
            let most = int(most);
            let tools = self.tools.iter().map(|tool| tool as &dyn ToSql);
            let values: Vec<_> = tools.chain([&most as &dyn ToSql]).collect();
            let mut statement = tx.prepare(&sql)?;
            let paths = statement.query_map(&*values, |row| row.get(0))?;
            paths.collect()
        })?)
    }

    /// Files of the tools that are listed, up to this size, that were not read as a whole, those that
    /// changed last first, each with its tool, and whether [`so_far`](Self::so_far) knows it.
    pub fn uncounted(
        &self,
        most: u64,
        limit: u32,
    ) -> std::result::Result<Vec<(String, FileOfTool, bool)>, ListError> {
        let sql = format!(
            "SELECT path, part, size, changed, tool, so_far IS NOT NULL FROM files
             WHERE session IS NOT NULL AND NOT counted AND {} AND size <= ?
             ORDER BY changed DESC LIMIT ?",
            session_rows::is_shown(&self.tools)
        );
        Ok(self.database.read(|tx| {
            let mut values: Vec<&dyn ToSql> = Vec::new();
            values.extend(self.tools.iter().map(|tool| tool as &dyn ToSql));
            let most = int(most);
            values.extend([&most as &dyn ToSql, &limit]);
            let mut statement = tx.prepare_cached(&sql)?;
            let files = statement.query_map(&*values, |columns| {
                Ok((columns.get(4)?, file(columns)?, columns.get(5)?))
            })?;
            files.collect()
        })?)
    }
}

impl fmt::Debug for ToolFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolFiles")
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

/// Conversations, with what is kept of their turns.
type KeptTurns = Vec<(SessionId, Option<Vec<u8>>)>;

/// Whether all conversations of these tools were read as a whole.
pub(super) fn are_counted(tx: &Transaction<'_>, tools: &[String]) -> Result<bool> {
    let mut uncounted = tx.prepare_cached(&format!(
        "SELECT 1 FROM files INDEXED BY uncounted
         WHERE session IS NOT NULL AND NOT counted AND {}",
        session_rows::is_shown(tools)
    ))?;
    Ok(!uncounted.exists(params_from_iter(tools))?)
}

/// See [`ToolFiles::file_of`].
fn file_of(
    tx: &Transaction<'_>,
    tools: &[String],
    id: &SessionId,
) -> Result<Option<(String, FileOfTool)>> {
    let sql = format!(
        "SELECT path, part, size, changed, tool FROM files
         WHERE session = ? AND {} ORDER BY {CHOSEN_FIRST} LIMIT 1",
        session_rows::is_shown(tools)
    );
    let values = std::iter::once(id.as_str()).chain(tools.iter().map(String::as_str));
    tx.prepare_cached(&sql)?
        .query_row(params_from_iter(values), |columns| {
            Ok((columns.get(4)?, file(columns)?))
        })
        .optional()
}

/// Returns the session if it has a log.
fn put(tx: &Transaction<'_>, tool: &str, read: &ReadFile) -> Result<Option<SessionId>> {
    let ReadFile {
        file, conversation, ..
    } = read;
    let id = conversation.as_ref().map(|(id, _)| id);
    let with_log = "SELECT 1 FROM sessions WHERE id = ? AND tool IS NULL";
    let mut with_log = tx.prepare_cached(with_log)?;
    let has_log = match id {
        Some(id) => with_log.exists([id.as_str()])?,
        None => false,
    };
    let before = session_of(tx, tool, file)?;
    let was_chosen = match &before {
        Some(before) => is_chosen(tx, before, tool, file)?,
        None => false,
    };
    tx.prepare_cached(
        "INSERT INTO files (tool, path, part, size, changed, session, counted, ends, so_far)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (tool, path, part) DO UPDATE SET size = excluded.size,
             changed = excluded.changed, counted = excluded.counted, ends = excluded.ends, since = NULL,
             so_far = iif(excluded.counted OR session IS NOT excluded.session, excluded.so_far, so_far),
             session = excluded.session,
             turns = iif(size = excluded.size AND changed = excluded.changed, turns, NULL)",
    )?
    .execute(params![
        tool,
        file.path,
        file.part,
        int(file.size),
        file.changed,
        id.map(SessionId::as_str),
        // Of one that has a log, the log is counted.
        read.counted || has_log,
        conversation
            .as_ref()
            .map(|(_, summary)| &summary.updated_at),
        read.so_far.as_ref().filter(|_| !has_log),
    ])?;
    if let Some(before) = before.as_ref().filter(|before| Some(*before) != id) {
        forget(tx, before)?;
    }
    let Some((id, summary)) = conversation else {
        return Ok(None);
    };
    if !is_chosen(tx, id, tool, file)? {
        if was_chosen && before.as_ref() == Some(id) {
            read_again(tx, id)?;
        }
        return Ok(None);
    }
    let summary = Summary {
        tool: Some(tool.to_owned()),
        agent_ids: Vec::new(),
        ..summary.clone()
    };
    let row = CatalogRow {
        id: id.clone(),
        summary,
        len: -1,
        dirty: 0,
        unreadable: None,
    };
    session_rows::add(tx, &row)?;
    // A conversation that ran here, or was deleted here, is not listed again.
    tx.prepare_cached(
        "UPDATE sessions SET updated_at = NULL WHERE id = ? AND tool IS NOT NULL
             AND EXISTS (SELECT 1 FROM inners
                 WHERE inners.agent = sessions.source AND inners.id = sessions.known_as)",
    )?
    .execute([id.as_str()])?;
    Ok(has_log.then(|| id.clone()))
}

/// Whether a conversation is read from this file.
fn is_chosen(tx: &Transaction<'_>, id: &SessionId, tool: &str, file: &FileOfTool) -> Result<bool> {
    let sql = format!(
        "SELECT tool = ? AND path = ? AND part = ? FROM files
         WHERE session = ? ORDER BY {CHOSEN_FIRST} LIMIT 1"
    );
    tx.prepare_cached(&sql)?
        .query_row([tool, &file.path, &file.part, id.as_str()], |columns| {
            columns.get(0)
        })
}

/// Replaces the words of a conversation that was read as a whole.
fn put_words(tx: &Transaction<'_>, tool: &str, read: &ReadFile) -> Result<()> {
    match &read.conversation {
        Some((id, _)) if read.counted && is_chosen(tx, id, tool, &read.file)? => {
            let from = read.after.as_ref().map_or(0, |(_, from)| *from);
            word_rows::replace(tx, id, from, &read.text)
        }
        _ => Ok(()),
    }
}

/// See [`ReadFile::so_far`].
fn so_far(tx: &Transaction<'_>, tool: &str, file: &FileOfTool) -> Result<Option<String>> {
    let sql = "SELECT so_far FROM files WHERE tool = ? AND path = ? AND part = ?";
    let named = [tool, &file.path, &file.part];
    let known = tx.prepare_cached(sql)?.query_row(named, |row| row.get(0));
    Ok(known.optional()?.flatten())
}

/// Returns the session that the file was, and whether it is in another one.
fn remove(
    tx: &Transaction<'_>,
    tool: &str,
    file: &FileOfTool,
) -> Result<Option<(SessionId, bool)>> {
    let session = session_of(tx, tool, file)?;
    tx.prepare_cached("DELETE FROM files WHERE tool = ? AND path = ? AND part = ?")?
        .execute([tool, &file.path, &file.part])?;
    let forgotten = session.map(|session| {
        let has_other = forget(tx, &session)?;
        Ok((session, has_other))
    });
    forgotten.transpose()
}

fn session_of(tx: &Transaction<'_>, tool: &str, file: &FileOfTool) -> Result<Option<SessionId>> {
    let mut statement = tx.prepare_cached(
        "SELECT session FROM files WHERE tool = ? AND path = ? AND part = ? AND session IS NOT NULL",
    )?;
    let named = [tool, &file.path, &file.part];
    statement.query_row(named, session_rows::id).optional()
}

/// Removes the row of a conversation of which no file is left. If there is another file, that is read
/// again. Returns whether there is.
fn forget(tx: &Transaction<'_>, id: &SessionId) -> Result<bool> {
    let others = read_again(tx, id)?;
    let is_tools = "SELECT 1 FROM sessions WHERE id = ? AND tool IS NOT NULL";
    if others == 0 && tx.prepare_cached(is_tools)?.exists([id.as_str()])? {
        word_rows::delete(tx, id)?;
    }
    Ok(others > 0)
}

/// Lets the next look at the files read those with a conversation again. Returns how many these are.
fn read_again(tx: &Transaction<'_>, id: &SessionId) -> Result<usize> {
    tx.prepare_cached("UPDATE files SET changed = -1 WHERE session = ?")?
        .execute([id.as_str()])
}

/// Reads a file from the first columns.
fn file(columns: &Columns<'_>) -> Result<FileOfTool> {
    let size: i64 = columns.get(2)?;
    Ok(FileOfTool {
        path: columns.get(0)?,
        part: columns.get(1)?,
        size: u64::try_from(size).unwrap_or_default(),
        changed: columns.get(3)?,
    })
}
