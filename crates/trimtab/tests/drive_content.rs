//! Emulated drives keep their content: through garbage collection, under file systems, and
//! when memory is short.

mod emulated;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use emulated::{Bench, Mounted, wait_until};
use trimtab_testdisk as testdisk;

/// Deterministic pseudo-random bytes.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut content = Vec::with_capacity(bytes + 8);
    while content.len() < bytes {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        content.extend_from_slice(&(state >> 16).to_le_bytes());
    }
    content.truncate(bytes);
    content
}

#[test]
fn content_survives_garbage_collection() {
    let Some(bench) = Bench::new(&["fio"]) else { return };
    // A part of it is full, and is overwritten three times.
    let device = bench.create("verified", &["--size", "64M", "--fill", "1"]);
    let fio = Command::new("fio")
        .args(["--name=verify", "--rw=randwrite", "--bsrange=512-128k", "--direct=1"])
        .args(["--ioengine=libaio", "--iodepth=16", "--size=48M", "--io_size=160M"])
        .args(["--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--randseed=7"])
        // fio would leave a file in its working directory.
        .args([
            "--verify_state_save=0",
            "--verify_backlog=512",
            "--blockalign=512",
            "--norandommap=0",
        ])
        .arg(format!("--filename={device}"))
        .stdin(Stdio::null())
        .output()
        .expect("fio runs");
    let said = String::from_utf8_lossy(&fio.stdout);
    assert!(fio.status.success(), "{said}{}", String::from_utf8_lossy(&fio.stderr));
    let stat = bench.stat("verified");
    assert!(stat["erases"].as_u64() > Some(100), "{stat}");
    assert!(stat["write_amplification"].as_f64() > Some(1.0), "{stat}");
    bench.remove_all();
}

/// Makes a file system, fills it with files, overwrites half of them, and checks after a
/// remount that they hold what was written, and that the file system is clean.
fn file_system(bench: &Bench, device: &str, make: &[&str], check: &[&str], megabytes: u64) {
    let (program, args) = make.split_first().unwrap();
    testdisk::run(program, &[args, &[device]].concat());
    let at = bench.path("mounted");
    let mounted = Mounted::new(device, at.clone());
    let file = |i: u64| at.join(format!("file-{i}"));
    let seed = |i: u64| if i.is_multiple_of(2) { i } else { i + 1000 };
    for i in 0..megabytes {
        fs::write(file(i), noise(i, 1 << 20)).unwrap();
    }
    for round in 0..3 {
        for i in (1..megabytes).step_by(2) {
            let content = noise(if round == 2 { seed(i) } else { i + round }, 1 << 20);
            let mut file = File::create(file(i)).unwrap();
            file.write_all(&content).unwrap();
            file.sync_all().unwrap();
        }
    }
    mounted.unmount();
    // Needed only if a cache might outlive the mount.
    _ = fs::write("/proc/sys/vm/drop_caches", "3");
    let (program, args) = check.split_first().unwrap();
    testdisk::run(program, &[args, &[device]].concat());
    let mounted = Mounted::new(device, at.clone());
    for i in 0..megabytes {
        let mut content = Vec::new();
        File::open(file(i)).unwrap().read_to_end(&mut content).unwrap();
        assert!(content == noise(seed(i), 1 << 20), "file {i} is not what was written");
    }
    mounted.unmount();
}

#[test]
fn ext4_keeps_its_files_and_trim_reaches_the_model() {
    let programs = ["mkfs.ext4", "fsck.ext4", "mount", "umount", "fstrim"];
    let Some(bench) = Bench::new(&programs) else { return };
    let device = bench.create("ext4", &["--size", "128M"]);
    file_system(&bench, &device, &["mkfs.ext4", "-q"], &["fsck.ext4", "-f", "-n"], 80);
    let stat = bench.stat("ext4");
    assert!(stat["erases"].as_u64() > Some(100), "{stat}");

    let mounted = Mounted::new(&device, bench.path("mounted"));
    let mapped = || bench.stat("ext4")["mapped_share"].as_f64().unwrap();
    for entry in fs::read_dir(mounted.path()).unwrap().flatten() {
        _ = fs::remove_file(entry.path());
    }
    testdisk::run("sync", &["-f", mounted.path().to_str().unwrap()]);
    let (before, discards) = (mapped(), bench.stat("ext4")["discards"]["requests"].as_u64());
    testdisk::run("fstrim", &[mounted.path().to_str().unwrap()]);
    assert!(before > 0.5 && mapped() < 0.3, "{before} mapped before, {} after", mapped());
    assert!(bench.stat("ext4")["discards"]["requests"].as_u64() > discards);
    // The content's memory is freed too.
    assert!(bench.stat("ext4")["data_bytes"].as_u64() < Some(40 << 20));
    mounted.unmount();
    bench.remove_all();
}

