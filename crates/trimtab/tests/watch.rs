//! `trimtab watch`, as a user runs it.

use std::process::{Command, Output};

use trimtab_testdisk::{self as disk, LoopDisk};

fn watch(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_trimtab");
    Command::new(program).arg("watch").args(args).output().expect("trimtab runs")
}

#[test]
fn shows_what_is_kept() {
    if let Some(why) = disk::missing() {
        disk::say(&format!("skipped the test of `trimtab watch`: {why}"));
        return;
    }
    let disk = LoopDisk::new(16);
    let shown = watch(&[&disk.path, "--count", "2", "--interval", "20ms", "--json"]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let text = String::from_utf8(shown.stdout).unwrap();
    let objects: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 2);
    assert_eq!(objects[0]["device"], disk.name());
    assert_eq!(objects[1]["requests"], 0);

    let shown = watch(&[&disk.path, "--count", "1", "--interval", "20ms"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.lines().nth(1).is_some_and(|line| line.starts_with(disk.name())), "{text}");
}

#[test]
fn says_in_one_line_what_is_wrong() {
    let shown = watch(&["nosuchdisk"]);
    assert_eq!(shown.status.code(), Some(2));
    let said = String::from_utf8(shown.stderr).unwrap();
    assert!(said.starts_with("trimtab: error: nosuchdisk: no such device"), "{said}");
    assert_eq!(said.lines().count(), 1);
}
