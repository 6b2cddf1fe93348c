//! docs/device-profile.md agrees with the code.

use trimtab_device::Profile;

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
    for key in keys(&all).chain(["program_pattern_us"]) {
        let row = format!("\n| `{key}` | ");
        assert_eq!(DOCUMENT.matches(&row).count(), 1, "{key}");
    }
}

#[test]
fn every_builtin_is_documented() {
    for name in Profile::builtin_names() {
        assert!(DOCUMENT.contains(&format!("`{name}`")), "{name}");
    }
}
