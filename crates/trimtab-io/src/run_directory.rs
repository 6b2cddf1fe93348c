//! The directory of running things.

use std::path::PathBuf;

/// The environment variable that names it.
pub const RUN_VARIABLE: &str = "TRIMTAB_RUN";

/// `$TRIMTAB_RUN`, or `/run/trimtab`: emulated drives and readers leave files there by which
/// other processes find them.
#[must_use]
pub fn run_directory() -> PathBuf {
    let run = std::env::var_os(RUN_VARIABLE).unwrap_or_else(|| "/run/trimtab".into());
    // The kernel shows the path of a mount as an absolute one.
    std::path::absolute(&run).unwrap_or_else(|_| run.into())
}
