//! Spares, which take the place of members that fail.

mod array_bench;
mod emulated;

use array_bench::{Arrays, open_direct, write_block};
use emulated::wait_until;
use trimtab_testdisk::LoopDisk;

impl Arrays {
    /// The paths of the spares.
    fn spares(&self, name: &str) -> Vec<String> {
        let stat = self.stat(name);
        let others = stat["others"].as_array().unwrap().iter();
        let spares = others.filter(|other| other["state"] == "spare");
        spares.map(|spare| spare["path"].as_str().unwrap().to_owned()).collect()
    }

    fn wait_for_place(&self, name: &str, place: usize, path: &str) {
        wait_until("the spare", || {
            let member = &self.stat(name)["members"][place];
            member["path"] == path && member["state"] == "active"
        });
    }
}

#[test]
fn spares_are_taken_in_one_after_the_other() {
    let Some(arrays) = Arrays::new(&["fio"]) else { return };
    for (level, members) in [("1", 2), ("5", 3), ("6", 4)] {
        let files = arrays.files(&["a", "b", "c", "d"][..members], 64);
        let spares = arrays.files(&["s", "t"], 64);
        let device = arrays.done(&["create", "more", "--level", level, "--assume-clean"], &files);
        for spare in &spares {
            arrays.done(&["add", "more", spare], &[]);
        }
        assert_eq!(arrays.spares("more"), spares);
        assert_eq!(arrays.stat("more")["state"], "clean");
        let listed = arrays.done(&["list"], &[]);
        assert!(listed.contains(&format!("{members} + 2 spare")), "{listed}");
        assert!(arrays.done(&["stat", "more"], &[]).contains(&format!("{}, spare", spares[1])));
        arrays.verify(&device, 1);
        // They are there again after a stop.
        let before = arrays.checksum(&device);
        arrays.done(&["stop", "more"], &[]);
        let all = [&files[..], &spares[..]].concat();
        let device = arrays.done(&["assemble", "more"], &all);
        assert_eq!(arrays.spares("more"), spares, "level {level}");
        arrays.done(&["fail", "more", "1"], &[]);
        assert_eq!(arrays.stat("more")["members"][1]["path"], spares[0].as_str());
        arrays.wait_for_place("more", 1, &spares[0]);
        assert_eq!(arrays.spares("more"), spares[1..]);
        assert_eq!(arrays.checksum(&device), before, "level {level}");
        arrays.done(&["remove", "more", &files[1]], &[]);
        arrays.done(&["fail", "more", "0"], &[]);
        arrays.verify(&device, 2);
        arrays.wait_for_place("more", 0, &spares[1]);
        arrays.check("more");
        arrays.done(&["stop", "more"], &[]);
    }
    assert!(arrays.traces().is_empty(), "{:?}", arrays.traces());
}

/// A member that does not write is replaced without anybody saying so.
#[test]
fn spare_takes_the_place_of_a_member_that_fails_by_itself() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let (device, _) = array_bench::with_emulated_drive(&arrays, "plain");
    let spare = arrays.files(&["s"], 64).remove(0);
    arrays.done(&["add", "some", &spare], &[]);
    arrays.bench.done(&["fault", "ill", "error", "--writes", "--for", "10m"]);
    let disk = open_direct(&device);
    array_bench::blocks_of_drive().for_each(|block| write_block(&disk, block, 5).unwrap());
    arrays.wait_for_place("some", 1, &spare);
    let stat = arrays.stat("some");
    assert_eq!(stat["others"][0]["state"], "failed", "{stat}");
    assert_eq!(stat["writes"]["errors"], 0, "{stat}");
    arrays.check("some");
    drop(disk);
    arrays.done(&["stop", "some"], &[]);
}

#[test]
fn spares_are_let_go_of_and_can_replace_members() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let files = arrays.files(&["a", "b", "c"], 64);
    let spares = arrays.files(&["s", "t"], 64);
    arrays.done(&["create", "some", "--level", "5", "--assume-clean"], &files);
    arrays.done(&["add", "some", &spares[0]], &[]);
    arrays.fails(&["add", "some", &spares[0]], &[], 2, "is a member already");
    arrays.done(&["remove", "some", &spares[0]], &[]);
    arrays.done(&["add", "some", &spares[1]], &[]);
    assert_eq!(arrays.spares("some"), spares[1..]);
    arrays.done(&["replace", "some", "2", &spares[1]], &[]);
    assert_eq!(arrays.spares("some"), [""; 0]);
    arrays.wait_for_place("some", 2, &spares[1]);
    arrays.check("some");
    // Nothing is missing without the one that was let go of. It comes back as a spare.
    arrays.done(&["stop", "some"], &[]);
    let now = [&files[..2], &spares[1..]].concat();
    arrays.done(&["assemble", "some"], &[&now[..], &spares[..1]].concat());
    let stat = arrays.stat("some");
    assert_eq!((&stat["state"], arrays.spares("some").len()), (&"clean".into(), 1), "{stat}");
    arrays.done(&["stop", "some"], &[]);
    // A member that is not there is rebuilt on it.
    arrays.done(&["assemble", "some"], &[&now[1..], &spares[..1]].concat());
    arrays.wait_for_place("some", 0, &spares[0]);
    arrays.check("some");
    arrays.done(&["stop", "some"], &[]);
}

/// A member that has failed and was removed is used by the array no more: it may be added again.
#[test]
fn a_removed_member_is_free() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let disks = [LoopDisk::new(64), LoopDisk::new(64)];
    let members: Vec<_> = disks.iter().map(|disk| disk.path.clone()).collect();
    let device = arrays.done(&["create", "some", "--level", "1", "--assume-clean"], &members);
    let disk = open_direct(&device);
    (0..100).for_each(|block| write_block(&disk, block, block).unwrap());
    arrays.done(&["fail", "some", "0"], &[]);
    (100..200).for_each(|block| write_block(&disk, block, block).unwrap());
    arrays.done(&["remove", "some", &members[0]], &[]);
    arrays.done(&["add", "some", &members[0], "--force"], &[]);
    arrays.wait_for_rebuild("some");
    arrays.check("some");
    drop(disk);
    arrays.done(&["stop", "some"], &[]);
}
