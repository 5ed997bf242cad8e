//! What opening a session for writing repairs after a crash: a torn end is cut off, open turns are
//! closed. Both by the lock's holder only, and both once.

use std::path::PathBuf;
use std::sync::Arc;

use crate::record::{Kind, OpenCalls, OpenTurns};
use crate::sys::{DiskFile, SessionId};

use super::base::StoreContext;
use super::damage::Torn;
use super::durability::Sync;
use super::error::StoreError;
use super::lock::Lock;
use super::log::Log;
use super::records::{Entry, Records};
use super::scan::{self, Scan};

/// What a tool call says that was running when the process died.
pub(super) const CALL_INTERRUPTED: &str =
    "Interrupted: the agent process ended before this tool call did.";
/// The end of a turn that was running when the process died.
pub(super) const TURN_INTERRUPTED: &str = r#"{"interrupted":"the process ended during this turn"}"#;
/// How much of a torn end is copied at once.
const BLOCK: usize = 256 * 1024;
/// How many names are tried for a torn end.
const NAMES: u32 = 1000;

/// A session's log, ready for appending.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) log: Log,
    pub(super) scan: Scan,
    pub(super) kept_aside: Option<PathBuf>,
}

/// Makes the log of a locked file, showing `visit` what is in it. If the file is not a session that this version may write to,
/// it stays as it is.
pub(super) fn recover(
    base: &Arc<StoreContext>,
    id: &SessionId,
    lock: Lock,
    visit: &mut dyn FnMut(&Entry<'_>),
) -> Result<Recovered, StoreError> {
    let mut records = Records::new();
    let mut scan = scan::scan(&mut records, &*lock.file, id, &lock.path, visit)?;
    let turn = scan.open_turns.first().copied();
    let calls = match (scan.late_call, turn) {
        (Some(late), _) => late_calls(&mut records, late, turn, &*lock.file),
        (None, Some(prompt)) => open_calls(&mut records, prompt, &*lock.file),
        (None, None) => Ok(OpenCalls::default()),
    };
    let calls = calls.map_err(StoreError::disk("read", &lock.path))?;
    let kept_aside = match scan.torn {
        Some(torn) => Some(keep_aside(base, id, torn, &*lock.file)?),
        None => None,
    };
    let mut log = Log::new(base, id, lock).behind(scan.next_seq, scan.end, scan.unterminated);
    if kept_aside.is_some() {
        // Not synced: should a power cut bring the bytes back, they are cut off again.
        log.cut()?;
    }
    if !scan.open_turns.is_empty() || !calls.is_empty() {
        close_turns(&mut log, calls, &mut scan)?;
    }
    Ok(Recovered {
        log,
        scan,
        kept_aside,
    })
}

/// The tool calls that have not ended, of the turn of this prompt and all that follow it.
pub(super) fn open_calls(
    records: &mut Records,
    prompt: u64,
    file: &dyn DiskFile,
) -> std::io::Result<OpenCalls> {
    let mut calls = OpenCalls::default();
    records.seek(prompt);
    while let Some(entry) = records.next(file)? {
        if matches!(
            entry.record.kind,
            Kind::Update | Kind::UpdateParams | Kind::Output
        ) {
            calls.update(entry.record.payload);
        }
    }
    Ok(calls)
}

/// The tool calls that have not ended, of those that began outside of any turn, at `late` or behind,
/// and of the open turn, if there is one. A turn that has ended answers for its own.
fn late_calls(
    records: &mut Records,
    late: u64,
    open_turn: Option<u64>,
    file: &dyn DiskFile,
) -> std::io::Result<OpenCalls> {
    let mut calls = OpenCalls::default();
    let mut running = 0_usize;
    records.seek(late);
    while let Some(entry) = records.next(file)? {
        match entry.record.kind {
            Kind::Prompt => running += 1,
            // One without an id ends all turns.
            Kind::End if entry.record.id.is_none() => running = 0,
            Kind::End => running = running.saturating_sub(1),
            Kind::Update | Kind::UpdateParams | Kind::Output
                if running == 0 || open_turn.is_some_and(|turn| entry.offset >= turn) =>
            {
                calls.update(entry.record.payload);
            }
            Kind::Update | Kind::UpdateParams | Kind::Output => {
                calls.update_known(entry.record.payload);
            }
            _ => {}
        }
    }
    Ok(calls)
}

/// Closes tool calls and the open turns as they would have been closed live. The records have the time of the last
/// one of the conversation, which is as long as the turns are known to have run.
fn close_turns(log: &mut Log, mut calls: OpenCalls, scan: &mut Scan) -> Result<(), StoreError> {
    let calls = calls.close_all(CALL_INTERRUPTED);
    let updates = calls.iter().map(|update| (Kind::Update, None, &**update));
    let ends = ends(&scan.open_turns);
    let ends = ends.iter().map(|id| (Kind::End, *id, TURN_INTERRUPTED));
    let records = updates.chain(ends);
    let count = records.clone().count() as u64;
    let at = scan.updated_at.as_deref().unwrap_or(&scan.created_at);
    let (seq, end) = log.append_at(at, records, Sync::Turn)?;
    scan.next_seq = seq + 1;
    scan.records += count;
    scan.end = end;
    scan.unterminated = false;
    scan.interrupted |= !scan.open_turns.is_empty();
    scan.open_turns = OpenTurns::default();
    Ok(())
}

/// The ids of the `end` records that end all open turns. One without an id ends them all, which is
/// what a single turn has, and what is left where a prompt has no id.
pub(super) fn ends<T>(open: &OpenTurns<T>) -> Vec<Option<&str>> {
    let ids: Vec<_> = open.iter().map(|(id, _)| Some(id)).collect();
    if ids.len() == 1 || ids.contains(&Some("")) {
        return vec![None];
    }
    ids
}

/// Copies a torn end into the trash, synced whatever the durability: what is cut off next must be
/// somewhere.
fn keep_aside(
    base: &Arc<StoreContext>,
    id: &SessionId,
    torn: Torn,
    file: &dyn DiskFile,
) -> Result<PathBuf, StoreError> {
    let disk = &base.sys.disk;
    let at = base.sys.clock.now();
    let mut n = 1;
    let (path, mut copy) = loop {
        let path = base.layout.torn(id, torn.offset, at, n);
        match disk.create_new(&path) {
            Ok(copy) => break (path, copy),
            // Another attempt got this far within the same millisecond.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && n < NAMES => n += 1,
            Err(error) => return Err(StoreError::disk("create", &path)(error)),
        }
    };
    let copied = copy_end(torn, file, &mut *copy).and_then(|()| copy.sync());
    drop(copy);
    if let Err(error) = copied {
        // Half a copy would only puzzle whoever finds it.
        if let Err(error) = disk.remove_file(&path) {
            tracing::debug!(path = %path.display(), %error, "cannot remove half a copy");
        }
        return Err(StoreError::disk("copy a torn end to", &path)(error));
    }
    let trash = &base.layout.trash;
    disk.sync_dir(trash)
        .map_err(StoreError::disk("sync", trash))?;
    Ok(path)
}

fn copy_end(torn: Torn, from: &dyn DiskFile, to: &mut dyn DiskFile) -> std::io::Result<()> {
    let mut block = vec![0; BLOCK];
    let mut at = torn.offset;
    loop {
        let got = from.read_at(&mut block, at)?;
        if got == 0 {
            return Ok(());
        }
        let mut left = &block[..got];
        while !left.is_empty() {
            match to.append(left)? {
                0 => return Err(std::io::ErrorKind::WriteZero.into()),
                written => left = left.get(written..).unwrap_or_default(),
            }
        }
        at += got as u64;
    }
}
