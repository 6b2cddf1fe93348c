//! Arrival times for logs that hold completion times and latencies only.
//!
//! Such logs count from their first event, so the first requests arrived before the clock's zero.
//! All times are therefore shifted later by a constant margin, unless the log's first time exceeds
//! it anyway. A request that took longer than that keeps its latency: it arrives at 0, and its
//! completion moves instead.

use trimtab_io::Nanos;

/// Twice the kernel's default limit for a request, in nanoseconds.
const MARGIN: u64 = 60_000_000_000;

#[derive(Default)]
pub(super) struct Backdate {
    /// Added to all times; fixed by the first record.
    shift: Option<u64>,
}

impl Backdate {
    /// Arrival and completion on the trace's clock, from the log's completion time and latency.
    pub(super) fn times(&mut self, complete: u64, took: u64) -> (Nanos, Nanos) {
        let shift = *self.shift.get_or_insert(if complete < MARGIN { MARGIN } else { 0 });
        let complete = complete + shift;
        match complete.checked_sub(took) {
            Some(arrival) => (Nanos(arrival), Nanos(complete)),
            None => (Nanos::ZERO, Nanos(took)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backdating_preserves_latency_and_gaps() {
        let mut clock = Backdate::default();
        let (first, first_complete) = clock.times(0, 7);
        assert_eq!(first_complete.since(first), Nanos(7));
        let (_, second_complete) = clock.times(100, 5);
        assert_eq!(second_complete.since(first_complete), Nanos(100));
        assert_eq!(clock.times(0, 2 * MARGIN), (Nanos::ZERO, Nanos(2 * MARGIN)));
    }

    #[test]
    fn dates_are_not_shifted() {
        let mut clock = Backdate::default();
        assert_eq!(clock.times(2 * MARGIN, 1), (Nanos(2 * MARGIN - 1), Nanos(2 * MARGIN)));
    }
}
