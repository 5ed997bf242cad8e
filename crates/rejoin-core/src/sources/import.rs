//! Copies a conversation of another tool into the store.
//!
//! The copy is a session of the tool's ACP agent, so a wrap of that agent goes on with it by the
//! tool's own id. Until it is continued here, it is what the tool has: a conversation that has grown
//! since is continued in it, and one that has changed otherwise takes its place. A copy that was
//! continued here, or that the user deleted, is left as it is.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::json;

use crate::index::{Catalog, ListError};
use crate::record::header::{ForkedFrom, Implementation, Workspace};
use crate::record::metadata::{self, ARCHIVED_BY_TOOL, IMPORTED, UNARCHIVED_BY_TOOL};
use crate::record::{AgentSessionId, Header, Kind, Record, subagents};
use crate::redact::{self, Redactor};
use crate::store::{self, CALL_INTERRUPTED, LogReader, Store, StoreError, Sync, log_in_memory};
use crate::sys::{SessionId, Timestamp, path};

use super::conversation::NO_RESULT;
use super::{DamagedPlace, FoundConversation, NewRecord, Source, ToolConversation, UnknownKinds};

/// How many damaged places of a file are logged.
const MOST_LOGGED: usize = 100;

/// The outcome of importing a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImportOutcome {
    /// The conversation is a new session.
    Imported,
    /// The conversation has grown, and so has its session.
    Extended,
    /// The tool has changed or removed something of the conversation, and its session was made anew.
    Renewed,
    /// The session has all of the conversation.
    Unchanged,
    /// The conversation differs from its session, which was continued here.
    Differs,
    /// The conversation ran behind rejoin, so its session is there.
    Recorded,
    /// The user has deleted the conversation's session, which is in the trash.
    Deleted,
    /// The conversation has no prompt, or is a part of another one.
    Empty,
}

/// A conversation that was looked at.
#[derive(Debug)]
pub struct ImportReport {
    /// The outcome of importing the conversation.
    pub outcome: ImportOutcome,
    /// What was left out because its kind is not known.
    pub unknown: UnknownKinds,
    /// Where its files are damaged.
    pub damage: Vec<DamagedPlace>,
    /// Whether its session has keys or tokens that would be masked now: it was imported without.
    pub keeps_secrets: bool,
}

/// Why a conversation could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The tool's file could not be read.
    #[error("cannot read it")]
    Read(#[from] io::Error),
    /// The session could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The catalog could not be asked for it.
    #[error("cannot look it up in the catalog")]
    Catalog(#[from] ListError),
}

/// Copies conversations into a store.
#[derive(Debug)]
pub struct Importer<'a> {
    store: &'a Store,
    catalog: &'a Catalog,
    /// The folder of a session whose tool has recorded none.
    home: &'a Path,
    deleted: HashSet<SessionId>,
    /// Masks keys and tokens, if they are to be masked.
    redactor: Option<Redactor>,
    /// Whether a session was made.
    made: AtomicBool,
}

impl<'a> Importer<'a> {
    /// An importer into this store.
    pub fn new(store: &'a Store, catalog: &'a Catalog, home: &'a Path) -> Result<Self, StoreError> {
        let deleted = store.trashed()?.into_iter().map(|trashed| trashed.id);
        Ok(Self {
            store,
            catalog,
            home,
            deleted: deleted.collect(),
            redactor: None,
            made: AtomicBool::new(false),
        })
    }

    /// Removes from the files of the index what it had of the tools' own files and is masked in the sessions that
    /// were made of them. Takes as long as rewriting the index, if anything was masked.
    pub fn erase_unmasked(&self) -> Result<(), ListError> {
        let is_masked = self.masked().is_some_and(|masked| masked > 0);
        if is_masked && self.made.swap(false, Ordering::Relaxed) {
            self.catalog.erase_deleted()?;
        }
        Ok(())
    }

    /// Sets whether keys and tokens are masked in what the importer writes.
    #[must_use]
    pub fn redacting(mut self, redacts: bool) -> Self {
        self.redactor = redacts.then(Redactor::default);
        self
    }

