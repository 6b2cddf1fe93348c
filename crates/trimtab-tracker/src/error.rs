//! Errors of tracking.

use std::path::PathBuf;

/// Why drives cannot be tracked. Each error displays as one line that says what to do about
/// it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A drive is named twice.
    #[error(transparent)]
    Device(#[from] trimtab_block::DeviceError),
    /// The kernel cannot decide by the model; its predictor's name.
    #[error(
        "the kernel decides by models of the predictor `linnos` only, and this is of `{0}`: \
         train one with --predictor linnos"
    )]
    Model(&'static str),
    /// A unit function of a model is not valid.
    #[error("a unit function of the model is not valid")]
    InvalidUnitFunction,
    /// Deciding in the kernel was not enabled when the programs were loaded.
    #[error("deciding in the kernel was not asked for when the programs were loaded")]
    NetworksNotLoaded,
    /// The drive's network was busy for a second.
    #[error("the drive's network is busy all the time")]
    NetworkBusy,
    /// The drive's state was being written for a second.
    #[error("the drive's state is being written all the time")]
    StateBusy,
    /// Another tracker has pinned its state there.
    #[error("another process tracks drives and has pinned their state at {}", .0.display())]
    PinInUse(PathBuf),
    /// The programs cannot be loaded, attached or pinned.
    #[error(transparent)]
    Bpf(#[from] trimtab_bpf::Error),
    /// A map cannot be mapped into memory.
    #[error(transparent)]
    Memory(#[from] trimtab_shm::Error),
    /// The state cannot be read.
    #[error(transparent)]
    State(#[from] trimtab_state::Error),
}

impl Error {
    /// Whether the user's input is at fault (exit code 2) rather than the machine (exit
    /// code 1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(self, Self::Device(_) | Self::Model(_))
    }
}
