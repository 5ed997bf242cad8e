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
