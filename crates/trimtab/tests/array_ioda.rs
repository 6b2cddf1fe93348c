//! The policy `ioda` of `trimtab array`: members whose firmware helps.

mod array_bench;
mod emulated;

use std::fs;

use array_bench::Arrays;
use emulated::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A drive that cleans for some milliseconds at a time, and soon.
const CLEANS: &str = r#"
name = "cleans"
[geometry]
channels = 2
chips_per_channel = 2
blocks_per_plane = 256
pages_per_block = 32
page_bytes = 4096
over_provisioning = 0.15
[timing]
read_us = 40
program_us = 200
erase_us = 3000
channel_mb_s = 400
"#;
const DRIVES: [&str; 4] = ["d0", "d1", "d2", "d3"];

/// Four drives whose flash is full, and their devices.
fn drives(arrays: &Arrays) -> Vec<String> {
    fs::write(arrays.bench.path("cleans.toml"), CLEANS).unwrap();
    let drive = |name: &&str| {
        let profile = ["--profile", "cleans.toml", "--size", "96M", "--lead", "20us"];
        let fill = ["--fill", "1", "--overwrites", "1"];
        arrays.bench.done(&[&["create", name][..], &profile, &fill].concat())
    };
    DRIVES.iter().map(drive).collect()
}

fn array(arrays: &Arrays, members: &[String]) -> String {
    let create = ["create", "turns", "--level", "5", "--chunk", "16K", "--assume-clean"];
    let fast = ["--rate", "100M", "--least-rate", "100M"];
    arrays.done(&[&create[..], &["--policy", "ioda"], &fast].concat(), members)
}

/// For which array the firmware of the drives works.
fn helps(arrays: &Arrays) -> Vec<Value> {
    let of = |name: &&str| arrays.bench.stat(name)["predictable"].clone();
    DRIVES.iter().map(of).collect()
}

fn kill(arrays: &Arrays, drive: &str, signal: Signal) {
    let all = arrays.bench.done(&["list", "--json"]);
    let all: Value = serde_json::from_str(&all).unwrap();
    let found = all.as_array().unwrap().iter().find(|one| one["name"] == drive).unwrap();
    kill_process(Pid::from_raw(found["pid"].as_i64().unwrap() as i32).unwrap(), signal).unwrap();
    if signal == Signal::KILL && emulated::backend() == "ublk" {
        // Otherwise its device waits for another server.
        let list = || arrays.bench.done(&["list"]);
        wait_until("end of the server", || list().contains("killed, and waits"));
        arrays.bench.done(&["remove", drive, "--force"]);
    }
}

/// Members clean in turns and refuse reads, which are computed; the data are those that were
/// written. When the policy changes, or the array is stopped, the drives clean by themselves.
#[test]
fn refused_reads_are_computed() {
    let Some(arrays) = Arrays::new(&["fio"]) else { return };
    let members = drives(&arrays);
    let device = array(&arrays, &members);
    for seed in 0..8 {
        arrays.verify(&device, seed);
        if arrays.stat("turns")["refused"].as_u64() > Some(100) {
            break;
        }
    }
    let stat = arrays.stat("turns");
    let number = |key: &str| stat[key].as_u64().unwrap();
    assert!(number("refused") > 0 && number("computed") > 0, "{stat}");
    assert!(number("refused") <= number("stripe_reads") * 4, "{stat}");
    let of_members = stat["members"].as_array().unwrap().iter();
    let of_members: u64 = of_members.map(|member| member["refused"].as_u64().unwrap()).sum();
    let refused = number("refused");
    // A member may refuse what nothing waits for any more.
    assert!(of_members >= refused, "members refused {of_members}: {stat}");
    assert!(stat["members"].as_array().unwrap().iter().all(|member| member["helps"] == true));
    // What members read before the engine knew that their drives help.
    assert!(stat["without_policy"]["no_slot"] == 0, "{stat}");
    let text = arrays.done(&["stat", "turns"], &[]);
    assert!(text.contains("its firmware helps") && text.contains("refused by members"), "{text}");
    for (place, help) in helps(&arrays).iter().enumerate() {
        assert_eq!((help["position"].as_u64(), &help["drives"]), (Some(place as u64), &4.into()));
        assert!(help["owner"].as_str().unwrap().starts_with("array `turns`"), "{help}");
    }
    let of_drives: u64 =
        DRIVES.iter().map(|d| arrays.bench.stat(d)["refused"].as_u64().unwrap()).sum();
    assert!(of_drives >= of_members, "drives refused {of_drives}, members {of_members}");
    arrays.check("turns");

    arrays.done(&["set", "turns", "--policy", "trimtab"], &[]);
    assert!(helps(&arrays).iter().all(Value::is_null));
    arrays.verify(&device, 20);
    assert_eq!(arrays.stat("turns")["refused"].as_u64().unwrap(), refused);
    arrays.done(&["set", "turns", "--policy", "ioda"], &[]);
    assert!(!helps(&arrays).iter().any(Value::is_null));
    // Twice is no harm.
    arrays.done(&["set", "turns", "--policy", "ioda"], &[]);
    let before = arrays.checksum(&device);
    arrays.verify(&device, 21);
    assert_ne!(arrays.checksum(&device), before);
    arrays.done(&["stop", "turns"], &[]);
    assert!(helps(&arrays).iter().all(Value::is_null));
    arrays.bench.done(&["remove", "--all"]);
    assert!(arrays.traces().is_empty(), "{:?}", arrays.traces());
}

