//! Arrays whose servers are killed, and whose members fail.

mod array_bench;
mod emulated;

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use array_bench::{
    Arrays, BLOCK, blocks_of_drive, open_direct, read_block, rounds, with_emulated_drive,
    write_block,
};
use emulated::{Mounted, stderr, wait_until};
use rustix::process::{Resource, Rlimit, prlimit};
use trimtab_io::SplitMix64;
use trimtab_testdisk as testdisk;

/// Everything that was acknowledged is there after the server was killed, and parity fits after what
/// the bitmap asks for.
#[test]
fn killed_server_loses_nothing_that_was_acknowledged() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    for (level, members, seed) in [("5", 4, 1), ("1", 2, 2), ("6", 4, 3), ("5", 3, 4)] {
        let files = arrays.files(&["a", "b", "c", "d"][..members], 64);
        let create = ["create", "dies", "--level", level, "--chunk", "16K", "--assume-clean"];
        let mut device = arrays.done(&create, &files);
        let blocks = std::fs::metadata(&files[0]).unwrap().len() / BLOCK as u64 / 2;
        let mut values = vec![0; blocks as usize];
        let mut random = SplitMix64::new(seed);
        for round in 0..rounds(4) {
            let disk = open_direct(&device);
            let delay = Duration::from_millis(random.next() % 80);
            let mut next = SplitMix64::new(seed * 100 + round);
            let (acknowledged, last) = thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    let mut acknowledged = Vec::new();
                    loop {
                        let (block, value) = (next.next() % blocks, next.next() | 1);
                        match write_block(&disk, block, value) {
                            Ok(()) => acknowledged.push((block, value)),
                            Err(_) => return (acknowledged, (block, value)),
                        }
                    }
                });
                thread::sleep(delay);
                arrays.kill("dies");
                writer.join().unwrap()
            });
            drop(disk);
            acknowledged.iter().for_each(|&(block, value)| values[block as usize] = value);
            device = arrays.done(&["assemble", "dies"], &files);
            let disk = open_direct(&device);
            for (block, &value) in values.iter().enumerate() {
                let found = read_block(&disk, block as u64).unwrap();
                let is_last = last == (block as u64, found);
                assert!(found == value || is_last, "level {level}: block {block} of round {round}");
            }
            // The last write was not acknowledged: from now on it is what was read.
            let block = last.0;
            arrays.wait_for_resync("dies");
            values[block as usize] = read_block(&disk, block).unwrap();
            arrays.check("dies");
        }
        arrays.done(&["stop", "dies"], &[]);
    }
    assert!(arrays.traces().is_empty(), "{:?}", arrays.traces());
}

/// Changes the parity of stripe 0 of an array of level 5 with three members: on the last one.
fn damage(files: &[String]) {
    let superblock = trimtab_md::Member::open(Path::new(&files[2]), false).unwrap().superblock();
    let file = File::options().write(true).open(&files[2]).unwrap();
    file.write_all_at(&[0x55; 512], superblock.unwrap().data_offset + 4096).unwrap();
}

#[test]
fn check_finds_and_repairs_what_does_not_fit() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let files = arrays.files(&["a", "b", "c"], 200);
    arrays.done(&["create", "odd", "--level", "5", "--assume-clean"], &files);
    arrays.done(&["stop", "odd"], &[]);
    damage(&files);
    let device = arrays.done(&["assemble", "odd"], &files);
    arrays.fails(&["check", "odd"], &[], 1, "1 stripes do not fit: --repair makes them");
    arrays.done(&["check", "odd", "--repair"], &[]);
    arrays.check("odd");
    // In a region that may differ after a crash the resync does it, and nothing is computed before.
    write_block(&open_direct(&device), 5, 5).unwrap();
    arrays.kill("odd");
    damage(&files);
    let device = arrays.done(&["assemble", "odd"], &files);
    arrays.wait_for_resync("odd");
    assert_eq!(arrays.stat("odd")["resynced"], 1);
    arrays.check("odd");
    assert_eq!(read_block(&open_direct(&device), 5).unwrap(), 5);
    arrays.done(&["stop", "odd"], &[]);
}

