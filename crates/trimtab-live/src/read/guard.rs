//! What keeps a model from having its way: probes, samples, and a ceiling.
//!
//! A plain state machine: the time and the number of reads so far are passed in, and a
//! [`Ruling`] comes out. Any number of threads ask it at once; there is no lock.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use trimtab_io::Nanos;

/// So many refusals in a row are allowed whatever the ceiling says: a share means
/// nothing of a few reads.
pub(super) const BURST: u64 = 16;

/// Where single reads are expected to be late among others that are sent, a probe is due
/// after so many times as long. More often, and of a drive that is read seldom and has
/// short troubles every late read would be a probe; never, and a part that is read seldom
/// would be avoided until a sample is due.
const PATIENCE: u64 = 5;

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
    rules: Rules,
    /// The ceiling's share, in parts of [`ONE`].
    share: u64,
    /// Since when reads have been expected to be late, or when the last one of them was
    /// sent all the same; 0: none has been, for a while.
    avoided_since: AtomicU64,
    /// The same of reads that are late one by one, with others sent in between: a part
    /// of the drive that is seldom asked of looks so, and so do short troubles of a
    /// drive that is. 0: none has been, for a longer while.
    part_avoided_since: AtomicU64,
    /// Whether a read has been sent since one was expected to be late.
    is_sent_between: AtomicBool,
    /// When one was expected to be late last.
    last_late: AtomicU64,
    /// Probes that have not come back.
    out: AtomicU32,
    /// Reads that the model would have refused.
    late: AtomicU64,
    /// Refusals, as the ceiling counts them.
    spent: AtomicU64,
}