    /// How many different keys and tokens were masked in what was written; none if nothing is
    /// masked.
    pub fn masked(&self) -> Option<usize> {
        self.redactor.as_ref().map(Redactor::masked)
    }

    /// Imports a conversation, or what is new of it.
    pub fn import(
        &self,
        source: &Source,
        found: &FoundConversation,
    ) -> Result<ImportReport, ImportError> {
        self.import_conversation(source.agent, &found.path, source.read(found)?)
    }

    /// Imports a conversation of this agent that was read from a file, or what is new of it.
    pub fn import_conversation(
        &self,
        agent: &str,
        file: &Path,
        conversation: ToolConversation,
    ) -> Result<ImportReport, ImportError> {
        let path = file.display();
        for (kind, count) in conversation.unknown.iter() {
            tracing::info!(%path, kind, count, "records of an unknown kind were left out");
        }
        for damage in conversation.damage.iter().take(MOST_LOGGED) {
            tracing::info!(%path, %damage, "a file is damaged");
        }
        let (outcome, keeps_secrets) = match session_id(agent, &conversation) {
            Some(id) => self.write(&id, agent, &conversation)?,
            None => (ImportOutcome::Empty, false),
        };
        Ok(ImportReport {
            outcome,
            unknown: conversation.unknown,
            damage: conversation.damage,
            keeps_secrets,
        })
    }

    /// Returns also whether the session's log has something that would be masked now.
    fn write(
        &self,
        id: &SessionId,
        agent: &str,
        conversation: &ToolConversation,
    ) -> Result<(ImportOutcome, bool), ImportError> {
        if !conversation.entries.is_empty() && self.store.exists(id)? {
            return self.extend(id, agent, conversation);
        }
        Ok((self.create(id, agent, conversation)?, false))
    }

    fn create(
        &self,
        id: &SessionId,
        agent: &str,
        conversation: &ToolConversation,
    ) -> Result<ImportOutcome, ImportError> {
        let Some(began) = conversation.entries.first().map(|entry| entry.at) else {
            return Ok(ImportOutcome::Empty);
        };
        if self.deleted.contains(id) {
            return Ok(ImportOutcome::Deleted);
        }
        if self.catalog.of_inner(agent, &conversation.id)?.is_some() {
            return Ok(ImportOutcome::Recorded);
        }
        self.make(id, agent, conversation, began, &ClientMetadata::default())
    }

    /// Creates the session of a conversation that began at this time, with what clients have set.
    fn make(
        &self,
        id: &SessionId,
        agent: &str,
        conversation: &ToolConversation,
        began: Timestamp,
        set: &ClientMetadata,
    ) -> Result<ImportOutcome, ImportError> {
        self.made.store(true, Ordering::Relaxed);
        let header = header(id, agent, conversation, self.home);
        let agent = agent_record(agent, conversation);
        let entries: Vec<&NewRecord> = conversation.entries.iter().collect();
        let masking = Redactor::default();
        let redactor = self.redactor.as_ref().or(set.is_masked.then_some(&masking));
        let payloads = payloads(redactor, conversation, &entries);
        let records = records(&entries, &payloads, began, Some(&agent));
        let kept = set.records.iter();
        let kept = kept.map(|(at, payload)| (*at, Kind::Info, None, payload.as_str()));
        match self
            .store
            .create_dated(id, &header, began, records.chain(kept))
        {
            Ok(_) => Ok(ImportOutcome::Imported),
            // Another process was first.
            Err(StoreError::Exists { .. }) => Ok(ImportOutcome::Unchanged),
            Err(error) => Err(error.into()),
        }
    }

