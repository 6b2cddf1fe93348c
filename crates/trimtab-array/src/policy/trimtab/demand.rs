//! What turns would change: the extra reads that they take, and the requests that they delay.

/// Requests over which a mean is taken: those of several bursts.
const REMEMBERED: f64 = 50_000.0;
/// A mean of fewer says nothing.
const ENOUGH: f64 = 8_000.0;
/// A share of late requests that p99 does not show ...
const BELOW_P99: f64 = 0.01;
/// ... and one that it surely shows, whatever chance adds.
const ABOVE_P99: f64 = 0.02;

/// The mean of recent requests, and the most that it was.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    mean: f64,
    peak: f64,
    count: f64,
}

impl Recent {
    fn add(&mut self, value: f64) {
        self.count = (self.count + 1.0).min(REMEMBERED);
        self.mean += (value - self.mean) / self.count;
        if self.count >= ENOUGH {
            // It is forgotten as slowly as turns are made.
            self.peak = (self.peak * (1.0 - 0.1 / REMEMBERED)).max(self.mean);
        }
    }
}

/// Late requests of one kind, and how many members they go to.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    late: Recent,
    width: Recent,
}

impl Kind {
    fn add(&mut self, late: bool, members: u32) {
        self.late.add(f64::from(u8::from(late)));
        self.width.add(f64::from(members));
    }

    /// Whether turns leave p99 as it is.
    fn is_safe(&self) -> bool {
        let Recent { mean, peak, count } = self.late;
        count >= ENOUGH && (mean >= ABOVE_P99 || peak * self.width.mean.max(1.0) < BELOW_P99)
    }
}

/// What turns would change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    /// Extra reads for each read, if all that is late were gone around.
    extra: Recent,
    reads: Kind,
    writes: Kind,
}

impl Demand {
    /// A read of so many members has ended. Going around one of them takes so many extra reads.
    pub(super) fn read(&mut self, late: bool, members: u32, extra: u32) {
        self.extra.add(if late { f64::from(extra) } else { 0.0 });
        self.reads.add(late, members);
    }

    /// A write of so many members has ended.
    pub(super) fn write(&mut self, late: bool, members: u32) {
        self.writes.add(late, members);
    }

    /// The most extra reads that are to be expected, for each read; none before enough is known.
    pub(super) fn extra(&self) -> Option<f64> {
        (self.extra.count >= ENOUGH).then_some(self.extra.peak)
    }

    /// Whether turns leave p99 as it is, of reads and of writes.
    ///
    /// While all members are busy at the same time, a request of several is late as often as that
    /// of one. With turns each of its members delays it at another time. So a share of late
    /// requests that p99 does not show may rise to one that it does.
    pub(super) fn is_safe(&self) -> bool {
        self.reads.is_safe() && self.writes.is_safe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(late_writes: usize, late_reads: usize, members: u32) -> Demand {
        let mut demand = Demand::default();
        for number in 0..10_000 {
            demand.read(number % 1_000 < late_reads, 2, 3);
            demand.write(number % 1_000 < late_writes, members);
        }
        demand
    }

    #[test]
    fn turns_may_not_move_p99() {
        assert!(!Demand::default().is_safe(), "nothing is known");
        assert!(demand(1, 1, 2).is_safe());
        assert!(!demand(7, 1, 2).is_safe(), "1.4% of the writes would be late");
        assert!(!demand(1, 7, 2).is_safe(), "1.4% of the reads would be late");
        assert!(!demand(3, 1, 8).is_safe());
        assert!(demand(50, 50, 8).is_safe(), "p99 is late already");
    }

    #[test]
    fn extra_reads_are_those_of_late_reads() {
        assert_eq!(Demand::default().extra(), None);
        let extra = demand(0, 100, 2).extra().unwrap();
        assert!((0.3..0.4).contains(&extra), "{extra}");
    }
}
