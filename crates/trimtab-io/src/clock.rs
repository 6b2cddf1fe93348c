//! The monotonic clock.

use rustix::time::{ClockId, clock_gettime};

use crate::Nanos;

/// The time on `CLOCK_MONOTONIC`, the clock of BPF programs too (`bpf_ktime_get_ns`). Live code
/// reads the time here, and passes it to the state machines.
#[must_use]
#[inline]
pub fn monotonic() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
