//! Parts of a machine that tests need, and whether they are there.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs that tests run. [`Feature::Program`] takes one of these, so that a misspelt name
/// in `TRIMTAB_REQUIRE` is an error and does not pass for a program that no test needs.
const PROGRAMS: [&str; 33] = [
    "blkdiscard",
    "bpftrace",
    "c++",
    "cc",
    "cryptsetup",
    "blockdev",
    "dd",
    "dmsetup",
    "fio",
    "fsck.ext4",
    "fstrim",
    "jq",
    "losetup",
    "lvcreate",
    "mdadm",
    "mkfifo",
    "mkfs.ext4",
    "mkfs.xfs",
    "mknod",
    "mkswap",
    "mount",
    "nm",
    "python3",
    "script",
    "setpriv",
    "sh",
    "sqlite3",
    "swapoff",
    "swapon",
    "sync",
    "umount",
    "unshare",
    "xfs_repair",
];

/// Part of a machine that a test may need. [`Display`](fmt::Display) gives the name by which
/// `TRIMTAB_REQUIRE` asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// `root`: the tests run as root.
    Root,
    /// `bpf`: the kernel has BTF, which the BPF programs are loaded by.
    Bpf,
    /// `bpf-lsm`: the kernel runs BPF programs at its security hooks. Shows when it is tried.
    BpfLsm,
    /// `fuse`: FUSE file systems, which emulated drives are made of.
    Fuse,
    /// `loop`: loop devices.
    Loop,
    /// `ublk`: ublk devices (the module ublk_drv).
    Ublk,
    /// `mount`: this process may mount file systems.
    Mount,
    /// `xfs`: the kernel has XFS loaded.
    Xfs,
    /// `ext4`: the kernel has ext4 loaded.
    Ext4,
    /// `io_uring`: the kernel lets this process use io_uring. Shows when it is tried.
    IoUring,
    /// `direct-io`: direct I/O in the temporary directory and below loop devices. Shows when
    /// it is tried.
    DirectIo,
    /// `kernel`: any other facility of the kernel: a scheduler, swap, memory limits. Shows when
    /// it is tried.
    Kernel,
    /// `others`: other users reach the programs that were built, and signals are not ignored.
    /// Shows when it is tried.
    Others,
    /// `quiet`: no other process takes a loop device meanwhile. Shows when it happens.
    Quiet,
    /// `traces`: `TRIMTAB_TRACES` names a folder of real traces.
    Traces,
    /// `pandas`: Python with pandas and pyarrow.
    Pandas,
    /// `sqlite`: SQLite's library with its header (libsqlite3-dev), for programs in C.
    Sqlite,
    /// A program in `PATH`, under its own name.
    Program(&'static str),
}

use Feature::*;

/// All but the programs.
const NAMED: [(Feature, &str); 17] = [
    (Root, "root"),
    (Bpf, "bpf"),
    (BpfLsm, "bpf-lsm"),
    (Fuse, "fuse"),
    (Loop, "loop"),
    (Ublk, "ublk"),
    (Mount, "mount"),
    (Xfs, "xfs"),
    (Ext4, "ext4"),
    (IoUring, "io_uring"),
    (DirectIo, "direct-io"),
    (Kernel, "kernel"),
    (Others, "others"),
    (Quiet, "quiet"),
    (Traces, "traces"),
    (Pandas, "pandas"),
    (Sqlite, "sqlite"),
];

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Program(name) => f.write_str(name),
            feature => {
                let named = NAMED.iter().find(|(named, _)| named == feature);
                f.write_str(named.expect("each has a name").1)
            }
        }
    }
}

impl Feature {
    /// The feature of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let feature = NAMED.iter().find(|(_, known)| *known == name).map(|(feature, _)| *feature);
        let program = || PROGRAMS.iter().find(|known| **known == name).copied().map(Program);
        feature.or_else(program)
    }

    /// Why this machine lacks it, if it does. What shows only when it is tried is taken to be
    /// there.
    pub(crate) fn lacking(self) -> Option<String> {
        let (is_there, needs) = match self {
            Root => (rustix::process::geteuid().is_root(), "root".to_owned()),
            Bpf => (Path::new("/sys/kernel/btf/vmlinux").exists(), "a kernel with BTF".to_owned()),
            Fuse => (Path::new("/dev/fuse").exists(), "FUSE (/dev/fuse)".to_owned()),
            Loop => {
                let control = Path::new("/dev/loop-control").exists();
                (control && is_in_path("losetup"), "loop devices and losetup".to_owned())
            }
            Ublk => {
                let control = Path::new("/dev/ublk-control").exists();
                (control, "ublk (/dev/ublk-control)".to_owned())
            }
            Mount => (may_mount(), "the right to mount (CAP_SYS_ADMIN)".to_owned()),
            Xfs => (has_file_system("xfs"), "a kernel with xfs".to_owned()),
            Ext4 => (has_file_system("ext4"), "a kernel with ext4".to_owned()),
            Traces => {
                let folder = std::env::var_os("TRIMTAB_TRACES");
                let is_there = folder.is_some_and(|folder| Path::new(&folder).is_dir());
                (is_there, "real traces: TRIMTAB_TRACES names no folder".to_owned())
            }
            Pandas => (has_pandas(), "python3 with pandas and pyarrow".to_owned()),
            Sqlite => (has_sqlite(), "SQLite's header and library (libsqlite3-dev)".to_owned()),
            Program(name) => {
                assert!(PROGRAMS.contains(&name), "add `{name}` to PROGRAMS in {}", file!());
                (is_in_path(name), format!("the program {name}"))
            }
            BpfLsm | IoUring | DirectIo | Kernel | Others | Quiet => return None,
        };
        (!is_there).then(|| format!("needs {needs}"))
    }
}

fn is_in_path(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|path| path.join(program).exists())
}

fn has_file_system(name: &str) -> bool {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.lines().any(|line| line.split_whitespace().next_back() == Some(name))
}

fn may_mount() -> bool {
    const CAP_SYS_ADMIN: u32 = 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    effective.is_some_and(|bits| bits >> CAP_SYS_ADMIN & 1 == 1)
}

fn has_pandas() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import pandas, pyarrow"]).stdout(Stdio::null()).stderr(Stdio::null());
    python.status().is_ok_and(|status| status.success())
}

fn has_sqlite() -> bool {
    let folders = ["/usr/include", "/usr/local/include"];
    folders.iter().any(|folder| Path::new(folder).join("sqlite3.h").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_features() {
        for (feature, name) in NAMED {
            assert_eq!(feature.to_string(), name);
            assert_eq!(Feature::named(name), Some(feature));
        }
        assert_eq!(Feature::named("fio"), Some(Program("fio")));
        assert_eq!(Feature::named("foi"), None);
    }

    #[test]
    #[should_panic(expected = "add `foi` to PROGRAMS")]
    fn programs_are_on_the_list() {
        _ = Program("foi").lacking();
    }
}
