//! `trimtab array`, as a user runs it: data on all levels, file systems, commands, bad input.

mod array_bench;
mod emulated;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Stdio;

use array_bench::Arrays;
use emulated::{Mounted, backend, stderr, wait_until};
use serde_json::Value;
use trimtab_testdisk::{self as testdisk, LoopDisk};

/// Levels, and how many members they get.
const LEVELS: [(&str, usize); 5] = [("0", 2), ("1", 2), ("4", 3), ("5", 4), ("6", 5)];
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

#[test]
fn all_levels_keep_data() {
    let Some(arrays) = Arrays::new(&["fio"]) else { return };
    for (number, (level, members)) in LEVELS.into_iter().enumerate() {
        let names = &NAMES[..members];
        let mut files = match number % 2 {
            0 => arrays.files(names, 64),
            _ => arrays.files_on_disk(names, 64),
        };
        let device = arrays.done(&["create", "all", "--level", level], &files);
        arrays.verify(&device, number as u64);
        arrays.wait_for_resync("all");
        let before = arrays.checksum(&device);
        arrays.done(&["stop", "all"], &[]);
        // Their order does not matter.
        files.reverse();
        let device = arrays.done(&["assemble", "all", "--policy", "trimtab"], &files);
        assert_eq!(arrays.stat("all")["state"], "clean", "level {level}");
        assert_eq!(arrays.checksum(&device), before, "level {level}");
        arrays.verify(&device, 10 + number as u64);
        if level != "0" {
            arrays.check("all");
        }
        arrays.done(&["stop", "all"], &[]);
    }
    assert!(arrays.traces().is_empty(), "{:?}", arrays.traces());
}

/// The last member cannot be written to: the others keep what they had.
#[test]
fn members_are_written_to_only_if_all_can_be() {
    let Some(arrays) = Arrays::new(&["blockdev"]) else { return };
    let last = LoopDisk::new(64);
    let files = arrays.files(&NAMES[..2], 64);
    for file in &files {
        File::options().write(true).open(file).unwrap().write_all_at(&[b'x'; 300_000], 0).unwrap();
    }
    let content = || files.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>();
    let before = content();
    testdisk::run("blockdev", &["--setro", &last.path]);
    let members = [&files[..], std::slice::from_ref(&last.path)].concat();
    let output = arrays.run(&["create", "bad", "--level", "5", "--force"], &members);
    testdisk::run("blockdev", &["--setrw", &last.path]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains(last.name()), "{}", stderr(&output));
    assert!(content() == before, "a member was changed");
    assert!(arrays.traces().is_empty(), "{:?}", arrays.traces());
}

#[test]
fn smallest_member_counts() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    for (level, mib) in [("0", 96), ("1", 48), ("5", 96)] {
        let files = [arrays.files(&NAMES[..2], 64), arrays.files(&["small"], 48)].concat();
        let files = &files[if level == "5" { 0 } else { 1 }..];
        let output = arrays.run(&["create", "few", "--level", level, "--assume-clean"], files);
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("small is the smallest member, with 50331648 bytes"), "{said}");
        let bytes = arrays.stat("few")["capacity"].as_u64().unwrap();
        let most = mib << 20;
        assert!((most - (4 << 20)..most).contains(&bytes), "{level}: {bytes}");
        arrays.done(&["stop", "few"], &[]);
        arrays.done(&["assemble", "few"], files);
        arrays.done(&["stop", "few"], &[]);
        if level == "5" {
            let output = arrays.run(&["assemble", "few"], &files[..2]);
            let said = stderr(&output);
            assert!(said.contains("1 of 3 members is missing, in place 2: "), "{said}");
            arrays.done(&["stop", "few"], &[]);
        }
    }
}

#[test]
fn array_is_no_member_of_itself() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let files = arrays.files(&NAMES[..3], 64);
    let device = arrays.done(&["create", "self", "--level", "5", "--assume-clean"], &files);
    let before = arrays.checksum(&device);
    for force in [&[][..], &["--force"]] {
        let add = [&["add", "self", &device][..], force].concat();
        arrays.fails(&add, &[], 2, "is the array itself, or a part of it");
    }
    assert_eq!(arrays.checksum(&device), before);
    // None is stopped if there is one that is not.
    arrays.fails(&["stop", "self", "nosuch"], &[], 2, "`nosuch`: no such array");
    arrays.done(&["stop", "self"], &[]);
}

