//! The run directory.

use std::path::PathBuf;

/// Environment variable that overrides the run directory.
pub const RUN_VARIABLE: &str = "TRIMTAB_RUN";

/// `$TRIMTAB_RUN`, or `/run/trimtab`: emulated drives and readers publish files there for other
/// processes.
#[must_use]
pub fn run_directory() -> PathBuf {
    let run = std::env::var_os(RUN_VARIABLE).unwrap_or_else(|| "/run/trimtab".into());
    // The kernel lists mounts by absolute path.
    std::path::absolute(&run).unwrap_or_else(|_| run.into())
}
