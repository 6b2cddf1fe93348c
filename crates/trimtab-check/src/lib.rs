//! Checks a machine's capabilities for trimtab, with advice for what is missing.
//!
//! [`Report::of_machine`] tries what trimtab needs: it examines the kernel, loads the BPF
//! programs briefly, opens devices, and follows each block device to the disks below. Each
//! failed [`Check`] gives the remedy in one line. Nothing is changed or left behind.
//!
//! ```no_run
//! let report = trimtab_check::Report::of_machine("/sys/fs/bpf/trimtab".as_ref());
//! for check in report.checks.iter().filter(|check| !check.passed) {
//!     println!("{}: {}", check.name, check.advice.as_deref().unwrap_or_default());
//! }
//! println!("predicted reads can work: {}", report.can_predict());
//! ```
//!
//! Each check is a pure function of its findings, so that tests can simulate a machine that
//! lacks something.

mod devices;
mod facilities;
mod probe;

use std::path::Path;

use serde::Serialize;

pub use devices::{DeviceReport, FileSystemReport};
pub use facilities::Check;

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Requirements of programs.
    pub checks: Vec<Check>,
    /// Block devices, by name.
    pub devices: Vec<DeviceReport>,
    /// File systems that are mounted from devices.
    pub file_systems: Vec<FileSystemReport>,
}

impl Report {
    /// Tries everything. `pins` is the directory in which the state tracker pins the drives'
    /// state.
    #[must_use]
    pub fn of_machine(pins: &Path) -> Self {
        let found = probe::Found::probe(pins);
        let checks = found.checks();
        let state = found.state();
        let devices = devices::all(&state);
        let file_systems = devices::mounted(&state);
        Self { checks, devices, file_systems }
    }

    /// Whether predicted reads can work on at least one device.
    #[must_use]
    pub fn can_predict(&self) -> bool {
        self.devices.iter().any(|device| device.predicted_reads)
    }
}