/// A short measurement.
fn cost<'a>(backend: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let short = ["cost", "--duration", "50ms", "--backend", backend];
    [&short, more].concat()
}

#[test]
fn cost_is_measured_and_leaves_nothing() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let backend = backend();
    let beside = arrays.files(&["beside"], 1);
    let before = fs::read(&beside[0]).unwrap();
    let json = arrays.done(&cost(&backend, &["--json", "-", "--beside", &beside[0]]), &[]);
    assert!(fs::read(&beside[0]).unwrap() == before, "it was written to");
    let report: Value = serde_json::from_str(&json).unwrap();
    let all = report["measurements"].as_array().unwrap();
    let of = |what: &'static str| all.iter().filter(move |one| one["what"] == what);
    for (what, loads) in [("member", 4), ("one-file", 4), ("array", 4), ("beside", 2)] {
        assert_eq!(of(what).count(), loads, "{what}: {report}");
        for one in of(what) {
            let figure = |name: &str| one[name]["median"].as_f64().unwrap();
            assert!(figure("requests_per_second") > 0.0 && figure("p50_us") > 0.0, "{one}");
            let has_server = what == "array" || what == "one-file";
            assert_eq!(one["cpu_us"].is_object(), has_server, "{one}");
        }
    }
    // The first rows are reads at depth 1.
    let reads = |what| of(what).next().unwrap()["p50_us"]["least"].as_f64().unwrap();
    let beyond = report["beyond_member_us"]["most"].as_f64().unwrap();
    let most = of("array").next().unwrap()["p50_us"]["most"].as_f64().unwrap();
    assert!(beyond > 0.0 && beyond <= most - reads("member") + 0.001, "{report}");

    let table = arrays
        .done(&cost(&backend, &["--level", "1", "--members", "2", "--policy", "trimtab"]), &[]);
    for part in ["one file  reads", "beyond a member's own", "level 1, 2 members, policy trimtab"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    arrays.fails(&cost(&backend, &["--beside", "nosuch"]), &[], 2, "nosuch");
    arrays.fails(&["cost", "--duration", "1us"], &[], 2, "at least 10.0 ms");
    arrays.fails(&cost(&backend, &["--in", "nosuch"]), &[], 2, "nosuch");
    arrays.fails(
        &cost(&backend, &["--level", "6", "--members", "3"]),
        &[],
        2,
        "raid6 needs at least 4",
    );
    arrays.fails(&cost(&backend, &["--level", "0", "--policy", "trimtab"]), &[], 2, "level 0");
    arrays.fails(&cost(&backend, &["--policy", "ioda"]), &[], 2, "ioda");
    assert!(arrays.traces().is_empty(), "{:?}", arrays.traces());

    // Killed in the middle.
    let long = [&["array"], &cost(&backend, &["--rounds", "100"])[..]].concat();
    let mut killed = arrays.bench.trimtab(&long).stdout(Stdio::null()).spawn().unwrap();
    wait_until("an array", || !arrays.done(&["list", "--json"], &[]).starts_with("[]"));
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_until("the end of its servers", || arrays.traces().is_empty());
    // The next one removes its directory, if it came to leave one.
    arrays.fails(&cost(&backend, &["--policy", "ioda"]), &[], 2, "ioda");
    let left = fs::read_dir("/dev/shm").unwrap().flatten();
    let name = format!("trimtab-cost-{}", killed.id());
    assert!(left.into_iter().all(|left| left.file_name() != name.as_str()));
}

/// What has not been compared is not said to fit.
#[test]
fn check_is_incomplete_if_a_member_fails() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let files = arrays.files(&NAMES[..3], 64);
    let create = ["create", "cut", "--level", "5", "--assume-clean", "--rate", "2M"];
    arrays.done(&create, &files);
    let mut check = arrays.bench.trimtab(&["array", "check", "cut", "--json"]);
    let check = check.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("check", || arrays.stat("cut")["check"]["stripes"].as_u64() > Some(0));
    arrays.done(&["fail", "cut", "0"], &[]);
    let output = check.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("a member failed meanwhile"), "{said}");
    let check: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&check["is_cut"], &check["mismatches"]), (&Value::Bool(true), &Value::from(0)));
    arrays.done(&["stop", "cut"], &[]);
}

