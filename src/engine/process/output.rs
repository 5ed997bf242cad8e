//! The pipes of a process. Its output ends with the process.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::process::ChildStdin;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// The input of a process. It ends when this is dropped.
#[derive(Debug)]
pub(in crate::engine) struct Input(Arc<ChildStdin>);

/// The output of a process, `P` being its pipe. Where the system allows, it ends when the process has
/// ended and what was written until then has been read, even if a process that it left behind holds the
/// pipe open.
///
/// A process that ends successfully and leaves one behind which has its input, too, is a launcher such
/// as `setsid`: what it has started goes on in its place.
#[derive(Debug)]
pub(in crate::engine) struct Output<P> {
    pipe: P,
    /// Set until the process has ended.
    #[cfg_attr(not(unix), expect(dead_code, reason = "there is no `poll` of pipes"))]
    watch: Option<Watch>,
    /// How much is left to be read, in bytes; known once the output ends.
    left: Option<u64>,
}

/// Watches for the end of a process.
#[derive(Debug)]
#[cfg_attr(not(unix), expect(dead_code, reason = "there is no `poll` of pipes"))]
pub(super) struct Watch {
    /// Ends when the process has ended. It has a byte in it if that was a success.
    end: PipeReader,
    input: Weak<ChildStdin>,
    /// When it is clear that the process, which has ended, was a launcher.
    settled: Option<Instant>,
}

/// Reports the end of a process to those that watch for it.
#[derive(Debug)]
pub(super) struct End(PipeWriter);

/// The end of a process that is not started yet.
pub(super) fn end() -> io::Result<(PipeReader, End)> {
    let (reader, writer) = io::pipe()?;
    Ok((reader, End(writer)))
}

impl End {
    /// The process has ended.
    pub(super) fn report(mut self, is_success: bool) {
        if is_success {
            // If nobody watches, that is no failure.
            self.0.write_all(&[0]).ok();
        }
    }
}

impl Input {
    pub(super) fn new(pipe: ChildStdin) -> Self {
        Self(Arc::new(pipe))
    }

    /// Watches for the end of its process, which `end` reports.
    pub(super) fn watch(&self, end: PipeReader) -> Watch {
        let input = Arc::downgrade(&self.0);
        Watch {
            end,
            input,
            settled: None,
        }
    }

    /// The pipe itself.
    pub(in crate::engine) fn into_pipe(mut self) -> ChildStdin {
        loop {
            match Arc::try_unwrap(self.0) {
                Ok(pipe) => return pipe,
                // Another thread looks at it for a moment.
                Err(shared) => self.0 = shared,
            }
            std::thread::yield_now();
        }
    }
}

impl Write for Input {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.0).flush()
    }
}

impl<P> Output<P> {
    pub(super) fn new(pipe: P, watch: Watch) -> Self {
        Self {
            pipe,
            watch: Some(watch),
            left: None,
        }
    }

    /// The pipe itself, whose end is that of all processes that hold it.
    pub(in crate::engine) fn into_pipe(self) -> P {
        self.pipe
    }
}

#[cfg(unix)]
mod unix {
    use std::io;
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::ioctl_fionread;

    use super::{Output, Watch};

    /// How long a process must have had the input to be what a launcher has started: every process
    /// that is being started has all open files for a moment.
    const SETTLES: Duration = Duration::from_millis(100);
    /// How often that is looked at.
    const STEP: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 10_000_000,
    };

    impl<P: AsFd> Output<P> {
        /// Waits until the pipe can be read or its output has ended.
        pub(super) fn wait(&mut self) -> io::Result<()> {
            let Some(watch) = &mut self.watch else {
                return Ok(());
            };
            if watch.settled.is_none() {
                let mut watched = [
                    PollFd::new(&watch.end, PollFlags::IN),
                    PollFd::new(&self.pipe, PollFlags::IN),
                ];
                poll(&mut watched, None)?;
                if watched[0].revents().is_empty() {
                    return Ok(());
                }
            }
            while watch.is_launcher()? {
                let settled = *watch
                    .settled
                    .get_or_insert_with(|| Instant::now() + SETTLES);
                if Instant::now() >= settled {
                    self.watch = None;
                    return Ok(());
                }
                if poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], Some(&STEP))? > 0 {
                    return Ok(());
                }
            }
            self.left = Some(ioctl_fionread(&self.pipe)?);
            self.watch = None;
            Ok(())
        }
    }

    impl Watch {
        /// Whether the process, which has ended, has left another one in its place.
        fn is_launcher(&self) -> io::Result<bool> {
            let Some(input) = self.input.upgrade() else {
                return Ok(false);
            };
            // Without a reader there is an error or a hang-up, depending on the system.
            let mut watched = [PollFd::new(&*input, PollFlags::OUT)];
            poll(&mut watched, Some(&Timespec::default()))?;
            let unread = PollFlags::ERR | PollFlags::HUP;
            let is_read = !watched[0].revents().intersects(unread);
            Ok(is_read && ioctl_fionread(&self.end)? > 0)
        }
    }
}