    /// Brings the session of a conversation up to date with it.
    fn extend(
        &self,
        id: &SessionId,
        agent: &str,
        conversation: &ToolConversation,
    ) -> Result<(ImportOutcome, bool), ImportError> {
        let mut comparison = Comparison::new(conversation);
        let mut keeps_secrets = false;
        let mut reader = self.store.read_all(id)?;
        while let Some(entry) = reader.next()? {
            comparison.record(&entry.record);
            keeps_secrets = keeps_secrets || self.would_mask(entry.record.payload);
        }
        let is_copy = comparison.is_copy;
        match comparison.into_new() {
            None if is_copy => {
                let outcome = self.renew(id, agent, conversation)?;
                let keeps_secrets = keeps_secrets && outcome != ImportOutcome::Renewed;
                return Ok((outcome, keeps_secrets));
            }
            None => return Ok((ImportOutcome::Differs, keeps_secrets)),
            Some(new) if new.is_empty() => return Ok((ImportOutcome::Unchanged, keeps_secrets)),
            // Until the log is locked, another process may append to it.
            Some(_) => {}
        }
        let mut comparison = Comparison::new(conversation);
        let mut visit = |entry: &store::PositionedRecord<'_>| comparison.record(&entry.record);
        let mut opened = self.store.open_log_with(id, &mut visit)?;
        let (is_copy, masks) = (comparison.is_copy, comparison.masks);
        let Some(new) = comparison.into_new() else {
            return Ok((ImportOutcome::Differs, keeps_secrets));
        };
        if new.is_empty() {
            return Ok((ImportOutcome::Unchanged, keeps_secrets));
        }
        let new: Vec<&NewRecord> = new.iter().map(Cow::as_ref).collect();
        // Who had the beginning masked has not asked for the rest as it is.
        let masking = Redactor::default();
        let redactor = self.redactor.as_ref().or(masks.then_some(&masking));
        let payloads = payloads(redactor, conversation, &new);
        let records = new.iter().zip(&payloads);
        let records = records.map(|(entry, payload)| entry.as_record(payload));
        let mark = new.last().filter(|_| is_copy).map(|last| mark(last.at));
        opened.log.append_dated(records.chain(mark), Sync::Turn)?;
        Ok((ImportOutcome::Extended, keeps_secrets))
    }

    /// Makes the session of a conversation anew, unless it was continued here.
    fn renew(
        &self,
        id: &SessionId,
        agent: &str,
        conversation: &ToolConversation,
    ) -> Result<ImportOutcome, ImportError> {
        let Some(began) = conversation.entries.first().map(|entry| entry.at) else {
            return Ok(ImportOutcome::Empty);
        };
        if !self.store.may_remove()? {
            return Ok(ImportOutcome::Differs);
        }
        let mut set = ClientMetadata::default();
        // Until the log is locked, another process may append to it.
        let mut is_copy = || {
            let mut comparison = Comparison::new(conversation);
            let mut read = || {
                let mut reader = self.store.read_all(id)?;
                while let Some(entry) = reader.next()? {
                    comparison.record(&entry.record);
                }
                Ok::<_, StoreError>(())
            };
            let is_read = read().is_ok();
            set = comparison.set;
            is_read && comparison.is_copy
        };
        let before = self.catalog.before_change();
        if !self.store.erase_if(id, &mut is_copy)? {
            return Ok(ImportOutcome::Differs);
        }
        self.catalog.removed(id, before);
        self.make(id, agent, conversation, began, &set)?;
        Ok(ImportOutcome::Renewed)
    }

    /// Whether a payload has something that is masked here.
    fn would_mask(&self, payload: &str) -> bool {
        self.redactor.is_some() && matches!(redact::payload(payload), Cow::Owned(_))
    }
}

/// The payloads of these entries of a conversation as they are written.
fn payloads<'c>(
    redactor: Option<&Redactor>,
    conversation: &ToolConversation,
    entries: &[&'c NewRecord],
) -> Vec<Cow<'c, str>> {
    if let Some(redactor) = redactor {
        redactor.next_conversation();
        conversation.expect_titles(redactor);
    }
    let written = entries.iter().map(|entry| match redactor {
        Some(redactor) => redactor.payload(&entry.payload),
        None => Cow::Borrowed(entry.payload.as_str()),
    });
    written.collect()
}

fn header(id: &SessionId, agent: &str, conversation: &ToolConversation, home: &Path) -> Header {
    Header {
        known_as: Some(conversation.id.clone()),
        workspace: Workspace::at(&folder(conversation, home)),
        engine: Implementation {
            name: agent.to_owned(),
            version: None,
        },
        ..Header::new(id, "")
    }
}

