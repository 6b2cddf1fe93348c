//! The machine a report was made on.

use std::fs;

/// Processor, number of CPUs and kernel, in one line; unknown items are left out.
#[must_use]
pub fn machine() -> String {
    let mut parts = Vec::new();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    parts.extend(cpuinfo.lines().find_map(|line| {
        let (key, model) = line.split_once(':')?;
        (key.trim() == "model name").then(|| model.trim().to_owned())
    }));
    if let Ok(cpus) = std::thread::available_parallelism() {
        parts.push(format!("{cpus} CPUs"));
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    parts.push(format!("Linux {} {}", release.trim(), std::env::consts::ARCH));
    parts.join(", ")
}