#[cfg(not(unix))]
impl<P> Output<P> {
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "this is where Unix waits"
    )]
    fn wait(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What can be read and waited for.
#[cfg(unix)]
pub(in crate::engine) trait Pipe: Read + std::os::fd::AsFd {}
#[cfg(unix)]
impl<P: Read + std::os::fd::AsFd> Pipe for P {}
#[cfg(not(unix))]
pub(in crate::engine) trait Pipe: Read {}
#[cfg(not(unix))]
impl<P: Read> Pipe for P {}

impl<P: Pipe> Read for Output<P> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait()?;
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
    use std::process::{Child, ChildStdout, Command, Stdio};

    use super::*;

    /// A shell, its input and its output, and what reports its end.
    fn shell(script: &str) -> (Child, Input, Output<ChildStdout>, End) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("there is a shell");
        let (reader, end) = super::end().expect("there are pipes");
        let input = Input::new(process.stdin.take().expect("it is a pipe"));
        let output = process.stdout.take().expect("it is a pipe");
        let output = Output::new(output, input.watch(reader));
        (process, input, output, end)
    }

    fn succeeds(process: &mut Child) -> bool {
        process.wait().expect("it can be waited for").success()
    }

    /// The next line, and nothing of what follows.
    fn line(output: &mut impl Read) -> String {
        let mut line = String::new();
        let mut byte = [0];
        while output.read(&mut byte).expect("it can be read") > 0 && byte != *b"\n" {
            line.push(char::from(byte[0]));
        }
        line
    }

    #[test]
    fn it_ends_with_a_process_that_fails() {
        // Another shell holds the pipes until the input ends.
        let script = "exec 4<&0; (cat <&4 >/dev/null; :) & echo one; exit 1";
        let (mut process, input, mut output, end) = shell(script);
        assert_eq!(line(&mut output), "one");
        end.report(succeeds(&mut process));
        assert_eq!(output.read(&mut [0]).unwrap(), 0);
        assert_eq!(output.read(&mut [0]).unwrap(), 0);
        drop(input);
    }

    #[test]
    fn it_ends_with_a_process_that_leaves_another_one_without_its_input() {
        let (mut process, _input, mut output, end) = shell("sleep 60 </dev/null & echo $!");
        let left = line(&mut output);
        end.report(succeeds(&mut process));
        assert_eq!(output.read(&mut [0]).unwrap(), 0);
        let killed = Command::new("kill").arg(left).status().unwrap();
        assert!(killed.success());
    }

    #[test]
    fn it_goes_on_with_what_a_launcher_has_started() {
        let script = "exec 4<&0; (read line <&4; echo \"$line\") & exit 0";
        let (mut process, mut input, mut output, end) = shell(script);
        end.report(succeeds(&mut process));
        // It is looked at when there is nothing else.
        std::thread::scope(|scope| {
            let read = scope.spawn(|| line(&mut output));
            input.write_all(b"two\n").unwrap();
            assert_eq!(read.join().unwrap(), "two");
        });
        assert_eq!(output.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn what_was_written_before_the_end_is_read() {
        let (mut process, _input, mut output, end) = shell("echo one; echo two");
        end.report(succeeds(&mut process));
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
        let (mut process, input, mut output, end) = shell("exec >&-; read line");
        assert_eq!(output.read(&mut [0]).unwrap(), 0);
        drop(input);
        end.report(succeeds(&mut process));
    }
}
