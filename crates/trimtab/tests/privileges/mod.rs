//! A process's capabilities, as the kernel reports them for each thread.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use rustix::thread::CapabilitySet;

/// Longer than a start takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A set in the notation of systemd and capabilities(7): `CAP_BPF CAP_PERFMON`.
pub(crate) fn set(names: &str) -> CapabilitySet {
    let named = |name: &str| {
        let name = name.strip_prefix("CAP_").expect("capabilities begin with CAP_");
        CapabilitySet::from_name(name).unwrap_or_else(|| panic!("unknown: {name}"))
    };
    names.split_whitespace().map(named).collect()
}

/// Expects that each thread of a process ends up with exactly these, and can gain no others.
pub(crate) fn assert_comes_to(pid: u32, kept: CapabilitySet) {
    let until = Instant::now() + PATIENCE;
    while let Err(difference) = has_only(pid, kept) {
        assert!(Instant::now() < until, "{difference}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn has_only(pid: u32, kept: CapabilitySet) -> Result<(), String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_err(|e| e.to_string())?;
    let mut seen = 0;
    for thread in threads.flatten() {
        // It may have ended in the meantime.
        let Ok(status) = fs::read_to_string(thread.path().join("status")) else { continue };
        let lines: BTreeMap<_, _> =
            status.lines().filter_map(|line| line.split_once(":\t")).collect();
        for (name, expected) in [
            ("CapEff", kept.bits()),
            ("CapPrm", kept.bits()),
            ("CapBnd", kept.bits()),
            ("CapInh", 0),
            ("CapAmb", 0),
            ("NoNewPrivs", 1),
        ] {
            let is = u64::from_str_radix(lines[name], 16).unwrap();
            if is != expected {
                return Err(format!("{}: {name} is {is:#x}, not {expected:#x}", lines["Name"]));
            }
        }
        seen += 1;
    }
    if seen > 0 { Ok(()) } else { Err(format!("{pid} has no threads")) }
}
