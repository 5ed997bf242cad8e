//! Reads a whole log once and summarizes it.

use crate::record::activity::keep_latest;
use crate::record::header::{Header, Workspace};
use crate::record::metadata::{archived, restored};
use crate::record::open_turns::is_interrupted;
use crate::record::titles::TitleTracker;
use crate::record::{
    Activity, AgentSessionId, CurrentSettings, Kind, OpenCalls, OpenSubagents, OpenTurns,
    PromptKeys, Record, Rewind, snapshot_of,
};
use crate::sys::SessionId;

use super::damage::{DamageReport, Torn};
use super::header;
use super::medium::{Image, StoreError};
use super::records::{PositionedRecord, Records};

/// The maximum length of a first prompt that is kept, in bytes.
const FIRST_PROMPT: usize = 64 * 1024;

/// The summary of a log.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The payload of the first record.
    pub header: Header,
    /// When the session was created.
    pub created_at: String,
    /// The current workspace: the header's, or that of the last `reopen`.
    pub workspace: Workspace,
    /// How many records could be read, including the header.
    pub records: u64,
    /// The sequence number of the next record.
    pub next_seq: u64,
    /// Where the next record goes: after the last complete line, or after the last record if that
    /// has no line break yet.
    pub end: u64,
    /// Whether the last record has no line break at `end`.
    pub unterminated: bool,
    /// The bytes after `end`, which are not a record.
    pub torn: Option<Torn>,
    /// The offset of each prompt's record.
    pub prompts: Vec<u64>,
    /// The prompts that have idempotency keys.
    pub keys: PromptKeys,
    /// The turns without an end, and the offsets of their prompts.
    pub open_turns: OpenTurns<u64>,
    /// Whether the last turn was interrupted, by a crash or by a fork.
    pub interrupted: bool,
    /// The offset of the first update about a tool call outside of any turn, if there is one.
    pub late_call: Option<u64>,
    /// The subagents without an end.
    pub open_subagents: OpenSubagents,
    /// The damage in the log.
    pub damage: Vec<DamageReport>,
    /// The latest time of a record of the conversation; none before the first prompt.
    pub updated_at: Option<String>,
    /// The payload of the first prompt, unless it is longer than 64 KiB.
    pub first_prompt: Option<String>,
    /// The agents' ids of the session.
    pub agent_ids: Vec<AgentSessionId>,
    /// The session of the agent that has it now, as that agent knows it; none if the agent has not
    /// said its id, or has none of its own.
    pub agent_session: Option<AgentSessionId>,
    /// The titles of the session.
    pub titles: TitleTracker,
    /// Whether it is archived.
    pub archived: bool,
    /// When it was last restored from the trash.
    pub restored_at: Option<String>,
    /// The session's present and last activity.
    pub activity: Activity,
    /// Its current mode and options.
    pub settings: CurrentSettings,
}

/// Reads all records of a log, and calls `visit` with each.
pub(super) fn scan(
    records: &mut Records,
    file: &dyn Image,
    id: &SessionId,
    visit: &mut dyn FnMut(&PositionedRecord<'_>),
) -> Result<Scan, StoreError> {
    let header = header::read(records, file, id)?;
    let begun = records.leave_out_undone(&header, file);
    begun.map_err(StoreError::disk("read", file.path()))?;
    let agent_session = header.agent_session();
    let mut scan = Scan {
        created_at: String::new(),
        workspace: header.workspace.clone(),
        header,
        records: 0,
        next_seq: 0,
        end: 0,
        unterminated: false,
        torn: None,
        prompts: Vec::new(),
        keys: PromptKeys::default(),
        open_turns: OpenTurns::default(),
        interrupted: false,
        late_call: None,
        open_subagents: OpenSubagents::default(),
        damage: Vec::new(),
        updated_at: None,
        first_prompt: None,
        agent_ids: Vec::new(),
        agent_session,
        titles: TitleTracker::default(),
        archived: false,
        restored_at: None,
        activity: Activity::default(),
        settings: CurrentSettings::default(),
    };
    // A key belongs to its prompt, wherever that is now: that of a log with rewinds is looked for in all of it.
    let keys = records.rewinds().map(|rewinds| rewinds.keys.clone());
    while let Some(is_good) = records
        .next_with(file, |entry| {
            visit(entry);
            scan.apply(entry.offset, &entry.record)
        })
        .map_err(StoreError::disk("read", file.path()))?
    {
        if !is_good {
            let noted = records.bad_payload(file);
            noted.map_err(StoreError::disk("read", file.path()))?;
        }
    }
    if let Some(keys) = keys {
        scan.keys = keys;
    }
    scan.next_seq = records.next_seq();
    scan.end = records.end();
    scan.unterminated = !records.ended();
    scan.torn = records.torn();
    scan.damage = records.take_damage();
    Ok(scan)
}

impl Scan {
    /// Whether a turn has no end.
    pub fn turn_open(&self) -> bool {
        !self.open_turns.is_empty()
    }

    /// Applies a record; false if its payload cannot be read.
    fn apply(&mut self, offset: u64, record: &Record<'_>) -> bool {
        if let Some(info) = snapshot_of(record.kind, record.payload) {
            let (kind, payload) = (Kind::Info, info.as_str());
            return self.apply(
                offset,
                &Record {
                    kind,
                    payload,
                    ..*record
                },
            );
        }
        self.records += 1;
        self.titles.record(record);
        self.settings.note(record.kind, record.payload);
        let (id, at) = (record.id, &record.at);
        self.activity.note(record.kind, id, at, record.payload);
        self.open_subagents.apply(record);
        self.keys.note(record.kind, id, record.payload, offset);
        match record.kind {
            Kind::Session if self.records == 1 => record.at.clone_into(&mut self.created_at),
            Kind::Prompt => {
                if self.prompts.is_empty() && record.payload.len() <= FIRST_PROMPT {
                    self.first_prompt = Some(record.payload.to_owned());
                }
                self.prompts.push(offset);
                self.interrupted = false;
                self.open_turns.begin(record.id, offset);
            }
            Kind::Begin => self.open_turns.resume(record.id, offset),
            Kind::Rewind => {
                self.interrupted = false;
                self.agent_session = Rewind::session_at_place(record.payload);
            }
            Kind::End => {
                self.interrupted = is_interrupted(record.payload);
                self.open_turns.end(record.id);
            }
            Kind::Update | Kind::UpdateParams | Kind::UpdateV2
                if self.late_call.is_none()
                    && self.open_turns.is_empty()
                    && OpenCalls::may_be_about_one(record.payload) =>
            {
                self.late_call = Some(offset);
            }
            Kind::AgentSessionId => {
                let inner = AgentSessionId::read(record.payload);
                self.agent_session.clone_from(&inner);
                let new = inner.filter(|inner| !self.agent_ids.contains(inner));
                self.agent_ids.extend(new);
            }
            Kind::Info => {
                AgentSessionId::add_reported(&mut self.agent_ids, record.payload);
                if let Some(archived) = archived(record.payload) {
                    self.archived = archived;
                } else if restored(record.payload) {
                    keep_latest(&mut self.restored_at, record.at);
                }
            }
            Kind::Reopen => match serde_json::from_str(record.payload) {
                Ok(workspace) => self.workspace = workspace,
                Err(_) => return false,
            },
            _ => {}
        }
        // What precedes the first prompt is not a conversation.
        if record.kind.is_activity() && !self.prompts.is_empty() {
            keep_latest(&mut self.updated_at, record.at);
        }
        true
    }
}
