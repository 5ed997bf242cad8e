//! Tells what kind of machine the figures are from, without naming it.

use std::fs;

/// One line: processor, cores, kernel, load.
pub(crate) fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or(std::env::consts::ARCH, |(_, model)| model);
    // What follows the version may name whoever built the kernel.
    let release = read("/proc/sys/kernel/osrelease");
    let release = release.trim().split('-').next().unwrap_or_default();
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("unknown");
    let os = std::env::consts::OS;
    format!("{model}, {cores} cores, {os} {release}; load before: {load}")
}
