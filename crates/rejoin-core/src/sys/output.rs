//! The writing end of a connection: one that waits for the reader, and one that does not.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

#[cfg(unix)]
use std::os::fd::AsFd;

/// Where the lines of a connection go.
pub struct LineOutput {
    /// Waits for the reader.
    pub waiting: Box<dyn Write + Send>,
    /// Writes to the same end without waiting, as much as the reader has room for.
    pub at_once: AtOnce,
}

impl<W: Write + Send + 'static> From<W> for LineOutput {
    fn from(waiting: W) -> Self {
        Self {
            waiting: Box::new(waiting),
            at_once: AtOnce::default(),
        }
    }
}

/// A descriptor of the operating system: a handle on Windows.
#[cfg(unix)]
type OwnedDescriptor = std::os::fd::OwnedFd;
#[cfg(windows)]
type OwnedDescriptor = std::os::windows::io::OwnedHandle;

impl LineOutput {
    /// An output to a file or a pipe, which may take something at once.
    pub fn of(file: impl Into<OwnedDescriptor>) -> Self {
        let file = Arc::new(File::from(file.into()));
        Self {
            #[cfg(unix)]
            at_once: AtOnce::of(file.clone()),
            #[cfg(not(unix))]
            at_once: AtOnce::default(),
            waiting: Box::new(file),
        }
    }
}

impl fmt::Debug for LineOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineOutput").finish_non_exhaustive()
    }
}

/// Writes without waiting. By default, or where the system cannot do that, it writes nothing.
#[derive(Default)]
pub struct AtOnce {
    #[cfg(unix)]
    to: Option<Arc<dyn AsFd + Send + Sync>>,
}

/// The end of a pipe or a socket, which notices when the other end is gone.
pub struct OtherEnd {
    #[cfg(unix)]
    of: Arc<dyn AsFd + Send + Sync>,
}

impl AtOnce {
    /// Writes to this file, pipe or socket, which others write to as well.
    #[cfg(unix)]
    pub fn of(file: Arc<dyn AsFd + Send + Sync>) -> Self {
        Self { to: Some(file) }
    }

    /// The other end, where the system can tell of it.
    pub fn other_end(&self) -> Option<OtherEnd> {
        #[cfg(unix)]
        return self.to.clone().map(|of| OtherEnd { of });
        #[cfg(not(unix))]
        None
    }

    /// Writes as much as the reader has room for; returns how much that was.
    #[cfg(target_os = "linux")]
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        use rustix::io::{Errno, ReadWriteFlags, pwritev2};
        let Some(to) = &self.to else { return 0 };
        // Where it would write if it were a file.
        let position = u64::MAX;
        match pwritev2(
            to,
            &[std::io::IoSlice::new(bytes)],
            position,
            ReadWriteFlags::NOWAIT,
        ) {
            Ok(written) => written,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            // The write that waits for the reader sees what is wrong, if anything is.
            Err(_) => {
                self.to = None;
                0
            }
        }
    }

    /// Other systems cannot promise that a write does not wait.
    #[cfg(not(target_os = "linux"))]
    pub fn write(&mut self, _: &[u8]) -> usize {
        0
    }
}

impl OtherEnd {
    /// Blocks the thread until nobody reads at the other end.
    pub fn wait_until_gone(&self) {
        #[cfg(unix)]
        {
            use rustix::event::{PollFd, PollFlags, poll};
            use rustix::io::Errno;
            // A hang-up and an error are reported in any case.
            let mut ends = [PollFd::new(&self.of, PollFlags::empty())];
            while poll(&mut ends, None) == Err(Errno::INTR) {}
        }
    }
}

impl fmt::Debug for OtherEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtherEnd").finish_non_exhaustive()
    }
}

impl fmt::Debug for AtOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtOnce").finish_non_exhaustive()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{self, Read};

    use super::*;

    #[test]
    fn a_reader_that_does_not_read_is_not_waited_for() {
        let (mut reader, writer) = io::pipe().unwrap();
        let LineOutput {
            waiting,
            mut at_once,
        } = LineOutput::of(writer);
        let block = [b'x'; 1000];
        let mut written = 0;
        while let more @ 1.. = at_once.write(&block) {
            written += more;
        }
        assert!(written >= block.len());
        drop((waiting, at_once));
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        assert_eq!(text.len(), written);
    }

    #[test]
    fn what_cannot_be_written_at_once_is_left() {
        let only_read = std::fs::File::open("/dev/null").unwrap();
        let mut at_once = AtOnce::of(Arc::new(only_read));
        assert_eq!(at_once.write(b"x"), 0);
        assert_eq!(AtOnce::default().write(b"x"), 0);
    }
}
