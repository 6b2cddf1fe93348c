//! The checks: from findings to results.

use std::io;

use serde::Serialize;

/// A requirement of trimtab, and whether it is met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The facility that was checked.
    pub name: &'static str,
    /// Whether the requirement is met.
    pub passed: bool,
    /// The finding.
    pub found: String,
    /// Its users.
    pub used_by: &'static str,
    /// What to do if it is not met.
    pub advice: Option<String>,
}

impl Check {
    fn passed(name: &'static str, used_by: &'static str, found: impl Into<String>) -> Self {
        Self { name, passed: true, found: found.into(), used_by, advice: None }
    }

    fn failed(
        name: &'static str,
        used_by: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let (found, advice) = (found.into(), Some(advice.into()));
        Self { name, passed: false, found, used_by, advice }
    }
}

const ALL: &str = "recording, predicted reads";
const STATE: &str = "predicted reads";

/// The oldest kernel that supports the BPF programs.
const OLDEST: (u32, u32) = (5, 15);

/// From `uname -r`.
pub(crate) fn kernel(release: &str) -> Check {
    let found = format!("Linux {release}");
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let version = (numbers.next(), numbers.next());
    let (Some(Ok(major)), Some(Ok(minor))) = version else {
        return Check::failed("kernel", ALL, found, "its version cannot be read");
    };
    if (major, minor) < OLDEST {
        let advice = format!("install Linux {}.{} or newer", OLDEST.0, OLDEST.1);
        return Check::failed("kernel", ALL, found, advice);
    }
    Check::passed("kernel", ALL, found)
}

/// What trying a facility gave.
pub(crate) type Tried = Result<(), Refusal>;

/// Why a facility cannot be used: the error of trying it, with what to do.
#[derive(Clone, Debug)]
pub(crate) struct Refusal(pub(crate) String);

/// From the result of [`trimtab_bpf::available`].
pub(crate) fn tracepoints(found: &Tried) -> Check {
    match found {
        Ok(()) => Check::passed("type information (BTF)", ALL, "present, with the tracepoints"),
        Err(why) => Check::failed("type information (BTF)", ALL, "not usable", &why.0),
    }
}

/// From the result of [`trimtab_bpf::check_privilege`].
pub(crate) fn privilege(found: &Tried) -> Check {
    match found {
        Ok(()) => Check::passed("BPF capabilities", ALL, "CAP_BPF and CAP_PERFMON"),
        Err(why) => Check::failed("BPF capabilities", ALL, "missing", &why.0),
    }
}

/// From the result of loading a set of programs; `None`: not tried.
pub(crate) fn programs(name: &'static str, used_by: &'static str, loaded: Option<&Tried>) -> Check {
    match loaded {
        Some(Ok(())) => Check::passed(name, used_by, "loaded, attached and removed"),
        Some(Err(why)) => Check::failed(name, used_by, "refused", &why.0),
        None => Check::failed(name, used_by, "not tried", "the failed checks above come first"),
    }
}

/// From the result of opening a device file.
pub(crate) fn device_file(
    name: &'static str,
    used_by: &'static str,
    path: &str,
    opened: Result<(), io::ErrorKind>,
    module: &str,
) -> Check {
    match opened {
        Ok(()) => Check::passed(name, used_by, path),
        Err(io::ErrorKind::NotFound) => {
            Check::failed(name, used_by, format!("no {path}"), format!("modprobe {module}"))
        }
        Err(io::ErrorKind::PermissionDenied) => {
            let found = format!("{path} cannot be opened");
            Check::failed(name, used_by, found, "run as root (sudo)")
        }
        Err(kind) => {
            let found = format!("{path}: {kind}");
            Check::failed(name, used_by, found, format!("modprobe {module}"))
        }
    }
}

/// From `kernel.io_uring_disabled`, and the result of making a ring.
pub(crate) fn io_uring(disabled: Option<&str>, made: Result<(), io::ErrorKind>) -> Check {
    const NAME: &str = "io_uring";
    const USED_BY: &str = "reads with a deadline";
    let fallback = "otherwise threads do the reads";
    match (made, disabled.map(str::trim)) {
        (Ok(()), _) => Check::passed(NAME, USED_BY, "a ring can be made"),
        (Err(_), Some("1" | "2")) => {
            let advice = format!("sysctl kernel.io_uring_disabled=0 ({fallback})");
            Check::failed(NAME, USED_BY, "disabled by sysctl", advice)
        }
        (Err(kind), _) => {
            let advice = format!("a filter of system calls denies it: allow it ({fallback})");
            Check::failed(NAME, USED_BY, kind.to_string(), advice)
        }
    }
}

/// A ring and the buffers of a few threads.
const LEAST_LOCKED: u64 = 64 << 10;