impl Guard {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            share: (rules.most_refused.clamp(0.0, 1.0) * ONE as f64) as u64,
            avoided_since: AtomicU64::new(0),
            part_avoided_since: AtomicU64::new(0),
            is_sent_between: AtomicBool::new(false),
            last_late: AtomicU64::new(0),
            out: AtomicU32::new(0),
            late: AtomicU64::new(0),
            spent: AtomicU64::new(0),
        }
    }

    /// A read is sent that nobody wants to refuse. If nobody has wanted to refuse any
    /// for as long as a probe takes to be due, the drive needs none: without this, the
    /// first read of each short time of trouble would be one.
    pub(super) fn sent(&self, now: Nanos) {
        // Looked at first: a line that is not written stays in every core's cache.
        if self.part_avoided_since.load(Relaxed) == 0 {
            return;
        }
        if !self.is_sent_between.load(Relaxed) {
            self.is_sent_between.store(true, Relaxed);
        }
        let quiet = now.since(Nanos(self.last_late.load(Relaxed)));
        if quiet >= self.rules.probe_every && self.avoided_since.load(Relaxed) != 0 {
            self.avoided_since.store(0, Relaxed);
        }
        if quiet >= self.patience() {
            self.part_avoided_since.store(0, Relaxed);
        }
    }

    /// The model would refuse a read at this time; `asked` reads have been decided on
    /// so far, with this one.
    ///
    /// A [`Probe`](Ruling::Probe) is to be followed by [`probed`](Self::probed).
    pub(super) fn rule(&self, now: Nanos, asked: u64) -> Ruling {
        let late = self.late.fetch_add(1, Relaxed) + 1;
        self.last_late.store(now.0, Relaxed);
        if self.is_probe_due(now) {
            return Ruling::Probe;
        }
        if self.rules.sample_every > 0 && late.is_multiple_of(self.rules.sample_every) {
            return Ruling::Sample;
        }
        if self.may_refuse(asked) { Ruling::Refuse } else { Ruling::OverCeiling }
    }

    /// A probe has come back, or was not sent after all.
    pub(super) fn probed(&self) {
        self.out.fetch_sub(1, Relaxed);
    }

    /// Whether this read is to be a probe.
    fn is_probe_due(&self, now: Nanos) -> bool {
        let is_alone = self.is_sent_between.swap(false, Relaxed);
        let is_due = self.is_due(&self.avoided_since, self.rules.probe_every, now)
            || (is_alone && self.is_due(&self.part_avoided_since, self.patience(), now));
        // One late read after the other is no matter of a part.
        if is_due || !is_alone {
            self.part_avoided_since.store(now.0.max(1), Relaxed);
        }
        if is_due {
            self.avoided_since.store(now.0.max(1), Relaxed);
        }
        is_due
    }

    fn patience(&self) -> Nanos {
        Nanos(self.rules.probe_every.0.saturating_mul(PATIENCE))
    }

    /// Whether a probe is due of what has been avoided since then; one thread at a time
    /// is told so, and has taken it.
    fn is_due(&self, avoided_since: &AtomicU64, every: Nanos, now: Nanos) -> bool {
        let since = avoided_since.load(Relaxed);
        if since != 0 && now.since(Nanos(since)) < every {
            return false;
        }
        // If it has been in use until now, the time begins now.
        let first = since == 0;
        if !first && !self.take_probe() {
            return false;
        }
        let turned = avoided_since.compare_exchange(since, now.0.max(1), Relaxed, Relaxed).is_ok();
        if !first && !turned {
            self.probed();
        }
        !first && turned
    }

    /// A drive that answers none of so many probes is not sent another: each of them
    /// holds up a thread of the application.
    fn take_probe(&self) -> bool {
        let more = |out| (out < self.rules.probes_out).then_some(out + 1);
        self.out.fetch_update(Relaxed, Relaxed, more).is_ok()
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

    #[test]
    fn a_refused_drive_is_probed_every_10_ms() {
        let guard = Guard::new(RULES);
        let mut probes = Vec::new();
        for i in 1..=1000 {
            // Ten a millisecond, all of them late.
            match guard.rule(Nanos(i * MS / 10), i) {
                Ruling::Probe => {
                    probes.push(i);
                    guard.probed();
                }
                ruling => assert_eq!(ruling, Ruling::Refuse),
            }
        }
        assert_eq!(probes, (1..10).map(|i| 1 + 100 * i).collect::<Vec<_>>());
    }

    #[test]
    fn a_drive_that_is_seldom_asked_is_probed_whenever_it_is() {
        let guard = Guard::new(RULES);
        assert_eq!(guard.rule(Nanos(5 * MS), 1), Ruling::Refuse);
        for i in 1..10 {
            assert_eq!(guard.rule(Nanos(i * 1000 * MS), i), Ruling::Probe);
            guard.probed();
        }
    }

    /// Times of trouble that are shorter than the time between probes have none.
    #[test]
    fn a_drive_in_use_needs_no_probes() {
        let guard = Guard::new(RULES);
        for i in 1..1000 {
            guard.sent(Nanos((20 * i - 1) * MS));
            assert_eq!(guard.rule(Nanos(20 * i * MS), 3 * i), Ruling::Refuse);
            assert_eq!(guard.rule(Nanos((20 * i + 5) * MS), 3 * i), Ruling::Refuse);
        }
    }

    /// What other parts of the drive are sent says nothing of the part that is avoided.
    #[test]
    fn a_drive_of_which_a_part_is_avoided_is_probed() {
        let guard = Guard::new(RULES);
        let is = |&i: &u64| {
            guard.sent(Nanos(i * MS));
            let is = guard.rule(Nanos(i * MS), i) == Ruling::Probe;
            if is {
                guard.probed();
            }
            is
        };
        assert_eq!((1..=1001).filter(is).count(), 100);
    }

    /// A part that is asked of less often than probes are due gets some as well, whatever
    /// else is sent.
    #[test]
    fn a_part_that_is_seldom_asked_of_is_probed_beside_reads_that_are_sent() {
        let guard = Guard::new(RULES);
        let is = |&i: &u64| {
            (1..13).for_each(|ms| guard.sent(Nanos((13 * i + ms - 13) * MS)));
            let is = guard.rule(Nanos(13 * i * MS), 13 * i) == Ruling::Probe;
            if is {
                guard.probed();
            }
            is
        };
        // Every 50 ms, so the fourth of them each time.
        assert_eq!((1..=1001).filter(is).count(), 250);
    }

    /// Late reads that are far between are none to recover from.
    #[test]
    fn a_late_read_now_and_then_is_no_probe() {
        let guard = Guard::new(RULES);
        for i in 1..1000 {
            assert_eq!(guard.rule(Nanos(60 * i * MS), 60 * i), Ruling::Refuse);
            guard.sent(Nanos((60 * i + 55) * MS));
        }
    }

    #[test]
    fn a_drive_that_answers_no_probe_gets_no_more_until_it_does() {
        let guard = Guard::new(RULES);
        let probes = |from: u64| {
            let is = |&i: &u64| guard.rule(Nanos(i * 10 * MS), i) == Ruling::Probe;
            (from..from + 100).filter(is).count()
        };
        assert_eq!(probes(1), 4);
        guard.probed();
        assert_eq!(probes(101), 1);
    }

    #[test]
    fn one_in_so_many_is_a_sample() {
        let guard = Guard::new(Rules { sample_every: 50, ..RULES });
        let is = |&i: &u64| guard.rule(Nanos(1 + i), i) == Ruling::Sample;
        assert_eq!((1..=1000).filter(is).count(), 20);
    }

    /// The ceiling holds in any stretch, also after a time in which nothing was refused.
    #[test]
    fn the_share_refused_has_a_ceiling_and_no_credit() {
        let guard = Guard::new(Rules { most_refused: 0.75, ..RULES });
        let (before, late) = (1_000_000, 10_000);
        let is = |&i: &u64| guard.rule(Nanos(1 + i), before + i) == Ruling::Refuse;
        let refused: Vec<u64> = (1..=late).filter(is).collect();
        let most = late * 3 / 4 + BURST;
        assert!((most - 1..=most).contains(&(refused.len() as u64)), "{}", refused.len());
        // A ceiling of 1 is none, one of 0 leaves the burst.
        let count = |share| {
            let guard = Guard::new(Rules { most_refused: share, ..RULES });
            (1..=late).filter(|&i| guard.rule(Nanos(1 + i), i) == Ruling::Refuse).count() as u64
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
                        let ruling = guard.rule(now, asked.fetch_add(1, Relaxed) + 1);
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
        assert_eq!(guard.out.load(Relaxed), 0);
    }
}
