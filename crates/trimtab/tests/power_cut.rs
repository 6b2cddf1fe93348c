//! The effect of a power cut on an emulated drive: on the block device, under a file system,
//! and if the drive's content is on another emulated drive.

mod emulated;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::thread;

use emulated::{Bench, Mounted, wait_until};
use trimtab_testdisk as testdisk;

const O_DIRECT: i32 = 0o40000;
const EIO: Option<i32> = Some(5);
const SECTOR: usize = 512;

fn open_direct(path: impl AsRef<Path>) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(O_DIRECT).open(path).expect("it opens")
}

fn read_at(file: &File, offset: u64, bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut buffer = testdisk::aligned(bytes);
    let window = testdisk::window(&mut buffer, bytes);
    file.read_exact_at(window, offset)?;
    Ok(window.to_vec())
}

fn write_at(file: &File, offset: u64, content: &[u8]) -> std::io::Result<()> {
    let mut buffer = testdisk::aligned(content.len());
    let window = testdisk::window(&mut buffer, content.len());
    window.copy_from_slice(content);
    file.write_all_at(window, offset)
}

/// The byte that fills each sector.
fn sectors(content: &[u8]) -> Vec<u8> {
    let sectors = content.chunks(SECTOR);
    sectors
        .map(|sector| {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a torn sector");
            sector[0]
        })
        .collect()
}

const MEMORY: &[&str] = &["--size", "64M", "--write-cache", "32M"];
const FILE: &[&str] =
    &["--size", "64M", "--write-cache", "32M", "--data", "file", "--file", "cut.img"];

/// Flushes four megabytes, overwrites half of them, cuts the power, and returns each sector's
/// value.
fn cut(bench: &Bench, args: &[&str], seed: &str) -> Vec<u8> {
    let device = bench.create("cut", args);
    let disk = open_direct(&device);
    write_at(&disk, 0, &[1; 4 << 20]).unwrap();
    disk.sync_all().unwrap();
    for place in 0..128 {
        write_at(&disk, place * 32768, &[2; 16384]).unwrap();
    }
    assert_eq!(bench.stat("cut")["unflushed_bytes"], 128 * 16384);
    bench.done(&["fault", "cut", "power-cut", "--seed", seed]);
    assert_eq!(read_at(&disk, 0, 4096).unwrap_err().raw_os_error(), EIO);
    assert_eq!(write_at(&disk, 0, &[3; 4096]).unwrap_err().raw_os_error(), EIO);
    assert_eq!(disk.sync_all().unwrap_err().raw_os_error(), EIO);
    assert_eq!(bench.stat("cut")["faults"][0], "power off, until faults are cleared");
    drop(disk);
    bench.done(&["fault", "cut", "clear"]);
    let found = sectors(&read_at(&open_direct(&device), 0, 4 << 20).unwrap());
    let stat = bench.stat("cut");
    let loss = &stat["last_power_cut"];
    let of = |what: &str| loss[what].as_u64().unwrap();
    assert_eq!((stat["power_cuts"].as_u64(), of("kept") + of("lost") + of("torn")), (Some(1), 128));
    assert!(bench.done(&["stat", "cut"]).contains("power cuts"), "{stat}");
    bench.done(&["remove", "cut"]);
    _ = fs::remove_file(bench.path("cut.img"));
    found
}

#[test]
fn flushed_data_stays_and_the_rest_depends_on_the_seed() {
    let Some(bench) = Bench::new(&[]) else { return };
    let found = cut(&bench, MEMORY, "7");
    // 16 KiB of each 32 KiB were overwritten.
    let rewritten = |sector: usize| sector % 64 < 32;
    let old = found.iter().enumerate().filter(|(at, value)| rewritten(*at) && **value == 1);
    assert!((500..3600).contains(&old.count()), "of 4,096 sectors that were not flushed");
    assert!(
        found.iter().enumerate().all(|(at, value)| *value == 1 || rewritten(at) && *value == 2)
    );
    let torn =
        found.chunks(64).filter(|place| place[..32].contains(&1) && place[..32].contains(&2));
    assert!(torn.count() > 8, "of 128 writes that were not flushed");
    assert_eq!(found, cut(&bench, FILE, "7"), "the same seed, in a file");
    assert_ne!(found, cut(&bench, MEMORY, "8"), "another seed");
    bench.remove_all();
}

