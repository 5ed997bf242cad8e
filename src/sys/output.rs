//! What a connection is written to, and what it takes without waiting.

use std::fmt;
use std::io::{self, Write};

#[cfg(unix)]
use std::os::fd::AsFd;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;

/// Where the lines of a connection go.
pub struct Output {
    /// Waits for the reader.
    pub waiting: Box<dyn Write + Send>,
    /// The same end, for what the reader has room for.
    pub at_once: AtOnce,
}

impl<W: Write + Send + 'static> From<W> for Output {
    fn from(waiting: W) -> Self {
        Self {
            waiting: Box::new(waiting),
            at_once: AtOnce::default(),
        }
    }
}

impl Output {
    /// The same for a pipe or a socket, which may take something at once.
    #[cfg(unix)]
    pub fn of(file: impl Write + AsFd + Send + 'static) -> io::Result<Self> {
        Ok(Self {
            at_once: AtOnce::of(&file)?,
            waiting: Box::new(file),
        })
    }

    /// The same for a file, which takes nothing at once on this system.
    #[cfg(not(unix))]
    pub fn of(file: impl Write + Send + 'static) -> io::Result<Self> {
        Ok(file.into())
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").finish_non_exhaustive()
    }
}

/// Writes without waiting. By default, or where the system cannot do that, it writes nothing.
#[derive(Debug, Default)]
pub struct AtOnce {
    #[cfg(target_os = "linux")]
    to: Option<OwnedFd>,
}

impl AtOnce {
    /// Writes to the same as `file`.
    #[cfg(unix)]
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        let own = Self {
            to: Some(file.as_fd().try_clone_to_owned()?),
        };
        #[cfg(not(target_os = "linux"))]
        let own = Self::default();
        drop(file);
        Ok(own)
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
            &[io::IoSlice::new(bytes)],
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_reader_that_does_not_read_is_not_waited_for() {
        let (mut reader, writer) = io::pipe().unwrap();
        let Output {
            waiting,
            mut at_once,
        } = Output::of(writer).unwrap();
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
        let mut at_once = AtOnce::of(only_read).unwrap();
        assert_eq!(at_once.write(b"x"), 0);
        assert_eq!(AtOnce::default().write(b"x"), 0);
    }
}
