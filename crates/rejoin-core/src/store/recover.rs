//! Recovers a log after a crash: truncates a torn end and closes open turns. Only the lock holder
//! does so, when it opens the session.

use std::path::PathBuf;
use std::sync::Arc;

use crate::record::{Kind, OpenCalls, OpenSubagents, OpenTurns};
use crate::sys::SessionId;

use super::context::StoreContext;
use super::log::Log;
use super::medium::{Image, StoreError, Sync, WritableLog};
use super::records::{PositionedRecord, Records};
use super::scan::{self, Scan};

/// The text of a tool call that was running when the process died.
pub const CALL_INTERRUPTED: &str =
    "Interrupted: the agent process ended before this tool call did.";
/// The text of a tool call whose end was undone.
const CALL_UNDONE: &str = "Interrupted: the session went back to before the end of this tool call.";
/// The payload of the `end` of a turn whose end was undone.
const TURN_UNDONE: &str = r#"{"interrupted":"the session went back to a place in this turn"}"#;
/// The payload of the `end` of a turn that was running when its process ended.
pub const TURN_INTERRUPTED: &str = r#"{"interrupted":"the process ended during this turn"}"#;

/// A session that was opened for writing.
#[derive(Debug)]
pub struct OpenedLog {
    /// Its log.
    pub log: Log,
    /// The content of the log, including what recovery appended. `torn` and `damage` describe the
    /// log before recovery.
    pub scan: Scan,
    /// Where recovery has saved the bytes that it removed, if any.
    pub kept_aside: Option<PathBuf>,
}

