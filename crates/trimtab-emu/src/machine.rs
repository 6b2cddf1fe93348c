//! Checks whether a machine can run a drive, before a minute is spent on ageing the flash.

use std::fs::File;

use rustix::fs::MemfdFlags;
use trimtab_serve::{Backend, Error, LoopDevice, open_control};

use super::spec::Spec;

/// Size of the loop device for the check, bytes.
const TEST_BYTES: u64 = 1 << 20;
/// Available in every kernel.
const NO_SCHEDULER: &str = "none";

/// Checks that this process may make such a drive, and that the kernel has what it needs: root, ublk
/// or FUSE and loop devices, and the scheduler. Returns which. Takes some milliseconds.
///
/// # Errors
/// One line: what is missing, and what to do.
pub fn check(spec: &Spec) -> Result<Backend, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Privilege);
    }
    let backend = spec.backend.resolve()?;
    // With ublk alone, setting it for the drive shows it.
    if spec.scheduler == NO_SCHEDULER || (backend == Backend::Ublk && open_control().is_err()) {
        return Ok(backend);
    }
    // Kernels load schedulers on demand: only setting one shows whether it exists.
    let what = "make a file in memory";
    let file = rustix::fs::memfd_create("trimtab", MemfdFlags::CLOEXEC);
    let file = File::from(file.map_err(Error::system(what))?);
    file.set_len(TEST_BYTES).map_err(Error::system(what))?;
    LoopDevice::attach_file(&file, spec.block_bytes)?.set_scheduler(&spec.scheduler)?;
    Ok(backend)
}
