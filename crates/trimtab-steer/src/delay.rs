//! The delay before a hedge.

use trimtab_io::Nanos;

/// By how much a read may exceed its expected latency before it is hedged: the quantile
/// that a given share of the reads exceeds. It follows the quantile by stochastic
/// approximation (Robbins and Monro, 1951), in logarithms; quickly at first, then so
/// slowly that quiet and busy minutes have one price.
///
/// Two bounds keep a bad stretch from outlasting itself. Reads that are stuck together all
/// reach the same delay: they raise it to twice their own wait and no further. And while
/// the budget is unspent, the price is wrong: it decays with time, by a factor of
/// [`e`](std::f64::consts::E) in [`RECOVERY`].
#[derive(Clone, Debug)]
pub(crate) struct Delay {
    nanos: f64,
    /// The share of the reads that are to exceed it.
    pub(crate) share: f64,
    reads: u64,
    /// The last read.
    at: Nanos,
}

/// Steps of the logarithm for a read that reaches the delay: the first step, the number of
/// reads after which steps are half as large, and the smallest step.
const FIRST_STEP: f64 = 0.1;
const HALF_AFTER: f64 = 1000.0;
const LEAST_STEP: f64 = 0.005;

/// The shortest delay, ns.
const LEAST_DELAY: f64 = 1000.0;

/// Decay time of the delay while the budget is unspent: a hundredfold in less than a second.
const RECOVERY: Nanos = Nanos::from_millis(200);

impl Delay {
    pub(crate) fn new(first: Nanos, share: f64) -> Self {
        let nanos = (first.0 as f64).max(LEAST_DELAY);
        Self { nanos, share, reads: 0, at: Nanos::ZERO }
    }

    pub(crate) const fn get(&self) -> Nanos {
        Nanos(self.nanos as u64)
    }

    fn step(&self) -> f64 {
        (FIRST_STEP / (1.0 + self.reads as f64 / HALF_AFTER)).max(LEAST_STEP)
    }

    /// A read has started to wait.
    pub(crate) fn was_set(&mut self, now: Nanos, unspent: bool) {
        self.reads += 1;
        let mut decay = self.step() * self.share;
        if unspent {
            decay += now.since(self.at).0 as f64 / RECOVERY.0 as f64;
        }
        self.at = now;
        self.nanos = (self.nanos * libm::exp(-decay)).max(LEAST_DELAY);
    }

    /// A read has waited for the whole delay, `waited` in all.
    pub(crate) fn was_reached(&mut self, waited: Nanos) {
        let most = (2.0 * waited.0 as f64).max(self.nanos);
        self.nanos = (self.nanos * libm::exp(self.step())).min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits whose logarithms are uniform between 10 µs and 10 ms, so quantiles are known.
    #[test]
    fn delay_follows_the_quantile() {
        let mut delay = Delay::new(Nanos::from_millis(1), 0.02);
        let (mut reached, mut sum) = (0, 0.0);
        for i in 0..200_000_u64 {
            delay.was_set(Nanos(i * 1000), false);
            let random =
                (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1_u64 << 53) as f64;
            if 1e4 * 1000_f64.powf(random) > delay.nanos {
                delay.was_reached(Nanos::MAX);
                reached += 1;
            }
            sum += delay.nanos.ln();
        }
        assert!((3_600..4_400).contains(&reached), "{reached} of 200,000 are not 2%");
        let mean = (sum / 200_000.0).exp();
        let expected = 1e4 * 1000_f64.powf(0.98);
        assert!((mean / expected).ln().abs() < 0.1, "{mean} is not {expected}");
    }

    /// 200 reads are stuck for 50 ms and reach the delay together. A second later, with the
    /// budget refilled, the delay is what it was.
    #[test]
    fn delay_recovers_from_a_bad_stretch_within_a_second() {
        let mut delay = Delay::new(Nanos::from_micros(500), 0.024);
        let mut now = Nanos::ZERO;
        let mut read = |delay: &mut Delay, unspent| {
            now += Nanos::from_micros(100);
            delay.was_set(now, unspent);
        };
        (0..20_000).for_each(|_| read(&mut delay, false));
        let before = delay.get();
        for _ in 0..200 {
            read(&mut delay, false);
            delay.was_reached(Nanos::from_millis(50));
        }
        assert!(delay.get() > before, "the bad stretch raises the price");
        (0..10_000).for_each(|_| read(&mut delay, true));
        assert!(delay.get() <= before, "{} is above {before}", delay.get());
    }
}
