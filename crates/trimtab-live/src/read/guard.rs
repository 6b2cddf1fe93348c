//! What keeps a model from having its way: probes, samples, and a ceiling.
//!
//! A plain state machine: the time and the number of reads so far are passed in, and a
//! [`Ruling`] comes out. Any number of threads ask it at once; there is no lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use trimtab_io::Nanos;

use super::probes::{Part, Probes};

/// So many refusals in a row are allowed whatever the ceiling says: a share means
/// nothing of a few reads.
pub(super) const BURST: u64 = 16;

/// One refusal, in the numbers that the ceiling is counted in.
const ONE: u64 = 1 << 16;

/// What becomes of a read that the model would refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    /// It is refused.
    Refuse,
    /// It is sent, to hear of a drive that has been avoided for a while.
    Probe,
    /// It is sent, to know how many refusals are wrong.
    Sample,
    /// It is sent, because too many have been refused.
    OverCeiling,
}

/// See [`Options`](super::Options), where each is explained.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) probe_every: Nanos,
    pub(super) probes_out: u32,
    pub(super) sample_every: u64,
    /// 0 to 1.
    pub(super) most_refused: f64,
}

/// One for each reader.
#[derive(Debug)]
pub(super) struct Guard {
    sample_every: u64,
    /// The ceiling's share, in parts of [`ONE`].
    share: u64,
    probes: Probes,
    /// Reads that the model would have refused.
    late: AtomicU64,
    /// Refusals, as the ceiling counts them.
    spent: AtomicU64,
}

impl Guard {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            sample_every: rules.sample_every,
            share: (rules.most_refused.clamp(0.0, 1.0) * ONE as f64) as u64,
            probes: Probes::new(rules.probe_every, rules.probes_out),
            late: AtomicU64::new(0),
            spent: AtomicU64::new(0),
        }
    }

    /// A read of this part is sent that nobody wants to refuse.
    pub(super) fn sent(&self, part: Part, now: Nanos) {
        self.probes.sent(part, now);
    }

    /// The model would refuse a read of this part at this time; `asked` reads have been
    /// decided on so far, with this one.
    ///
    /// A [`Probe`](Ruling::Probe) is to be followed by [`probed`](Self::probed).
    pub(super) fn rule(&self, part: Part, now: Nanos, asked: u64) -> Ruling {
        let late = self.late.fetch_add(1, Relaxed) + 1;
        if self.probes.is_due(part, now) {
            return Ruling::Probe;
        }
        if self.sample_every > 0 && late.is_multiple_of(self.sample_every) {
            return Ruling::Sample;
        }
        if self.may_refuse(asked) { Ruling::Refuse } else { Ruling::OverCeiling }
    }

    /// A probe has come back, or was not sent after all.
    pub(super) fn probed(&self) {
        self.probes.back();
    }

    /// Of any stretch of reads at most the share is refused, and [`BURST`] more.
    ///
    /// `spent` moves up with each refusal, and after reads that were sent it is taken
    /// to where the share of all reads stands: what was not refused before is no credit
    /// for later, or a model that goes wrong after a good day could refuse for hours.
    fn may_refuse(&self, asked: u64) -> bool {
        let allowed = asked.saturating_mul(self.share);
        let refuse = |spent: u64| {
            let after = spent.max(allowed) + ONE;
            (after <= allowed + BURST * ONE).then_some(after)
        };
        self.spent.fetch_update(Relaxed, Relaxed, refuse).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const MS: u64 = 1_000_000;
    const RULES: Rules =
        Rules { probe_every: Nanos(10 * MS), probes_out: 4, sample_every: 0, most_refused: 1.0 };

    fn part() -> Part {
        Part::new(&[], None, 1)
    }

    #[test]
    fn one_in_so_many_is_a_sample() {
        let guard = Guard::new(Rules { sample_every: 50, ..RULES });
        let is = |&i: &u64| guard.rule(part(), Nanos(1 + i), i) == Ruling::Sample;
        assert_eq!((1..=1000).filter(is).count(), 20);
    }

    /// The ceiling holds in any stretch, also after a time in which nothing was refused.
    #[test]
    fn the_share_refused_has_a_ceiling_and_no_credit() {
        let guard = Guard::new(Rules { most_refused: 0.75, ..RULES });
        let (before, late) = (1_000_000, 10_000);
        let is = |&i: &u64| guard.rule(part(), Nanos(1 + i), before + i) == Ruling::Refuse;
        let refused: Vec<u64> = (1..=late).filter(is).collect();
        let most = late * 3 / 4 + BURST;
        assert!((most - 1..=most).contains(&(refused.len() as u64)), "{}", refused.len());
        // A ceiling of 1 is none, one of 0 leaves the burst.
        let count = |share| {
            let guard = Guard::new(Rules { most_refused: share, ..RULES });
            (1..=late).filter(|&i| guard.rule(part(), Nanos(1 + i), i) == Ruling::Refuse).count()
                as u64
        };
        assert_eq!((count(1.0), count(0.0)), (late, BURST));
    }

    /// Several threads get no more probes, samples and refusals than one would.
    #[test]
    fn threads_share_what_is_allowed() {
        const EACH: u64 = 50_000;
        let rules = Rules { sample_every: 100, most_refused: 0.5, probes_out: 1, ..RULES };
        let guard = Guard::new(rules);
        let (asked, clock) = (AtomicU64::new(0), AtomicU64::new(1));
        let counts = [const { AtomicU64::new(0) }; 4];
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let now = Nanos(clock.fetch_add(1000, Relaxed));
                        let ruling = guard.rule(part(), now, asked.fetch_add(1, Relaxed) + 1);
                        counts[ruling as usize].fetch_add(1, Relaxed);
                        if ruling == Ruling::Probe {
                            guard.probed();
                        }
                    }
                });
            }
        });
        let count = |ruling: Ruling| counts[ruling as usize].load(Relaxed);
        let all = 4 * EACH;
        assert!(count(Ruling::Refuse) <= all / 2 + BURST);
        assert!(count(Ruling::Refuse) > all * 49 / 100);
        // 200 ms of its clock.
        let probes = count(Ruling::Probe);
        assert!((1..=20).contains(&probes), "{probes}");
        let samples = count(Ruling::Sample);
        assert!(samples <= all / 100 && samples + probes >= all / 100, "{samples}");
    }
}
