//! Partial parity logs: a server that is killed while it writes, and a member that is lost then.

mod array_bench;
mod emulated;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use array_bench::{
    Arrays, BLOCK, crash, open_direct, read_block, rounds, write_block, write_pages,
};
use emulated::wait_until;
use trimtab_io::SplitMix64;
use trimtab_testdisk::LoopDisk;

const CREATE: [&str; 7] = ["create", "log", "--level", "5", "--consistency", "ppl", "--chunk"];

#[test]
fn array_with_logs_is_used_as_any_other() {
    let Some(arrays) = Arrays::new(&["fio"]) else { return };
    for (number, chunk) in ["16K", "64K", "512K"].into_iter().enumerate() {
        let names = ["a", "b", "c", "d"];
        let files = match number {
            1 => arrays.files_on_disk(&names, 64),
            _ => arrays.files(&names, 64),
        };
        let device = arrays.done(&[&CREATE[..], &[chunk]].concat(), &files);
        assert_eq!(arrays.stat("log")["consistency"], "partial parity log");
        // As mdadm does it, the last member is rebuilt in place of a resync.
        assert_eq!(arrays.states("log")[3], "rebuilding");
        arrays.verify_pages(&device, 1);
        arrays.wait_for_rebuild("log");
        arrays.check("log");
        arrays.done(&["fail", "log", "1"], &[]);
        arrays.verify_pages(&device, 2);
        let before = arrays.checksum(&device);
        arrays.done(&["stop", "log"], &[]);
        let device = arrays.done(&["assemble", "log"], &files);
        assert_eq!(arrays.checksum(&device), before, "chunk {chunk}");
        let new = arrays.files(&["new"], 64).remove(0);
        arrays.done(&["add", "log", &new], &[]);
        arrays.verify_pages(&device, 3);
        arrays.wait_for_rebuild("log");
        arrays.check("log");
        arrays.done(&["stop", "log"], &[]);
    }
    assert!(arrays.traces().is_empty(), "{:?}", arrays.traces());
}

/// A block of four writers is one of their own. Returns what they wrote and was acknowledged, and the
/// blocks of which the last write was not.
fn write_until_killed(arrays: &Arrays, device: &str, seed: u64, blocks: u64) -> Vec<Written> {
    let mut random = SplitMix64::new(seed);
    let delay = Duration::from_millis(5 + random.next() % 60);
    thread::scope(|scope| {
        let writer = |number: u64| {
            let disk = open_direct(device);
            let mut next = SplitMix64::new(seed * 10 + number);
            move || {
                let mut written = Written::default();
                loop {
                    let block = next.next() % (blocks / 4) * 4 + number;
                    let value = next.next() | 1;
                    match write_block(&disk, block, value) {
                        Ok(()) => written.acknowledged.push((block, value)),
                        Err(_) => {
                            written.not_acknowledged = block;
                            return written;
                        }
                    }
                }
            }
        };
        let writers: Vec<_> = (0..4).map(|number| scope.spawn(writer(number))).collect();
        thread::sleep(delay);
        arrays.kill("log");
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    })
}

#[derive(Default)]
struct Written {
    acknowledged: Vec<(u64, u64)>,
    not_acknowledged: u64,
}

/// After the kill one member is lost, any: no block that was acknowledged or not written to is wrong.
/// So it is with a member that was taken in after others had been logged on for a while.
/// Without a log this array would not start, because such blocks may be wrong.
#[test]
fn write_hole_is_closed() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    for round in 0..rounds(12) {
        let mut files = arrays.files(&["a", "b", "c"], 32);
        let create = [&CREATE[..], &["16K", "--assume-clean", "--force"]].concat();
        let device = arrays.done(&create, &files);
        // Few stripes, so that their writes meet.
        let blocks = 96;
        let disk = open_direct(&device);
        (0..blocks).for_each(|block| write_block(&disk, block, block + 1).unwrap());
        drop(disk);
        if round % 2 == 1 {
            arrays.done(&["fail", "log", "1"], &[]);
            arrays.done(&["remove", "log", "1"], &[]);
            files[1] = arrays.files(&["new"], 32).remove(0);
            arrays.done(&["add", "log", &files[1], "--force"], &[]);
            arrays.wait_for_rebuild("log");
        }
        let mut values: Vec<u64> = (1..=blocks).collect();
        let written = write_until_killed(&arrays, &device, 1 + round, blocks);
        for &(block, value) in written.iter().flat_map(|one| &one.acknowledged) {
            values[block as usize] = value;
        }
        let lost = (round % 3) as usize;
        let left: Vec<_> =
            (0..3).filter(|&file| file != lost).map(|file| files[file].clone()).collect();
        let device = arrays.done(&["assemble", "log"], &left);
        let disk = open_direct(&device);
        for (block, &value) in values.iter().enumerate() {
            if written.iter().any(|one| one.not_acknowledged == block as u64) {
                continue;
            }
            let found = read_block(&disk, block as u64).unwrap();
            assert_eq!(found, value, "block {block} of round {round} without member {lost}");
        }
        drop(disk);
        arrays.done(&["stop", "log"], &[]);
    }
}

