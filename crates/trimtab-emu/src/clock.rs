//! The wall clock, and how to wait for a moment of it.
//!
//! A thread that sleeps is some 10 µs late when it is woken, and much later on a
//! busy machine; one that spins is punctual and costs a core. So the engine
//! sleeps until shortly before the moment, and spins the rest.

use std::num::NonZeroU64;
use std::thread;
use std::time::Duration;

use trimtab_io::Nanos;
pub(super) use trimtab_io::monotonic as now;

/// Has the kernel wake this thread when it asked for it. Otherwise it may wake it
/// up to 50 µs later, together with others.
pub(super) fn be_punctual() {
    // Not vital: then waits are longer than they might be.
    _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Sleeps until `until`, or until this thread is unparked. May return earlier.
pub(super) fn sleep(now: Nanos, until: Nanos) {
    thread::park_timeout(Duration::from_nanos(until.since(now).0));
}
