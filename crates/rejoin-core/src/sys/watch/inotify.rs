//! Watches a directory for a runtime, on Linux: its own threads report the changes, so that none has
//! to be woken for that alone.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, Event, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use super::{Changed, Watch};

/// Everything but reading.
const CHANGES: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE);

/// Changes that follow each other faster than this are reported together, after a rest. Meanwhile
/// the system keeps equal changes as one, which spares their writer work.
const FAST: Duration = Duration::from_micros(200);
const REST: Duration = Duration::from_millis(2);

/// How much is read at once, in bytes: some 50 changes.
const BLOCK: usize = 4096;

/// Stops watching when it is dropped.
struct Watching(AbortHandle);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Calls `changed` on a thread of the runtime. See [`watch`](super::watch).
pub(super) fn watch(path: &Path, changed: Changed, runtime: &Handle) -> io::Result<Watch> {
    let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    inotify::add_watch(&events, path, CHANGES)?;
    let entered = runtime.enter();
    #[expect(
        deprecated,
        reason = "what is to replace it is unsafe code; an `OwnedFd` keeps what that asks for"
    )]
    let events = AsyncFd::with_interest(events, Interest::READABLE)?;
    drop(entered);
    let task = runtime.spawn(report_all(events, changed));
    Ok(Box::new(Watching(task.abort_handle())))
}

async fn report_all(events: AsyncFd<OwnedFd>, changed: Changed) {
    let mut reported = None;
    loop {
        let Ok(ready) = events.readable().await else {
            return;
        };
        drop(ready);
        if reported.is_some_and(|at: Instant| at.elapsed() < FAST) {
            sleep(REST).await;
        }
        let Ok(mut ready) = events.readable().await else {
            return;
        };
        match report(events.get_ref(), &changed) {
            Errno::AGAIN => ready.clear_ready(),
            Errno::INTR => {}
            error => return tracing::debug!(%error, "changes of files are missed"),
        }
        reported = Some(Instant::now());
    }
}

/// Reports the changes that have come. Returns why there are no more.
fn report(events: &OwnedFd, changed: &Changed) -> Errno {
    let mut block = [MaybeUninit::uninit(); BLOCK];
    let mut reader = Reader::new(events, &mut block);
    loop {
        match reader.next() {
            Ok(event) => report_one(&event, changed),
            Err(error) => return error,
        }
    }
}

fn report_one(event: &Event<'_>, changed: &Changed) {
    if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
        changed(None);
    } else if let Some(name) = event.file_name().and_then(|name| name.to_str().ok()) {
        changed(Some(name));
    }
}