/// With all members everything fits when the array is there again. A resync comes only after a kill that
/// cut a log short, or came before there was one (as md has it), and that is rare.
#[test]
fn parity_fits_after_a_kill() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let files = arrays.files(&["a", "b", "c", "d"], 64);
    let mut device = arrays.done(&[&CREATE[..], &["16K", "--assume-clean"]].concat(), &files);
    let mut resyncs = 0;
    for round in 0..rounds(4) {
        let blocks = 3 * 60 * (1 << 20) / BLOCK as u64;
        let written = write_until_killed(&arrays, &device, 100 + round, blocks);
        device = arrays.done(&["assemble", "log"], &files);
        if arrays.stat("log")["to_resync"] != 0 {
            resyncs += 1;
            arrays.wait_for_resync("log");
        }
        arrays.check("log");
        let disk = open_direct(&device);
        for one in &written {
            let mut last = std::collections::BTreeMap::new();
            last.extend(one.acknowledged.iter().copied());
            last.remove(&one.not_acknowledged);
            for (block, value) in last {
                assert_eq!(read_block(&disk, block).unwrap(), value, "block {block}");
            }
        }
    }
    assert!(resyncs < rounds(4), "each kill was followed by a resync");
    arrays.done(&["stop", "log"], &[]);
}

/// What the newest logs say is computed again, and nothing else.
#[test]
fn parity_is_computed_from_the_logs() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let disks: Vec<_> = (0..3).map(|_| LoopDisk::new(24)).collect();
    let members: Vec<String> = disks.iter().map(|disk| disk.path.clone()).collect();
    let device = arrays.done(&[&CREATE[..], &["64K", "--assume-clean"]].concat(), &members);
    let capacity = arrays.stat("log")["capacity"].as_u64().unwrap();
    write_pages(&open_direct(&device), capacity, 1_000);
    arrays.check("log");
    let written = arrays.checksum(&device);
    arrays.done(&["stop", "log"], &[]);
    assert!(crash(&members) > 0, "nothing is logged");
    let device = arrays.done(&["assemble", "log"], &members);
    let stat = arrays.stat("log");
    assert_eq!((&stat["to_resync"], &stat["state"]), (&0.into(), &"clean".into()), "{stat}");
    arrays.check("log");
    assert_eq!(arrays.checksum(&device), written);
    arrays.done(&["stop", "log"], &[]);
}

/// An array that was written to and killed, and whose second member has a damaged log since: that member,
/// and its superblock.
fn killed_with_damaged_log(arrays: &Arrays, files: &[String]) -> (File, trimtab_md::Superblock) {
    let device = arrays.done(&[&CREATE[..], &["64K", "--assume-clean"]].concat(), files);
    let disk = open_direct(&device);
    (0..40).for_each(|block| write_block(&disk, block * 100, block + 1).unwrap());
    arrays.kill("log");
    drop(disk);
    let member = trimtab_md::Member::open(Path::new(&files[1]), false).unwrap();
    let superblock = member.superblock().unwrap();
    let file = File::options().write(true).open(&files[1]).unwrap();
    file.write_all_at(&[0; 4096], superblock.ppl_at().unwrap().0).unwrap();
    (file, superblock)
}

