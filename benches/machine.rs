//! The program that is measured, and what kind of machine the figures are from, without its name.

use std::fs;
use std::path::PathBuf;

/// The program that is measured: the one that `cargo bench` has built, or that of a release.
pub(crate) fn program() -> PathBuf {
    let named = std::env::var_os("REJOIN_BENCH_PROGRAM");
    named.map_or_else(|| env!("CARGO_BIN_EXE_rejoin").into(), PathBuf::from)
}

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
