//! Programs of the system that a command asks for something, such as `systemctl`: each of them has a
//! limited time.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rejoin::sys::descriptors;

/// How often it is looked whether a program has ended.
const STEP: Duration = Duration::from_millis(10);
/// How much of what a program says of its failure is kept, in bytes.
const SAID: u64 = 4096;

/// The end of a program.
#[derive(Debug)]
pub(super) struct HelperEnd {
    pub(super) status: ExitStatus,
    /// What it has said on stderr.
    pub(super) said: String,
}

/// Runs a program that gets no input; none if it has not ended within this time, and was killed.
pub(super) fn run(command: &mut Command, limit: Duration) -> io::Result<Option<HelperEnd>> {
    let mut child = descriptors::spawn(apart(command).stderr(Stdio::piped()))?;
    let (sender, said) = mpsc::channel();
    if let Some(mut stderr) = child.stderr.take() {
        thread::spawn(move || {
            let mut kept = Vec::new();
            stderr.by_ref().take(SAID).read_to_end(&mut kept).ok();
            sender.send(kept).ok();
            // Who writes more is not held up.
            io::copy(&mut stderr, &mut io::sink()).ok();
        });
    }
    let Some(status) = wait(&mut child, limit)? else {
        kill(&mut child)?;
        return Ok(None);
    };
    // A process that it has left behind may keep stderr open.
    let said = said.recv_timeout(STEP * 10).unwrap_or_default();
    Ok(Some(HelperEnd {
        status,
        said: String::from_utf8_lossy(&said).into_owned(),
    }))
}

/// Starts a program that may stay, such as a browser. Returns how it has ended; none if it has not within
/// this time, and goes on.
pub(super) fn start(command: &mut Command, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let mut child = descriptors::spawn(apart(command).stderr(Stdio::null()))?;
    wait(&mut child, limit)
}

/// A program that neither reads from the terminal nor gets its signals.
fn apart(command: &mut Command) -> &mut Command {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    command.stdin(Stdio::null()).stdout(Stdio::null())
}

fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= end {
            return Ok(status);
        }
        thread::sleep(STEP);
    }
}

/// Ends a program and what it has started.
fn kill(child: &mut Child) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
    }
    child.kill()?;
    child.wait().map(drop)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// The time within which each program here ends.
    const LONG: Duration = Duration::from_mins(1);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_a_program_says_of_its_failure_is_kept() {
        let end = run(&mut shell("cat; echo no bus >&2; exit 3"), LONG);
        let end = end.unwrap().unwrap();
        assert_eq!(
            (end.status.code(), end.said.as_str()),
            (Some(3), "no bus\n")
        );
        let end = run(&mut shell("yes >&2 & sleep 0; kill $!"), LONG).unwrap();
        assert!(end.unwrap().said.len() <= SAID as usize);
        assert!(run(&mut Command::new("no-such-program"), LONG).is_err());
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_what_it_has_started() {
        // A process that was left would keep this open.
        let (mut reader, writer) = io::pipe().unwrap();
        let mut hangs = shell("sleep 600 & wait");
        let mut child = descriptors::spawn(apart(&mut hangs).stdout(writer)).unwrap();
        drop(hangs);
        assert!(
            wait(&mut child, Duration::from_millis(1))
                .unwrap()
                .is_none()
        );
        kill(&mut child).unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        let end = run(&mut shell("sleep 600 & wait"), Duration::from_millis(1));
        assert!(end.unwrap().is_none());
    }

    #[test]
    fn a_program_that_stays_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("there");
        let script = format!(
            "while [ ! -e {0} ]; do sleep 0.01; done; rm {0}",
            there.display()
        );
        let status = start(&mut shell(&script), Duration::ZERO).unwrap();
        assert!(status.is_none());
        std::fs::File::create(&there).unwrap();
        while there.exists() {
            thread::sleep(STEP);
        }
        assert!(
            start(&mut shell("exit 0"), LONG)
                .unwrap()
                .unwrap()
                .success()
        );
    }
}