#[test]
fn xfs_keeps_its_files_and_stays_clean() {
    let programs = ["mkfs.xfs", "xfs_repair", "mount", "umount"];
    let Some(bench) = Bench::new(&programs) else { return };
    if !testdisk::requires(&[testdisk::Feature::Xfs]) {
        return;
    }
    let device = bench.create("xfs", &["--size", "384M", "--block-size", "4096"]);
    file_system(&bench, &device, &["mkfs.xfs", "-q"], &["xfs_repair", "-n"], 100);
    bench.remove_all();
}

/// A process group with limited memory. Removed when dropped.
struct Limited(std::path::PathBuf);

impl Limited {
    /// For either version of cgroups, if possible.
    fn new(bytes: u64) -> Result<Self, String> {
        let name = format!("trimtab-test-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (root, limit) = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
            // Children need the controller enabled; with the io controller, a group's dirty
            // pages are written before its memory is exhausted.
            for controller in ["+memory", "+io"] {
                _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", controller);
            }
            (Path::new("/sys/fs/cgroup"), "memory.max")
        } else {
            (v1, "memory.limit_in_bytes")
        };
        let path = root.join(name);
        fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let limited = Self(path);
        let file = limited.0.join(limit);
        fs::write(&file, bytes.to_string()).map_err(|e| format!("{}: {e}", file.display()))?;
        Ok(limited)
    }

    fn processes(&self) -> std::path::PathBuf {
        self.0.join("cgroup.procs")
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // Its last process may still be ending.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Whether this process has CAP_SYS_RESOURCE, which `PR_SET_IO_FLUSHER` needs.
fn may_serve_io() -> bool {
    const CAP_SYS_RESOURCE: u32 = 24;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(bits.trim(), 16).unwrap() >> CAP_SYS_RESOURCE & 1 == 1
}

#[test]
fn filling_a_mounted_drive_with_little_memory_does_not_hang() {
    let Some(bench) = Bench::new(&["mkfs.ext4", "mount", "umount", "dd", "sh"]) else { return };
    let limited = match Limited::new(64 << 20) {
        Ok(limited) => limited,
        Err(why) => {
            let why = format!("cannot limit memory in a cgroup: {why}");
            return testdisk::skip(testdisk::Feature::Kernel, &why);
        }
    };
    let program = env!("CARGO_BIN_EXE_trimtab");
    let inside = |script: &str| {
        let mut command = Command::new("sh");
        let group = limited.processes();
        let script = format!("echo $$ > {} && {script}", group.display());
        command.args(["-c", &script]).current_dir(bench.path("")).stdin(Stdio::null());
        command.env("TRIMTAB_RUN", bench.path("")).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let args = "--profile small.toml --size 256M --data file --file full.img";
    let create = format!("exec {program} drive create full {args}");
    // Its content is in a file, so server and writer both need the page cache. If the server
    // may mark itself as an I/O server, both are in a group that has less memory than is
    // written; otherwise only the writer is, and the server uses the memory of the whole
    // machine.
    let created = match may_serve_io() {
        true => inside(&create).output().unwrap(),
        false => {
            testdisk::note("the server stays outside the cgroup: needs CAP_SYS_RESOURCE");
            bench.drive(&[&["create", "full"][..], &args.split(' ').collect::<Vec<_>>()].concat())
        }
    };
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let listed = bench.done(&["list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let device = listed[0]["device"].as_str().unwrap();
    testdisk::run("mkfs.ext4", &["-q", device]);
    let mounted = Mounted::new(device, bench.path("mounted"));
    let fill = format!(
        "exec dd if=/dev/urandom of={}/large bs=1M count=190 conv=fsync",
        mounted.path().display()
    );
    let mut writer = inside(&fill).spawn().unwrap();
    let begun = Instant::now();
    wait_until("all is written", || writer.try_wait().unwrap().is_some());
    let wrote = writer.wait_with_output().unwrap();
    let (status, said) = (wrote.status, String::from_utf8_lossy(&wrote.stderr));
    // A writer that is killed for lack of memory, as Linux 6.1 does if writing is slow, does
    // not hang either.
    let killed = status.signal() == Some(9);
    assert!(killed || status.success(), "{status}: {said}");
    let how = if killed { "ended by the kernel" } else { "written" };
    testdisk::note(&format!(
        "190 MiB through 64 MiB of memory: {how} after {:.1?}",
        begun.elapsed()
    ));
    // Nor may it have been the server that was killed: the drive would wait for another one.
    let listed = bench.done(&["list"]);
    assert!(!listed.contains("killed"), "{listed}");
    mounted.unmount();
    bench.remove_all();
}
