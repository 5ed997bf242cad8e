//! Reads a log as a conversation: what is known of the session, then its updates and turns in order.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::conversation::{PermissionRequest, Permissions};
use crate::index::{Summary, TOOL_BRANCH, ToolBranch};
use crate::json;
use crate::record::title::{says_nothing, title};
use crate::record::{AgentSessionId, Kind, OpenTurns, Record};
use crate::redact::Redactor;
use crate::replay::{self, Replay};
use crate::store::{DamageReport, LogReader, Scan, StoreError};

/// How a conversation is exported.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// Masks keys and tokens, if they are to be masked.
    pub redact: Option<&'a Redactor>,
    /// Only the last turns, this many of them.
    pub last: Option<u64>,
    /// The branch of its tool, if there is one.
    pub tool_branch: Option<&'a ToolBranch>,
    /// Says what an agent is called by people, for the forms that they read: pages know it themselves.
    pub title_of: Option<fn(&str) -> &str>,
}

impl Options<'_> {
    /// What an agent is called in a form that people read.
    pub(super) fn title_of(self, agent: &str) -> &str {
        self.title_of.map_or(agent, |title_of| title_of(agent))
    }

    /// How many of the turns in a log are left out.
    pub(super) fn skipped(self, scan: &Scan) -> u64 {
        let turns = scan.prompts.len() as u64;
        self.last.map_or(0, |last| turns.saturating_sub(last))
    }

    pub(super) fn apply(self, json: &str) -> Cow<'_, str> {
        match self.redact {
            Some(redactor) => redactor.payload(json),
            None => json.into(),
        }
    }
}

/// Notes the requests for permission of a log while it is read, with keys and tokens masked if that
/// is wanted.
pub(super) fn note_permission(
    permissions: &mut Permissions,
    record: &Record<'_>,
    options: Options<'_>,
) {
    if matches!(record.kind, Kind::Ask | Kind::Answer) {
        let payload = options.apply(record.payload);
        let payload = payload.as_ref();
        permissions.record(&Record { payload, ..*record });
    } else {
        permissions.record(record);
    }
}

/// Reads a log for what is known of it as a whole, and notes its requests for permission.
pub(super) fn scan(
    reader: &mut LogReader,
    options: Options<'_>,
) -> Result<(Scan, Permissions), StoreError> {
    let mut permissions = Permissions::new(reader.header(), 0);
    let scan = reader.scan_with(&mut |entry| {
        note_permission(&mut permissions, &entry.record, options);
    })?;
    Ok((scan, permissions))
}

/// The longest message that is not cut, in bytes. A line of a log is not longer than half of it.
const LONGEST_MESSAGE: usize = 512 * 1024 * 1024;

