//! The one clock.

use rustix::time::{ClockId, clock_gettime};

use crate::Nanos;

/// The time on `CLOCK_MONOTONIC`, which is also the clock of the kernel's programs
/// (`bpf_ktime_get_ns`): live code reads the time here, and hands it to whatever decides.
#[must_use]
#[inline]
pub fn monotonic() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