/// Recovers a locked log and calls `visit` with its records. If it is not the log of a session to
/// which this version may write, it is not changed. Fails with [`StoreError::ReadOnly`] if all of it was
/// read and the disk does not take what recovers it.
pub(super) fn recover(
    context: &Arc<StoreContext>,
    id: &SessionId,
    owned: Box<dyn WritableLog>,
    visit: &mut dyn FnMut(&PositionedRecord<'_>),
) -> Result<OpenedLog, StoreError> {
    let file: &dyn Image = &*owned;
    let mut records = Records::new();
    let mut scan = scan::scan(&mut records, file, id, visit)?;
    let calls = calls_of(&mut records, &scan, file)?;
    let (log, kept_aside) =
        write(context, id, owned, calls, &mut scan).map_err(|error| error.read_only(id))?;
    Ok(OpenedLog {
        log,
        scan,
        kept_aside,
    })
}

/// The tool calls without an end in a log that was read.
fn calls_of(records: &mut Records, scan: &Scan, file: &dyn Image) -> Result<OpenCalls, StoreError> {
    let turn = scan.open_turns.first().copied();
    let calls = match (scan.late_call, turn) {
        (Some(late), _) => late_calls(records, late, turn, file),
        (None, Some(prompt)) => open_calls(records, prompt, file),
        (None, None) => Ok(OpenCalls::default()),
    };
    calls.map_err(StoreError::disk("read", file.path()))
}

/// Reads the log of a writer that has just gone back to an earlier place, and closes what was open there.
/// Returns what the log has then.
pub(super) fn close_rewound(log: &mut Log) -> Result<Scan, StoreError> {
    let mut records = Records::new();
    let mut scan = scan::scan(&mut records, log.file(), log.id(), &mut |_| {})?;
    let calls = calls_of(&mut records, &scan, log.file())?;
    close_turns(log, calls, &mut scan, CALL_UNDONE, TURN_UNDONE)?;
    Ok(scan)
}

/// Removes the torn end of a log that was read, and closes what is open in it. Returns the log, and
/// where the torn end was saved.
fn write(
    context: &Arc<StoreContext>,
    id: &SessionId,
    owned: Box<dyn WritableLog>,
    calls: OpenCalls,
    scan: &mut Scan,
) -> Result<(Log, Option<PathBuf>), StoreError> {
    let kept_aside = match scan.torn {
        Some(torn) => Some(owned.keep_aside(torn.offset)?),
        None => None,
    };
    let log = Log::new(context.clone(), id.clone(), owned);
    let mut log = log.after(scan.next_seq, scan.end, scan.unterminated);
    if kept_aside.is_some() {
        // Not synced: if the bytes reappear after a power failure, they are removed again.
        log.truncate()?;
    }
    close_turns(&mut log, calls, scan, CALL_INTERRUPTED, TURN_INTERRUPTED)?;
    Ok((log, kept_aside))
}

/// The tool calls without an end in the turn of this prompt and in all later ones.
pub(super) fn open_calls(
    records: &mut Records,
    prompt: u64,
    file: &dyn Image,
) -> std::io::Result<OpenCalls> {
    let mut calls = OpenCalls::default();
    records.seek(prompt);
    while let Some(entry) = records.next(file)? {
        if matches!(
            entry.record.kind,
            Kind::Update | Kind::UpdateParams | Kind::UpdateV2 | Kind::Output
        ) {
            calls.update(entry.record.payload);
        }
    }
    Ok(calls)
}

/// The tool calls without an end among those that began outside of a turn, at `late` or later, and
/// those of the open turn, if there is one. Calls of a finished turn are not considered.
fn late_calls(
    records: &mut Records,
    late: u64,
    open_turn: Option<u64>,
    file: &dyn Image,
) -> std::io::Result<OpenCalls> {
    let mut calls = OpenCalls::default();
    let mut running = 0_usize;
    records.seek(late);
    while let Some(entry) = records.next(file)? {
        match entry.record.kind {
            Kind::Prompt => running += 1,
            // An end without an id ends all turns.
            Kind::End if entry.record.id.is_none() => running = 0,
            Kind::End => running = running.saturating_sub(1),
            Kind::Update | Kind::UpdateParams | Kind::UpdateV2 | Kind::Output
                if running == 0 || open_turn.is_some_and(|turn| entry.offset >= turn) =>
            {
                calls.update(entry.record.payload);
            }
            Kind::Update | Kind::UpdateParams | Kind::UpdateV2 | Kind::Output => {
                calls.update_known(entry.record.payload);
            }
            _ => {}
        }
    }
    Ok(calls)
}

/// Closes subagents, tool calls and open turns as a live session does. The records get the time of the last
/// record of the conversation, up to which the turns are known to have run.
fn close_turns(
    log: &mut Log,
    mut calls: OpenCalls,
    scan: &mut Scan,
    call: &str,
    end: &str,
) -> Result<(), StoreError> {
    if scan.open_turns.is_empty() && calls.is_empty() && scan.open_subagents.is_empty() {
        return Ok(());
    }
    let updates = closing_records(&mut scan.open_subagents, &mut calls, call);
    let updates = updates
        .iter()
        .map(|(kind, update)| (*kind, None, &**update));
    let ids = ends(&scan.open_turns);
    let ends = ids.iter().map(|id| (Kind::End, *id, end));
    let records = updates.chain(ends);
    let count = records.clone().count() as u64;
    let at = scan.updated_at.as_deref().unwrap_or(&scan.created_at);
    let (seq, log_end) = log.append_at(at, records, Sync::Turn)?;
    for id in ids {
        scan.keys.note(Kind::End, id, end, log_end);
    }
    scan.next_seq = seq + 1;
    scan.records += count;
    scan.end = log_end;
    scan.unterminated = false;
    scan.interrupted |= !scan.open_turns.is_empty();
    scan.open_turns = OpenTurns::default();
    Ok(())
}

/// The kinds and payloads of the records that close subagents and tool calls, with `message` as the
/// content of the calls.
pub(super) fn closing_records(
    subagents: &mut OpenSubagents,
    calls: &mut OpenCalls,
    message: &str,
) -> Vec<(Kind, String)> {
    let mut records = subagents.close_all(message);
    let calls = calls.close_all(message).into_iter();
    records.extend(calls.map(|update| (Kind::Update, update)));
    records
}

/// The subagents without an end in a whole log.
pub(super) fn open_subagents(
    records: &mut Records,
    file: &dyn Image,
) -> std::io::Result<OpenSubagents> {
    let mut subagents = OpenSubagents::default();
    records.restart();
    while let Some(entry) = records.next(file)? {
        subagents.apply(&entry.record);
    }
    Ok(subagents)
}

/// The ids of the `end` records that end all open turns. An `end` without an id ends them all: it is
/// used for a single turn, and if a prompt has no id.
pub(super) fn ends<T>(open: &OpenTurns<T>) -> Vec<Option<&str>> {
    let ids: Vec<_> = open.iter().map(|(id, _)| Some(id)).collect();
    if ids.len() == 1 || ids.contains(&Some("")) {
        return vec![None];
    }
    ids
}