/// Four writers that flush each of their writes, and cuts at arbitrary moments.
#[test]
fn acknowledged_flushes_survive_a_cut_at_any_moment() {
    const WRITERS: u64 = 4;
    const BYTES: usize = 16 * SECTOR;
    let Some(bench) = Bench::new(&[]) else { return };
    let device = bench.create("busy", &["--size", "64M"]);
    let place = |writer: u64| writer << 20;
    let write = |writer: u64| {
        let disk = open_direct(&device);
        let mut acknowledged = 0;
        for value in 1..=u8::MAX {
            if write_at(&disk, place(writer), &[value; BYTES]).is_err() {
                return (acknowledged, value);
            }
            if disk.sync_all().is_err() {
                return (acknowledged, value);
            }
            acknowledged = value;
        }
        (acknowledged, u8::MAX)
    };
    for round in 0_u64..6 {
        let disk = open_direct(&device);
        for writer in 0..WRITERS {
            write_at(&disk, place(writer), &[0; BYTES]).unwrap();
        }
        disk.sync_all().unwrap();
        drop(disk);
        let before = bench.stat("busy")["flushes"]["requests"].as_u64().unwrap();
        let ends: Vec<_> = thread::scope(|scope| {
            let writers: Vec<_> =
                (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
            let flushes = || bench.stat("busy")["flushes"]["requests"].as_u64().unwrap();
            wait_until("some are flushed", || flushes() >= before + 10 + round);
            bench.done(&["fault", "busy", "power-cut"]);
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        bench.done(&["fault", "busy", "clear"]);
        let disk = open_direct(&device);
        for (writer, (acknowledged, last)) in (0..).zip(ends) {
            let found = sectors(&read_at(&disk, place(writer), BYTES).unwrap());
            let is_allowed = |value: &u8| (acknowledged..=last).contains(value);
            let what = format!("{found:?}, flushed {acknowledged}, written {last}");
            assert!(found.iter().all(is_allowed), "round {round}, writer {writer}: {what}");
        }
    }
    bench.remove_all();
}

#[test]
fn file_system_keeps_synced_data_and_is_sound_after_a_cut() {
    let Some(bench) = Bench::new(&["mkfs.ext4", "fsck.ext4", "mount", "umount"]) else { return };
    for (seed, args) in [("1", MEMORY), ("2", FILE), ("3", MEMORY)] {
        let device = bench.create("ext4", args);
        testdisk::run("mkfs.ext4", &["-q", &device]);
        let mounted = Mounted::new(&device, bench.path("mounted"));
        let at = mounted.path().to_owned();
        let synced = |number: u8| at.join(format!("synced-{number}"));
        fs::write(at.join("settled"), vec![200; 2 << 20]).unwrap();
        testdisk::run("sync", &["-f", at.to_str().unwrap()]);
        for number in 1..20 {
            let mut file = File::create(synced(number)).unwrap();
            file.write_all(&vec![number; 100_000]).unwrap();
            file.sync_all().unwrap();
            fs::write(at.join(format!("unsynced-{number}")), vec![number; 100_000]).unwrap();
        }
        // On the drive, but not flushed: the last writes flush nothing.
        let settled = open_direct(at.join("settled"));
        for place in (0..2 << 20).step_by(65536) {
            write_at(&settled, place, &[201; 32768]).unwrap();
        }
        drop(settled);
        bench.done(&["fault", "ext4", "power-cut", "--seed", seed]);
        mounted.unmount();
        bench.done(&["fault", "ext4", "clear"]);
        // Mounting replays the journal; then the file system has no errors.
        Mounted::new(&device, bench.path("mounted")).unmount();
        testdisk::run("fsck.ext4", &["-f", "-n", &device]);
        let mounted = Mounted::new(&device, bench.path("mounted"));
        for number in 1..20 {
            assert_eq!(fs::read(synced(number)).unwrap(), vec![number; 100_000], "seed {seed}");
            // The other files hold what was written, or nothing.
            let unsynced = fs::read(at.join(format!("unsynced-{number}"))).unwrap_or_default();
            assert!(unsynced.iter().all(|&byte| byte == number || byte == 0), "seed {seed}");
        }
        let settled = sectors(&fs::read(at.join("settled")).unwrap());
        assert!(settled.iter().all(|value| [200, 201].contains(value)), "seed {seed}");
        assert!(settled.contains(&200) && settled.contains(&201), "seed {seed}");
        mounted.unmount();
        bench.done(&["remove", "ext4"]);
        _ = fs::remove_file(bench.path("cut.img"));
    }
    bench.remove_all();
}

#[test]
fn drive_without_volatile_cache_loses_no_completed_write() {
    let Some(bench) = Bench::new(&[]) else { return };
    let device = bench.create("safe", &["--size", "64M", "--write-cache", "0"]);
    let disk = open_direct(&device);
    write_at(&disk, 0, &[1; 4 << 20]).unwrap();
    drop(disk);
    bench.done(&["fault", "safe", "power-cut"]);
    bench.done(&["fault", "safe", "clear"]);
    assert_eq!(read_at(&open_direct(&device), 0, 4 << 20).unwrap(), [1; 4 << 20]);
    bench.remove_all();
}

#[test]
fn scheduled_cut_starts_and_ends() {
    let Some(bench) = Bench::new(&[]) else { return };
    let schedule = "[[fault]]\nkind = 'power-cut'\nat_s = 0.2\nfor_s = 1.5\nseed = 3\n\
                    [[fault]]\nkind = 'stall'\nat_s = 0\nfor_s = 1000\n";
    fs::write(bench.path("cut.toml"), schedule).unwrap();
    let device = bench.create("planned", &["--size", "64M", "--faults", "cut.toml"]);
    let disk = open_direct(&device);
    // Held by the stall, and released by the cut.
    assert_eq!(read_at(&disk, 0, 4096).unwrap_err().raw_os_error(), EIO);
    assert_eq!(bench.stat("planned")["power_cuts"], 1);
    wait_until("the power is back", || {
        !bench.stat("planned")["faults"].to_string().contains("power off")
    });
    bench.done(&["fault", "planned", "clear"]);
    read_at(&disk, 0, 4096).unwrap();
    drop(disk);
    bench.remove_all();
}

/// A drive whose content is a file on another one, whose power is cut.
#[test]
fn durable_flush_reaches_the_disk_below() {
    let Some(bench) = Bench::new(&["mkfs.ext4", "mount", "umount"]) else { return };
    let below = bench.create("below", &["--size", "128M", "--write-cache", "64M"]);
    testdisk::run("mkfs.ext4", &["-q", &below]);
    let mounted = Mounted::new(&below, bench.path("mounted"));
    let file = mounted.path().join("above.img");
    let file = file.to_str().unwrap();
    let args = ["--size", "64M", "--data", "file", "--file", file, "--flush", "durable"];
    let disk = open_direct(bench.create("above", &args));
    for place in 0..64 {
        write_at(&disk, place << 20, &[5; 65536]).unwrap();
    }
    disk.sync_all().unwrap();
    let stat = bench.stat("above");
    assert!(stat["disk_flushes"]["latency"]["count"].as_u64() >= Some(1), "{stat}");
    bench.done(&["fault", "below", "power-cut", "--seed", "1"]);
    drop(disk);
    bench.done(&["remove", "above"]);
    mounted.unmount();
    bench.done(&["fault", "below", "clear"]);

    let mounted = Mounted::new(&below, bench.path("mounted"));
    let disk = open_direct(bench.create("above", &args));
    for place in 0..64 {
        assert_eq!(read_at(&disk, place << 20, 65536).unwrap(), [5; 65536], "at {place} MiB");
    }
    // Data that the disk below failed to write are not reported as flushed later.
    bench.done(&["fault", "below", "error", "--writes", "--for", "1h"]);
    write_at(&disk, 0, &[6; 65536]).unwrap();
    assert_eq!(disk.sync_all().unwrap_err().raw_os_error(), EIO);
    bench.done(&["fault", "below", "clear"]);
    assert_eq!(disk.sync_all().unwrap_err().raw_os_error(), EIO);
    assert!(bench.done(&["stat", "above"]).contains(" failed"));
    drop(disk);
    bench.done(&["remove", "above"]);
    mounted.unmount();
    bench.remove_all();
}

#[test]
fn options_for_files_are_refused_otherwise() {
    let Some(bench) = Bench::new(&[]) else { return };
    let create = |args: &[&'static str], expected| {
        let all = [&["create", "bad", "--profile", "small.toml", "--size", "64M"], args].concat();
        bench.fails(&all, 2, expected);
    };
    create(&["--flush", "durable"], "--flush is for --data file");
    create(&["--data", "none", "--write-cache", "1M"], "--write-cache is for");
    bench.fails(&["fault", "bad", "stall", "--for", "1s", "--seed", "1"], 2, "takes no --seed");
    assert!(bench.traces().is_empty(), "{:?}", bench.traces());
}
