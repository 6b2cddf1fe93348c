use proptest::prelude::*;

use super::*;

fn matches(pattern: &str, path: &str) -> bool {
    Pattern::parse(pattern).unwrap().matches(path.as_ref())
}

#[test]
fn wildcards_stand_for_what_a_shell_lets_them() {
    for (pattern, path, expected) in [
        ("/nowhere/db", "/nowhere/db", true),
        ("/nowhere/db", "/nowhere/db/a", false),
        ("/nowhere/*.sst", "/nowhere/17.sst", true),
        ("/nowhere/*.sst", "/nowhere/a/17.sst", false),
        ("/nowhere/*.sst", "/nowhere/.sst", false),
        ("/nowhere/.*", "/nowhere/.sst", true),
        ("/nowhere/**/*.sst", "/nowhere/17.sst", true),
        ("/nowhere/**/*.sst", "/nowhere/a/b/17.sst", true),
        ("/nowhere/**/*.sst", "/nowhere/.a/17.sst", false),
        ("/nowhere/**/b/*", "/nowhere/a/b/c", true),
        ("/nowhere/**/b/*", "/nowhere/a/c", false),
        ("/nowhere/[0-9]?", "/nowhere/7x", true),
        ("/nowhere/[!0-9]?", "/nowhere/7x", false),
        ("/nowhere/[]a]", "/nowhere/]", true),
        ("/nowhere/\\*", "/nowhere/*", true),
        ("/nowhere/\\*", "/nowhere/a", false),
        ("/nowhere/a*b*c", "/nowhere/abbcbc", true),
        ("/nowhere/a*b*c", "/nowhere/abbcb", false),
        ("/nowhere/./db//x", "/nowhere/db/x", true),
    ] {
        assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
    }
}

#[test]
fn malformed_patterns_say_what_is_expected() {
    for (pattern, said) in [
        ("", "such as /var/lib/db/*.sst"),
        ("/a/", "append *"),
        ("/a/[0-9", "not closed"),
        ("/a/b\\", "nothing follows"),
        ("/a/*/../b", "cannot follow a wildcard"),
    ] {
        let error = Pattern::parse(pattern).unwrap_err();
        assert!(error.is_bad_input());
        let line = error.to_string();
        assert!(line.contains(said) && line.contains(&format!("`{pattern}`")), "{line}");
    }
}

#[test]
fn files_are_found_as_matched_and_links_are_followed() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path();
    fs::create_dir_all(base.join("real/a/b")).unwrap();
    fs::create_dir_all(base.join("real/.hidden")).unwrap();
    for name in
        ["real/1.sst", "real/a/2.sst", "real/a/b/3.sst", "real/a/4.log", "real/.hidden/5.sst"]
    {
        fs::write(base.join(name), "").unwrap();
    }
    std::os::unix::fs::symlink("real", base.join("link")).unwrap();
    let pattern = Pattern::parse(&format!("{}/link/**/*.sst", base.display())).unwrap();
    let real = fs::canonicalize(base).unwrap().join("real");
    let (found, more) = pattern.files();
    let expected = ["1.sst", "a/2.sst", "a/b/3.sst"].map(|name| real.join(name));
    assert_eq!((found, more), (expected.to_vec(), false));
    // The kernel reports the path without the link.
    assert!(pattern.matches(&real.join("a/9.sst")));
    assert_eq!(pattern.directory(), real);
    // A directory is no file that can be read.
    let directories = Pattern::parse(&format!("{}/*", base.display())).unwrap();
    assert!(directories.files().0.is_empty());
}

#[test]
fn directory_that_is_missing_may_come_later() {
    let directory = tempfile::tempdir().unwrap();
    let base = fs::canonicalize(directory.path()).unwrap();
    let pattern = Pattern::parse(&format!("{}/later/db/*", base.display())).unwrap();
    assert_eq!(pattern.directory(), base);
    assert!(pattern.files().0.is_empty());
    assert!(pattern.matches(&base.join("later/db/file")));
}

proptest! {
    /// A name matches its own escaped text, and no other name does.
    #[test]
    fn escaped_names_match_themselves_only(name in "[a-z*?\\[\\]]{1,12}", other in "[a-z*?\\[\\]]{1,12}") {
        let escaped: String = name.chars().flat_map(|c| ['\\', c]).collect();
        let pattern = Pattern::parse(&format!("/nowhere/{escaped}")).unwrap();
        let path = |name: &str| PathBuf::from("/nowhere").join(name);
        prop_assert!(pattern.matches(&path(&name)));
        prop_assert_eq!(pattern.matches(&path(&other)), name == other);
    }

    /// The comparison agrees with its definition by recursion.
    #[test]
    fn stars_match_as_defined(pattern in "[ab*?]{0,8}", name in "[ab]{0,10}") {
        fn defined(pattern: &[u8], name: &[u8]) -> bool {
            match (pattern, name) {
                ([], name) => name.is_empty(),
                ([b'*', rest @ ..], name) => {
                    defined(rest, name) || !name.is_empty() && defined(pattern, &name[1..])
                }
                ([b'?', rest @ ..], [_, name @ ..]) => defined(rest, name),
                ([byte, rest @ ..], [first, name @ ..]) => byte == first && defined(rest, name),
                (_, []) => false,
            }
        }
        let Ok(Part::Name(tokens)) = Part::parse(pattern.as_bytes()) else { return Ok(()) };
        prop_assert_eq!(matches_name(&tokens, name.as_bytes()), defined(pattern.as_bytes(), name.as_bytes()));
    }
}
