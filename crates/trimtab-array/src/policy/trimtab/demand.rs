//! What turns would change: the extra reads that they take, and the requests that they delay.

use trimtab_io::Nanos;

/// Requests of the user over which a mean is taken: those of several bursts.
const REMEMBERED: f64 = 50_000.0;
/// A mean over fewer stripes says nothing.
const ENOUGH: f64 = 8_000.0;
/// A share of late requests that p99 does not show ...
const BELOW_P99: f64 = 0.01;
/// ... and one that it surely shows, whatever chance adds.
const ABOVE_P99: f64 = 0.02;

/// The mean over the stripes of recent requests, and the most that it was.
///
/// It is forgotten by the user's requests: hundreds of stripes of one of them have one fate.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    sum: f64,
    stripes: f64,
    peak: f64,
}

impl Recent {
    /// Adds a stripe, which may be the first one of a request.
    fn add(&mut self, value: f64, is_first: bool) {
        if is_first {
            let kept = 1.0 - 1.0 / REMEMBERED;
            self.sum *= kept;
            self.stripes *= kept;
            // As slowly as turns are made.
            self.peak *= 1.0 - 0.1 / REMEMBERED;
        }
        self.sum += value;
        self.stripes += 1.0;
        if self.is_enough() {
            self.peak = self.peak.max(self.mean());
        }
    }

    fn is_enough(&self) -> bool {
        self.stripes >= ENOUGH
    }

    fn mean(&self) -> f64 {
        if self.stripes > 0.0 { self.sum / self.stripes } else { 0.0 }
    }
}

/// Late requests of one kind, and how many members they go to.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    late: Recent,
    width: Recent,
    /// When the newest request began.
    newest: Nanos,
}

impl Kind {
    /// A stripe's part of a request has ended. Returns whether it is the request's first one.
    fn add(&mut self, begun: Nanos, late: bool, members: u32) -> bool {
        let is_first = begun > self.newest;
        self.newest = self.newest.max(begun);
        self.late.add(f64::from(u8::from(late)), is_first);
        self.width.add(f64::from(members), is_first);
        is_first
    }

    /// Whether turns leave p99 as it is.
    fn is_safe(&self) -> bool {
        let at_most = self.late.peak * self.width.mean().max(1.0);
        self.late.is_enough() && (self.late.mean() >= ABOVE_P99 || at_most < BELOW_P99)
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
    /// A stripe's read of so many members has ended. Going around one of them takes so many extra reads.
    pub(super) fn read(&mut self, begun: Nanos, late: bool, members: u32, extra: u32) {
        let is_first = self.reads.add(begun, late, members);
        self.extra.add(if late { f64::from(extra) } else { 0.0 }, is_first);
    }

    /// A stripe's write of so many members has ended.
    pub(super) fn write(&mut self, begun: Nanos, late: bool, members: u32) {
        self.writes.add(begun, late, members);
    }

    /// The most extra reads that are to be expected, for each read; none before enough is known.
    pub(super) fn extra(&self) -> Option<f64> {
        self.extra.is_enough().then_some(self.extra.peak)
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
            let begun = Nanos(number as u64 + 1);
            demand.read(begun, number % 1_000 < late_reads, 2, 3);
            demand.write(begun, number % 1_000 < late_writes, members);
        }
        demand
    }

    #[test]
    fn long_reads_are_remembered_as_long_as_short_ones() {
        // 400 stripes each; one in five is late.
        let mut demand = Demand::default();
        for read in 0..2_000_u64 {
            (0..400).for_each(|_| demand.read(Nanos(read + 1), read % 5 == 0, 2, 1));
        }
        // Some dozens that are not.
        for read in 2_000..2_100_u64 {
            (0..400).for_each(|_| demand.read(Nanos(read + 1), false, 2, 1));
        }
        let (extra, late) = (demand.extra().unwrap(), demand.reads.late.mean());
        assert!((0.18..0.25).contains(&extra) && (0.18..0.2).contains(&late), "{demand:?}");
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
