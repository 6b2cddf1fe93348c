//! When a member is busy with itself.

use trimtab_io::Nanos;

/// A member of which no read was late for so long is not busy.
const QUIET: Nanos = Nanos::from_millis(300);
/// Reads that take this share of the longest ones make a burst: shorter waits have other causes.
const LONG: f64 = 0.25;
/// What is longest is forgotten by this factor with each late read.
const FORGET: f64 = 0.999;
/// Long reads that are so many times the longest ones apart belong to one burst.
const APART: f64 = 4.0;
/// Bursts that come as regularly as this are a period: the share by which one may differ.
const REGULAR: f64 = 0.25;
/// So many regular bursts make a period known.
const KNOWN: u32 = 2;
/// Reads whose outcomes decide whether the member is busy.
const RECENT: u32 = 8;

/// The bursts of one member: in time, as its reads show them, and in bytes written.
#[derive(Clone, Debug, Default)]
pub(super) struct Bursts {
    /// Bytes written to it so far.
    written: f64,
    /// The same when the last burst began.
    began_at: f64,
    /// Bytes between bursts, and how often they were about as many.
    period: f64,
    regular: u32,
    /// When the last burst began, and the end of its last long read so far.
    began: Option<Nanos>,
    last_long: Nanos,
    /// The longest reads lately, ns.
    longest: f64,
    /// When a read was last known to be late.
    last_late: Nanos,
    /// Outcomes of the last reads, the newest first: 1 is late.
    recent: u32,
}

impl Bursts {
    pub(super) fn written(&mut self, bytes: f64) {
        self.written += bytes;
    }

    /// A read is late.
    pub(super) fn late(&mut self, now: Nanos) {
        self.recent = self.recent << 1 | 1;
        self.last_late = self.last_late.max(now);
    }

    /// A late read that was sent at this time has taken so long. Returns whether it is the first of
    /// a burst.
    pub(super) fn took_long(&mut self, sent: Nanos, took: Nanos, now: Nanos) -> bool {
        self.longest = (self.longest * FORGET).max(took.0 as f64);
        if (took.0 as f64) < LONG * self.longest {
            return false;
        }
        let apart = sent.since(self.last_long).0 as f64;
        let continues = self.began.is_some() && apart <= APART * self.longest;
        self.last_long = self.last_long.max(now);
        if continues {
            return false;
        }
        let bytes = self.written - self.began_at;
        if self.began.is_some() && bytes > 0.0 {
            let differs = (bytes - self.period).abs() / self.period.max(1.0);
            if differs <= REGULAR {
                self.period += (bytes - self.period) / 4.0;
                self.regular += 1;
            } else {
                (self.period, self.regular) = (bytes, 0);
            }
        }
        self.began = Some(sent);
        self.began_at = self.written;
        true
    }

    /// A read was in time.
    pub(super) fn in_time(&mut self, sent: Nanos) {
        // One from before the burst says nothing of it.
        if self.began.is_none_or(|began| sent >= began) {
            self.recent <<= 1;
        }
    }

    /// Whether reads of it are late now, more often than not.
    pub(super) fn is_busy(&self, now: Nanos) -> bool {
        let recent = self.recent & ((1 << RECENT) - 1);
        let is_late = recent & 1 == 1 || recent.count_ones() >= RECENT / 2;
        is_late && now.since(self.last_late) <= QUIET
    }

    /// From when on a read is a long one, ns.
    pub(super) fn long(&self) -> f64 {
        self.longest * LONG
    }

    /// Bytes between its bursts, once they are known to be regular.
    pub(super) const fn period(&self) -> f64 {
        self.period
    }

    /// How much of its period has been written since its last burst, 0 to 1; none if its bursts are
    /// not regular.
    pub(super) fn phase(&self) -> Option<f64> {
        let known = self.regular >= KNOWN && self.period > 0.0;
        known.then(|| ((self.written - self.began_at) / self.period).fract())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_bursts_are_a_period() {
        let mut bursts = Bursts::default();
        for number in 0..5_u64 {
            let at = Nanos::from_secs(10 * (number + 1));
            for late in 0..5 {
                let sent = at + Nanos::from_millis(20 * late);
                let took = Nanos::from_millis(50);
                bursts.late(sent + took);
                let begins = bursts.took_long(sent, took, sent + took);
                assert_eq!(begins, late == 0, "{number} {late}");
            }
            assert!(bursts.is_busy(at + Nanos::from_millis(150)));
            assert!(!bursts.is_busy(at + Nanos::from_secs(2)));
            (0..10).for_each(|_| bursts.written(100.0));
        }
        assert!((bursts.period() - 1000.0).abs() < 1.0, "{}", bursts.period());
        bursts.written(250.0);
        assert!(bursts.phase().is_some_and(|phase| (phase - 0.25).abs() < 0.01));
    }
}
