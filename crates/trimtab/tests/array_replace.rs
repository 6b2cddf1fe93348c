//! Members that are replaced while they are used.

mod array_bench;
mod emulated;

use std::thread;
use std::time::Duration;

use array_bench::{
    Arrays, BLOCK, blocks_of_drive, open_direct, read_block, rounds, with_emulated_drive,
    write_block,
};
use emulated::wait_until;
use trimtab_io::SplitMix64;
use trimtab_testdisk as testdisk;

/// The bytes per second with which members of 64 MiB are replaced in some seconds.
const SLOWLY: &str = "20M";
/// The same in a second, whatever it does to programs.
const FAST: [&str; 4] = ["--rate", "60M", "--least-rate", "60M"];

impl Arrays {
    /// Waits until a device is a member, and nothing is being replaced.
    fn wait_for_member(&self, name: &str, place: usize, path: &str) {
        wait_until("replacement", || {
            let stat = self.stat(name);
            let member = &stat["members"][place];
            member["path"] == path && member["state"] == "active" && member["replacement"].is_null()
        });
    }

    /// An array that has been written to and a device that is to replace a member: the members, the
    /// device, and the array's.
    fn to_replace(&self, level: &str, members: usize) -> (Vec<String>, String, String) {
        let files = self.files(&["a", "b", "c", "d"][..members], 64);
        let new = self.files(&["new"], 64).remove(0);
        let create = ["create", "old", "--level", level, "--assume-clean", "--rate", SLOWLY];
        let device = self.done(&create, &files);
        self.verify(&device, 1);
        (files, new, device)
    }

    fn has_no_others(&self, name: &str) -> bool {
        self.stat(name)["others"].as_array().unwrap().is_empty()
    }
}

#[test]
fn replacement_has_everything_and_nothing_is_less_redundant_meanwhile() {
    let Some(arrays) = Arrays::new(&["fio"]) else { return };
    for (level, members) in [("1", 2), ("5", 3), ("6", 4)] {
        let (files, new, device) = arrays.to_replace(level, members);
        arrays.done(&["replace", "old", &files[1], &new], &[]);
        let stat = arrays.stat("old");
        assert_ne!(stat["state"], "degraded", "{stat}");
        assert_eq!(stat["members"][1]["replacement"]["path"], new.as_str(), "{stat}");
        assert_eq!(stat["others"][0]["state"], "replacing", "{stat}");
        let text = arrays.done(&["stat", "old"], &[]);
        assert!(text.contains(&format!("being replaced by {new}")), "{text}");
        arrays.fails(&["replace", "old", &files[0], &new], &[], 1, "another member is being");
        arrays.verify(&device, 2);
        arrays.wait_for_member("old", 1, &new);
        assert!(arrays.has_no_others("old"));
        arrays.check("old");
        let before = arrays.checksum(&device);
        arrays.done(&["stop", "old"], &[]);
        // The old one is no member any more, and the new one can do without another.
        let all = [&files[..], std::slice::from_ref(&new)].concat();
        let device = arrays.done(&["assemble", "old"], &all);
        assert_eq!(arrays.stat("old")["members"][1]["path"], new.as_str(), "level {level}");
        arrays.done(&["fail", "old", "0"], &[]);
        assert_eq!(arrays.checksum(&device), before, "level {level}");
        arrays.done(&["stop", "old"], &[]);
    }
}

#[test]
fn replacement_goes_on_after_a_stop_and_alone_as_a_rebuild() {
    let Some(arrays) = Arrays::new(&["fio"]) else { return };
    let files = arrays.files(&["a", "b", "c"], 64);
    let new = arrays.files(&["new"], 64).remove(0);
    let create = ["create", "on", "--level", "5", "--assume-clean", "--rate", SLOWLY];
    let device = arrays.done(&create, &files);
    arrays.verify(&device, 1);
    let before = arrays.checksum(&device);
    arrays.done(&["replace", "on", "0", &new], &[]);
    let done = |stat: &serde_json::Value| stat["members"][0]["replacement"]["done"].as_u64();
    wait_until("a part", || done(&arrays.stat("on")) > Some(4 << 20));
    arrays.done(&["stop", "on"], &[]);
    let all = [&files[..], std::slice::from_ref(&new)].concat();
    arrays.done(&["assemble", "on", "--rate", SLOWLY], &all);
    assert!(done(&arrays.stat("on")) > Some(4 << 20), "it has begun again");
    arrays.done(&["stop", "on"], &[]);
    // Without the member what replaces it is rebuilt, from where it was.
    let device = arrays.done(&["assemble", "on", "--rate", SLOWLY], &all[1..]);
    let stat = arrays.stat("on");
    assert_eq!(
        (&stat["state"], &stat["members"][0]["state"]),
        (&"degraded".into(), &"rebuilding".into())
    );
    assert!(stat["members"][0]["rebuilt"][0].as_u64() > Some(4 << 20), "{stat}");
    arrays.wait_for_member("on", 0, &new);
    arrays.check("on");
    arrays.done(&["fail", "on", "1"], &[]);
    assert_eq!(arrays.checksum(&device), before);
    arrays.done(&["stop", "on"], &[]);
}

