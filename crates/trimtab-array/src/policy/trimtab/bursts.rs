//! When a member is busy with itself.

use trimtab_io::Nanos;

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
/// A member's first period is known at once, if it is that of others, up to this share.
const ALIKE: f64 = 0.1;

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
    /// How many there were.
    count: u32,
}

impl Bursts {
    pub(super) fn written(&mut self, bytes: f64) {
        self.written += bytes;
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
        self.count = self.count.saturating_add(1);
        self.began = Some(sent);
        self.began_at = self.written;
        true
    }

    /// The longest reads lately, ns.
    pub(super) const fn longest(&self) -> f64 {
        self.longest
    }

    /// How many bursts there were.
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// Bytes between its bursts, once they are known to be regular.
    pub(super) const fn period(&self) -> f64 {
        self.period
    }

    /// Whether its bursts are known to be regular.
    pub(super) const fn is_regular(&self) -> bool {
        self.regular >= KNOWN
    }

    /// Whether both have had two bursts with as many bytes between them.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.period > 0.0 && (self.period - other.period).abs() <= ALIKE * self.period
    }

    /// How much of its period has been written since its last burst, 0 to 1.
    pub(super) fn phase(&self) -> f64 {
        ((self.written - self.began_at) / self.period).fract()
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
                let begins = bursts.took_long(sent, took, sent + took);
                assert_eq!(begins, late == 0, "{number} {late}");
            }
            (0..10).for_each(|_| bursts.written(100.0));
        }
        assert!((bursts.period() - 1000.0).abs() < 1.0, "{}", bursts.period());
        bursts.written(250.0);
        assert!(bursts.is_regular());
        assert!((bursts.phase() - 0.25).abs() < 0.01, "{}", bursts.phase());
    }
}
