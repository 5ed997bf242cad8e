//! The pipes of a process. Its output ends with the process.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::process::ChildStdin;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use crate::sys::processes_with_stdin;

/// The input of a process. It ends when this is dropped.
#[derive(Debug)]
pub(in crate::engine) struct ProcessInput {
    pipe: Arc<ChildStdin>,
    answerers: Answerers,
}

/// The output of a process, `P` being its pipe. Where the system allows, it ends when the process has
/// ended and what was written until then has been read, even if a process that it left behind holds the
/// pipe open.
///
/// A process that ends successfully before the first answer, and leaves one behind which has its input,
/// is a launcher such as `setsid`: what it has started goes on in its place. On Linux, the output ends
/// when the processes that had the input at the first answer have ended.
#[derive(Debug)]
pub(in crate::engine) struct ProcessOutput<P> {
    pipe: P,
    /// Set until the output ends.
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
    answerers: Answerers,
    ended: Option<ProcessEnd>,
}

/// The end of the process that was started, which others may outlive.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(unix), expect(dead_code, reason = "there is no `poll` of pipes"))]
struct ProcessEnd {
    /// When it is clear that another process goes on in its place.
    settled: Instant,
    /// Whether the process had answered before.
    had_answered: bool,
}

/// The processes that had the input when the first answer came, by their ids. Empty where the system
/// does not say.
type Answerers = Arc<OnceLock<Vec<u32>>>;

/// Takes note of the first answer.
#[derive(Debug)]
pub(super) struct FirstAnswer {
    input: Weak<ChildStdin>,
    answerers: Answerers,
}

impl FirstAnswer {
    /// The process has answered.
    pub(super) fn came(&self) {
        let input = self.input.upgrade();
        let answerers = || input.map_or_else(Vec::new, processes_with_stdin);
        self.answerers.get_or_init(answerers);
    }
}

/// Reports the end of a process to those that watch for it.
#[derive(Debug)]
pub(super) struct EndReporter(PipeWriter);

/// The end of a process that is not started yet.
pub(super) fn end() -> io::Result<(PipeReader, EndReporter)> {
    let (reader, writer) = io::pipe()?;
    Ok((reader, EndReporter(writer)))
}

impl EndReporter {
    /// The process has ended.
    pub(super) fn report(mut self, is_success: bool) {
        if is_success {
            // If nobody watches, that is no failure.
            self.0.write_all(&[0]).ok();
        }
    }
}

impl ProcessInput {
    pub(super) fn new(pipe: ChildStdin) -> Self {
        Self {
            pipe: Arc::new(pipe),
            answerers: Answerers::default(),
        }
    }

    /// Watches for the end of its process, which `end` reports.
    pub(super) fn watch(&self, end: PipeReader) -> Watch {
        Watch {
            end,
            input: Arc::downgrade(&self.pipe),
            answerers: self.answerers.clone(),
            ended: None,
        }
    }

    /// A handle that takes note of the process's first answer.
    pub(super) fn first_answer(&self) -> FirstAnswer {
        FirstAnswer {
            input: Arc::downgrade(&self.pipe),
            answerers: self.answerers.clone(),
        }
    }

    /// The pipe itself.
    pub(in crate::engine) fn into_pipe(mut self) -> ChildStdin {
        loop {
            match Arc::try_unwrap(self.pipe) {
                Ok(pipe) => return pipe,
                // Another thread looks at it for a moment.
                Err(shared) => self.pipe = shared,
            }
            std::thread::yield_now();
        }
    }
}

impl Write for ProcessInput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.pipe).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.pipe).flush()
    }
}

impl<P> ProcessOutput<P> {
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

    use super::{ProcessEnd, ProcessOutput, Watch};
    use crate::sys::has_stdin;

