//! Identifies the current boot of the system, and its processes, and ends a process.

use std::io;
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::time::Duration;

/// An id that differs after each boot. `None` if the system has no such id.
pub fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let id = id.trim();
    (!id.is_empty()).then(|| id.to_owned())
}

/// Whether a process of this system runs. One that has ended does not, even if its parent has not
/// taken note of that yet.
#[cfg(unix)]
pub fn is_running(pid: u32) -> bool {
    use rustix::process::{Pid, test_kill_process};
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // A process that may not be signalled runs.
    let is_there = raw.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH));
    is_there && !is_zombie(pid)
}

/// Whether a process of this system runs, as far as that can be found out.
#[cfg(not(unix))]
pub fn is_running(_: u32) -> bool {
    true
}

/// Whether a process has ended, and only its parent does not know yet.
#[cfg(unix)]
fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    let state = stat.as_deref().ok().and_then(|stat| stat.rsplit_once(") "));
    state.is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// The ids of the running processes of this user whose standard input is the reading end of this pipe.
/// The source is `/proc/PID/fd/0`; without it, or on another system, there are none.
#[cfg(target_os = "linux")]
pub fn processes_with_stdin(pipe: impl std::os::fd::AsFd) -> Vec<u32> {
    let (Some(name), Ok(processes)) = (name(pipe), std::fs::read_dir("/proc")) else {
        return Vec::new();
    };
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(|id| is_named(*id, &name)).collect()
}

/// Whether a process runs and its standard input is the reading end of this pipe.
#[cfg(target_os = "linux")]
pub fn has_stdin(process: u32, pipe: impl std::os::fd::AsFd) -> bool {
    name(pipe).is_some_and(|name| is_named(process, &name))
}

/// The name that the system has for the pipe.
#[cfg(target_os = "linux")]
fn name(pipe: impl std::os::fd::AsFd) -> Option<String> {
    let status = rustix::fs::fstat(pipe).ok()?;
    Some(format!("pipe:[{}]", status.st_ino))
}

#[cfg(target_os = "linux")]
fn is_named(process: u32, name: &str) -> bool {
    let stdin = std::fs::read_link(format!("/proc/{process}/fd/0"));
    stdin.is_ok_and(|stdin| stdin.as_os_str() == name)
}

/// Not known on this system.
#[cfg(not(target_os = "linux"))]
pub fn processes_with_stdin<P>(_: P) -> Vec<u32> {
    Vec::new()
}

/// Not known on this system.
#[cfg(not(target_os = "linux"))]
pub fn has_stdin<P>(_: u32, _: P) -> bool {
    false
}

/// When a process began, in ticks of the system's clock since it was booted: another process that gets
/// the same number later began at another time. `None` if there is no such process, or the system does
/// not say it. The source is the 22nd field of `/proc/PID/stat`.
#[cfg(target_os = "linux")]
pub fn start_of(pid: u32) -> Option<NonZeroU64> {
    /// The place of the time behind the name, which is in parentheses.
    const STARTED: usize = 19;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(STARTED)?.parse().ok()
}

/// When a process began. This system does not say it.
#[cfg(not(target_os = "linux"))]
pub fn start_of(_: u32) -> Option<NonZeroU64> {
    None
}

/// When this process began; see [`start_of`].
pub fn own_start() -> Option<NonZeroU64> {
    static START: OnceLock<Option<NonZeroU64>> = OnceLock::new();
    *START.get_or_init(|| start_of(std::process::id()))
}

/// Ends the process with this number that began then, and no other: asks it to (SIGTERM, and SIGCONT
/// in case it is stopped), and kills it (SIGKILL) if it has not ended after `patience`.
#[cfg(target_os = "linux")]
pub fn end(pid: u32, started: NonZeroU64, patience: Duration) -> io::Result<()> {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    /// How long the system may take to end a process that was killed.
    const KILLED: Duration = Duration::from_secs(5);
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let raw = raw.ok_or(io::ErrorKind::InvalidInput)?;
    // From here on the number cannot become that of another process.
    let process = match pidfd_open(raw, PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        process => process?,
    };
    if start_of(pid) != Some(started) {
        let why = format!("process {pid} is another one by now");
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    for signal in [Signal::TERM, Signal::CONT] {
        pidfd_send_signal(&process, signal)?;
    }
    if has_ended(&process, patience)? {
        return Ok(());
    }
    match pidfd_send_signal(&process, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => return Err(error.into()),
    }
    if has_ended(&process, KILLED)? {
        return Ok(());
    }
    let why = format!("process {pid} was killed and has not ended");
    Err(io::Error::new(io::ErrorKind::TimedOut, why))
}

/// Waits until a process has ended, but not longer than this.
#[cfg(target_os = "linux")]
fn has_ended(process: &impl std::os::fd::AsFd, limit: Duration) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let until = std::time::Instant::now() + limit;
    loop {
        let left = until.saturating_duration_since(std::time::Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            ended => return Ok(ended? > 0),
        }
    }
}

/// Ends a process. This system does not say whether its number is that of another one by now.
#[cfg(not(target_os = "linux"))]
pub fn end(pid: u32, _: NonZeroU64, _: Duration) -> io::Result<()> {
    let why = format!("this system does not say whether {pid} is still the same process");
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_found_by_its_input_until_it_ends() {
        let mut process = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let input = process.stdin.take().unwrap();
        assert_eq!(processes_with_stdin(&input), [process.id()]);
        assert!(has_stdin(process.id(), &input));
        assert!(!has_stdin(std::process::id(), &input));
        let other = std::io::pipe().unwrap().1;
        assert!(!has_stdin(process.id(), &other));
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(processes_with_stdin(&input).is_empty());
        assert!(!has_stdin(process.id(), &input));
    }

    #[test]
    fn only_the_process_that_is_meant_is_ended() {
        let mut process = Command::new("sleep").arg("600").spawn().unwrap();
        let started = start_of(process.id()).unwrap();
        let other = started.saturating_add(1);
        let error = end(process.id(), other, Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
        assert!(process.try_wait().unwrap().is_none());
        end(process.id(), started, Duration::from_mins(5)).unwrap();
        assert!(!process.wait().unwrap().success());
    }
}