/// A file system on an array whose server is killed has all that was synced, and is whole after its
/// own recovery.
#[test]
fn file_system_survives_kills() {
    let Some(arrays) = Arrays::new(&["mkfs.ext4", "fsck.ext4", "mount"]) else { return };
    let files = arrays.files(&["a", "b", "c", "d"], 64);
    let create = ["create", "fs", "--level", "5", "--chunk", "16K", "--assume-clean"];
    let mut device = arrays.done(&create, &files);
    testdisk::run("mkfs.ext4", &["-q", "-F", &device]);
    let mut random = SplitMix64::new(5);
    let mut synced = Vec::new();
    for round in 0..rounds(4) {
        let mounted = Mounted::new(&device, arrays.bench.path("mnt"));
        let delay = Duration::from_millis(random.next() % 300);
        let directory = mounted.path().to_owned();
        let written = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut written = Vec::new();
                for number in 0_u64.. {
                    let path = directory.join(format!("{round}-{}", number % 100));
                    let content = vec![number as u8; 1 + (number as usize * 7919) % 60_000];
                    // A file that is being replaced may be lost: each round has its own, once.
                    if number >= 100 || write_synced(&path, &content).is_err() {
                        return written;
                    }
                    written.push((path, content));
                }
                written
            });
            thread::sleep(delay);
            arrays.kill("fs");
            writer.join().unwrap()
        });
        synced.extend(written);
        mounted.unmount();
        device = arrays.done(&["assemble", "fs"], &files);
        let mounted = Mounted::new(&device, arrays.bench.path("mnt"));
        for (path, content) in &synced {
            let found = std::fs::read(path).unwrap();
            assert!(found == *content, "{} has other data", path.display());
        }
        mounted.unmount();
        testdisk::run("fsck.ext4", &["-f", "-n", &device]);
        arrays.wait_for_resync("fs");
        arrays.check("fs");
    }
    arrays.done(&["stop", "fs"], &[]);
}

/// Writes a file, and returns when it and its name are on the disk.
fn write_synced(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()?;
    File::open(path.parent().unwrap())?.sync_all()
}

#[test]
fn unreadable_data_are_computed_and_written_again() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let (device, _) = with_emulated_drive(&arrays, "plain");
    let disk = open_direct(&device);
    for block in blocks_of_drive() {
        write_block(&disk, block, block + 7).unwrap();
    }
    arrays.bench.done(&["fault", "ill", "error", "--reads", "--for", "10m"]);
    for block in blocks_of_drive() {
        assert_eq!(read_block(&disk, block).unwrap(), block + 7);
    }
    wait_until("corrections", || arrays.stat("some")["members"][1]["corrected"].as_u64() > Some(0));
    arrays.bench.done(&["fault", "ill", "clear"]);
    let stat = arrays.stat("some");
    assert_eq!(stat["reads"]["errors"], 0, "{stat}");
    assert_eq!(stat["members"][1]["state"], "active", "{stat}");
    arrays.check("some");
    for block in blocks_of_drive() {
        assert_eq!(read_block(&disk, block).unwrap(), block + 7);
    }
    drop(disk);
    arrays.done(&["stop", "some"], &[]);
}

/// One sector is unreadable: what it has is computed, and written, from which on it can be read.
#[test]
fn unreadable_sector_is_computed_and_written_again() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let (device, members) = with_emulated_drive(&arrays, "trimtab");
    let disk = open_direct(&device);
    let blocks: Vec<u64> = blocks_of_drive().collect();
    for &block in &blocks {
        write_block(&disk, block, block + 7).unwrap();
    }
    let superblock = trimtab_md::Member::open(Path::new(&members[1]), false).unwrap().superblock();
    let data = superblock.unwrap().data_offset;
    // Stripe 3 n has the n-th of these blocks at its begin.
    let at = |round: u64| (data + 3 * round * (64 << 10) + 512).to_string();
    let corrected = || arrays.stat("some")["members"][1]["corrected"].as_u64().unwrap();
    let faults = || arrays.bench.stat("ill")["faults"].as_array().unwrap().len();
    let ruin = |round| {
        arrays.bench.done(&["fault", "ill", "media", "--at", &at(round)]);
        assert_eq!(faults(), 1);
    };
    let beyond = ["fault", "ill", "media", "--at", "1G"];
    arrays.bench.fails(&beyond, 2, "beyond the drive's end");
    ruin(3);
    for &block in &blocks {
        assert_eq!(read_block(&disk, block).unwrap(), block + 7);
    }
    wait_until("the correction", || faults() == 0);
    assert_eq!(corrected(), 1);
    // A check reads everything, and finds what no program has read.
    ruin(5);
    arrays.check("some");
    wait_until("the correction", || faults() == 0);
    assert_eq!(corrected(), 2);
    for &block in &blocks {
        assert_eq!(read_block(&disk, block).unwrap(), block + 7);
    }
    let stat = arrays.stat("some");
    assert_eq!(stat["reads"]["errors"], 0, "{stat}");
    assert_eq!(stat["members"][1]["state"], "active", "{stat}");
    assert_eq!(corrected(), 2);
    drop(disk);
    arrays.done(&["stop", "some"], &[]);
}

