//! Errors of recording.

use std::io;

use trimtab_block::DeviceError;

/// Why a recording cannot be made. Each error displays as one line that says what to do about
/// it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is not that of a block device, or the device cannot be recorded.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// More devices than one recording covers.
    #[error("{0} devices are too many at once, up to 65535 can be: start several")]
    TooManyDevices(usize),
    /// The programs cannot be loaded or attached.
    #[error(transparent)]
    Bpf(#[from] trimtab_bpf::Error),
    /// Records that wait for an earlier request cannot be sorted on disk.
    #[error("cannot sort records on disk: {0}")]
    Sort(#[source] io::Error),
}

impl Error {
    /// Whether the user's input is at fault (exit code 2) rather than the machine (exit
    /// code 1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(self, Self::Device(_) | Self::TooManyDevices(_))
    }
}
