//! Errors of simulations.

use std::path::PathBuf;

use trimtab_io::Nanos;

/// Why a simulation cannot start or continue. Each displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario is not TOML, or a key is unknown, missing or out of range. The text gives
    /// the line and the permitted values.
    #[error("{0}")]
    Scenario(String),
    /// A file that the scenario names cannot be read.
    #[error("{}: cannot open: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// A trace cannot be read.
    #[error("{0}")]
    Trace(trimtab_trace::Error),
    /// A trace does not fit: its offsets, its devices, its times.
    #[error("{}: {what}", path.display())]
    Replay {
        /// The trace.
        path: PathBuf,
        /// The problem and the remedy.
        what: String,
    },
    /// A device did not take a request.
    #[error("device `{device}`: {source}")]
    Device {
        /// Its name.
        device: String,
        /// Its error.
        source: trimtab_device::Error,
    },
    /// A device has requests and completes none: it has no event, or has completed nothing for
    /// a minute of its time.
    #[error(
        "device `{device}` makes no progress at {at} with {in_flight} requests in flight: \
         it waits for an event that never occurs, or is busy internally"
    )]
    Stuck {
        /// Its name.
        device: String,
        /// The time.
        at: Nanos,
        /// The requests.
        in_flight: usize,
    },
    /// No profile can be fitted to a recording.
    #[error("{0}")]
    Fit(String),
    /// A closed loop whose requests take no time.
    #[error(
        "device `{device}` answers at once at {at}, so a closed loop without think time never \
         gets on: fill the device, or set `think_us`"
    )]
    Endless {
        /// Its name.
        device: String,
        /// The time.
        at: Nanos,
    },
    /// Nothing was measured.
    #[error("device `{device}`: all its {requests} requests came during the warm-up")]
    OnlyWarmUp {
        /// Its name.
        device: String,
        /// Their number.
        requests: u64,
    },
}

impl Error {
    /// Whether the input is at fault (exit code 2) rather than the machine or
    /// the model (exit code 1).
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Scenario(_)
            | Self::Replay { .. }
            | Self::Device { .. }
            | Self::Fit(_)
            | Self::Endless { .. }
            | Self::OnlyWarmUp { .. } => true,
            Self::Open { source, .. } => source.kind() != std::io::ErrorKind::PermissionDenied,
            Self::Trace(error) => error.is_bad_input(),
            Self::Stuck { .. } => false,
        }
    }
}