/// A part of a conversation.
#[derive(Debug)]
pub(super) enum ConversationEvent<'a> {
    /// An update: the parameters of a `session/update` notification, as a load sends them.
    Update(&'a str),
    /// A turn has ended, or is open at the end of the log: an object, see `docs/export.md`.
    Turn(&'a str),
    /// A request for permission in a turn that ends with the next event, or in one without an end.
    Permission(&'a PermissionRequest),
    /// Here a part of the log cannot be read.
    Damage(&'a DamageReport),
}

/// A description of a session as a whole, from `scan`, the reading of its log.
pub(super) fn about(
    reader: &mut LogReader,
    scan: &Scan,
    options: Options<'_>,
) -> Result<Value, StoreError> {
    let summary = Summary::of(scan);
    if let Some(redactor) = options.redact {
        expect_titles(reader, scan, redactor)?;
    }
    let cost = summary.activity.cost.as_deref().and_then(json::tree);
    let damage: Vec<String> = scan.damage.iter().map(ToString::to_string).collect();
    let mut session = json!({
        "sessionId": reader.id().as_str(),
        "title": summary.title,
        "cwd": summary.cwd,
        "agent": summary.source,
        "agentSession": scan.agent_session.as_ref().map(AgentSessionId::as_json),
        "model": summary.activity.model,
        "cost": cost,
        "createdAt": summary.created_at,
        "updatedAt": summary.updated_at,
        "turns": summary.prompts,
        "damage": damage,
    });
    if let Some(branch) = options.tool_branch {
        session[TOOL_BRANCH] = json!(branch);
    }
    let redacted = options.apply(&session.to_string()).into_owned();
    Ok(json::tree(&redacted).unwrap_or(session))
}

/// Lets the redactor see the prompt whose beginning may be the title.
fn expect_titles(
    reader: &mut LogReader,
    scan: &Scan,
    redactor: &Redactor,
) -> Result<(), StoreError> {
    for &prompt in &scan.prompts {
        reader.seek(prompt);
        let Some(entry) = reader.next()? else {
            break;
        };
        redactor.expect(entry.record.payload);
        if title(entry.record.payload).is_some_and(|title| !says_nothing(&title)) {
            break;
        }
    }
    reader.seek(0);
    Ok(())
}

/// The part of a log that is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Range<'a> {
    /// How many of the first turns are left out.
    pub(super) skipped: u64,
    /// How many turns there are before the reader's position.
    pub(super) earlier: u64,
    /// Where parts of the log cannot be read.
    pub(super) damage: &'a [DamageReport],
    /// The requests for permission in what is read.
    pub(super) permissions: &'a [PermissionRequest],
}

/// Calls `visit` with each part of the conversation, in the order in which a load would show them.
pub(super) fn read<E: From<StoreError>>(
    reader: &mut LogReader,
    options: Options<'_>,
    range: Range<'_>,
    visit: &mut dyn FnMut(ConversationEvent<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let skip_turns = range.skipped;
    let mut replay = Replay::new(
        reader.id().as_str(),
        replay::Options {
            message_limit: LONGEST_MESSAGE,
            skip_turns,
            earlier_turns: range.earlier,
            ..replay::Options::default()
        },
    );
    let mut lines = Vec::new();
    let mut open = OpenTurns::default();
    let is_shown = |turn: &u64| *turn > skip_turns;
    let mut turn = range.earlier;
    let mut damage = range.damage.iter().peekable();
    let mut asked = range.permissions.iter().peekable();
    // Damage that was passed while a line was held back, which comes before it.
    let mut passed = Vec::new();
    while let Some(entry) = reader.next()? {
        let record = &entry.record;
        while let Some(report) = damage.next_if(|report| report.offset < entry.offset) {
            match turn {
                turn if turn < skip_turns => {}
                _ if open.is_empty() => visit(ConversationEvent::Damage(report))?,
                _ => passed.push(report),
            }
        }
        replay.record(record, &mut lines);
        let shows = !lines.is_empty() || record.kind == Kind::End;
        match record.kind {
            Kind::Prompt => {
                turn += 1;
                open.begin(record.id, turn);
            }
            Kind::End => {
                take(&mut lines, options, visit)?;
                for turn in open.end(record.id).into_iter().filter(is_shown) {
                    while let Some(asked) = asked.next_if(|asked| asked.turn <= turn) {
                        if is_shown(&asked.turn) {
                            visit(ConversationEvent::Permission(asked))?;
                        }
                    }
                    let text = json::Object::new()
                        .raw("turn", &turn.to_string())
                        .string("at", record.at)
                        .raw("end", record.payload)
                        .end();
                    visit(ConversationEvent::Turn(&options.apply(&text)))?;
                }
            }
            _ => {}
        }
        take(&mut lines, options, visit)?;
        if shows {
            for report in passed.drain(..) {
                visit(ConversationEvent::Damage(report))?;
            }
        }
    }
    replay.finish(&mut lines);
    take(&mut lines, options, visit)?;
    for report in passed.into_iter().chain(damage) {
        visit(ConversationEvent::Damage(report))?;
    }
    for asked in asked.filter(|asked| is_shown(&asked.turn)) {
        visit(ConversationEvent::Permission(asked))?;
    }
    for turn in open.end(None).into_iter().filter(is_shown) {
        visit(ConversationEvent::Turn(
            &json!({ "turn": turn }).to_string(),
        ))?;
    }
    Ok(())
}

/// Passes on the updates in `lines` and empties it.
fn take<E>(
    lines: &mut Vec<u8>,
    options: Options<'_>,
    visit: &mut dyn FnMut(ConversationEvent<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let text = String::from_utf8_lossy(lines);
    for params in text
        .lines()
        .filter_map(|line| json::text_member(line, "params"))
    {
        visit(ConversationEvent::Update(&options.apply(params)))?;
    }
    lines.clear();
    Ok(())
}