/// A damaged log asks for a resync, which goes on after another kill, whatever has been logged meanwhile.
#[test]
fn damaged_log_asks_for_a_resync() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let files = arrays.files(&["a", "b", "c"], 64);
    let (file, superblock) = killed_with_damaged_log(&arrays, &files);
    // Parity of a stripe behind those that are resynchronised before the next kill.
    let stripe = superblock.array_layout().unwrap().stripes() - 10;
    let at = superblock.data_offset + stripe * (64 << 10);
    file.write_all_at(&[0x55; 512], at).unwrap();
    let slowly = ["assemble", "log", "--rate", "1M"];
    let device = arrays.done(&slowly, &files);
    assert_ne!(arrays.stat("log")["to_resync"], 0);
    write_block(&open_direct(&device), 3, 3).unwrap();
    arrays.kill("log");
    let device = arrays.done(&["assemble", "log"], &files);
    assert_ne!(arrays.stat("log")["to_resync"], 0);
    arrays.wait_for_resync("log");
    arrays.check("log");
    assert_eq!(read_block(&open_direct(&device), 3).unwrap(), 3);
    arrays.done(&["stop", "log"], &[]);
}

/// Without a member nothing can be compared with the parity of a member whose log is damaged. That is told,
/// and nothing is resynchronised as if it could be.
#[test]
fn damaged_log_without_a_member_is_told() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let files = arrays.files(&["a", "b", "c"], 64);
    let (_, superblock) = killed_with_damaged_log(&arrays, &files);
    let said = arrays.run(&["assemble", "log"], &files[..2]);
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("some may be wrong"), "{said}");
    let stat = arrays.stat("log");
    // Those of the third member whose parity the second one has.
    let layout = superblock.array_layout().unwrap();
    let stripes = (0..layout.stripes()).filter(|&one| layout.p_member(one) == Some(1)).count();
    assert_eq!(stat["in_doubt"], stripes as u64 * layout.chunk(), "{stat}");
    assert_eq!((&stat["to_resync"], &stat["state"]), (&0.into(), &"degraded".into()), "{stat}");
    assert!(arrays.done(&["stat", "log"], &[]).contains(" in doubt"));
    arrays.done(&["stop", "log"], &[]);
    // The first one is certain: it has what was written last.
    let device = arrays.done(&["assemble", "log"], &files[..2]);
    assert_eq!(arrays.stat("log")["in_doubt"], 0);
    assert_eq!(read_block(&open_direct(&device), 0).unwrap(), 1);
    arrays.done(&["stop", "log"], &[]);
}

/// A member is not let go of while a log is being written to it, which could go to another use of the
/// device otherwise; afterwards it is closed.
#[test]
fn member_with_a_log_in_flight_is_not_let_go_of() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let ill = arrays.bench.create("ill", &["--size", "64M", "--lead", "0us"]);
    let members = [&arrays.files(&["a", "b"], 64)[..], std::slice::from_ref(&ill)].concat();
    let device = arrays.done(&[&CREATE[..], &["64K", "--assume-clean"]].concat(), &members);
    let disk = open_direct(&device);
    write_block(&disk, 0, 1).unwrap();
    arrays.bench.done(&["fault", "ill", "stall", "--for", "10m"]);
    thread::scope(|scope| {
        // A whole stripe is not read before it is written. The last member has its parity.
        let writer = scope.spawn(|| {
            let mut stripe = trimtab_testdisk::aligned(128 << 10);
            let stripe = trimtab_testdisk::window(&mut stripe, 128 << 10);
            stripe.fill(7);
            disk.write_all_at(stripe, 0)
        });
        wait_until("log", || arrays.stat("log")["members"][2]["in_flight"] == 1);
        arrays.done(&["fail", "log", &ill], &[]);
        // The write does not wait for it any more.
        writer.join().unwrap().unwrap();
    });
    arrays.fails(&["remove", "log", &ill], &[], 1, "still has 1 requests in flight");
    arrays.bench.done(&["fault", "ill", "clear"]);
    arrays.done(&["remove", "log", &ill], &[]);
    arrays.bench.done(&["remove", "ill"]);
    drop(disk);
    arrays.done(&["stop", "log"], &[]);
}

#[test]
fn logs_that_cannot_be_are_refused() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let files = arrays.files(&["a", "b", "c", "d"], 64);
    let create = ["create", "log", "--consistency", "ppl", "--level"];
    let with = |level, rest: &[&'static str]| [&create[..], &[level], rest].concat();
    arrays.fails(&with("6", &[]), &files, 2, "raid6 has no partial parity log: raid5 has");
    arrays.fails(&with("5", &["--chunk", "1M"]), &files, 2, "at most 512 KiB");
    arrays.fails(
        &["create", "log", "--level", "5", "--consistency", "no"],
        &files,
        2,
        "bitmap or ppl",
    );
}