/// As many members are lost as can be, and come back one after the other.
#[test]
fn lost_members_are_computed_and_rebuilt() {
    let Some(arrays) = Arrays::new(&["fio"]) else { return };
    for (level, members, lost) in [("1", 3, 2), ("5", 4, 1), ("6", 5, 2)] {
        let files = arrays.files(&NAMES[..members], 64);
        let create = ["create", "less", "--level", level, "--policy", "adaptive", "--chunk", "16K"];
        let device = arrays.done(&create, &files);
        arrays.wait_for_resync("less");
        arrays.verify(&device, 1);
        for file in &files[..lost] {
            arrays.done(&["fail", "less", file], &[]);
        }
        arrays.fails(&["fail", "less", &files[lost]], &[], 2, "no data without it");
        arrays.verify(&device, 2);
        let before = arrays.checksum(&device);
        arrays.done(&["stop", "less"], &[]);
        // Those that were failed are no members any more.
        let device = arrays.done(&["assemble", "less"], &files);
        assert_eq!(arrays.stat("less")["state"], "degraded");
        assert_eq!(arrays.checksum(&device), before, "level {level}");
        for file in &files[..lost] {
            // They still have a superblock.
            arrays.fails(&["add", "less", file], &[], 2, "--force overwrites it");
            arrays.done(&["add", "less", file, "--force"], &[]);
            arrays.verify(&device, 3);
            wait_for_member(&arrays, file);
        }
        arrays.wait_for_rebuild("less");
        arrays.check("less");
        // The others can be lost now.
        let before = arrays.checksum(&device);
        for file in &files[members - lost..] {
            arrays.done(&["fail", "less", file], &[]);
        }
        assert_eq!(arrays.checksum(&device), before, "level {level}");
        arrays.done(&["stop", "less"], &[]);
    }
}

fn wait_for_member(arrays: &Arrays, file: &str) {
    emulated::wait_until("rebuild", || {
        let stat = arrays.stat("less");
        let members = stat["members"].as_array().unwrap();
        members.iter().any(|member| member["path"] == file && member["state"] == "active")
    });
}

/// A member that was not there gets what it missed, and what it never had is not lost.
#[test]
fn member_that_was_away_comes_back() {
    let Some(arrays) = Arrays::new(&["fio"]) else { return };
    for (level, members) in [("1", 2), ("5", 3), ("6", 4)] {
        // Several bits of the bitmap.
        let files = arrays.files(&NAMES[..members], 200);
        let device = arrays.done(&["create", "away", "--level", level, "--assume-clean"], &files);
        arrays.verify(&device, 1);
        arrays.done(&["stop", "away"], &[]);
        let device = arrays.done(&["assemble", "away"], &files[1..]);
        arrays.verify(&device, 2);
        let before = arrays.checksum(&device);
        arrays.done(&["stop", "away"], &[]);
        let device = arrays.done(&["assemble", "away"], &files);
        arrays.wait_for_rebuild("away");
        arrays.check("away");
        arrays.done(&["fail", "away", &files[members - 1]], &[]);
        assert_eq!(arrays.checksum(&device), before, "level {level}");
        arrays.done(&["stop", "away"], &[]);
    }
}