/// A member is lost while members differ, and then the array is stopped in order.
#[test]
fn stop_in_order_does_not_forget_what_may_be_wrong() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let mut files = arrays.files(&["a", "b", "c"], 64);
    arrays.done(&["create", "some", "--level", "5", "--rate", "1M"], &files);
    arrays.done(&["fail", "some", "1"], &[]);
    let in_doubt = || arrays.stat("some")["in_doubt"].as_u64().unwrap();
    assert!(in_doubt() > 0);
    arrays.done(&["stop", "some"], &[]);
    files.remove(1);
    arrays.fails(&["assemble", "some"], &files, 1, "may be wrong; --force starts it");
    arrays.done(&["assemble", "some", "--force"], &files);
    assert!(in_doubt() > 0);
    arrays.done(&["stop", "some"], &[]);
    // Who has been asked is not asked again.
    arrays.done(&["assemble", "some"], &files);
    arrays.done(&["stop", "some"], &[]);
}

/// The doubt ends when another device has taken the member's place: the next one that is lost is not asked for.
#[test]
fn what_may_be_wrong_is_forgotten_when_nothing_is_missing() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let files = arrays.files(&["a", "b", "c", "d"], 10);
    arrays.done(&["create", "some", "--level", "5", "--rate", "1M"], &files[..3]);
    arrays.done(&["fail", "some", "1"], &[]);
    assert!(arrays.stat("some")["in_doubt"].as_u64() > Some(0));
    arrays.done(&["add", "some", &files[3]], &[]);
    arrays.wait_for_rebuild("some");
    wait_until("the bits are cleared", || arrays.stat("some")["state"] == "clean");
    arrays.done(&["fail", "some", "0"], &[]);
    arrays.done(&["stop", "some"], &[]);
    arrays.done(&["assemble", "some"], &[files[2].clone(), files[3].clone()]);
    arrays.done(&["stop", "some"], &[]);
}

#[test]
fn member_that_does_not_write_is_failed_for_good() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let (device, members) = with_emulated_drive(&arrays, "adaptive");
    let disk = open_direct(&device);
    write_block(&disk, 16, 1).unwrap();
    arrays.bench.done(&["fault", "ill", "error", "--writes", "--for", "10m"]);
    write_block(&disk, 16, 2).unwrap();
    let stat = arrays.stat("some");
    assert_eq!(
        (&stat["state"], &stat["members"][1]["state"]),
        (&"degraded".into(), &"failed".into())
    );
    arrays.bench.done(&["fault", "ill", "clear"]);
    drop(disk);
    // The others know it, even if the server is killed at once.
    arrays.kill("some");
    let degraded = "member 1 is missing: what is computed for that may be wrong; --force starts it";
    arrays.fails(&["assemble", "some"], &members, 1, degraded);
    let device = arrays.done(&["assemble", "some", "--force"], &members);
    assert_eq!(arrays.states("some"), ["active", "missing", "active"]);
    let stat = arrays.stat("some");
    assert!(stat["in_doubt"].as_u64() > Some(0) && stat["to_resync"] == 0, "{stat}");
    let disk = open_direct(&device);
    assert_eq!(read_block(&disk, 16).unwrap(), 2);
    arrays.done(&["add", "some", &members[1], "--force"], &[]);
    write_block(&disk, 32, 3).unwrap();
    arrays.wait_for_rebuild("some");
    arrays.check("some");
    arrays.done(&["fail", "some", "0"], &[]);
    assert_eq!(read_block(&disk, 16).unwrap(), 2);
    assert_eq!(read_block(&disk, 32).unwrap(), 3);
    drop(disk);
    arrays.done(&["stop", "some"], &[]);
}