fn agent_record(agent: &str, conversation: &ToolConversation) -> String {
    AgentSessionId::of_tool(&conversation.id, agent, conversation.model.as_deref())
}

/// Creates the session `id` as a fork of the session `of`, with a conversation that this one is a copy
/// of. False if the conversation is empty.
pub(super) fn fork(
    store: &Store,
    agent: &str,
    conversation: &ToolConversation,
    home: &Path,
    (of, id): (&SessionId, &SessionId),
) -> Result<bool, ImportError> {
    let Some(began) = conversation.entries.first().map(|entry| entry.at) else {
        return Ok(false);
    };
    let header = Header {
        known_as: None,
        forked_from: Some(ForkedFrom {
            session_id: of.to_string(),
            message_id: None,
            cursor_id: None,
        }),
        ..header(id, agent, conversation, home)
    };
    let entries: Vec<&NewRecord> = conversation.entries.iter().collect();
    let payloads = payloads(None, conversation, &entries);
    // The tool's own session of it may be that of the other one.
    let records = records(&entries, &payloads, began, None);
    store.create_dated(id, &header, began, records)?;
    Ok(true)
}

/// The records of a session: the one that names its agent, if it has one, then the history with these payloads, and
/// the one that says that this was all.
fn records<'a>(
    entries: &'a [&'a NewRecord],
    payloads: &'a [Cow<'a, str>],
    began: Timestamp,
    agent: Option<&'a str>,
) -> impl Iterator<Item = (Timestamp, Kind, Option<&'a str>, &'a str)> {
    let first = agent.map(|agent| (began, Kind::AgentSessionId, None, agent));
    let history = entries.iter().zip(payloads);
    let history = history.map(|(entry, payload)| entry.as_record(payload));
    let last = entries.last().map_or(began, |last| last.at);
    first.into_iter().chain(history).chain([mark(last)])
}

/// The record behind those that an import has written.
fn mark<'a>(at: Timestamp) -> (Timestamp, Kind, Option<&'a str>, &'a str) {
    (at, Kind::Info, None, IMPORTED)
}

/// How many records a log has before those of an imported history.
pub const BEFORE_HISTORY: u64 = 2;

/// The log that the import of a conversation would write, in memory; none if there would be none.
pub(super) fn log(
    source: &Source,
    found: &FoundConversation,
    home: &Path,
) -> Result<Option<LogReader>, ImportError> {
    let conversation = source.read(found)?;
    let began = conversation.entries.first().map(|entry| entry.at);
    let (Some(began), Some(id)) = (began, session_id(source.agent, &conversation)) else {
        return Ok(None);
    };
    let header = header(&id, source.agent, &conversation, home);
    let agent = agent_record(source.agent, &conversation);
    let entries: Vec<&NewRecord> = conversation.entries.iter().collect();
    let payloads = payloads(None, &conversation, &entries);
    let records = records(&entries, &payloads, began, Some(&agent));
    Ok(Some(log_in_memory(&id, &header, began, records)?))
}

/// The working directory of a conversation: that of the user's home if none is recorded.
pub(super) fn folder(conversation: &ToolConversation, home: &Path) -> String {
    let cwd = conversation.cwd.as_deref();
    let mounted = cwd.and_then(|cwd| of_windows(cwd, Path::new(MOUNTS)));
    let cwd = cwd.filter(|cwd| Path::new(cwd).is_absolute());
    let cwd = mounted.as_deref().or(cwd);
    path::normalize(cwd.unwrap_or(&home.to_string_lossy()))
}

/// Where the Windows Subsystem for Linux has the drives.
const MOUNTS: &str = "/mnt";

/// A folder of Windows below the mount of its drive, if it is there.
fn of_windows(folder: &str, mounts: &Path) -> Option<String> {
    let (drive, path) = folder.split_once(":\\")?;
    let is_drive = drive.len() == 1 && drive.starts_with(|c: char| c.is_ascii_alphabetic());
    let drive = mounts.join(drive.to_ascii_lowercase());
    let path = drive.join(path.replace('\\', "/"));
    (is_drive && path.is_dir()).then(|| path.to_string_lossy().into_owned())
}

