//! What opening a session for writing puts right after a crash: a torn end is cut off, an open
//! turn is closed. Both by the lock's holder only, and both once.

use std::path::PathBuf;
use std::sync::Arc;

use crate::record::{Kind, OpenCalls};
use crate::sys::{DiskFile, SessionId};

use super::base::Base;
use super::damage::Torn;
use super::durability::Sync;
use super::error::StoreError;
use super::lock::Lock;
use super::log::Log;
use super::records::{Entry, Records};
use super::scan::{self, Payloads, Scan};

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
    base: &Arc<Base>,
    id: &SessionId,
    lock: Lock,
    visit: &mut dyn FnMut(&Entry<'_>),
) -> Result<Recovered, StoreError> {
    let mut records = Records::new();
    let mut scan = scan::scan(
        &mut records,
        &*lock.file,
        id,
        &lock.path,
        Payloads::Believed,
        visit,
    )?;
    let calls = match scan.prompts.last() {
        Some(prompt) if scan.turn_open => {
            let calls = open_calls(&mut records, *prompt, &*lock.file);
            Some(calls.map_err(StoreError::disk("read", &lock.path))?)
        }
        _ => None,
    };
    let kept_aside = match scan.torn {
        Some(torn) => Some(keep_aside(base, id, torn, &*lock.file)?),
        None => None,
    };
    let mut log = Log::new(base, id, lock).behind(scan.next_seq, scan.end, scan.unterminated);
    if kept_aside.is_some() {
        // Not synced: should a power cut bring the bytes back, they are cut off again.
        log.cut()?;
    }
    if let Some(calls) = calls {
        close_turn(&mut log, calls, &mut scan)?;
    }
    Ok(Recovered {
        log,
        scan,
        kept_aside,
    })
}

/// The tool calls of the last turn that have not ended.
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

/// Closes an open turn as it would have been closed live.
fn close_turn(log: &mut Log, mut calls: OpenCalls, scan: &mut Scan) -> Result<(), StoreError> {
    for update in calls.close_all(CALL_INTERRUPTED) {
        let appended = log.append(Kind::Update, None, &update, Sync::Buffered)?;
        scan.next_seq = appended.seq + 1;
        scan.records += 1;
    }
    let appended = log.append(Kind::End, None, TURN_INTERRUPTED, Sync::Turn)?;
    scan.next_seq = appended.seq + 1;
    scan.records += 1;
    scan.end = appended.end;
    scan.unterminated = false;
    scan.turn_open = false;
    Ok(())
}

/// Copies a torn end into the trash, synced whatever the durability: what is cut off next must be
/// somewhere.
fn keep_aside(
    base: &Arc<Base>,
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
