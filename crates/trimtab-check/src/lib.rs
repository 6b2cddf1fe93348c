//! What this machine can do, and what to do about what it cannot.
//!
//! [`Report::of_machine`] tries what trimtab needs: it looks at the kernel, loads the BPF
//! programs for a moment, opens devices, and follows each block device to the disks below.
//! Each [`Check`] that fails says in a line what to do. Nothing is left behind or changed.
//!
//! ```no_run
//! let report = trimtab_check::Report::of_machine("/sys/fs/bpf/trimtab".as_ref());
//! for check in report.checks.iter().filter(|check| !check.passed) {
//!     println!("{}: {}", check.name, check.advice.as_deref().unwrap_or_default());
//! }
//! println!("predicted reads can work: {}", report.can_predict());
//! ```
//!
//! What a check makes of what it finds is a function of its own, without side effects, so that
//! tests can give it a machine that lacks something.

mod devices;
mod facilities;
mod probe;

use std::path::Path;

use serde::Serialize;

pub use devices::{DeviceReport, FileSystemReport};
pub use facilities::Check;

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What programs need of the machine.
    pub checks: Vec<Check>,
    /// Block devices, by name.
    pub devices: Vec<DeviceReport>,
    /// File systems that are mounted from devices.
    pub file_systems: Vec<FileSystemReport>,
}

impl Report {
    /// Tries everything. `pins` is where the state tracker pins the drives' state.
    #[must_use]
    pub fn of_machine(pins: &Path) -> Self {
        let found = probe::Found::probe(pins);
        let checks = found.checks();
        let state = found.state();
        let devices = devices::all(&state);
        let file_systems = devices::mounted(&state);
        Self { checks, devices, file_systems }
    }

    /// Whether predicted reads can work on a device at least.
    #[must_use]
    pub fn can_predict(&self) -> bool {
        self.devices.iter().any(|device| device.predicted_reads)
    }
}
