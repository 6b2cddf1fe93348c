//! What keeps a model from having its way: probes, samples, and a ceiling.
//!
//! A plain state machine: the time and the number of reads so far are passed in, and a
//! [`Ruling`] comes out. Any number of threads ask it at once; there is no lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use trimtab_io::Nanos;

use crate::outstanding::Count;
use crate::probes::{Part, Probes};
use crate::refusal_cap::RefusalCap;

/// What becomes of a read that the model would refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    /// It is refused.
    Refuse,
    /// It would be sent for one of the following reasons, but as many of these are out as
    /// may be. It is refused.
    RefuseBounded,
    /// It is sent, to hear of a drive that has been avoided for a while.
    Probe,
    /// It is sent, to know how many refusals are wrong.
    Sample,
    /// It is sent, because too many have been refused.
    OverCeiling,
}

/// See [`ReadOptions`](super::ReadOptions), where each is explained.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) probe_every: Nanos,
    pub(super) trials_out: u32,
    pub(super) sample_every: u64,
    /// 0 to 1.
    pub(super) most_refused: f64,
}

/// One for each reader.
#[derive(Debug)]
pub(super) struct AdmissionLimiter {
    sample_every: u64,
    trials_out: u32,
    probes: Probes,
    ceiling: RefusalCap,
    /// Reads that the model would have refused.
    late: AtomicU64,
}

impl AdmissionLimiter {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            sample_every: rules.sample_every,
            trials_out: rules.trials_out,
            probes: Probes::new(rules.probe_every),
            ceiling: RefusalCap::new(rules.most_refused),
            late: AtomicU64::new(0),
        }
    }

    /// The read of this number is to be decided on.
    pub(super) fn asked(&self, number: u64, now: Nanos) {
        self.ceiling.asked(number, now);
    }

    /// A read of this part is sent that nobody wants to refuse.
    pub(super) fn sent(&self, part: Part, now: Nanos) {
        self.probes.sent(part, now);
    }

    /// The model would refuse a read of this part at this time: the one that was
    /// [`asked`](Self::asked) with this number.
    ///
    /// One that is not refused counts among the `trials` that are out until it has
    /// [ended](Count::end). Of these there are no more than may be, whatever the ceiling
    /// would have sent: each may hold up a thread of the application.
    pub(super) fn rule(&self, part: Part, now: Nanos, number: u64, trials: &Count) -> Ruling {
        let late = self.late.fetch_add(1, Relaxed) + 1;
        if self.probes.is_due(part, now, (trials, self.trials_out)) {
            return Ruling::Probe;
        }
        let is_sample = self.sample_every > 0 && late.is_multiple_of(self.sample_every);
        if !is_sample && self.ceiling.may_refuse(number) {
            return Ruling::Refuse;
        }
        match trials.add_up_to(self.trials_out) {
            true if is_sample => Ruling::Sample,
            true => Ruling::OverCeiling,
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
        Rules { probe_every: Nanos(10 * MS), trials_out: 4, sample_every: 0, most_refused: 1.0 };

    fn part() -> Part {
        Part::anywhere(1)
    }

    /// A read that is back at once if it is sent.
    fn rule(guard: &AdmissionLimiter, now: Nanos, number: u64, out: &Count) -> Ruling {
        let ruling = guard.rule(part(), now, number, out);
        if !matches!(ruling, Ruling::Refuse | Ruling::RefuseBounded) {
            out.end();
        }
        ruling
    }

    /// On a drive that answers nothing: whatever the ceiling, the samples and the probes
    /// want.
    #[test]
    fn no_more_than_the_bound_are_sent_to_a_drive_that_does_not_answer() {
        for (most_refused, sample_every) in [(0.0, 0), (0.5, 0), (0.98, 10), (1.0, 1)] {
            let guard = AdmissionLimiter::new(Rules { most_refused, sample_every, ..RULES });
            let out = Count::default();
            let mut sent = 0;
            for i in 1..=10_000 {
                let now = Nanos(i * MS);
                guard.asked(i, now);
                let ruling = guard.rule(part(), now, i, &out);
                sent += u32::from(!matches!(ruling, Ruling::Refuse | Ruling::RefuseBounded));
            }
            assert_eq!((sent, out.get()), (4, 4), "{most_refused}");
            // One has come back: the next may go.
            out.end();
            guard.asked(10_001, Nanos(20_000 * MS));
            assert_eq!(guard.rule(part(), Nanos(20_000 * MS), 10_001, &out), Ruling::Probe);
        }
    }

    #[test]
    fn one_in_so_many_is_a_sample() {
        let guard = AdmissionLimiter::new(Rules { sample_every: 50, ..RULES });
        let is = |&i: &u64| rule(&guard, Nanos(1 + i), i, &Count::default()) == Ruling::Sample;
        assert_eq!((1..=1000).filter(is).count(), 20);
    }

    /// Probes and samples need not be allowed by the ceiling, and what it does not allow is
    /// sent.
    #[test]
    fn the_share_refused_has_a_ceiling() {
        let guard = AdmissionLimiter::new(Rules { most_refused: 0.75, ..RULES });
        let mut counts = [0; 5];
        let out = Count::default();
        for i in 1..=10_000 {
            // A thousand in a second.
            let now = Nanos(i * MS);
            guard.asked(i, now);
            counts[rule(&guard, now, i, &out) as usize] += 1;
        }
        let [refused, bounded, probed, sampled, over] = counts;
        assert!((7480..=7500).contains(&refused), "{counts:?}");
        assert!(probed == 999 && sampled == 0 && bounded == 0 && over > 1000, "{counts:?}");
    }

    /// Several threads get no more probes, samples and refusals than one would.
    #[test]
    fn threads_share_what_is_allowed() {
        const EACH: u64 = 50_000;
        let rules = Rules { sample_every: 100, most_refused: 0.5, ..RULES };
        let guard = AdmissionLimiter::new(rules);
        let (asked, clock) = (AtomicU64::new(0), AtomicU64::new(1));
        let counts = [const { AtomicU64::new(0) }; 5];
        let out = Count::default();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let now = Nanos(clock.fetch_add(1000, Relaxed));
                        let number = asked.fetch_add(1, Relaxed) + 1;
                        guard.asked(number, now);
                        let ruling = rule(&guard, now, number, &out);
                        counts[ruling as usize].fetch_add(1, Relaxed);
                    }
                });
            }
        });
        let count = |ruling: Ruling| counts[ruling as usize].load(Relaxed);
        let all = 4 * EACH;
        assert!(count(Ruling::Refuse) <= all / 2);
        assert!(count(Ruling::Refuse) > all * 49 / 100);
        // 200 ms of its clock.
        let probes = count(Ruling::Probe);
        assert!((1..=20).contains(&probes), "{probes}");
        let samples = count(Ruling::Sample);
        assert!(samples <= all / 100 && samples + probes >= all / 100, "{samples}");
    }
}
