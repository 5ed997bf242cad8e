//! Signals to a process group: a process and all its children.

/// A signal to a process group.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) enum Signal {
    /// SIGTERM: the group is asked to exit.
    Ask,
    /// SIGKILL: the group is killed.
    Kill,
}

/// Sends a signal to the process group of this process.
#[cfg(unix)]
pub(in crate::engine) fn signal(group: u32, signal: Signal) {
    use rustix::process::{Signal as Number, kill_process_group};
    let number = match signal {
        Signal::Ask => Number::TERM,
        Signal::Kill => Number::KILL,
    };
    if let Some(group) = id(group) {
        // The group may have ended already.
        kill_process_group(group, number).ok();
    }
}

/// Whether the process group exists.
#[cfg(unix)]
pub(in crate::engine) fn is_there(group: u32) -> bool {
    id(group).is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
}

#[cfg(unix)]
fn id(group: u32) -> Option<rustix::process::Pid> {
    i32::try_from(group)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
}

/// Ends the process and all its children.
#[cfg(not(unix))]
pub(in crate::engine) fn signal(id: u32, _: Signal) {
    use std::process::{Command, Stdio};
    let ended = Command::new("taskkill")
        .args(["/F", "/T", "/PID", &id.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if let Err(error) = ended {
        tracing::warn!(%error, "cannot end a process");
    }
}

/// Whether the process exists. It cannot be checked here, so it counts as ended.
#[cfg(not(unix))]
pub(in crate::engine) fn is_there(_: u32) -> bool {
    false
}
