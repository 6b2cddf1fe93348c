//! What is known of a replica without a model: its reads in flight, and the latencies seen.
//!
//! A forecast from these follows three observations, in this order:
//!
//! - **Silence.** A read has been in flight for much longer than is typical, and nothing has
//!   completed since: the drive stalls. It is expected to stall for as long again as it has (an
//!   unknown duration is most probably about half over).
//! - **Late reads.** A share of the recent reads was late: a part of the drive is slow. The share
//!   is forgotten within a fraction of a second, since parts recover.
//! - **The queue.** More reads are in flight than usual: the wait grows in proportion.
//!
//! Replicas that differ by less than a factor of two count as alike. Otherwise all reads would
//! go to the one whose median is some percent lower.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use trimtab_io::Nanos;
use trimtab_predict::{Forecast, Verdict};

/// A read is late if it takes this many times as long as is typical, and this long at least.
const LATE: f64 = 8.0;
const LEAST_LATE: Nanos = Nanos::from_micros(200);
/// The weight of a completion in the share of late reads.
const WEIGHT: f64 = 1.0 / 16.0;
/// The share of late reads is halved in this time.
const HALVED_IN: f64 = 100e6;
/// The step of the running median's logarithm; that of a late read, since a stall must not raise the
/// median for long; and for how many reads they are larger at first.
const STEP: f64 = 0.02;
const LATE_STEP: f64 = 0.005;
const FIRST_READS: u64 = 64;
/// With fewer reads nothing is known of a replica: it counts as alike.
const LEAST_READS: u64 = 8;
/// A queue of up to so many times the usual length does not matter.
const CROWDED: f64 = 2.0;
/// A replica with a read in flight for so long that has completed nothing since is unresponsive.
const UNRESPONSIVE: Nanos = Nanos::from_millis(1_000);

/// The observations of one replica.
#[derive(Debug)]
pub(crate) struct Seen {
    observed: Mutex<Observed>,
    /// The typical latency, ns; readable without the lock.
    typical: AtomicU64,
}

#[derive(Debug)]
struct Observed {
    /// The running median of the latencies, ns.
    typical: f64,
    /// Completed reads.
    reads: u64,
    /// When each read in flight was sent.
    in_flight: Vec<Waiting>,
    /// The usual number of them.
    usual_queue: f64,
    last_completion: Nanos,
    /// The share of reads that were late, and their latency, ns.
    late: f64,
    late_latency: f64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    sent: Nanos,
    /// Its thread has left and does not see when it completes.
    is_unobserved: bool,
}

impl Seen {
    /// Nothing seen yet; reads are expected to take `typical`.
    pub(crate) fn new(typical: Nanos) -> Self {
        let observed = Observed {
            typical: typical.0 as f64,
            reads: 0,
            in_flight: Vec::with_capacity(64),
            usual_queue: 0.0,
            last_completion: Nanos::ZERO,
            late: 0.0,
            late_latency: 0.0,
        };
        Self { observed: Mutex::new(observed), typical: AtomicU64::new(typical.0) }
    }

    pub(crate) fn typical(&self) -> Nanos {
        Nanos(self.typical.load(Relaxed))
    }

    /// A read is sent. Returns whether the replica is unresponsive.
    pub(crate) fn sent(&self, now: Nanos) -> bool {
        let mut observed = self.lock();
        let queue = observed.in_flight.len() as f64;
        observed.usual_queue += WEIGHT * (queue - observed.usual_queue);
        let is_unresponsive = observed.silence(now).is_some_and(|age| age > UNRESPONSIVE);
        observed.in_flight.push(Waiting { sent: now, is_unobserved: false });
        is_unresponsive
    }