/// An array that is killed renews no lease, and one that is assembled again takes others.
#[test]
fn drives_clean_by_themselves_when_the_array_is_killed() {
    let Some(arrays) = Arrays::new(&["fio"]) else { return };
    let members = drives(&arrays);
    let device = array(&arrays, &members);
    arrays.verify(&device, 1);
    arrays.kill("turns");
    wait_until("end of the leases", || helps(&arrays).iter().all(Value::is_null));
    let device = arrays.done(&["assemble", "turns", "--policy", "ioda"], &members);
    assert!(!helps(&arrays).iter().any(Value::is_null));
    arrays.wait_for_resync("turns");
    arrays.verify(&device, 2);
    arrays.check("turns");
    arrays.done(&["stop", "turns"], &[]);
}

/// The others go on helping, and what the drive had is computed.
#[test]
fn drive_that_is_killed_fails_open() {
    let Some(arrays) = Arrays::new(&["fio"]) else { return };
    let members = drives(&arrays);
    let device = array(&arrays, &members);
    arrays.verify(&device, 1);
    kill(&arrays, "d2", Signal::KILL);
    arrays.verify(&device, 2);
    let helps_of = |place: usize| arrays.stat("turns")["members"][place]["helps"].clone();
    wait_until("end of the help", || helps_of(2) == false);
    assert!([0, 1, 3].into_iter().all(|place| helps_of(place) == true));
    assert_eq!(arrays.stat("turns")["members"][2]["state"], "failed");
    arrays.verify(&device, 3);
    arrays.done(&["stop", "turns"], &[]);
}

/// A drive that does not answer commands is read without the flag, and helps again when it does.
#[test]
fn drive_that_does_not_answer_is_read_plainly() {
    let Some(arrays) = Arrays::new(&["fio"]) else { return };
    let members = drives(&arrays);
    let device = array(&arrays, &members);
    arrays.verify(&device, 1);
    kill(&arrays, "d1", Signal::STOP);
    let helps_of = |place: usize| arrays.stat("turns")["members"][place]["helps"].clone();
    wait_until("end of the help", || helps_of(1) == false);
    kill(&arrays, "d1", Signal::CONT);
    arrays.verify(&device, 2);
    wait_until("help again", || helps_of(1) == true);
    let stat = arrays.stat("turns");
    assert!(stat["without_policy"]["no_help"].as_u64() > Some(0), "{stat}");
    arrays.verify(&device, 3);
    arrays.done(&["stop", "turns"], &[]);
}

