//! The admission limiter: probes, samples and the refusal cap, which bound what a model can
//! refuse.
//!
//! A state machine: the time and the number of reads so far are passed in, and a [`Ruling`] is
//! returned. Any number of threads may use it at once, without locks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use trimtab_io::Nanos;

use crate::outstanding::Count;
use crate::probes::{Part, Probes};
use crate::refusal_cap::RefusalCap;

/// The ruling on a read that the model would refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    /// It is refused.
    Refuse,
    /// It would be sent for one of the following reasons, but the maximum of such reads is
    /// outstanding. It is refused.
    RefuseBounded,
    /// It is sent, to learn whether an avoided drive has recovered.
    Probe,
    /// It is sent, to measure how many refusals are wrong.
    Sample,
    /// It is sent, because too many have been refused.
    OverCap,
}

/// See [`ReadOptions`](super::ReadOptions).
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) probe_every: Nanos,
    pub(super) forced_out: u32,
    pub(super) sample_every: u64,
    /// 0 to 1.
    pub(super) most_refused: f64,
}

/// The limiter of one reader.
#[derive(Debug)]
pub(super) struct AdmissionLimiter {
    sample_every: u64,
    forced_out: u32,
    probes: Probes,
    cap: RefusalCap,
    /// Reads that the model would have refused.
    late: AtomicU64,
}

impl AdmissionLimiter {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            sample_every: rules.sample_every,
            forced_out: rules.forced_out,
            probes: Probes::new(rules.probe_every),
            cap: RefusalCap::new(rules.most_refused),
            late: AtomicU64::new(0),
        }
    }

    /// Counts the read of this number, before the decision.
    pub(super) fn asked(&self, number: u64, now: Nanos) {
        self.cap.asked(number, now);
    }

    /// A read of this part is sent that is forecast to be in time.
    pub(super) fn sent(&self, part: Part, now: Nanos) {
        self.probes.sent(part, now);
    }

    /// Whether the refusal cap permits to refuse the read of this number, for another reason
    /// than a forecast. Then it counts as refused.
    pub(super) fn may_refuse(&self, number: u64) -> bool {
        self.cap.may_refuse(number)
    }

    /// Rules on a read of this part that the model would refuse: the one that was
    /// [`asked`](Self::asked) with this number.
    ///
    /// A read that is not refused counts among the `forced` ones until it has
    /// [ended](Count::end). Their number is bounded regardless of the refusal cap: each may
    /// hold up a thread of the application.
    pub(super) fn rule(&self, part: Part, now: Nanos, number: u64, forced: &Count) -> Ruling {
        let late = self.late.fetch_add(1, Relaxed) + 1;
        if self.probes.is_due(part, now, (forced, self.forced_out)) {
            return Ruling::Probe;
        }
        let is_sample = self.sample_every > 0 && late.is_multiple_of(self.sample_every);
        if !is_sample && self.cap.may_refuse(number) {
            return Ruling::Refuse;
        }
        match forced.add_up_to(self.forced_out) {
            true if is_sample => Ruling::Sample,
            true => Ruling::OverCap,
            false => Ruling::RefuseBounded,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const MS: u64 = 1_000_000;
    const RULES: Rules =
        Rules { probe_every: Nanos(10 * MS), forced_out: 4, sample_every: 0, most_refused: 1.0 };

    fn part() -> Part {
        Part::anywhere(1)
    }

    /// A read that completes at once if it is sent.
    fn rule(limiter: &AdmissionLimiter, now: Nanos, number: u64, out: &Count) -> Ruling {
        let ruling = limiter.rule(part(), now, number, out);
        if !matches!(ruling, Ruling::Refuse | Ruling::RefuseBounded) {
            out.end();
        }
        ruling
    }

    /// On a drive that completes nothing, for any cap, samples and probes.
    #[test]
    fn forced_reads_to_a_dead_drive_never_exceed_the_bound() {
        for (most_refused, sample_every) in [(0.0, 0), (0.5, 0), (0.98, 10), (1.0, 1)] {
            let limiter = AdmissionLimiter::new(Rules { most_refused, sample_every, ..RULES });
            let out = Count::default();
            let mut sent = 0;
            for i in 1..=10_000 {
                let now = Nanos(i * MS);
                limiter.asked(i, now);
                let ruling = limiter.rule(part(), now, i, &out);
                sent += u32::from(!matches!(ruling, Ruling::Refuse | Ruling::RefuseBounded));
            }
            assert_eq!((sent, out.get()), (4, 4), "{most_refused}");
            // One has completed: the next may be sent.
            out.end();
            limiter.asked(10_001, Nanos(20_000 * MS));
            assert_eq!(limiter.rule(part(), Nanos(20_000 * MS), 10_001, &out), Ruling::Probe);
        }
    }

    #[test]
    fn every_nth_late_read_is_a_sample() {
        let limiter = AdmissionLimiter::new(Rules { sample_every: 50, ..RULES });
        let is = |&i: &u64| rule(&limiter, Nanos(1 + i), i, &Count::default()) == Ruling::Sample;
        assert_eq!((1..=1000).filter(is).count(), 20);
    }

    /// Probes and samples are beyond the cap, and reads over the cap are sent.
    #[test]
    fn refusal_share_never_exceeds_cap() {
        let limiter = AdmissionLimiter::new(Rules { most_refused: 0.75, ..RULES });
        let mut counts = [0; 5];
        let out = Count::default();
        for i in 1..=10_000 {
            // A thousand in a second.
            let now = Nanos(i * MS);
            limiter.asked(i, now);
            counts[rule(&limiter, now, i, &out) as usize] += 1;
        }
        let [refused, bounded, probed, sampled, over] = counts;
        assert!((7480..=7500).contains(&refused), "{counts:?}");
        assert!(probed == 999 && sampled == 0 && bounded == 0 && over > 1000, "{counts:?}");
    }

    /// Several threads together get no more probes, samples and refusals than one would.
    #[test]
    fn threads_share_probes_samples_and_cap() {
        const EACH: u64 = 50_000;
        let rules = Rules { sample_every: 100, most_refused: 0.5, ..RULES };
        let limiter = AdmissionLimiter::new(rules);
        let (asked, clock) = (AtomicU64::new(0), AtomicU64::new(1));
        let counts = [const { AtomicU64::new(0) }; 5];
        let out = Count::default();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let now = Nanos(clock.fetch_add(1000, Relaxed));
                        let number = asked.fetch_add(1, Relaxed) + 1;
                        limiter.asked(number, now);
                        let ruling = rule(&limiter, now, number, &out);
                        counts[ruling as usize].fetch_add(1, Relaxed);
                    }
                });
            }
        });
        let count = |ruling: Ruling| counts[ruling as usize].load(Relaxed);
        let all = 4 * EACH;
        assert!(count(Ruling::Refuse) <= all / 2);
        assert!(count(Ruling::Refuse) > all * 49 / 100);
        // 200 ms of the test's clock.
        let probes = count(Ruling::Probe);
        assert!((1..=20).contains(&probes), "{probes}");
        let samples = count(Ruling::Sample);
        assert!(samples <= all / 100 && samples + probes >= all / 100, "{samples}");
    }
}
