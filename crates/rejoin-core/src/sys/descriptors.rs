//! How many descriptors, which are open files, pipes and sockets, a process may have at a time.

use std::io;
use std::process::{Child, Command};

/// Raises the limit of this process as far as the system allows without special rights.
/// Processes that [`spawn`] starts have the limit that this one had before.
pub fn raise_limit() {
    #[cfg(unix)]
    if let Err(error) = unix::raise() {
        tracing::debug!(%error, "the limit of descriptors stays as it is");
    }
}

/// Starts a process with the limit that this process was started with.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    #[cfg(unix)]
    return unix::spawn(command);
    #[cfg(not(unix))]
    command.spawn()
}

/// Whether this process can open nothing more.
pub fn are_exhausted() -> bool {
    #[cfg(unix)]
    return {
        use rustix::io::Errno;
        let error = std::fs::File::open("/dev/null").err();
        let errno = error.as_ref().and_then(Errno::from_io_error);
        matches!(errno, Some(Errno::MFILE | Errno::NFILE))
    };
    #[cfg(not(unix))]
    false
}

/// A descriptor in reserve, to be given up when there are no others.
#[cfg(unix)]
#[derive(Debug, Default)]
pub(super) struct Reserve(Option<std::fs::File>);

#[cfg(unix)]
impl Reserve {
    /// Takes a descriptor, unless one is in reserve already.
    pub(super) fn fill(&mut self) {
        if self.0.is_none() {
            self.0 = std::fs::File::open("/dev/null").ok();
        }
    }

    /// Gives it up. Returns whether there was one.
    pub(super) fn release(&mut self) -> bool {
        self.0.take().is_some()
    }
}

#[cfg(unix)]
mod unix {
    use std::io;
    use std::process::{Child, Command};
    #[cfg(not(target_os = "linux"))]
    use std::sync::Mutex;
    use std::sync::OnceLock;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    #[cfg(not(target_os = "linux"))]
    use crate::sys::lock;

    /// The limit with which this process was started, once that was raised.
    static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();

    /// The limit that macOS allows where it reports an unlimited number.
    const MOST: u64 = 10_240;

    pub(super) fn raise() -> io::Result<()> {
        let original = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: original.maximum,
            ..original
        };
        if original.current == raised.current {
            return Ok(());
        }
        let some = Rlimit {
            current: Some(MOST),
            ..original
        };
        setrlimit(Resource::Nofile, raised).or_else(|error| match original.current {
            Some(current) if current < MOST => setrlimit(Resource::Nofile, some),
            _ => Err(error),
        })?;
        ORIGINAL.set(original).ok();
        Ok(())
    }

    /// Starts a process, whose limit is changed as soon as it runs.
    #[cfg(target_os = "linux")]
    pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
        use rustix::process::{Pid, prlimit};
        let child = command.spawn()?;
        let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        if let (Some(original), Some(process)) = (ORIGINAL.get(), process) {
            // The limit of a process that has gained rights cannot be changed, and that of an ended
            // process need not be.
            prlimit(Some(process), Resource::Nofile, *original).ok();
        }
        Ok(child)
    }

    /// Starts a process while this one has the original limit: the system changes that of no other
    /// process. If too many descriptors are open for that, the process has the raised limit.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let Some(original) = ORIGINAL.get() else {
            return command.spawn();
        };
        let _one = lock(&ONE_AT_A_TIME);
        let raised = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, *original)?;
        let child = command.spawn();
        setrlimit(Resource::Nofile, raised)?;
        child.or_else(|_| command.spawn())
    }
}
