//! The output of a process. It ends with the process.

use std::io::{self, PipeReader, Read};
use std::process::ChildStdout;

/// The output of a process. Where the system allows, it ends when the process has ended and what was
/// written until then has been read, even if a process that it left behind holds the pipe open.
#[derive(Debug)]
pub(in crate::engine) struct Output {
    pipe: ChildStdout,
    /// Ends when the process has ended.
    #[cfg_attr(not(unix), expect(dead_code, reason = "there is no `poll` of pipes"))]
    process: PipeReader,
    /// How much is left to be read, in bytes; known once the process has ended.
    left: Option<u64>,
}

impl Output {
    /// The output in `pipe` of the process that has ended when `process` ends.
    pub(super) fn new(pipe: ChildStdout, process: PipeReader) -> Self {
        Self {
            pipe,
            process,
            left: None,
        }
    }

    /// The pipe, whose end is that of all processes that hold it.
    pub(in crate::engine) fn into_pipe(self) -> ChildStdout {
        self.pipe
    }

    /// Waits until the pipe can be read or the process has ended. Returns how much is left to be read
    /// if it has.
    #[cfg(unix)]
    fn await_any(&self) -> io::Result<Option<u64>> {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut watched = [
            PollFd::new(&self.process, PollFlags::IN),
            PollFd::new(&self.pipe, PollFlags::IN),
        ];
        poll(&mut watched, None)?;
        if watched[0].revents().is_empty() {
            return Ok(None);
        }
        Ok(Some(rustix::io::ioctl_fionread(&self.pipe)?))
    }

    #[cfg(not(unix))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "this is where Unix waits"
    )]
    fn await_any(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

impl Read for Output {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left.is_none() {
            self.left = self.await_any()?;
        }
        let Some(left) = &mut self.left else {
            return self.pipe.read(buffer);
        };
        let read = self.pipe.by_ref().take(*left).read(buffer)?;
        *left -= read as u64;
        Ok(read)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// What is read of a shell's output whose end is seen when the second value is dropped.
    fn output(script: &str) -> (Output, std::process::Child, io::PipeWriter) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the system allows it");
        let (end, held) = io::pipe().expect("the system allows it");
        let output = Output::new(process.stdout.take().expect("the system allows it"), end);
        (output, process, held)
    }

    #[test]
    fn it_ends_with_the_process_while_another_one_holds_it() {
        // The shell holds the pipe until its own input ends.
        let (mut output, mut process, held) = output("echo one; cat >/dev/null; :");
        let mut line = [0; 4];
        output.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"one\n");
        drop(held);
        assert_eq!(output.read(&mut line).unwrap(), 0);
        assert_eq!(output.read(&mut line).unwrap(), 0);
        drop(process.stdin.take());
        process.wait().unwrap();
    }

    #[test]
    fn what_was_written_before_the_end_is_read() {
        let (mut output, mut process, held) = output("echo one; echo two");
        process.wait().unwrap();
        drop(held);
        let mut all = String::new();
        // In small parts.
        let mut part = [0; 3];
        while let n @ 1.. = output.read(&mut part).unwrap() {
            all.push_str(std::str::from_utf8(&part[..n]).unwrap());
        }
        assert_eq!(all, "one\ntwo\n");
    }

    #[test]
    fn it_ends_when_the_process_closes_it() {
        let (mut output, mut process, held) = output("exec >&-; cat");
        assert_eq!(output.read(&mut [0]).unwrap(), 0);
        drop(process.stdin.take());
        process.wait().unwrap();
        drop(held);
    }
}
