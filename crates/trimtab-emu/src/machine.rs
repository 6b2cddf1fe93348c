//! Whether a machine has what a drive takes, before its flash is aged for a minute.

use std::fs::File;

use rustix::fs::MemfdFlags;

use super::error::Error;
use super::fuse;
use super::loopdev::{self, LoopDevice};
use super::spec::Spec;

/// A loop device is tried with so many bytes.
const TRIAL_BYTES: u64 = 1 << 20;
/// What every kernel has.
const NO_SCHEDULER: &str = "none";

/// Looks whether this process may make such a drive here, and the kernel has what it takes:
/// root, FUSE, loop devices, and the scheduler that is wanted. It takes some milliseconds.
///
/// # Errors
/// What is lacking, in one line that says what to do.
pub fn check(spec: &Spec) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Privilege);
    }
    fuse::open_device()?;
    loopdev::open_control()?;
    if spec.scheduler == NO_SCHEDULER {
        return Ok(());
    }
    // Kernels load schedulers when they are asked for: only asking tells which there are.
    let what = "make a file in memory";
    let file = rustix::fs::memfd_create("trimtab", MemfdFlags::CLOEXEC);
    let file = File::from(file.map_err(Error::system(what))?);
    file.set_len(TRIAL_BYTES).map_err(Error::system(what))?;
    LoopDevice::attach_file(&file, spec.block_bytes)?.set_scheduler(&spec.scheduler)
}