/// From the limit of locked memory, bytes; `None`: unlimited.
pub(crate) fn memory_lock(limit: Option<u64>) -> Check {
    const NAME: &str = "locked memory";
    const USED_BY: &str = "io_uring";
    match limit {
        None => Check::passed(NAME, USED_BY, "no limit"),
        Some(limit) if limit >= LEAST_LOCKED => {
            Check::passed(NAME, USED_BY, format!("{} KiB", limit >> 10))
        }
        Some(limit) => {
            let advice = "raise it: ulimit -l 8192, or LimitMEMLOCK= of the service";
            Check::failed(NAME, USED_BY, format!("{} KiB", limit >> 10), advice)
        }
    }
}

/// The file system for pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BpfFiles {
    Missing,
    /// A BPF file system with these permissions of its root.
    Mounted(u32),
}

pub(crate) fn bpf_files(found: BpfFiles) -> Check {
    const NAME: &str = "BPF file system";
    match found {
        BpfFiles::Missing => {
            let advice = "mount -t bpf bpf /sys/fs/bpf";
            Check::failed(NAME, STATE, "not mounted at /sys/fs/bpf", advice)
        }
        BpfFiles::Mounted(mode) if mode & 0o001 == 0 => {
            let advice = "to let other users read the state: chmod 755 /sys/fs/bpf";
            Check::failed(NAME, STATE, format!("mode {mode:o}: for root only"), advice)
        }
        BpfFiles::Mounted(mode) => Check::passed(NAME, STATE, format!("mode {mode:o}")),
    }
}

/// The state that a tracker has pinned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tracker {
    #[default]
    Missing,
    /// It cannot be opened, for this reason.
    Closed(String),
    /// The kernel numbers of the drives that are tracked now.
    Open(Vec<u32>),
}

pub(crate) fn tracker(found: &Tracker, pins: &str) -> Check {
    const NAME: &str = "state tracker";
    let start = format!("sudo trimtab agent, or sudo trimtab watch DEVICE --pin {pins}");
    match found {
        Tracker::Missing => Check::failed(NAME, STATE, format!("nothing pinned at {pins}"), start),
        Tracker::Closed(why) => {
            Check::failed(NAME, STATE, "its state cannot be opened", why.clone())
        }
        Tracker::Open(drives) if drives.is_empty() => {
            Check::failed(NAME, STATE, "its state is stale: the tracker has ended", start)
        }
        Tracker::Open(drives) => {
            let drives = drives.len();
            let noun = if drives == 1 { "drive" } else { "drives" };
            Check::passed(NAME, STATE, format!("{drives} {noun} tracked"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn kernels_are_compared_by_number() {
        for (release, passed) in [
            ("6.1.0-18-amd64", true),
            ("5.15.0", true),
            ("5.9.16", false),
            ("4.19.0-26-amd64", false),
            ("10.0", true),
            ("unknown", false),
            ("", false),
        ] {
            let check = kernel(release);
            assert_eq!((check.passed, check.advice.is_none()), (passed, passed), "{release}");
        }
    }

    #[test]
    fn failed_checks_have_advice() {
        let why = Err(Refusal("run it as root".to_owned()));
        let failed = [
            tracepoints(&why),
            privilege(&why),
            programs("state programs", STATE, Some(&why)),
            programs("state programs", STATE, None),
            device_file("FUSE", "drives", "/dev/fuse", Err(ErrorKind::NotFound), "fuse"),
            device_file("FUSE", "drives", "/dev/fuse", Err(ErrorKind::PermissionDenied), "fuse"),
            io_uring(Some("2\n"), Err(ErrorKind::PermissionDenied)),
            io_uring(None, Err(ErrorKind::PermissionDenied)),
            memory_lock(Some(0)),
            bpf_files(BpfFiles::Missing),
            bpf_files(BpfFiles::Mounted(0o700)),
            tracker(&Tracker::Missing, "/pins"),
            tracker(&Tracker::Closed("no".to_owned()), "/pins"),
            tracker(&Tracker::Open(Vec::new()), "/pins"),
        ];
        for check in failed {
            assert!(!check.passed && check.advice.is_some_and(|advice| !advice.is_empty()));
        }
    }

    #[test]
    fn passed_checks_have_no_advice() {
        let passed = [
            tracepoints(&Ok(())),
            privilege(&Ok(())),
            programs("state programs", STATE, Some(&Ok(()))),
            device_file("FUSE", "drives", "/dev/fuse", Ok(()), "fuse"),
            io_uring(Some("0\n"), Ok(())),
            memory_lock(None),
            memory_lock(Some(8 << 20)),
            bpf_files(BpfFiles::Mounted(0o1777)),
            tracker(&Tracker::Open(vec![7 << 20]), "/pins"),
        ];
        assert!(passed.iter().all(|check| check.passed && check.advice.is_none()));
        assert_eq!(passed[8].found, "1 drive tracked");
    }
}