/// Writes fail, nothing hangs, and what was written before is there when the members are back.
#[test]
fn too_many_failures_end_writes_and_keep_data() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let drives =
        ["ill", "worse"].map(|name| arrays.bench.create(name, &["--size", "64M", "--lead", "0us"]));
    let members = [&drives[..], &arrays.files(&["a"], 64)[..]].concat();
    let device = arrays.done(&["create", "ends", "--level", "5", "--assume-clean"], &members);
    let disk = open_direct(&device);
    for block in 0..64 {
        write_block(&disk, block, block + 1).unwrap();
    }
    for name in ["ill", "worse"] {
        arrays.bench.done(&["fault", name, "error", "--writes", "--for", "10m"]);
    }
    // What the one does not write is in the parity, until the superblock of the other cannot be
    // written either.
    let first = write_block(&disk, 0, 100);
    assert!(write_block(&disk, 40, 100).is_err());
    assert_eq!(arrays.stat("ends")["state"], "failed");
    drop(disk);
    arrays.done(&["stop", "ends"], &[]);
    for name in ["ill", "worse"] {
        arrays.bench.done(&["fault", name, "clear"]);
    }
    let device = arrays.done(&["assemble", "ends", "--force"], &members);
    let disk = open_direct(&device);
    assert!(first.is_err() || read_block(&disk, 0).unwrap() == 100);
    for block in (1..64).filter(|&block| block != 40) {
        assert_eq!(read_block(&disk, block).unwrap(), block + 1, "block {block}");
    }
    drop(disk);
    arrays.done(&["stop", "ends"], &[]);
}

/// A server that cannot go on ends, as if it had been killed: the next one has all of the data.
#[test]
fn server_that_cannot_go_on_ends() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let members = arrays.files(&["a", "b", "c"], 64);
    let device = arrays.done(&["create", "ends", "--level", "5", "--assume-clean"], &members);
    let disk = open_direct(&device);
    write_block(&disk, 16, 5).unwrap();
    let none = Rlimit { current: Some(1 << 20), maximum: Some(1 << 20) };
    prlimit(arrays.server("ends"), Resource::As, none).unwrap();
    // It has no buffer of that size yet. What looks for partitions of a ublk device reads 128 KiB ahead.
    let bytes = if emulated::backend() == "ublk" { 512 << 10 } else { 64 << 10 };
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut buffer = testdisk::aligned(bytes);
            disk.read_exact_at(testdisk::window(&mut buffer, bytes), 0)
        });
        wait_until("end of the server", || arrays.server("ends").is_none());
        let device = arrays.done(&["assemble", "ends"], &members);
        // Over FUSE it fails, over ublk it waits for the next server.
        _ = reader.join().unwrap();
        assert_eq!(read_block(&open_direct(&device), 16).unwrap(), 5);
    });
    drop(disk);
    arrays.done(&["stop", "ends"], &[]);
}

#[test]
fn reads_go_around_a_member_that_stalls() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    for policy in ["adaptive", "trimtab"] {
        let (device, _) = with_emulated_drive(&arrays, policy);
        let disk = open_direct(&device);
        for _ in 0..20 {
            for block in blocks_of_drive() {
                assert_eq!(read_block(&disk, block).unwrap(), 0);
            }
        }
        arrays.bench.done(&["fault", "ill", "stall", "--for", "5s"]);
        let before = arrays.stat("some")["computed"].as_u64().unwrap();
        for block in blocks_of_drive() {
            let begun = Instant::now();
            assert_eq!(read_block(&disk, block).unwrap(), 0);
            // A member is stuck after 0.25 s, and a read waits for none longer than 1 s.
            assert!(begun.elapsed() < Duration::from_secs(2), "{policy}: {:?}", begun.elapsed());
        }
        let stat = arrays.stat("some");
        assert!(stat["computed"].as_u64().unwrap() > before, "{policy}: {stat}");
        arrays.bench.done(&["fault", "ill", "clear"]);
        drop(disk);
        arrays.done(&["stop", "some"], &[]);
        arrays.bench.done(&["remove", "ill"]);
    }
}

