//! Keeping processors awake while something is measured.
//!
//! A processor without work goes to sleep, and waking it takes some 10 to 50 µs, more in
//! a virtual machine, where the host has to do it. Where requests are sparse every step
//! on their way wakes somebody, and what is measured is the sleep and not the drive.
//! Linux has a file for those who cannot bear that: as long as one holds it open and
//! has written 0 µs to it, idle processors poll (Documentation/power/pm_qos_interface.rst
//! in its source).

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

const LATENCY: &str = "/dev/cpu_dma_latency";

/// While this lives, no processor goes to sleep. The kernel ends it with the process,
/// however that ends.
#[derive(Debug)]
pub struct Awake {
    _latency: File,
}

impl Awake {
    /// Begins with it.
    ///
    /// # Errors
    /// The kernel has no such file, or it is not for this user: it takes root.
    pub fn begin() -> io::Result<Self> {
        let failed = |e: io::Error| io::Error::new(e.kind(), format!("{LATENCY}: {e}"));
        let mut latency = OpenOptions::new().write(true).open(LATENCY).map_err(failed)?;
        latency.write_all(&0_i32.to_ne_bytes()).map_err(failed)?;
        Ok(Self { _latency: latency })
    }
}
