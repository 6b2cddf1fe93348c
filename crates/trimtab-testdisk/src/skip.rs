//! Tests that a machine cannot run, and the count of them.
//!
//! A test that needs a part of the machine begins with [`requires`]. Where that part is
//! missing, the test is skipped, in the open: a line on standard error says so, a line in the
//! file that `TRIMTAB_SKIPPED` names keeps it for the summary (`scripts/skipped`), and where
//! `TRIMTAB_REQUIRE` names the missing part the test fails instead.
//!
//! ```no_run
//! use trimtab_testdisk::{Feature, requires};
//!
//! # fn test() {
//! if !requires(&[Feature::Root, Feature::Fuse]) {
//!     return;
//! }
//! # }
//! ```

use std::fs::OpenOptions;
use std::io::Write as _;
use std::panic::Location;
use std::path::Path;

use crate::{Feature, note};

/// Comma-separated names of features that must not be missing: a test that would be skipped
/// for one fails.
const REQUIRE: &str = "TRIMTAB_REQUIRE";
/// The file that gets a line for each test skipped: the feature, the test, and the reason,
/// separated by tabs.
const SKIPPED: &str = "TRIMTAB_SKIPPED";

/// Whether this machine has all of these features. If not, the test must return: the skip has
/// been reported and counted.
///
/// # Panics
/// If `TRIMTAB_REQUIRE` names a missing feature.
#[must_use]
#[track_caller]
pub fn requires(features: &[Feature]) -> bool {
    let lacking = features.iter().filter_map(|&feature| Some((feature, feature.lacking()?)));
    let lacking: Vec<_> = lacking.collect();
    for (feature, why) in &lacking {
        fail_if_required(*feature, why);
    }
    let Some((feature, why)) = lacking.first() else { return true };
    record(*feature, why);
    false
}

/// Skips the test for a feature that turned out to be missing when it was used, and reports
/// why.
///
/// # Panics
/// If `TRIMTAB_REQUIRE` names the feature.
#[track_caller]
pub fn skip(feature: Feature, why: &str) {
    fail_if_required(feature, why);
    record(feature, why);
}

/// Why this machine lacks one of these features, if it does: for code that is not a test.
#[must_use]
pub fn missing(features: &[Feature]) -> Option<String> {
    features.iter().find_map(|feature| feature.lacking())
}

#[track_caller]
fn fail_if_required(feature: Feature, why: &str) {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    let mut required = required.split(',').map(str::trim).filter(|name| !name.is_empty());
    let is_required = required.any(|name| {
        let known = Feature::named(name);
        assert!(known.is_some(), "{REQUIRE}: there is no feature `{name}`");
        known == Some(feature)
    });
    assert!(!is_required, "cannot be skipped, as {REQUIRE} names `{feature}`: {why}");
}

#[track_caller]
fn record(feature: Feature, why: &str) {
    let (name, why) = (test_name(Location::caller()), why.replace(['\n', '\t'], " "));
    note(&format!("skipped {name}: {why}"));
    let Some(path) = std::env::var_os(SKIPPED) else { return };
    // One write of one line: other programs append to it too.
    let line = format!("{feature}\t{name}\t{why}\n");
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(e) = written {
        // A test that is skipped and not counted is what this prevents.
        panic!("{SKIPPED}={}: {e}", Path::new(&path).display());
    }
}

/// The test program, and the test. The runner names a test's thread after it, except for the
/// main thread, which may run tests one after the other; then the source position identifies
/// the test.
fn test_name(caller: &Location<'_>) -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    // Cargo's hash is not part of the name.
    let program = program.rsplit_once('-').map_or(program.as_str(), |(name, _)| name);
    match std::thread::current().name() {
        Some(test) if test != "main" => format!("{program}::{test}"),
        _ => format!("{program} ({}:{})", caller.file(), caller.line()),
    }
}