#[test]
fn file_system_survives_stop_and_loss() {
    let Some(arrays) = Arrays::new(&["mkfs.ext4", "fsck.ext4", "mount"]) else { return };
    let files = arrays.files(&NAMES[..4], 64);
    let device = arrays.done(&["create", "fs", "--level", "5", "--assume-clean"], &files);
    testdisk::run("mkfs.ext4", &["-q", "-F", &device]);
    let mounted = Mounted::new(&device, arrays.bench.path("mnt"));
    arrays.fails(&["stop", "fs"], &[], 1, "is mounted at");
    let content: Vec<u8> = (0..5_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(mounted.path().join("numbers"), &content).unwrap();
    arrays.done(&["fail", "fs", "2"], &[]);
    fs::write(mounted.path().join("again"), &content).unwrap();
    mounted.unmount();
    testdisk::run("fsck.ext4", &["-f", "-n", &device]);
    arrays.done(&["stop", "fs"], &[]);
    let device = arrays.done(&["assemble", "fs"], &files);
    let mounted = Mounted::new(&device, arrays.bench.path("mnt"));
    for name in ["numbers", "again"] {
        assert!(fs::read(mounted.path().join(name)).unwrap() == content, "{name}");
    }
    mounted.unmount();
    arrays.done(&["stop", "fs"], &[]);
}

#[test]
fn policies_change_in_use_and_figures_are_shown() {
    let Some(arrays) = Arrays::new(&["fio"]) else { return };
    let files = arrays.files(&NAMES[..4], 64);
    let device = arrays.done(&["create", "one", "--level", "5", "--assume-clean"], &files);
    assert_eq!(arrays.stat("one")["policy"], "plain");
    for policy in ["adaptive", "trimtab", "plain"] {
        arrays.done(&["set", "one", "--policy", policy], &[]);
        assert_eq!(arrays.stat("one")["policy"], policy);
        arrays.verify(&device, 7);
    }
    let stat = arrays.stat("one");
    let reads = stat["reads"]["requests"].as_u64().unwrap();
    let of_buckets = |bucket: &serde_json::Value| bucket[1].as_u64().unwrap();
    let in_buckets: u64 = stat["read_buckets_ns"].as_array().unwrap().iter().map(of_buckets).sum();
    assert!(reads > 0 && reads == in_buckets, "{stat}");
    assert!(stat["members"][3]["read_latency"]["count"].as_u64() > Some(0), "{stat}");
    let text = arrays.done(&["stat", "one"], &[]);
    assert!(text.contains("raid5, chunk 64.0 KiB") && text.contains("FUSE and loop"), "{text}");
    let listed = arrays.done(&["list"], &[]);
    assert!(listed.contains("one") && listed.contains("raid5") && listed.contains(&device));
    arrays.fails(&["set", "one", "--policy", "best"], &[], 2, "no such policy");
}

#[test]
fn refused_device_keeps_what_it_holds() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let files = arrays.files(&NAMES, 64);
    arrays.done(&["create", "one", "--level", "5", "--assume-clean"], &files[..3]);
    arrays.done(&["create", "fast", "--level", "0"], &files[3..]);
    let [small, large] = [("small", 8), ("large", 64)].map(|(name, mib)| {
        let file = arrays.files(&[name], mib).remove(0);
        fs::write(&file, vec![b'x'; (mib as usize) << 20]).unwrap();
        file
    });
    let refused: [(&[&str], &String, &str); 5] = [
        (&["add", "one"], &small, "the array needs"),
        (&["add", "one", "--force"], &small, "the array needs"),
        (&["replace", "one", "0"], &small, "the array needs"),
        (&["replace", "one", "7"], &large, "is no member of the array"),
        (&["add", "fast"], &large, "cannot take members in"),
    ];
    for (args, device, why) in refused {
        arrays.fails(args, std::slice::from_ref(device), 2, why);
        let is_kept = fs::read(device).unwrap().iter().all(|&byte| byte == b'x');
        assert!(is_kept, "{args:?} has written to {device}");
    }
    arrays.done(&["replace", "one", "0"], &[large]);
}

/// One that is refused does not keep others, and what is used by another one goes after that.
#[test]
fn all_are_stopped_that_can_be() {
    let Some(arrays) = Arrays::new(&["mkfs.ext4"]) else { return };
    let files = arrays.files(&NAMES[..4], 64);
    let mirror = |name: &str, members: &[String]| {
        arrays.done(&["create", name, "--level", "1", "--assume-clean"], members)
    };
    let inner = mirror("inner", &files[..2]);
    mirror("outer", &[inner, files[2].clone()]);
    arrays.done(&["stop", "--all"], &[]);
    assert!(arrays.traces().is_empty(), "{:?}", arrays.traces());

    let again = |name: &str| arrays.files(&[&format!("{name}1"), &format!("{name}2")], 64);
    let device = mirror("a", &again("a"));
    mirror("b", &again("b"));
    testdisk::run("mkfs.ext4", &["-q", "-F", &device]);
    let mounted = Mounted::new(&device, arrays.bench.path("mounted"));
    arrays.fails(&["stop", "--all"], &[], 1, "`a`: ");
    assert!(arrays.server("b").is_none() && arrays.server("a").is_some());
    // What stays of one that is ended by force is said.
    let forced = stderr(&arrays.run(&["stop", "--all", "--force"], &[]));
    assert!(forced.contains("`a`") && forced.contains("mounted at"), "{forced}");
    mounted.unmount();
}