    /// A read has ended: with data, and if so after a latency that is known.
    pub(crate) fn ended(&self, now: Nanos, sent: Nanos, data: bool, is_known: bool) {
        let mut observed = self.lock();
        if let Some(at) = observed.in_flight.iter().position(|waiting| waiting.sent == sent) {
            observed.in_flight.swap_remove(at);
        }
        if !data {
            return;
        }
        let (took, is_late) = (now.since(sent), now.since(sent) > observed.late_from());
        // A latency that is not known is at least this long.
        if !is_known && !is_late {
            return;
        }
        observed.forget(now);
        observed.last_completion = now.max(observed.last_completion);
        observed.late += WEIGHT * (f64::from(u8::from(is_late)) - observed.late);
        if is_late {
            let latency = took.0 as f64;
            let before = observed.late_latency;
            observed.late_latency =
                if before == 0.0 { latency } else { before + WEIGHT * (latency - before) };
        }
        observed.record(took, is_late);
        self.typical.store(observed.typical as u64, Relaxed);
    }

    /// The thread of a read that was sent then leaves, or is back.
    pub(crate) fn is_unobserved(&self, sent: Nanos, is_unobserved: bool) {
        let mut observed = self.lock();
        if let Some(waiting) = observed.in_flight.iter_mut().find(|waiting| waiting.sent == sent) {
            waiting.is_unobserved = is_unobserved;
        }
    }

    /// How long the oldest read has been in flight, if the drive stalls.
    pub(crate) fn stall(&self, now: Nanos) -> Option<Nanos> {
        let observed = self.lock();
        observed.silence(now).filter(|age| *age > observed.late_from())
    }

    /// The forecast for a read that would be sent now. `least` is the typical latency of the
    /// fastest replica.
    pub(crate) fn forecast(&self, now: Nanos, least: Nanos) -> Forecast {
        let observed = self.lock();
        let late_from = observed.late_from();
        if let Some(age) = observed.silence(now).filter(|age| *age > late_from) {
            return late(1.0, age.0 as f64, observed.typical);
        }
        let waiting = observed.in_flight.iter().filter(|waiting| !waiting.is_unobserved);
        let overdue = waiting.filter(|waiting| now.since(waiting.sent) > late_from).count() as f64;
        let remembered = 1.0 / WEIGHT;
        let share = (observed.late_now(now) * remembered + overdue) / (remembered + overdue);
        let alike = observed.reads < LEAST_READS || observed.typical < 2.0 * least.0 as f64;
        let typical = if alike { least.0 as f64 } else { observed.typical };
        let queue = (1.0 + observed.in_flight.len() as f64) / (1.0 + observed.usual_queue);
        let fast = typical * if queue > CROWDED { queue } else { 1.0 };
        let if_late = observed.late_latency.max(late_from.0 as f64);
        let wait = (1.0 - share) * fast + share * if_late;
        if share > 0.5 {
            return late(share, wait, fast);
        }
        let fast = Some(Nanos(fast as u64));
        // A share of a few percent is no difference between replicas: a hedge ends such reads.
        let wait = if share < 0.05 { fast } else { Some(Nanos(wait as u64)) };
        Forecast { verdict: Verdict::Fast, probability: share as f32, wait, fast }
    }

    fn lock(&self) -> MutexGuard<'_, Observed> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn late(share: f64, wait: f64, fast: f64) -> Forecast {
    let (wait, fast) = (Some(Nanos(wait as u64)), Some(Nanos(fast as u64)));
    Forecast { verdict: Verdict::Late, probability: share as f32, wait, fast }
}

impl Observed {
    fn late_from(&self) -> Nanos {
        LEAST_LATE.max(Nanos((LATE * self.typical) as u64))
    }

    /// How long the oldest of the reads has been in flight that were sent since the last
    /// completion. One that others have overtaken says nothing about the whole drive.
    fn silence(&self, now: Nanos) -> Option<Nanos> {
        let is_silent = |w: &&Waiting| !w.is_unobserved && w.sent >= self.last_completion;
        let oldest = self.in_flight.iter().filter(is_silent).map(|waiting| waiting.sent).min()?;
        Some(now.since(oldest))
    }

    fn late_now(&self, now: Nanos) -> f64 {
        let age = now.since(self.last_completion).0 as f64;
        self.late * (-age / HALVED_IN).exp2()
    }

    fn forget(&mut self, now: Nanos) {
        self.late = self.late_now(now);
    }