/// What waits for a member that does not answer goes on as soon as that is failed: reads, writes, the
/// metadata and logs before these, and a check. Until it has answered it is not let go of.
#[test]
fn what_waits_for_a_member_goes_on_when_it_is_failed() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    for (level, consistency, others) in
        [("5", "bitmap", 2), ("5", "ppl", 2), ("6", "bitmap", 3), ("1", "bitmap", 1)]
    {
        let ill = arrays.bench.create("ill", &["--size", "64M", "--lead", "0us"]);
        let files = arrays.files(&["a", "b", "c"][..others], 64);
        let members = [&files[..], std::slice::from_ref(&ill)].concat();
        let chunk = if level == "1" { &[][..] } else { &["--chunk", "16K"] };
        let create = ["create", "some", "--level", level, "--consistency", consistency];
        let create = [&create[..], &["--assume-clean", "--policy", "plain"], chunk].concat();
        let device = arrays.done(&create, &members);
        arrays.bench.done(&["fault", "ill", "stall", "--for", "10m"]);
        // In each chunk of two stripes, so that the member has data of some, and the parity of some.
        let blocks = || (0..8).map(|chunk| chunk * (16 << 10) / BLOCK as u64);
        let disk = open_direct(&device);
        thread::scope(|scope| {
            let write = |block| {
                let disk = &disk;
                move || write_block(disk, block, block + 1).and_then(|()| disk.sync_all())
            };
            let read = |block| {
                let disk = &disk;
                move || read_block(disk, block + 4096)
            };
            let check = scope.spawn(|| arrays.run(&["check", "some"], &[]));
            wait_until("check", || !arrays.stat("some")["check"].is_null());
            let writers: Vec<_> = blocks().map(|block| scope.spawn(write(block))).collect();
            let readers: Vec<_> = blocks().map(|block| scope.spawn(read(block))).collect();
            thread::sleep(Duration::from_millis(500));
            assert!(writers.iter().any(|writer| !writer.is_finished()), "{consistency}");
            arrays.done(&["fail", "some", &ill], &[]);
            writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
            readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap().unwrap(), 0));
            // It leaves the member out. Where nothing is left that could be compared it is incomplete.
            let expected = if level == "6" { 0 } else { 3 };
            let check = check.join().unwrap();
            assert_eq!(check.status.code(), Some(expected), "{level}: {}", stderr(&check));
        });
        for block in blocks() {
            assert_eq!(read_block(&disk, block).unwrap(), block + 1, "{consistency}");
        }
        drop(disk);
        let stat = arrays.stat("some");
        assert_eq!((&stat["reads"]["errors"], &stat["writes"]["errors"]), (&0.into(), &0.into()));
        let held = arrays.run(&["remove", "some", &ill], &[]);
        assert_eq!(held.status.code(), Some(1), "{consistency}: {stat}");
        if (level, consistency) == ("5", "bitmap") {
            arrays.bench.done(&["fault", "ill", "clear"]);
            arrays.done(&["remove", "some", &ill], &[]);
            arrays.done(&["stop", "some"], &[]);
        } else {
            // Nor does the end of the array wait for it, nor what uses the other members then.
            arrays.done(&["stop", "some"], &[]);
            let device = arrays.done(&["assemble", "some"], &files);
            let disk = open_direct(&device);
            for block in blocks() {
                assert_eq!(read_block(&disk, block).unwrap(), block + 1, "{consistency}");
            }
            drop(disk);
            arrays.done(&["stop", "some"], &[]);
            arrays.bench.done(&["fault", "ill", "clear"]);
        }
        wait_until("the drive is free", || {
            let removed = arrays.bench.trimtab(&["drive", "remove", "ill"]).output();
            removed.unwrap().status.success()
        });
    }
    assert!(arrays.traces().is_empty(), "{:?}", arrays.traces());
}

/// Metadata are written to spares too: one that does not answer holds up what waits for them, until it
/// is removed.
#[test]
fn what_waits_for_a_spare_goes_on_when_it_is_removed() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let ill = arrays.bench.create("ill", &["--size", "64M", "--lead", "0us"]);
    let files = arrays.files(&["a", "b"], 64);
    let device = arrays.done(&["create", "some", "--level", "1", "--assume-clean"], &files);
    arrays.done(&["add", "some", &ill], &[]);
    wait_until("the spare", || arrays.stat("some")["others"][0]["state"] == "spare");
    // Until its superblock has been written.
    thread::sleep(Duration::from_millis(500));
    arrays.bench.done(&["fault", "ill", "stall", "--for", "10m"]);
    let disk = open_direct(&device);
    thread::scope(|scope| {
        let writer = scope.spawn(|| write_block(&disk, 0, 1));
        thread::sleep(Duration::from_millis(500));
        assert!(!writer.is_finished());
        arrays.fails(&["remove", "some", &ill], &[], 1, "is held by work that has not ended");
        writer.join().unwrap().unwrap();
    });
    drop(disk);
    arrays.bench.done(&["fault", "ill", "clear"]);
    arrays.done(&["remove", "some", &ill], &[]);
    assert!(arrays.stat("some")["others"].as_array().unwrap().is_empty());
    arrays.bench.done(&["remove", "ill"]);
    arrays.done(&["stop", "some"], &[]);
    assert!(arrays.traces().is_empty(), "{:?}", arrays.traces());
}