/// The id of the session that a conversation is or becomes. An id that looks like one of ours could
/// be taken for a session of ours.
pub(super) fn session_id(agent: &str, conversation: &ToolConversation) -> Option<SessionId> {
    let is_ours = SessionId::parse(&conversation.id).is_some();
    (!is_ours).then(|| SessionId::of_foreign(agent, &conversation.id))
}

/// A conversation beside the log of its session, record by record.
///
/// Messages and tool calls are compared, not how turns ended, nor the ends of tool calls that were
/// put for missing results: a later import may know better. Keys and tokens may be masked in the
/// log.
#[derive(Debug)]
struct Comparison<'a> {
    /// The records of the conversation, and of each of its subagents, that the log does not have
    /// yet.
    history: BTreeMap<String, VecDeque<(usize, &'a NewRecord)>>,
    /// The snapshots at the end, that are not in the log.
    snapshots: Vec<&'a NewRecord>,
    differs: bool,
    /// Whether all that was said so far was written by imports.
    is_copy: bool,
    /// Whether the log has something of the conversation masked.
    masks: bool,
    set: ClientMetadata,
    archived: ArchivedByTool,
    /// The time of the conversation's last record.
    last: Timestamp,
}

/// Whether the tool has put a conversation away.
#[derive(Debug, Default)]
struct ArchivedByTool {
    now: bool,
    /// As far as the log says.
    logged: bool,
}

/// What clients have set in a copy, which stays when it is made anew.
#[derive(Debug, Default)]
struct ClientMetadata {
    /// The records, with their times.
    records: Vec<(Timestamp, String)>,
    has_title: bool,
    /// Whether keys and tokens are masked in the copy.
    is_masked: bool,
}

impl<'a> Comparison<'a> {
    fn new(conversation: &'a ToolConversation) -> Self {
        let entries = conversation.entries.iter();
        let (mut snapshots, own): (Vec<_>, Vec<_>) =
            entries.partition(|entry| entry.kind == Kind::Info);
        let all = snapshots.len();
        snapshots.retain(|entry| entry.payload != ARCHIVED_BY_TOOL);
        let is_archived = snapshots.len() < all;
        let last = conversation.entries.last();
        let mut history: BTreeMap<String, VecDeque<_>> = BTreeMap::new();
        for (at, entry) in own.into_iter().enumerate() {
            let session = subagent(entry.kind, &entry.payload);
            history.entry(session).or_default().push_back((at, entry));
        }
        Self {
            history,
            snapshots,
            differs: false,
            is_copy: false,
            masks: false,
            set: ClientMetadata::default(),
            archived: ArchivedByTool {
                now: is_archived,
                logged: false,
            },
            last: last.map_or(Timestamp::from_millis(0), |last| last.at),
        }
    }

    /// Takes the next record of the log.
    fn record(&mut self, record: &Record<'_>) {
        self.set.is_masked |= redact::around_masks(record.payload).len() > 1;
        if record.kind == Kind::Info {
            self.info(record);
        } else if record.kind.is_activity() {
            self.is_copy = false;
        }
        if !is_compared(record.kind, record.payload) {
            return;
        }
        let session = subagent(record.kind, record.payload);
        let Some(history) = self.history.get_mut(&session) else {
            // Tools remove subagents before their sessions.
            self.differs |= session.is_empty();
            return;
        };
        skip(history);
        let next = history.pop_front().map(|(_, next)| next);
        let next = next.filter(|next| next.kind == record.kind);
        match next {
            Some(next) if is_masked(&next.payload, record.payload) => {
                self.masks |= next.payload != record.payload;
            }
            // The call that has started a subagent may become known only later.
            Some(_) if !session.is_empty() && record.kind == Kind::Update => {}
            _ if session.is_empty() => self.differs = true,
            _ => history.clear(),
        }
    }