    fn record(&mut self, took: Nanos, is_late: bool) {
        let (took, first) = (took.0 as f64, self.reads < FIRST_READS);
        self.reads += 1;
        let step = if is_late { LATE_STEP } else { STEP } * if first { 8.0 } else { 1.0 };
        self.typical =
            (self.typical * if took > self.typical { 1.0 + step } else { 1.0 - step }).max(1_000.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;

    /// Reads of 100 µs, one after the other, until the time that is returned.
    fn quiet(seen: &Seen) -> Nanos {
        let mut now = Nanos::from_secs(1);
        for _ in 0..500 {
            seen.sent(now);
            let then = now;
            now += Nanos(100 * US);
            seen.ended(now, then, true, true);
        }
        now
    }

    #[test]
    fn silence_is_a_stall_that_lasts_as_long_again() {
        let seen = Seen::new(Nanos::from_millis(1));
        let now = quiet(&seen);
        let typical = seen.typical();
        assert!(typical.0.abs_diff(100 * US) < 5 * US, "{typical}");
        assert_eq!(seen.forecast(now, typical).verdict, Verdict::Fast);
        assert!(!seen.sent(now));
        assert_eq!(seen.forecast(now + Nanos(300 * US), typical).verdict, Verdict::Fast);
        let stalled = seen.forecast(now + Nanos(20 * MS), typical);
        assert_eq!((stalled.verdict, stalled.wait), (Verdict::Late, Some(Nanos(20 * MS))));
        assert!(seen.sent(now + Nanos(1_001 * MS)), "it is unresponsive");
        // Nothing is known of a read whose thread has left.
        seen.is_unobserved(now, true);
        seen.is_unobserved(now + Nanos(1_001 * MS), true);
        assert_eq!(seen.forecast(now + Nanos(1_002 * MS), typical).verdict, Verdict::Fast);
    }

    #[test]
    fn late_reads_are_forgotten_within_a_second() {
        let seen = Seen::new(Nanos::from_millis(1));
        let mut now = quiet(&seen);
        // Some dies are busy: other reads complete in between.
        for _ in 0..30 {
            seen.sent(now);
            let then = now;
            now += Nanos(5 * MS);
            seen.ended(now, then, true, true);
        }
        let typical = Nanos(100 * US);
        let forecast = seen.forecast(now, typical);
        assert_eq!(forecast.verdict, Verdict::Late);
        assert!(forecast.wait.is_some_and(|wait| wait > Nanos(2 * MS)), "{forecast:?}");
        let later = seen.forecast(now + Nanos::from_millis(500), typical);
        assert_eq!((later.verdict, later.wait), (Verdict::Fast, later.fast));
        assert_eq!(later.fast, Some(typical), "a stall does not make it a slow replica");
    }

    #[test]
    fn unknown_replica_counts_as_alike() {
        let seen = Seen::new(Nanos::from_millis(1));
        let forecast = seen.forecast(Nanos::from_secs(1), Nanos(70 * US));
        assert_eq!((forecast.verdict, forecast.wait), (Verdict::Fast, Some(Nanos(70 * US))));
    }

    #[test]
    fn similar_replicas_count_as_alike_and_a_long_queue_does_not() {
        let seen = Seen::new(Nanos(110 * US));
        let now = quiet(&seen);
        let alike = seen.forecast(now, Nanos(70 * US));
        assert_eq!(alike.wait, Some(Nanos(70 * US)));
        let slower = seen.forecast(now, Nanos(20 * US));
        assert!(slower.wait.is_some_and(|wait| wait > Nanos(80 * US)), "{slower:?}");
        (0..10).for_each(|_| _ = seen.sent(now));
        let crowded = seen.forecast(now, Nanos(70 * US));
        assert!(crowded.wait.is_some_and(|wait| wait > Nanos(200 * US)), "{crowded:?}");
    }

    #[test]
    fn unknown_latencies_teach_nothing_but_lateness() {
        let seen = Seen::new(Nanos::from_millis(1));
        let now = quiet(&seen);
        let typical = seen.typical();
        for _ in 0..20 {
            seen.sent(now);
            seen.ended(now + Nanos(US), now, true, false);
        }
        assert_eq!(seen.typical(), typical);
        seen.sent(now);
        seen.ended(now + Nanos(20 * MS), now, true, false);
        assert!(seen.forecast(now + Nanos(20 * MS), typical).probability > 0.0);
    }
}