#[test]
fn bad_input_changes_nothing() {
    let Some(arrays) = Arrays::new(&["mkfs.ext4"]) else { return };
    let files = arrays.files(&NAMES[..4], 64);
    let level5 = ["create", "bad", "--level", "5"];
    arrays.fails(&level5, &files[..2], 2, "raid5 needs at least 3 members, 2 given");
    arrays.fails(&["create", "bad", "--level", "7"], &files, 2, "the levels are 0, 1, 4, 5 and 6");
    let around = ["create", "bad", "--level", "0", "--policy", "trimtab"];
    arrays.fails(&around, &files, 2, "level 0 has nothing to go around a late member with");
    let rates = [&level5[..], &["--rate", "1M", "--least-rate", "2M"]].concat();
    arrays.fails(&rates, &files, 2, "--least-rate 2.00 MiB is more than --rate 1.00 MiB");
    arrays.fails(&[&level5[..], &["--chunk", "5K"]].concat(), &files, 2, "chunk");
    let twice = [&files[..2], &files[..1]].concat();
    arrays.fails(&level5, &twice, 2, "are the same device");
    let small = arrays.files(&["small"], 1);
    let with_small = [&files[..2], &small[..]].concat();
    arrays.fails(&level5, &with_small, 2, "a member needs more than");
    let missing = [&files[..2], &["/nowhere".to_owned()][..]].concat();
    arrays.fails(&level5, &missing, 2, "/nowhere: cannot open");
    arrays.fails(&["create", "b d", "--level", "5"], &files, 2, "an array's name is");
    arrays.fails(&["stat", "none"], &[], 2, "no such array (see `trimtab array list`)");
    arrays.fails(&["assemble", "bad"], &files, 2, "none of 4 devices has a superblock");
    let untouched = fs::read(&files[0]).unwrap().iter().all(|&byte| byte == 0);
    assert!(untouched, "a refused member was written to");

    testdisk::run("mkfs.ext4", &["-q", "-F", &files[1]]);
    let holds = "holds an ext2, ext3 or ext4 file system: --force overwrites it";
    arrays.fails(&level5, &files, 2, holds);
    arrays.done(&[&level5[..], &["--force", "--assume-clean"]].concat(), &files);
    arrays.fails(&["create", "bad", "--level", "5"], &files, 2, "the array already exists");
    let in_use = "is a member of the array `bad`";
    arrays.fails(&["create", "other", "--level", "5"], &files, 2, in_use);
    arrays.done(&["stop", "bad"], &[]);
    arrays.fails(&level5, &files, 2, "holds a member of the array bad");
    let too_few = "too few members: members 2, 3 are missing, and at most 1 may be";
    arrays.fails(&["assemble", "bad"], &files[..2], 2, too_few);

    let stripes = arrays.files(&["s", "t"], 64);
    arrays.done(&["create", "fast", "--level", "0"], &stripes);
    arrays.fails(&["check", "fast"], &[], 2, "nothing that could be checked");
    arrays.fails(&["add", "fast", &arrays.files(&["e"], 64)[0]], &[], 2, "cannot take members in");
    arrays.done(&["stop", "fast"], &[]);
    let mixed = [&files[..], &stripes[..]].concat();
    arrays.fails(&["assemble", "bad"], &mixed, 2, "several arrays");
    // One that is none of the array's: neither is written to.
    let [other] = arrays.files(&["other"], 64).try_into().unwrap();
    let with_other = [&files[..3], &[other][..]].concat();
    let events = || {
        let member = trimtab_md::Member::open(Path::new(&files[0]), false).unwrap();
        member.superblock().unwrap().events
    };
    let before = events();
    arrays.fails(&["assemble", "bad"], &with_other, 2, "assemble the array without it");
    assert_eq!(events(), before);
    arrays.done(&["assemble", "bad", "--force"], &with_other);
    assert_eq!(arrays.stat("bad")["state"], "degraded");
    arrays.done(&["stop", "bad"], &[]);
    for file in &files {
        let member = trimtab_md::Member::open(Path::new(file), true).unwrap();
        let superblock =
            trimtab_md::Superblock { events: u64::MAX, ..member.superblock().unwrap() };
        member.write_superblock(&superblock).unwrap();
    }
    arrays.fails(&["assemble", "bad", "--force"], &files, 2, "which no array reaches");
    assert!(arrays.traces().is_empty(), "{:?}", arrays.traces());
}
