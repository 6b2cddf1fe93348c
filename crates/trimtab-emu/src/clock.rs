//! The wall clock, and waiting for a point in time.
//!
//! A sleeping thread wakes some 10 µs late, and much later on a busy machine; a spinning thread is
//! punctual and costs a core. So the engine sleeps until shortly before the deadline, and spins the
//! rest.

use std::thread;
use std::time::Duration;

use trimtab_io::Nanos;
pub(super) use trimtab_io::monotonic as now;

/// Sleeps until `until`, or until this thread is unparked. May return earlier.
pub(super) fn sleep(now: Nanos, until: Nanos) {
    thread::park_timeout(Duration::from_nanos(until.since(now).0));
}
