//! Errors of the agent.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use rustix::process::geteuid;
use trimtab_predict::OtherDrive;

use crate::listen::ListenError;

/// The agent's configuration is invalid. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read: {0}")]
    Unreadable(String),
    /// It is not TOML, or has other fields.
    #[error("line {line}: {message}")]
    Toml {
        /// From 1.
        line: usize,
        /// The parser's message.
        message: String,
    },
    /// The metrics' address is invalid.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The metrics would be served to other machines.
    #[error(
        "listen = \"{listen}\": {address} can be reached from outside, and there is no password: \
         use 127.0.0.1, or set allow_remote = true"
    )]
    Remote {
        /// As it was written.
        listen: String,
        /// The address.
        address: IpAddr,
    },
    /// There is no drive.
    #[error("there is no [[drive]] to watch")]
    NoDrives,
    /// A number is out of range.
    #[error(transparent)]
    Number(#[from] trimtab_io::OutOfRange),
    /// Retraining needs a first model.
    #[error("{device} has no model, which retrain = true requires: see `trimtab train`")]
    NoModel {
        /// The drive.
        device: String,
    },
    /// A card is named in place of its model.
    #[error("model = \"{}\": is a card; give the model", model.display())]
    Card {
        /// The file.
        model: PathBuf,
    },
}

/// The agent cannot start, or cannot do something for a drive. Each error displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is not valid.
    #[error("{}: {source}", file.display())]
    Config {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: ConfigError,
    },
    /// A model cannot be loaded.
    #[error("{source}{advice}")]
    Model {
        /// The problem.
        source: trimtab_predict::Error,
        /// The remedy if root may not read the file.
        advice: String,
    },
    /// A model is another drive's.
    #[error("{}: {other}", path.display())]
    OtherDrive {
        /// The model's file.
        path: PathBuf,
        /// The difference.
        other: OtherDrive,
    },
    /// A model that is trained again could not be written.
    #[error("{}: a model trained again cannot be written: {source}{advice}", path.display())]
    Unwritable {
        /// The model's file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
        /// The remedy if root may not write the file.
        advice: String,
    },
    /// A device does not exist, or cannot be watched.
    #[error(transparent)]
    Device(#[from] trimtab_block::DeviceError),
    /// The metrics' address cannot be bound.
    #[error("cannot serve metrics at {address} (choose another by `listen`): {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// The state cannot be pinned.
    #[error("pin_directory = {directory:?}: {source}")]
    Pin {
        /// As configured.
        directory: PathBuf,
        /// The tracker's error.
        source: trimtab_tracker::Error,
    },
    /// The recorder failed.
    #[error(transparent)]
    Record(#[from] trimtab_record::Error),
    /// The state tracker failed.
    #[error(transparent)]
    Tracker(#[from] trimtab_tracker::Error),
    /// The state cannot be read.
    #[error(transparent)]
    State(#[from] trimtab_state::Error),
    /// A training failed.
    #[error(transparent)]
    Train(#[from] trimtab_train::Error),
    /// A training panicked.
    #[error("the training has panicked")]
    TrainingPanicked,
}

impl Error {
    /// Whether the user's input is at fault (exit code 2) rather than the machine (exit
    /// code 1).
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Config { .. } | Self::OtherDrive { .. } | Self::Unwritable { .. } => true,
            Self::Device(_) => true,
            Self::Model { source, .. } => source.is_bad_input(),
            Self::Record(error) => error.is_bad_input(),
            Self::Tracker(error) | Self::Pin { source: error, .. } => error.is_bad_input(),
            Self::Train(error) => error.is_bad_input(),
            Self::Listen { .. } | Self::State(_) | Self::TrainingPanicked => false,
        }
    }

    /// The underlying error of loading BPF programs, if there is one.
    #[must_use]
    pub const fn bpf(&self) -> Option<&trimtab_bpf::Error> {
        match self {
            Self::Record(trimtab_record::Error::Bpf(error))
            | Self::Tracker(trimtab_tracker::Error::Bpf(error)) => Some(error),
            _ => None,
        }
    }
}

/// The remedy if root may not use a file because the agent has given up the capability for it;
/// empty otherwise.
pub(crate) fn advice(path: &Path, access: Access) -> String {
    let denied = accessat(CWD, path, access, AtFlags::EACCESS) == Err(Errno::ACCESS);
    if !denied || !geteuid().is_root() {
        return String::new();
    }
    format!(
        " (the agent gives up root's access to what is others': chown {} to root, and let others \
         into the directories that it is in)",
        path.display()
    )
}
