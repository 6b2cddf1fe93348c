//! The interface by which the firmware of an emulated drive helps its array: IODA's (Li et al.).
//!
//! ```text
//!   array ── commands: Window, Lease, End ──────> the drive's socket
//!     │
//!     └── flags: "this read is latency-critical" ──> memory that both map <── drive: "refused"
//! ```
//!
//! A drive under a lease cleans only in its own windows (`PL_Win`), and refuses flagged reads that
//! would wait for cleaning, with the time that they would have waited (`PL_IO`, `PL_BRT`). NVMe has
//! no field for the flag yet, and a block device's read has none either, so it goes beside the read:
//! [`FlagTable`]. That costs two stores in shared memory on one side and a load on the other.
//!
//! A lease ends by [`End`](PredictableCommand::End) or when it has not been renewed: a drive whose
//! array was killed cleans by itself again.

mod flags;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use flags::{Announced, Flag, FlagTable};

use super::client::Client;
use super::error::Error;
use super::run_directory::{DeviceInfo, DeviceKind, RunDirectory, Status};

/// A command of an array to a drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PredictableCommand {
    /// How long should windows be, among this many drives? IODA's TW.
    Window {
        /// The drives of the array.
        drives: u32,
    },
    /// Clean in these windows, and refuse flagged reads that cleaning would delay.
    Lease(Lease),
    /// Clean as before.
    End {
        /// The owner of the lease.
        owner: String,
    },
}

/// What an array asks of a drive, for some time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The array, and its process. Another owner gets no lease before this one's has ended.
    pub owner: String,
    /// The drive's place in the array, from 0.
    pub position: u32,
    /// The drives of the array.
    pub drives: u32,
    /// When the first drive's first window begins: of the monotonic clock, ns.
    pub start_ns: u64,
    /// Length of a window, ns.
    pub length_ns: u64,
    /// The lease ends this many ms after the command, unless it is renewed.
    pub for_ms: u64,
}

/// A drive's reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PredictableReply {
    /// The length of its windows, ns.
    Window {
        /// In ns.
        length_ns: u64,
    },
    /// The lease is granted.
    Leased,
    /// It has ended.
    Ended,
}

/// The name of the file that both map, in the drive's directory.
pub(crate) const FLAGS: &str = "flags";

/// What of a drive's description is needed here.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct DriveFound {
    name: String,
    device: PathBuf,
    pid: u32,
}

impl DeviceInfo for DriveFound {
    const KIND: DeviceKind = DeviceKind::DRIVE;

    fn name(&self) -> &str {
        &self.name
    }

    fn device(&self) -> &Path {
        &self.device
    }

    fn pid(&self) -> u32 {
        self.pid
    }
}

/// A command as a drive's server takes it.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Command<'a> {
    Predictable(&'a PredictableCommand),
}

/// The reply to it.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Reply {
    Predictable(PredictableReply),
    BadInput(String),
    Failed(String),
}

/// An array's handle to a drive.
#[derive(Clone, Debug)]
pub struct PredictableDrive(Client<DriveFound>);

impl PredictableDrive {
    /// The emulated drive whose block device this is; `None` if it is none.
    ///
    /// # Errors
    /// The drives cannot be listed.
    pub fn of_device(device: &Path) -> Result<Option<Self>, Error> {
        let number = |path: &Path| {
            let metadata = std::fs::metadata(path).ok()?;
            let is_disk = std::os::unix::fs::FileTypeExt::is_block_device(&metadata.file_type());
            is_disk.then(|| std::os::unix::fs::MetadataExt::rdev(&metadata))
        };
        let Some(wanted) = number(device) else { return Ok(None) };
        let drives = RunDirectory::<DriveFound>::from_environment();
        let is_it = |status: &Status<DriveFound>| match status {
            Status::Running(info) | Status::Stopped(info) => number(&info.device) == Some(wanted),
            Status::Changing | Status::Dead => false,
        };
        match drives.list()?.into_iter().find(|(_, status)| is_it(status)) {
            Some((name, _)) => Ok(Some(Self(Client::find(&drives, &name)?))),
            None => Ok(None),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.info().name
    }

    /// The memory in which reads are flagged.
    ///
    /// # Errors
    /// It cannot be mapped: the drive has ended, or is of another version.
    pub fn flags(&self) -> Result<FlagTable, Error> {
        FlagTable::open(&self.0.directory().flags())
    }

    /// Sends a command, and waits so long for the reply.
    ///
    /// # Errors
    /// The drive does not answer, or refuses.
    pub fn ask(
        &self,
        command: &PredictableCommand,
        limit: Duration,
    ) -> Result<PredictableReply, Error> {
        match self.0.ask(&Command::Predictable(command), limit)? {
            Reply::Predictable(reply) => Ok(reply),
            Reply::BadInput(why) => Err(Error::BadInput(why)),
            Reply::Failed(why) => Err(Error::Failed(why)),
        }
    }
}
