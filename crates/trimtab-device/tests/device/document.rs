//! docs/device-profile.md agrees with the code.

use trimtab_device::{DiskProfile, DriveProfile, FirmwareKind, Profile};

const DOCUMENT: &str = include_str!("../../../../docs/device-profile.md");

fn example() -> &'static str {
    let (_, example) = DOCUMENT.split_once("```toml\n").unwrap();
    example.split_once("```").unwrap().0
}

/// The keys of a profile in TOML.
fn keys(toml: &str) -> impl Iterator<Item = &str> {
    toml.lines().filter_map(|line| Some(line.split_once(" = ")?.0))
}

/// So the defaults in the example are those of the code.
#[test]
fn example_equals_the_reference_profile() {
    let mut example = Profile::parse(example()).unwrap();
    let reference = Profile::builtin("reference").unwrap();
    (example.name, example.about) = (reference.name.clone(), reference.about.clone());
    assert_eq!(example, reference);
}

#[test]
fn every_key_is_documented_and_in_the_example() {
    let all = Profile::builtin("reference").unwrap().to_toml();
    assert_eq!(keys(&all).collect::<Vec<_>>(), keys(example()).collect::<Vec<_>>());
    for key in keys(&all).chain(["program_pattern_us", "parity", "ranges"]) {
        let row = format!("\n| `{key}` | ");
        let (flash, _) = DOCUMENT.split_once("## Disks\n").unwrap();
        assert_eq!(flash.matches(&row).count(), 1, "{key}");
    }
}

#[test]
fn every_key_of_a_disk_is_documented() {
    let (_, disks) = DOCUMENT.split_once("## Disks\n").unwrap();
    let (disks, _) = disks.split_once("\n## ").unwrap();
    let all = DiskProfile::builtin("disk-7200").unwrap().to_toml();
    let optional = [
        "track_skew_us",
        "cylinder_skew_us",
        "sequential_hit_us",
        "distant_write_us",
        "write_after_read_us",
    ];
    for key in keys(&all).filter(|key| !["name", "about"].contains(key)).chain(optional) {
        assert_eq!(disks.matches(&format!("\n| `{key}` | ")).count(), 1, "{key}");
    }
}

#[test]
fn every_builtin_is_documented() {
    for name in DriveProfile::builtin_names() {
        assert!(DOCUMENT.contains(&format!("`{name}`")), "{name}");
    }
}

/// Keys of the firmware kinds, with their defaults.
#[test]
fn every_firmware_key_is_documented() {
    let (_, table) = DOCUMENT.split_once("## Firmware\n").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    for name in
        ["standard", "ideal", "pl-io", "windows", "ioda", "ioda-ranges", "harmonia", "tiny-tail"]
    {
        assert!(table.contains(&format!("`\"{name}\"`")), "{name}");
        let wrong = FirmwareKind::parse(&format!("kind = \"{name}\"\nno_such_key = 1"));
        let error = wrong.unwrap_err().to_string();
        let known = error.split_once("expected ").map_or("", |(_, known)| known);
        for key in known.split('`').skip(1).step_by(2) {
            assert!(table.contains(&format!("| `{key}` | ")), "{name}: {key}");
        }
    }
}
