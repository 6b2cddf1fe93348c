//! Programs that link the library compile only the crates that a read needs.

use std::process::Command;

/// All dependencies of a package, with the features enabled in each, as in `rand v0.10.1
/// std,std_rng`; packages without features end with their version.
fn tree(package: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", package, "--edges", "normal", "--prefix", "none"])
        .args(["--format", "{p} {f}", "--offline", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines.dedup();
    assert!(lines.iter().any(|line| line.starts_with(&format!("{package} v"))), "{text}");
    lines
}

/// The packages with these name prefixes.
fn found<'a>(tree: &'a [String], prefixes: &[&str]) -> Vec<&'a str> {
    let name = |line: &&str| line.split(' ').next().unwrap_or_default().to_owned();
    let is_listed = |line: &&str| prefixes.iter().any(|prefix| name(line).starts_with(prefix));
    tree.iter().map(String::as_str).filter(is_listed).collect()
}

#[test]
fn library_excludes_traces_drives_and_bpf_loading() {
    let tree = tree("trimtab-c");
    let not_needed = [
        "parquet",
        "arrow",
        "libbpf",
        "fuser",
        "rusqlite",
        "trimtab-emu",
        "trimtab-sim",
        "trimtab-device",
        "trimtab-trace",
        "trimtab-train",
        "trimtab-record",
        "trimtab-tracker",
        "trimtab-bpf",
        "trimtab-testdisk",
    ];
    assert_eq!(found(&tree, &not_needed), [""; 0]);
    // The search finds existing packages.
    let needed = ["trimtab-read", "trimtab-replicas", "trimtab-state", "trimtab-steer"];
    for name in needed {
        assert!(!found(&tree, &[name]).is_empty(), "{name}: {tree:#?}");
    }
}

/// A program that only reads with a deadline has no use for strategies.
#[test]
fn deadline_read_excludes_strategies() {
    let tree = tree("trimtab-read");
    assert_eq!(found(&tree, &["trimtab-steer", "trimtab-uring", "trimtab-replicas"]), [""; 0]);
}

#[test]
fn state_crate_excludes_libbpf() {
    assert_eq!(found(&tree("trimtab-state"), &["libbpf", "trimtab-bpf"]), [""; 0]);
}