    fn info(&mut self, record: &Record<'_>) {
        let payload = record.payload;
        self.snapshots.retain(|entry| {
            let is_logged = is_masked(&entry.payload, payload);
            self.masks |= is_logged && entry.payload != payload;
            !is_logged
        });
        if metadata::imported(payload) {
            self.is_copy = true;
        }
        match payload {
            ARCHIVED_BY_TOOL => self.archived.logged = true,
            UNARCHIVED_BY_TOOL => self.archived.logged = false,
            _ => {
                let is_title = metadata::title_of_client(payload).is_some();
                self.set.has_title |= is_title;
                if is_title || metadata::archived(payload).is_some() {
                    let at = Timestamp::parse(record.at).unwrap_or(Timestamp::from_millis(0));
                    self.set.records.push((at, payload.to_owned()));
                }
            }
        }
    }

    /// The records that the log lacks; `None` if it has something else.
    fn into_new(mut self) -> Option<Vec<Cow<'a, NewRecord>>> {
        if self.differs {
            return None;
        }
        let mut new = Vec::new();
        for mut history in self.history.into_values() {
            // The session's last turn has an end already.
            skip(&mut history);
            new.extend(history);
        }
        new.sort_by_key(|(at, _)| *at);
        let new = new.into_iter().map(|(_, entry)| entry);
        let mut new: Vec<_> = new.map(Cow::Borrowed).collect();
        let is_title = |entry: &NewRecord| entry.payload.contains("session_info_update");
        let own_title = self.set.has_title;
        self.snapshots
            .retain(|entry| !(own_title && is_title(entry)));
        new.extend(self.snapshots.into_iter().map(Cow::Borrowed));
        if self.archived.now != self.archived.logged {
            let payload = if self.archived.now {
                ARCHIVED_BY_TOOL
            } else {
                UNARCHIVED_BY_TOOL
            };
            new.push(Cow::Owned(NewRecord {
                at: self.last,
                kind: Kind::Info,
                id: None,
                payload: payload.to_owned(),
            }));
        }
        Some(new)
    }
}

/// The session of the subagent that a record is of or about; empty for the user's own.
fn subagent(kind: Kind, payload: &str) -> String {
    let session = match kind {
        Kind::Subagent => subagents::parse(payload).map(|(session, _)| session.into_owned()),
        Kind::Update => subagents::announced(payload),
        _ => None,
    };
    session.unwrap_or_default()
}

/// Leaves out what is not compared, up to the next entry that is.
fn skip(history: &mut VecDeque<(usize, &NewRecord)>) {
    let is_skipped = |(_, entry): &(usize, &NewRecord)| !is_compared(entry.kind, &entry.payload);
    while history.front().is_some_and(is_skipped) {
        history.pop_front();
    }
}

/// Whether a payload of a log is this one, but for what is masked in it: by which rules is not asked,
/// since they change with releases.
pub(super) fn is_masked(payload: &str, logged: &str) -> bool {
    if payload == logged {
        return true;
    }
    let parts = redact::around_masks(logged);
    let [first, between @ .., last] = &parts[..] else {
        return false;
    };
    let rest = payload.strip_prefix(*first);
    let Some(mut rest) = rest.and_then(|rest| rest.strip_suffix(*last)) else {
        return false;
    };
    for part in between {
        let Some(at) = rest.find(*part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    true
}

/// Whether such a record is compared.
fn is_compared(kind: Kind, payload: &str) -> bool {
    let is_put = || {
        [NO_RESULT, CALL_INTERRUPTED]
            .iter()
            .any(|note| payload.contains(note))
    };
    match kind {
        Kind::Prompt => true,
        // What a subagent is doing, which is recorded after a crash, too.
        Kind::Update if subagents::announced(payload).is_some() => {
            json::text_member(payload, "state").is_none()
        }
        Kind::Update | Kind::Subagent => !(payload.contains(r#""status":"failed""#) && is_put()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_windows_is_below_the_mount_of_its_drive() {
        let mounts = tempfile::tempdir().unwrap();
        let there = mounts.path().join("c").join("Users").join("ada");
        std::fs::create_dir_all(&there).unwrap();
        let found = |folder: &str| of_windows(folder, mounts.path());
        assert_eq!(found("C:\\Users\\ada").as_deref(), there.to_str());
        for other in ["C:\\Users\\eve", "D:\\Users", "/srv", "a:b", ":\\c"] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
