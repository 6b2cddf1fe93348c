//! Reads from a device, one after the other, and how long each took.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use trimtab_io::{Nanos, monotonic};

/// Bytes of a read.
pub const READ_BYTES: usize = 4096;

/// Decides when the next read may be sent.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The time between reads.
    pub interval: Nanos,
    /// When the next one may be sent.
    pub next: Nanos,
}

impl Pace {
    /// No limit: as fast as reads complete.
    pub const UNLIMITED: Self = Self { interval: Nanos::ZERO, next: Nanos::ZERO };

    /// Whether a read may be sent now. Missed slots are not made up for.
    pub fn may(&mut self, now: Nanos) -> bool {
        if now < self.next {
            return false;
        }
        self.next = (self.next + self.interval).max(now.since(self.interval));
        true
    }

    /// Waits until a read may be sent.
    pub fn wait(&self) {
        let wait = self.next.since(monotonic());
        if wait > Nanos::ZERO {
            std::thread::sleep(Duration::from_nanos(wait.0));
        }
    }
}

/// Offset and latency of each read.
pub type Timings = Vec<(u64, Nanos)>;

/// Memory for a read.
#[repr(align(4096))]
#[derive(Clone, Debug)]
pub struct Aligned(pub [u8; READ_BYTES]);

/// Opens a device for direct reading.
///
/// # Errors
/// It cannot be opened.
pub fn open(device: &Path) -> io::Result<File> {
    const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
    OpenOptions::new().read(true).custom_flags(O_DIRECT).open(device)
}

/// Sets this thread's timer slack to 1 ns. By default the kernel may wake it up to 50 µs late,
/// together with others.
pub fn set_timer_slack() {
    // If this fails, waits are longer, no more.
    _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Reads these pages, one after the other, until a time.
///
/// # Errors
/// A read fails.
pub fn read_serially(
    file: &File,
    pages: &[u64],
    until: Nanos,
    mut pace: Pace,
) -> io::Result<Timings> {
    set_timer_slack();
    let mut buffer = Aligned([0; READ_BYTES]);
    let mut seen = Vec::new();
    for &page in pages {
        let offset = page * READ_BYTES as u64;
        while !pace.may(monotonic()) {
            pace.wait();
        }
        let before = monotonic();
        file.read_exact_at(&mut buffer.0, offset)?;
        let now = monotonic();
        seen.push((offset, now.since(before)));
        if now >= until {
            break;
        }
    }
    Ok(seen)
}