    /// Minimum age of a process that holds stdin before it counts as the launched program: every
    /// process that is being started has all open files for a moment.
    const SETTLES: Duration = Duration::from_millis(100);
    /// How often is looked until then.
    const STEP: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 10_000_000,
    };
    /// How often is looked whether what a launcher has started still runs, while it writes nothing.
    const STILL_RUNS: Timespec = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };

    impl<P: AsFd> ProcessOutput<P> {
        /// Waits until the pipe can be read or its output has ended.
        pub(super) fn wait(&mut self) -> io::Result<()> {
            let Some(watch) = &mut self.watch else {
                return Ok(());
            };
            if watch.ended.is_none() {
                let mut watched = [
                    PollFd::new(&watch.end, PollFlags::IN),
                    PollFd::new(&self.pipe, PollFlags::IN),
                ];
                poll(&mut watched, None)?;
                if watched[0].revents().is_empty() {
                    return Ok(());
                }
                watch.ended = Some(ProcessEnd {
                    settled: Instant::now() + SETTLES,
                    had_answered: watch.answerers.get().is_some(),
                });
            }
            while let Some(step) = watch.goes_on()? {
                if poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], Some(&step))? > 0 {
                    return Ok(());
                }
            }
            self.left = Some(ioctl_fionread(&self.pipe)?);
            self.watch = None;
            Ok(())
        }
    }

    impl Watch {
        /// How long the output may be waited for before this is asked again, if the process, which has
        /// ended, has left another one in its place.
        fn goes_on(&self) -> io::Result<Option<Timespec>> {
            let (Some(ended), Some(input)) = (self.ended, self.input.upgrade()) else {
                return Ok(None);
            };
            // Without a reader there is an error or a hang-up, depending on the system.
            let mut watched = [PollFd::new(&*input, PollFlags::OUT)];
            poll(&mut watched, Some(&Timespec::default()))?;
            let unread = PollFlags::ERR | PollFlags::HUP;
            let is_success = ioctl_fionread(&self.end)? > 0;
            if watched[0].revents().intersects(unread) || !is_success {
                return Ok(None);
            }
            let answers = match self.answerers.get() {
                None => true,
                Some(unknown) if unknown.is_empty() => !ended.had_answered,
                Some(known) => known.iter().any(|process| has_stdin(*process, &*input)),
            };
            let is_settled = Instant::now() >= ended.settled;
            Ok(answers.then_some(if is_settled { STILL_RUNS } else { STEP }))
        }
    }
}

#[cfg(not(unix))]
impl<P> ProcessOutput<P> {
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "this is where Unix waits"
    )]
    fn wait(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An output that can be read and waited for.
#[cfg(unix)]
pub(in crate::engine) trait Pipe: Read + std::os::fd::AsFd {}
#[cfg(unix)]
impl<P: Read + std::os::fd::AsFd> Pipe for P {}
#[cfg(not(unix))]
pub(in crate::engine) trait Pipe: Read {}
#[cfg(not(unix))]
impl<P: Read> Pipe for P {}

impl<P: Pipe> Read for ProcessOutput<P> {
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
    fn shell(script: &str) -> (Child, ProcessInput, ProcessOutput<ChildStdout>, EndReporter) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("there is a shell");
        let (reader, end) = super::end().expect("there are pipes");
        let input = ProcessInput::new(process.stdin.take().expect("it is a pipe"));
        let output = process.stdout.take().expect("it is a pipe");
        let output = ProcessOutput::new(output, input.watch(reader));
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
        // A thread reads while the launched program still waits for its input.
        std::thread::scope(|scope| {
            let read = scope.spawn(|| line(&mut output));
            input.write_all(b"two\n").unwrap();
            assert_eq!(read.join().unwrap(), "two");
        });
        assert_eq!(output.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn it_ends_with_a_process_that_had_answered_and_leaves_another_one_with_its_input() {
        let (mut process, input, mut output, end) =
            shell("read line; exec 4<&0; cat <&4 & echo $!");
        let first_answer = input.first_answer();
        first_answer.came();
        let mut input = input;
        input.write_all(b"\n").unwrap();
        let left = line(&mut output);
        end.report(succeeds(&mut process));
        assert_eq!(output.read(&mut [0]).unwrap(), 0);
        let killed = Command::new("kill").arg(left).status().unwrap();
        assert!(killed.success());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn it_ends_with_what_a_launcher_has_started() {
        // What was started leaves another process with all pipes, too.
        let script =
            "exec 4<&0; sh -c 'echo one; read line; exec 4<&0; cat <&4 & echo $!' <&4 & exit 0";
        let (mut process, mut input, mut output, end) = shell(script);
        end.report(succeeds(&mut process));
        assert_eq!(line(&mut output), "one");
        input.first_answer().came();
        input.write_all(b"\n").unwrap();
        let left = line(&mut output);
        assert_eq!(output.read(&mut [0]).unwrap(), 0);
        let killed = Command::new("kill").arg(left).status().unwrap();
        assert!(killed.success());
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