/// What is not readable is computed from the rest, and what was readable is not lost with it.
#[test]
fn member_that_does_not_read_is_replaced_from_the_rest() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let (device, _) = with_emulated_drive(&arrays, "plain");
    let new = arrays.files(&["new"], 64).remove(0);
    let disk = open_direct(&device);
    for block in blocks_of_drive() {
        write_block(&disk, block, block + 7).unwrap();
    }
    arrays.bench.done(&["fault", "ill", "error", "--reads", "--for", "10m"]);
    arrays.done(&["replace", "some", "1", &new], &[]);
    arrays.wait_for_member("some", 1, &new);
    assert!(arrays.has_no_others("some"));
    arrays.bench.done(&["fault", "ill", "clear"]);
    arrays.check("some");
    for block in blocks_of_drive() {
        assert_eq!(read_block(&disk, block).unwrap(), block + 7);
    }
    drop(disk);
    arrays.done(&["stop", "some"], &[]);
}

#[test]
fn whichever_of_the_two_fails_the_other_one_goes_on() {
    let Some(arrays) = Arrays::new(&["fio"]) else { return };
    for level in ["1", "5"] {
        let files = arrays.files(&["a", "b", "c"], 64);
        let new = arrays.files(&["new"], 64).remove(0);
        let create = ["create", "two", "--level", level, "--assume-clean", "--rate", SLOWLY];
        let device = arrays.done(&create, &files);
        arrays.verify(&device, 1);
        let before = arrays.checksum(&device);
        arrays.done(&["replace", "two", "0", &new], &[]);
        thread::sleep(Duration::from_millis(500));
        arrays.done(&["fail", "two", &files[0]], &[]);
        let stat = arrays.stat("two");
        assert_eq!(stat["members"][0]["state"], "rebuilding", "{stat}");
        assert!(stat["members"][0]["rebuilt"][0].as_u64() > Some(0), "{stat}");
        assert_eq!(stat["others"][0]["state"], "failed", "{stat}");
        assert_eq!(arrays.checksum(&device), before, "level {level}");
        arrays.wait_for_member("two", 0, &new);
        arrays.done(&["remove", "two", &files[0]], &[]);
        arrays.check("two");
        assert_eq!(arrays.checksum(&device), before, "level {level}");

        // The new one fails: the member goes on as before.
        let ill = arrays.bench.create("ill", &["--size", "64M", "--lead", "0us"]);
        arrays.done(&["replace", "two", "0", &ill], &[]);
        arrays.bench.done(&["fault", "ill", "error", "--writes", "--for", "10m"]);
        arrays.verify(&device, 2);
        wait_until("the failure", || arrays.stat("two")["others"][0]["state"] == "failed");
        let stat = arrays.stat("two");
        assert_eq!(stat["members"][0]["state"], "active", "{stat}");
        assert_ne!(stat["state"], "degraded", "{stat}");
        assert_eq!(stat["writes"]["errors"], 0, "{stat}");
        arrays.done(&["remove", "two", &ill], &[]);
        arrays.check("two");
        arrays.done(&["stop", "two"], &[]);
        arrays.bench.done(&["remove", "ill"]);
    }
}

