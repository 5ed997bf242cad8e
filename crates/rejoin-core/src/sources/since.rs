//! Turns that a tool has written to a conversation since it was continued here, and that the session does
//! not have. They are read from the tool's file whenever they are shown, and copied nowhere.

use std::borrow::Cow;
use std::ops::Range;

use crate::conversation::prompt_blocks;
use crate::index::TOOL_BRANCH;
use crate::json::{self, Object};
use crate::protocol::meta::REJOIN;
use crate::protocol::{Role, UpdateKind};
use crate::record::{AgentSessionId, Kind, Record, metadata};
use crate::store::{LogReader, StoreError};
use crate::sys::Timestamp;

use super::import::is_masked;
use super::{NewRecord, ToolConversation};

/// How exact the times in tools' files are, in milliseconds: some have seconds.
const EXACT_TO: i64 = 1000;

/// How long after the last sign of a turn without an end its prompt may be in the tool's file, in
/// milliseconds: an agent may have to be started first.
const WITHOUT_END: i64 = 10_000;

/// The id of the message in front of what a tool has written since.
const MESSAGE: &str = "rejoin_tool_branch";

/// A conversation beside the log of its session, which was continued here.
#[derive(Debug, Default)]
struct ContinuedLog {
    /// The texts of the prompts that were copied.
    copied: Vec<String>,
    /// The time of the last record that was copied, in milliseconds.
    until: i64,
    /// What was said here.
    here: Vec<TurnHere>,
    /// Whether the agent has the tool's own session of the conversation now.
    is_own: bool,
}

/// A turn that was held here.
#[derive(Debug)]
struct TurnHere {
    /// The id of the prompt.
    id: Option<String>,
    text: String,
    /// When it was prompted, in milliseconds.
    from: i64,
    /// When anything was said last.
    last: i64,
    /// When it ended. A crash leaves none.
    to: Option<i64>,
    /// Whether it was held with the tool's own session, so that its file has it, too.
    is_own: bool,
}

impl ContinuedLog {
    /// Reads a log; none if it is no copy of the conversation, or was not continued here.
    fn read(
        log: &mut LogReader,
        conversation: &ToolConversation,
    ) -> Result<Option<Self>, StoreError> {
        let mut read = Self::default();
        let mut is_copy = false;
        log.seek(0);
        while let Some(entry) = log.next()? {
            let record = &entry.record;
            if record.kind == Kind::Info && metadata::imported(record.payload) {
                // All that was said so far was written by imports.
                is_copy = true;
                for turn in read.here.drain(..) {
                    read.until = read.until.max(turn.last);
                    read.copied.push(turn.text);
                }
            } else {
                read.record(record, &conversation.id);
            }
        }
        log.seek(0);
        Ok((is_copy && !read.here.is_empty()).then_some(read))
    }

    fn record(&mut self, record: &Record<'_>, id: &str) {
        let at = Timestamp::parse(record.at).map_or(0, Timestamp::as_millis);
        match record.kind {
            Kind::AgentSessionId => {
                let session = AgentSessionId::read(record.payload);
                self.is_own = session.is_some_and(|session| session.id == id);
            }
            Kind::Prompt => self.here.push(TurnHere {
                id: record.id.map(str::to_owned),
                text: text(record.payload),
                from: at,
                last: at,
                to: None,
                is_own: self.is_own,
            }),
            Kind::End => {
                let open = |turn: &&mut TurnHere| {
                    turn.to.is_none() && (record.id.is_none() || turn.id.as_deref() == record.id)
                };
                // The end of an interrupted turn was written much later.
                if json::text_member(record.payload, "interrupted").is_none() {
                    self.here
                        .iter_mut()
                        .filter(open)
                        .for_each(|turn| turn.to = Some(at));
                }
            }
            kind if kind.is_activity() => {
                if let Some(turn) = self.here.last_mut() {
                    turn.last = turn.last.max(at);
                }
            }
            _ => {}
        }
    }

    /// Whether a turn of the tool's file was held here, and is in the log.
    fn was_here(&mut self, turn: &ToolTurn<'_>, has_times: bool) -> bool {
        let is_it = |here: &TurnHere| {
            let to = here.to.unwrap_or(here.last + WITHOUT_END);
            let is_meanwhile = (here.from - EXACT_TO..=to + EXACT_TO).contains(&turn.at);
            let is_same = if has_times {
                is_meanwhile
            } else {
                turn.text.contains(&here.text)
            };
            here.is_own && is_same
        };
        match self.here.iter().position(is_it) {
            // Of those without times, each was said once.
            Some(at) if !has_times => {
                self.here.remove(at);
                true
            }
            found => found.is_some(),
        }
    }
}

