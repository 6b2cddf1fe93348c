//! How long a read waits behind what is in flight on a replica.
//!
//! While a drive has requests, it completes one after each *pace*. What is in flight takes as many
//! paces as there are requests: the *drain*. Where requests wait for each other a read takes as long.
//! Where reads overtake writes that are in a buffer, or are served beside them, it takes a small part
//! of that. Reads tell which it is: the share of the drain that they took, for each power of two of
//! requests in flight.

use trimtab_io::Nanos;

/// Powers of two of the queue's length.
pub(crate) const DEPTHS: usize = 16;
/// What the sums keep with each read: 50 reads say what lately means.
const KEPT: f64 = 0.98;
/// The share that is assumed, all of the drain or that of shorter queues, weighs as much as so many reads.
const ASSUMED: f64 = 2.0;

/// What is in flight on a replica when a read is sent there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ahead {
    pub(crate) reads: u32,
    /// Writes as well.
    pub(crate) requests: u32,
    /// In which time the drive completes as many requests, ns.
    pub(crate) drain: f64,
    /// The drive completes nothing.
    pub(crate) stuck: bool,
}

/// The share of the drain that reads wait, of one replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drains {
    by_requests: [Sums; DEPTHS],
}

/// Of reads that were sent with 2^n - 1 to 2^(n+1) - 2 requests in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Decaying sums, ns; no latency counts for more than its drain.
    latency: f64,
    drain: f64,
    /// The reads that these are from, up to some tens.
    reads: f64,
}

impl Drains {
    /// How long a read waits that is sent behind these requests, ns. Of queues that were never as
    /// long the share is taken to be that of shorter ones, and of the first ones it is all: a drive of which
    /// nothing is known may serve one request after another. What a drive serves beside others, or out of
    /// turn, it does not serve while it is stuck.
    pub(crate) fn wait(&self, ahead: &Ahead) -> f64 {
        if ahead.stuck {
            return ahead.drain;
        }
        let mut share = 1.0;
        for known in &self.by_requests[..=depth(ahead.requests)] {
            if known.drain > 0.0 {
                let seen = known.latency / known.drain;
                share = (known.reads * seen + ASSUMED * share) / (known.reads + ASSUMED);
            }
        }
        share * ahead.drain
    }

    /// A read that was sent behind these requests has taken `latency`.
    pub(crate) fn record(&mut self, ahead: &Ahead, latency: Nanos) {
        if ahead.drain > 0.0 && !ahead.stuck {
            let sums = &mut self.by_requests[depth(ahead.requests)];
            sums.latency = KEPT * sums.latency + (latency.0 as f64).min(ahead.drain);
            sums.drain = KEPT * sums.drain + ahead.drain;
            sums.reads = KEPT * sums.reads + 1.0;
        }
    }

    /// Only so much of what was learned counts beside what comes.
    pub(crate) fn forget(&mut self, remembered: f64) {
        for sums in &mut self.by_requests {
            sums.latency *= remembered;
            sums.drain *= remembered;
        }
    }
}

/// The power of two of the queue's length.
pub(crate) fn depth(in_flight: u32) -> usize {
    (in_flight.saturating_add(1).ilog2() as usize).min(DEPTHS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many requests of 10 µs each.
    fn behind(requests: u32) -> Ahead {
        Ahead { requests, drain: 10_000.0 * f64::from(requests), ..Ahead::default() }
    }

    #[test]
    fn all_of_the_drain_is_waited_for_until_reads_tell() {
        let mut drains = Drains::default();
        assert_eq!(drains.wait(&behind(20)), 200_000.0);
        // Reads overtake the writes.
        (0..200).for_each(|_| drains.record(&behind(20), Nanos::from_micros(20)));
        let wait = drains.wait(&behind(20));
        assert!((20_000.0..28_000.0).contains(&wait), "{wait}");
        // Of a longer queue nothing is known but that.
        let longer = drains.wait(&behind(100));
        assert!((100_000.0..140_000.0).contains(&longer), "{longer}");
        assert_eq!(drains.wait(&behind(2)), 20_000.0, "nor of a shorter one");
        // There is no room in the buffer any more.
        (0..100).for_each(|_| drains.record(&behind(20), Nanos::from_millis(5)));
        let wait = drains.wait(&behind(20));
        assert!((170_000.0..=200_000.0).contains(&wait), "{wait}");
    }

    #[test]
    fn behind_a_drive_that_is_stuck_all_is_waited_for_and_nothing_is_learned() {
        let mut drains = Drains::default();
        (0..200).for_each(|_| drains.record(&behind(20), Nanos::from_micros(20)));
        let stuck = Ahead { stuck: true, ..behind(20) };
        (0..200).for_each(|_| drains.record(&stuck, Nanos::from_millis(5)));
        assert_eq!(drains.wait(&stuck), 200_000.0);
        let wait = drains.wait(&behind(20));
        assert!(wait < 28_000.0, "{wait}");
    }

    #[test]
    fn an_idle_replica_has_no_drain() {
        let mut drains = Drains::default();
        drains.record(&Ahead::default(), Nanos::from_millis(5));
        assert_eq!(drains.wait(&Ahead::default()), 0.0);
        assert_eq!(drains.wait(&behind(1)), 10_000.0);
    }
}