/// What is discarded while a member is replaced is so on what replaces it too.
#[test]
fn discards_reach_what_replaces_a_member() {
    let Some(arrays) = Arrays::new(&["blkdiscard"]) else { return };
    for (level, members) in [("1", 2), ("5", 3), ("6", 4)] {
        let (_, new, device) = arrays.to_replace(level, members);
        arrays.done(&["replace", "old", "0", &new], &[]);
        let replaced = || arrays.stat("old")["members"][0]["replacement"]["done"].as_u64();
        wait_until("some stripes", || replaced() > Some(16 << 20));
        let range = ["--offset", "4194304", "--length", "8388608"];
        testdisk::run("blkdiscard", &[&range, &[device.as_str()][..]].concat());
        assert!(replaced().is_some(), "it goes on");
        arrays.wait_for_member("old", 0, &new);
        let disk = open_direct(&device);
        for block in (4 << 20..12 << 20).step_by(BLOCK).map(|at| at / BLOCK as u64) {
            assert_eq!(read_block(&disk, block).unwrap(), 0, "level {level}, block {block}");
        }
        drop(disk);
        arrays.check("old");
        arrays.done(&["stop", "old"], &[]);
    }
}

/// The server is killed at any time of a replacement, under writes: nothing that was acknowledged is
/// lost, and it goes on.
#[test]
fn kills_during_a_replacement_lose_nothing() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    for (level, members, seed) in [("5", 3, 1), ("1", 2, 2)] {
        let files = arrays.files(&["a", "b", "c"][..members], 64);
        let new = arrays.files(&["new"], 64).remove(0);
        let all = [&files[..], std::slice::from_ref(&new)].concat();
        let create = ["create", "dies", "--level", level, "--chunk", "16K", "--assume-clean"];
        let mut device = arrays.done(&[&create[..], &FAST].concat(), &files);
        let blocks = std::fs::metadata(&files[0]).unwrap().len() / BLOCK as u64 / 2;
        let mut values = vec![0; blocks as usize];
        let mut random = SplitMix64::new(seed);
        arrays.done(&["replace", "dies", "1", &new], &[]);
        for round in 0..rounds(6) {
            let disk = open_direct(&device);
            let delay = Duration::from_millis(random.next() % 250);
            let mut next = SplitMix64::new(seed * 100 + round);
            let last = thread::scope(|scope| {
                let values = &mut values;
                let writer = scope.spawn(move || {
                    loop {
                        let (block, value) = (next.next() % blocks, next.next() | 1);
                        if write_block(&disk, block, value).is_err() {
                            return (block, value);
                        }
                        values[block as usize] = value;
                    }
                });
                thread::sleep(delay);
                arrays.kill("dies");
                writer.join().unwrap()
            });
            device = arrays.done(&["assemble", "dies", FAST[0], FAST[1], FAST[2], FAST[3]], &all);
            let disk = open_direct(&device);
            for (block, value) in values.iter_mut().enumerate() {
                let found = read_block(&disk, block as u64).unwrap();
                if last == (block as u64, found) {
                    *value = found;
                }
                assert_eq!(found, *value, "level {level}: block {block} of round {round}");
            }
        }
        arrays.wait_for_resync("dies");
        arrays.wait_for_member("dies", 1, &new);
        arrays.check("dies");
        arrays.done(&["fail", "dies", "0"], &[]);
        let disk = open_direct(&device);
        for (block, &value) in values.iter().enumerate() {
            assert_eq!(read_block(&disk, block as u64).unwrap(), value, "level {level}: {block}");
        }
        drop(disk);
        arrays.done(&["stop", "dies"], &[]);
    }
    assert!(arrays.traces().is_empty(), "{:?}", arrays.traces());
}

#[test]
fn bad_replacements_change_nothing() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let files = arrays.files(&["a", "b", "c"], 64);
    let new = arrays.files(&["new"], 64).remove(0);
    arrays.done(&["create", "no", "--level", "5", "--assume-clean"], &files);
    arrays.fails(&["replace", "no", "7", &new], &[], 2, "is no member of the array");
    arrays.fails(&["replace", "no", "0", &files[1]], &[], 2, "is a member already");
    let small = arrays.files(&["small"], 8).remove(0);
    arrays.fails(&["replace", "no", "0", &small], &[], 2, "the array needs");
    arrays.fails(&["replace", "no", "0", "/nowhere"], &[], 2, "/nowhere: cannot open");
    arrays.done(&["fail", "no", "0"], &[]);
    arrays.fails(&["replace", "no", "0", &new], &[], 2, "is no active member");
    arrays.done(&["stop", "no"], &[]);
    let stripes = arrays.files(&["s", "t"], 64);
    arrays.done(&["create", "no", "--level", "0"], &stripes);
    arrays.fails(&["replace", "no", "0", &new], &[], 2, "raid0 cannot take members in");
    arrays.done(&["stop", "no"], &[]);
}