/// A prompt in a tool's file and what followed it.
#[derive(Debug)]
struct ToolTurn<'a> {
    text: Cow<'a, str>,
    /// When it was prompted, and when anything was said last, in milliseconds.
    at: i64,
    last: i64,
    /// Its records.
    entries: Range<usize>,
}

fn turns(conversation: &ToolConversation) -> Vec<ToolTurn<'_>> {
    let mut turns: Vec<ToolTurn<'_>> = Vec::new();
    for (n, entry) in conversation.entries.iter().enumerate() {
        let at = entry.at.as_millis();
        if entry.kind == Kind::Prompt {
            turns.push(ToolTurn {
                text: text(&entry.payload).into(),
                at,
                last: at,
                entries: n..n,
            });
        }
        if let Some(turn) = turns.last_mut() {
            turn.entries.end = n + 1;
            if entry.kind.is_activity() && entry.kind != Kind::End && !is_thought(entry) {
                turn.last = turn.last.max(at);
            }
        }
    }
    turns
}

/// Whether a record is a part of a thought: the summary of a compaction, which is one, comes behind a turn
/// that has ended.
fn is_thought(entry: &NewRecord) -> bool {
    let kind = json::string_member(&entry.payload, "sessionUpdate");
    entry.kind == Kind::Update && kind.as_deref() == Some("agent_thought_chunk")
}

/// The text of a prompt.
fn text(payload: &str) -> String {
    let texts = prompt_blocks(payload).filter_map(|block| json::string_member(block, "text"));
    texts.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// The turns that a tool has written to a conversation since it was continued here.
#[derive(Debug)]
pub(super) struct TurnsSince {
    /// How many turns of the conversation are before the first of them.
    after: u64,
    /// The records of each.
    turns: Vec<Range<usize>>,
}

impl TurnsSince {
    /// Compares a conversation, as its tool has it now, with the log of its session; none if the session
    /// has all of it or was not continued here. The log is read from its beginning, and is there again
    /// after it.
    pub(super) fn find(
        log: &mut LogReader,
        conversation: &ToolConversation,
    ) -> Result<Option<Self>, StoreError> {
        let turns = turns(conversation);
        let Some(mut log) = ContinuedLog::read(log, conversation)? else {
            return Ok(None);
        };
        // Several tools record no times, and all that was said has that of the conversation.
        let has_times = turns.len() < 2 || turns.iter().any(|turn| turn.at != turns[0].at);
        let pairs = turns.iter().zip(&log.copied);
        let same = pairs.take_while(|(turn, copied)| is_masked(&turn.text, copied));
        let same = same.count();
        let mut since = Vec::new();
        for (n, turn) in turns.iter().enumerate() {
            let is_known = if has_times {
                turn.last <= log.until
            } else {
                n < same
            };
            if !is_known && !log.was_here(turn, has_times) {
                since.push(n);
            }
        }
        Ok(since.first().map(|first| Self {
            after: *first as u64,
            turns: since.iter().map(|n| turns[*n].entries.clone()).collect(),
        }))
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.turns.len() as u64
    }

    /// A log with these turns of the conversation behind its records, and before them a message that says
    /// where they are from. `tool` is the name of the tool for people, and `source` that of the source.
    pub(super) fn behind(
        &self,
        log: LogReader,
        conversation: &ToolConversation,
        (source, tool): (&str, &str),
    ) -> Result<LogReader, StoreError> {
        let entries = self.turns.iter().cloned().flatten();
        let entries: Vec<&NewRecord> = entries
            .map(|n| &conversation.entries[n])
            .filter(|entry| entry.kind != Kind::Info)
            .collect();
        let message = self.message(source, tool);
        let at = entries
            .first()
            .map_or(Timestamp::from_millis(0), |entry| entry.at);
        let first = (at, Kind::Update, None, message.as_str());
        let entries = entries.iter().map(|entry| entry.as_record(&entry.payload));
        log.followed_by(std::iter::once(first).chain(entries))
    }

    /// The message in front of them.
    fn message(&self, source: &str, tool: &str) -> String {
        let (after, count) = (self.after, self.count());
        let turns = if count == 1 { "turn" } else { "turns" };
        let place = match after {
            0 => "from the beginning".to_owned(),
            after => format!("behind turn {after}"),
        };
        let text = format!(
            "[rejoin] {count} {turns} since in {tool}, {place}. The conversation here goes on without \
             them.\n\n"
        );
        let content = Object::new().string("type", "text").string("text", &text);
        let branch = Object::new()
            .string("tool", source)
            .raw("turns", &count.to_string())
            .raw("after", &after.to_string());
        let note = Object::new().raw(TOOL_BRANCH, &branch.end()).end();
        let meta = Object::new().raw(REJOIN, &note).end();
        UpdateKind::Chunk(Role::Agent)
            .object()
            .string("messageId", MESSAGE)
            .raw("content", &content.end())
            .raw("_meta", &meta)
            .end()
    }
}
