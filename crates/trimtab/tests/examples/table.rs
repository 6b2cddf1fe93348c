//! Substitutions in shown commands before they run here, and the commands that do not run.

use super::collect::Shown;

/// A command's requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// Root, FUSE and loop devices.
    Drives,
    /// Root, eBPF and a disk to monitor.
    Ebpf,
}

/// What is done with a command.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// It runs, as `script`, after `before`.
    Run { needs: Needs, before: &'static str, script: String, endless: bool },
    /// It does not run, for this reason; its options are checked nevertheless.
    Not(&'static str),
}

/// Words (`from`, `to`, why) that are substituted in every command. A word ends at a space, a
/// `=` or the end. The stage fills in words that start with `@`.
const WORDS: &[(&str, &str, &str)] = &[
    ("nvme0n1", "@disk", "a disk of this machine"),
    ("sda", "@disk", "a disk of this machine"),
    ("/dev/vda", "@disk", "a disk of this machine"),
    ("nvme1n1", "@other", "another disk of this machine"),
    ("sdb", "@other", "another disk of this machine"),
    ("/dev/loop0", "@slow", "the device of the drive that the page made before"),
    ("/mnt", "mnt", "a directory of the test's own to mount on"),
    ("--duration 8h", "--duration 1s", "hours"),
    ("--duration 1h", "--duration 1s", "an hour"),
    ("--duration 60s", "--duration 1s", "a minute"),
    ("--duration 30s", "", "half a minute for each measurement; the next gives another"),
    ("array cost", "array cost --duration 50ms", "a minute of measuring"),
    ("--in /var/tmp --beside /dev/md0", "--in .", "an array of md, and a directory of all"),
    ("drive check", "drive check --duration 200ms", "ten seconds for each measurement"),
    ("examples/agent.toml", "agent.toml", "the same, for disks that are here"),
    ("/etc/trimtab/agent.toml", "agent.toml", "the configuration, for a disk that is here"),
    ("/etc/systemd/system/", ".", "this machine's services are not the test's"),
    ("/var/tmp/kept.img", "kept.img", "a file of the test's own"),
    ("/var/tmp/safe.img", "safe.img", "a file of the test's own"),
    ("scripts/demo-work DIRECTORY", "sleep 1", "needs a file system on the recorded disk"),
    ("fio job.fio", "sleep 1", "the user's own job"),
    ("truncate -s 1G", "truncate -s 64M", "members that are made equal soon"),
    ("fio --name=replay", "fio --parse-only --name=replay", "it would write to a disk"),
    (
        "--base enterprise-a",
        "--base enterprise-a --models 2 --capacity 3G",
        "a minute of trying models",
    ),
];

/// Lines of example scenarios, by their beginnings, and their replacements: comparisons take a
/// minute and more, and work the same with fewer reads, seeds, strategies and blocks.
pub(crate) const COMPARISON_LINES: &[(&str, &str)] = &[
    ("seeds = ", "seeds = [1]"),
    ("phase_one = ", "phase_one = { reads = 6_000 }"),
    ("phase_two = ", "phase_two = { reads = 600 }"),
    ("retrain = ", "retrain = { reads = 6_000 }"),
    ("capacity = ", "capacity = \"3G\""),
    ("fill = ", "fill = { share = 0.3, kind = \"aged\" }"),
];

/// The same for comparisons of arrays.
pub(crate) const ARRAY_LINES: &[(&str, &str)] = &[
    ("seeds = ", "seeds = [1]"),
    ("reads = ", "reads = 10_000"),
    ("warm_up_s = ", "warm_up_s = 2"),
    ("capacity = ", "capacity = \"3G\""),
    ("fill = ", "fill = { share = 0.3, kind = \"aged\" }"),
];

/// The same for comparisons of a trace, whose reads are fixed.
pub(crate) const REPLAY_LINES: &[(&str, &str)] = &[
    ("seeds = ", "seeds = [1]\nstrategies = [\"base\", \"hedge\"]"),
    ("capacity = ", "capacity = \"3G\""),
    ("fill = ", "fill = { share = 0.3, kind = \"aged\" }"),
];

/// The same for simulations, which take up to a quarter of a minute.
pub(crate) const SIMULATION_LINES: &[(&str, &str)] =
    &[("requests = ", "requests = 100_000"), ("warm_up_requests = ", "warm_up_requests = 20_000")];

/// Files for members of arrays, the array that pages call `fast`, and states of it.
const MEMBERS: &str = "truncate -s 64M a.img b.img c.img d.img e.img";
const FAST: &str = "truncate -s 64M a.img b.img c.img d.img e.img && \
                    trimtab array create fast --level 5 --assume-clean a.img b.img c.img d.img";
const FAST_STOPPED: &str = "truncate -s 64M a.img b.img c.img d.img && \
                    trimtab array create fast --level 5 --assume-clean a.img b.img c.img d.img && \
                    trimtab array stop fast";
const FAST_FAILED: &str = "truncate -s 64M a.img b.img c.img d.img && \
                    trimtab array create fast --level 5 --assume-clean a.img b.img c.img d.img && \
                    trimtab array fail fast b.img";
const FAST_REMOVED: &str = "truncate -s 64M a.img b.img c.img d.img e.img && \
                    trimtab array create fast --level 5 --assume-clean a.img b.img c.img d.img && \
                    trimtab array fail fast b.img && trimtab array remove fast b.img";

/// Commands, by their beginnings, that need another command first.
const BEFORE: &[(&str, &str)] = &[
    ("sudo trimtab drive restore", "trimtab drive snapshot slow"),
    ("sudo mount /dev/loop0", "mkfs.ext4 -q @slow"),
    ("sudo umount /mnt", "mkfs.ext4 -q @slow && mount @slow mnt"),
    ("sudo trimtab array create", MEMBERS),
    ("sudo trimtab array assemble", FAST_STOPPED),
    ("sudo trimtab array remove", FAST_FAILED),
    ("sudo trimtab array add", FAST_REMOVED),
    ("sudo trimtab array", FAST),
    (
        "trimtab sim run examples/sim-replay.toml",
        "trimtab trace synth examples/synth-poisson.toml -o poisson.parquet",
    ),
];

/// Commands, by their beginnings, that run until Ctrl-C: ended after some seconds.
const ENDLESS: &[&str] = &[
    "sudo trimtab top",
    "sudo trimtab watch",
    "sudo trimtab agent --config /etc/trimtab/agent.toml",
    "sudo trimtab drive stat slow --watch",
    "sudo trimtab array stat fast --watch",
];

const NEEDS_NVME_TARGET: &str =
    "needs the kernel's NVMe target; tests/array_nvme.rs exports and connects in a guest";

/// Commands, by their beginnings, that do not run, and why.
const NOT: &[(&str, &str)] = &[
    ("make demo", "records and compares for minutes, and installs packages"),
    ("make test", "runs this very test"),
    ("sudo systemctl enable", "starts a service of this machine"),
    ("curl http://127.0.0.1:9753/metrics", "asks the service above; tests/agent.rs asks its own"),
    ("sudo mount -t bpf bpf /sys/fs/bpf", "mounts for the whole machine; others here do it apart"),
    ("make deb", "builds packages for minutes; `make guest-deb` tests them in a guest"),
    ("sudo apt ", "installs on this machine; `make guest-deb` does it in a guest"),
    ("sudo cp /usr/share/doc/trimtab", "needs the package; `make guest-deb` installs it"),
    ("sudo systemctl start", "starts a service of this machine; `make guest-deb` does in a guest"),
    ("sudo systemctl daemon-reload", "this machine's services are not the test's"),
    ("make build", "builds for minutes; `make check-install` does"),
    ("sudo make install", "installs on this machine; `make check-install` installs elsewhere"),
    ("make check-monitoring", "takes minutes, and unpacks Debian's package prometheus"),
    ("cc -O2 -o failover", "needs the library installed; the tests of trimtab-c compile it"),
    ("failover /mnt/a/data", "needs the library installed; the tests of trimtab-c run it"),
    ("cc -O2 -o replicas", "needs the library installed; the tests of trimtab-c compile it"),
    ("cc -O2 -o queries", "needs the library installed; the tests of trimtab-c compile its VFS"),
    ("sudo examples/sqlite-replicas/trial", "takes minutes"),
    ("sudo target/debug/replicated-kv", "takes minutes; its own tests run it, shortened"),
    ("cargo build --release -p replicated-kv", "builds for minutes; its own tests build it"),
    ("sudo target/release/replicated-kv", "takes minutes; its own tests run it, shortened"),
    (
        "trimtab profile fit disk.parquet -o",
        "tries 200 models for minutes; with --base it runs here",
    ),
    (
        "trimtab profile fit --disk",
        "needs a recording of a disk with platters; the tests of trimtab-sim fit some",
    ),
    (
        "sudo trimtab profile fit --device",
        "needs a disk with platters; tests/drive_disk.rs measures an emulated one",
    ),
    (
        "sudo trimtab run --deadline",
        "needs a kernel that permits BPF LSM programs; tests/refusal runs programs so in a guest",
    ),
    (
        "trimtab trace recover",
        "needs a recording that was killed; tests/record_crash.rs makes and recovers some",
    ),
    ("trimtab compare --random 20", "takes minutes; tests/commands/random.rs runs a short series"),
    (
        "sudo trimtab array create turns",
        "needs four emulated drives; tests/array_ioda.rs makes some",
    ),
    ("sudo scripts/array-latency", "takes forty minutes"),
    ("sudo scripts/backends", "needs a kernel with ublk, and takes minutes"),
    (
        "sudo trimtab array assemble fast --backend ublk",
        "needs a kernel with ublk; tests/backend_ublk.rs assembles some in a guest",
    ),
    ("sudo trimtab array export", NEEDS_NVME_TARGET),
    ("sudo trimtab array unexport", NEEDS_NVME_TARGET),
    ("sudo trimtab array create pair", NEEDS_NVME_TARGET),
    ("sudo trimtab drive export", NEEDS_NVME_TARGET),
    ("sudo trimtab drive unexport", NEEDS_NVME_TARGET),
    ("sudo nvme connect", NEEDS_NVME_TARGET),
    ("sudo modprobe", "loads a module into this machine's kernel"),
    ("sudo trimtab compare --live", "takes eight minutes; tests/compare_live.rs runs a short one"),
];

/// The plan for a command.
pub(crate) fn plan(command: &str) -> Plan {
    if let Some((_, why)) = NOT.iter().find(|(begin, _)| command.starts_with(begin)) {
        return Plan::Not(why);
    }
    let script =
        WORDS.iter().fold(command.to_owned(), |text, (from, to, _)| replace(&text, from, to));
    let before = BEFORE.iter().find(|(begin, _)| command.starts_with(begin));
    Plan::Run {
        needs: needs(command),
        before: before.map_or("", |(_, before)| before),
        script,
        endless: ENDLESS.iter().any(|begin| command.starts_with(begin))
            && !command.contains(" --count "),
    }
}

/// The requirements of a command as shown.
pub(crate) fn needs(command: &str) -> Needs {
    let is_any = |all: &[&str]| all.iter().any(|what| command.contains(what));
    if is_any(&["trimtab record ", "trimtab watch ", "trimtab top", "trimtab agent "]) {
        Needs::Ebpf
    } else if is_any(&["trimtab drive ", "trimtab array ", "/dev/loop0", "/mnt"]) {
        Needs::Drives
    } else {
        Needs::Nothing
    }
}

/// Replaces `from`, as one or several words, by `to`.
fn replace(text: &str, from: &str, to: &str) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(from) {
        let (before, after) = (&rest[..at], &rest[at + from.len()..]);
        let begins = (done.clone() + before).chars().last().is_none_or(|c| c == ' ');
        let ends = after.chars().next().is_none_or(|c| c == ' ' || c == '=');
        done += before;
        done += if begins && ends { to } else { from };
        rest = after;
    }
    done + rest
}

/// Entries that match no command.
pub(crate) fn stale(shown: &[Shown]) -> Vec<String> {
    let begins = |begin: &str| shown.iter().any(|shown| shown.command.starts_with(begin));
    let fits =
        |word: &str| shown.iter().any(|shown| replace(&shown.command, word, "") != shown.command);
    let beginnings =
        NOT.iter().map(|(begin, _)| begin).chain(BEFORE.iter().map(|(begin, _)| begin));
    let beginnings = beginnings.chain(ENDLESS).filter(|begin| !begins(begin));
    let words = WORDS.iter().map(|(from, ..)| from).filter(|from| !fits(from));
    beginnings.chain(words).map(|what| format!("no command is `{what}` any more")).collect()
}

/// Entries and their reasons.
pub(crate) fn reasons() -> impl Iterator<Item = (&'static str, &'static str)> {
    NOT.iter().copied()
}
