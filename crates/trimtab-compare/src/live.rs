//! Testbeds on this machine: emulated drives, which are block devices, and files or devices
//! of the user. Both are served by `trimtab-uring`.

mod emulated;
mod error;
mod files;
mod notes;
mod serve;

use std::sync::Arc;

pub use emulated::{DriveGuard, Emulated, StartDrive, drive_specs};
pub use error::Error;
pub use files::Files;
pub use notes::{LATE, Notes, RunNote};

/// Called several times a second; returns whether a testbed must stop.
pub type ShouldStop = Arc<dyn Fn() -> bool + Send + Sync>;
