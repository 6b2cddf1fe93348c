//! Errors of reading a drive's state.

use std::path::PathBuf;

use trimtab_block::DeviceError;

/// Why the state of a drive cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The drive is not tracked there.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The process may not open the state.
    #[error(
        "cannot open the state of drives: permission denied (its directory must let you pass, \
         and kernels before 5.19 want CAP_BPF)"
    )]
    Permission,
    /// The kernel refuses to open or map the state.
    #[error("{0} (are the drives tracked, and their state pinned there?)")]
    Memory(#[from] trimtab_shm::Error),
    /// The state is that of another version of trimtab.
    #[error("{} is of another version", .0.display())]
    Version(PathBuf),
    /// The kernel was writing the drive's state at each attempt to read it.
    #[error("the drive's state is being written: try again")]
    Busy,
    /// The drive's unit functions are invalid.
    #[error("the drive's unit functions cannot be read: they are of another version")]
    UnitFunctions,
}
