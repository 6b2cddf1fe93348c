//! What a read takes elsewhere.
//!
//! The other drives' latencies over all time say what a read takes there in the mean. If their
//! recordings have the same clock more is known: what they took at that time. Drives that are busy in
//! turns are then worth going to just when this one is busy, and drives that are busy together never.

use trimtab_io::{Nanos, Op};
use trimtab_predict::Recorded;

/// A read tells what another one would take that comes at most so much earlier or later. Drives are
/// busy for some ms (cleaning, flushes) to a second (neighbours).
const NEAR: Nanos = Nanos::from_millis(100);

/// The reads of a drive, in order of arrival, on the clock of the drive that is trained for.
#[derive(Clone, Debug, Default)]
pub struct TimedReads {
    arrivals: Vec<Nanos>,
    latencies: Vec<Nanos>,
}

impl TimedReads {
    /// The reads of a recording that completed with their data.
    #[must_use]
    pub fn of(recorded: &[Recorded]) -> Self {
        let data = recorded.iter().filter(|one| one.data && one.request.op == Op::Read);
        let mut reads: Vec<_> = data.map(|one| (one.request.arrival, one.latency())).collect();
        reads.sort_by_key(|&(arrival, _)| arrival);
        let (arrivals, latencies) = reads.into_iter().unzip();
        Self { arrivals, latencies }
    }

    /// What a read takes there at a time, ns: the mean of the reads before and after it, as far as
    /// there are any that are near.
    fn at(&self, time: Nanos) -> Option<f64> {
        let next = self.arrivals.partition_point(|&arrival| arrival <= time);
        let near = |i: &usize| self.arrivals[*i].0.abs_diff(time.0) <= NEAR.0;
        let before = next.checked_sub(1).filter(near);
        let after = Some(next).filter(|&i| i < self.arrivals.len()).filter(near);
        let latency = |i: usize| self.latencies[i].0 as f64;
        match (before.map(latency), after.map(latency)) {
            (Some(before), Some(after)) => Some(0.5 * (before + after)),
            (one, other) => one.or(other),
        }
    }
}

/// The expected time to the data elsewhere, ns. The next replica can be refused too, the last one
/// cannot: of a latency there the part counts that is not better spent on another failover.
#[derive(Debug)]
pub(super) struct Elsewhere<'a> {
    timed: &'a [TimedReads],
    failover: f64,
    over_all: f64,
}

impl<'a> Elsewhere<'a> {
    /// `peers` are the latencies of each of the others.
    pub(super) fn new(peers: &[&[Nanos]], timed: &'a [TimedReads], failover: Nanos) -> Self {
        let failover = failover.0 as f64;
        let over_all = |of: &dyn Fn(f64) -> f64| {
            let one = |peer: &&[Nanos]| mean(peer.iter().map(|latency| of(latency.0 as f64)));
            mean(peers.iter().map(one))
        };
        let last = failover + over_all(&|latency| latency);
        Self { timed, failover, over_all: over_all(&|latency| latency.min(last)) }
    }

    /// The mean over all time.
    pub(super) const fn over_all(&self) -> f64 {
        self.over_all
    }

    /// At a time, as far as that is known.
    pub(super) fn at(&self, time: Nanos) -> f64 {
        let known = || self.timed.iter().filter_map(|peer| peer.at(time));
        let count = known().count();
        if count == 0 {
            return self.over_all;
        }
        let mean = |of: &dyn Fn(f64) -> f64| known().map(of).sum::<f64>() / count as f64;
        let last = self.failover + mean(&|latency| latency);
        mean(&|latency| latency.min(last))
    }
}

fn mean(of: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = of.len().max(1);
    of.sum::<f64>() / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(reads: &[(u64, u64)]) -> TimedReads {
        let ms = |value: &u64| Nanos::from_millis(*value);
        TimedReads {
            arrivals: reads.iter().map(|(arrival, _)| ms(arrival)).collect(),
            latencies: reads.iter().map(|(_, latency)| ms(latency)).collect(),
        }
    }

    #[test]
    fn reads_near_in_time_tell() {
        let drive = drive(&[(100, 4), (150, 8), (1000, 30)]);
        let at = |ms| drive.at(Nanos::from_millis(ms)).map(|ns| ns / 1e6);
        assert_eq!(at(120), Some(6.0));
        assert_eq!(at(150), Some(8.0), "the next one is far");
        assert_eq!(at(950), Some(30.0));
        assert_eq!(at(500), None);
        assert_eq!(TimedReads::default().at(Nanos::ZERO), None);
    }

    #[test]
    fn the_time_decides_what_elsewhere_is() {
        let timed = [drive(&[(0, 1), (1000, 50)]), drive(&[(0, 3), (1000, 50)])];
        let ms = Nanos::from_millis;
        let (one, other) = ([ms(1), ms(50)], [ms(3), ms(50)]);
        let elsewhere = Elsewhere::new(&[&one, &other], &timed, ms(1));
        let at = |time| elsewhere.at(ms(time)) / 1e6;
        assert_eq!((at(10), at(1010)), (2.0, 50.0));
        // Over all time the mean is 26; 27 is the most that the last one takes.
        assert_eq!((at(500), elsewhere.over_all() / 1e6), (14.5, 14.5));
    }
}
