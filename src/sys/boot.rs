//! Identifies the current boot of the system, and its processes.

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
    // One that may not be signalled runs.
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
}
