//! Reading recordings of drives from traces.

use std::path::{Path, PathBuf};

use anyhow::Result;
use trimtab_train::Recording;

use crate::input::{ReadArgs, Skipped};

/// Reads a recording of one drive. `device` selects one if the trace is of several.
pub(crate) fn read(
    path: &Path,
    device: Option<&str>,
    read: &ReadArgs,
) -> Result<(Recording, Skipped)> {
    let (drives, skipped) = read_all(path, read)?;
    Ok((Recording::pick(drives, device)?, skipped))
}

/// Reads a recording of one or more drives, each with its name.
pub(crate) fn read_all(
    path: &Path,
    read: &ReadArgs,
) -> Result<(Vec<(String, Recording)>, Skipped)> {
    let ((records, names, meta), skipped) = read.with_trace(&[PathBuf::from(path)], |trace| {
        let records = read.all_records(trace)?;
        Ok((records, trace.names().clone(), trace.meta().clone()))
    })?;
    let name = path.display().to_string();
    Ok((Recording::of_drives(&name, records, &names, &meta)?, skipped))
}

/// Reads recordings of a drive's peers: of all drives in the trace that have reads, without
/// `device` if the trace is the same file as `of`. (A recording of one drive may be its own
/// peer.)
pub(crate) fn read_peers(
    path: &Path,
    of: &Path,
    device: Option<&str>,
    read: &ReadArgs,
) -> Result<(Vec<Recording>, Skipped)> {
    let (drives, skipped) = read_all(path, read)?;
    let same_file = path.canonicalize().ok() == of.canonicalize().ok();
    Ok((Recording::peers(drives, device.filter(|_| same_file))?, skipped))
}
