//! What this process has used of the machine.

use std::fs;

/// How long this process has had a processor, in seconds; 0 outside Linux.
pub(crate) fn processor_time() -> f64 {
    of_stat(11)
}

/// The sum of two times in `/proc/self/stat`, behind so many members that follow the process's name.
pub(crate) fn of_stat(skipped: usize) -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks = behind.split_whitespace().skip(skipped).take(2);
    ticks
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}

/// The most memory that this process had; unknown outside Linux.
pub(crate) fn peak_memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.unwrap_or("unknown").trim().to_owned()
}