/// The drive that takes a member's place helps, and the one that is let go cleans by itself.
#[test]
fn replaced_drive_is_let_go() {
    let Some(arrays) = Arrays::new(&["fio"]) else { return };
    let mut members = drives(&arrays);
    let new = members.pop().unwrap();
    let device = array(&arrays, &members);
    arrays.verify(&device, 1);
    arrays.done(&["replace", "turns", "1", &new], &[]);
    let member = || arrays.stat("turns")["members"][1].clone();
    wait_until("replacement", || member()["path"] == new.as_str() && member()["helps"] == true);
    wait_until("end of the lease", || helps(&arrays)[1].is_null());
    let positions: Vec<_> = helps(&arrays).iter().map(|help| help["position"].as_u64()).collect();
    assert_eq!(positions, [Some(0), None, Some(2), Some(1)]);
    arrays.verify(&device, 2);
    arrays.check("turns");
    arrays.done(&["stop", "turns"], &[]);
}

/// Such members and spares are taken, by all commands alike, and told of.
#[test]
fn member_that_cannot_help_is_read_plainly() {
    let Some(arrays) = Arrays::new(&["fio"]) else { return };
    let mut members = drives(&arrays);
    let plain = "is no emulated drive: it is read without the policy ioda";
    let told = |args: &[&str], members: &[String]| {
        let output = arrays.run(args, members);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && said.contains(plain), "{args:?}: {said}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    // A spare.
    let spare = arrays.files(&["spare"], 128).remove(0);
    let device = array(&arrays, &members);
    told(&["add", "turns", &spare], &[]);
    arrays.verify(&device, 1);
    arrays.done(&["stop", "turns"], &[]);
    members.push(spare.clone());
    let fast = ["--rate", "100M", "--least-rate", "100M"];
    let assemble = [&["assemble", "turns", "--policy", "ioda"][..], &fast].concat();
    let device = told(&assemble, &members);
    arrays.done(&["fail", "turns", "1"], &[]);
    arrays.wait_for_rebuild("turns");
    let member = || arrays.stat("turns")["members"][1].clone();
    wait_until("reason", || member()["no_help"] == format!("{spare} is no emulated drive"));
    assert_eq!(member()["helps"], false);
    let helps_of = |place: usize| arrays.stat("turns")["members"][place]["helps"].clone();
    assert!([0, 2, 3].into_iter().all(|place| helps_of(place) == true));
    arrays.verify(&device, 2);
    let stat = arrays.stat("turns");
    assert!(stat["without_policy"]["no_help"].as_u64() > Some(0), "{stat}");
    arrays.check("turns");
    arrays.done(&["set", "turns", "--policy", "plain"], &[]);
    told(&["set", "turns", "--policy", "ioda"], &[]);
    arrays.done(&["stop", "turns"], &[]);
    // A member of a new array.
    members.pop();
    members[3] = arrays.files(&["file"], 128).remove(0);
    let create =
        ["create", "turns", "--level", "5", "--chunk", "16K", "--policy", "ioda", "--force"];
    told(&create, &members);
    arrays.done(&["stop", "turns"], &[]);
}

#[test]
fn what_cannot_help_is_refused() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let files = arrays.files(&["a", "b", "c"], 64);
    let create = ["create", "turns", "--level", "5"];
    let expected = "is no emulated drive: the policy ioda needs members whose firmware helps";
    arrays.fails(&[&create[..], &["--policy", "ioda"]].concat(), &files, 2, expected);
    assert!(fs::read(&files[0]).unwrap().iter().all(|&byte| byte == 0), "it was written to");
    arrays.done(&create, &files);
    arrays.fails(&["set", "turns", "--policy", "ioda"], &[], 2, expected);
    assert_eq!(arrays.stat("turns")["policy"], "plain");
    arrays.done(&["stop", "turns"], &[]);

    let disk = |name| {
        let profile = ["--profile", "disk-7200", "--size", "96M", "--lead", "0us"];
        arrays.bench.done(&[&["create", name][..], &profile].concat())
    };
    let disks = ["a", "b", "c"].map(disk);
    let why = "drive `a`: a disk has no firmware that could help an array: the policy ioda needs";
    arrays.fails(&[&create[..], &["--policy", "ioda"]].concat(), &disks, 2, why);
}
