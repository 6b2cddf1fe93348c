//! Zipf-distributed ranks in constant time and memory.

use super::random::Random;

/// Draws ranks 1 to n with probabilities proportional to 1 / rank^theta.
///
/// Rejection-inversion (W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates from
/// monotone discrete distributions", ACM TOMACS 6(3), 1996): the sum over ranks is bounded by the
/// integral of x^-theta, which can be inverted. A point drawn under the integral falls next to a
/// rank, and is rejected if it lies above that rank's probability. No table, and fewer than 1.2
/// draws per rank for any n.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    n: f64,
    theta: f64,
    /// The integral at the ends of the range drawn from.
    low: f64,
    high: f64,
    /// Points this close below their rank are accepted without evaluation.
    sure: f64,
}

impl Zipf {
    pub(super) fn new(n: u64, theta: f64) -> Self {
        let n = n as f64;
        let low = integral(theta, 1.5) - 1.0;
        let high = integral(theta, n + 0.5);
        let sure = 2.0 - inverse(theta, integral(theta, 2.5) - density(theta, 2.0));
        Self { n, theta, low, high, sure }
    }

    pub(super) fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.high + random.unit() * (self.low - self.high);
            let x = inverse(self.theta, area);
            let rank = libm::floor(x + 0.5).clamp(1.0, self.n);
            let accepted = rank - x <= self.sure
                || area >= integral(self.theta, rank + 0.5) - density(self.theta, rank);
            if accepted {
                return rank as u64;
            }
        }
    }
}

/// x^-theta.
fn density(theta: f64, x: f64) -> f64 {
    libm::exp(-theta * libm::log(x))
}

/// The integral of x^-theta from 1 to x: (x^(1-theta) - 1) / (1 - theta), or ln x for theta = 1, in
/// a form that is accurate near theta = 1 too.
fn integral(theta: f64, x: f64) -> f64 {
    let log = libm::log(x);
    let t = (1.0 - theta) * log;
    if t.abs() < 1e-8 { log * (1.0 + t / 2.0) } else { log * libm::expm1(t) / t }
}

/// The x at which the integral has this value.
fn inverse(theta: f64, area: f64) -> f64 {
    // Rounding must not take the logarithm below its domain.
    let t = ((1.0 - theta) * area).max(-1.0);
    libm::exp(if t.abs() < 1e-8 { area * (1.0 - t / 2.0) } else { area * libm::log1p(t) / t })
}

#[cfg(test)]
mod tests {
    use super::super::Purpose;
    use super::*;

    #[test]
    fn frequencies_follow_the_zipf_law() {
        const DRAWS: u64 = 200_000;
        for theta in [0.0, 0.5, 0.99, 1.0, 1.0 + 1e-10, 1.2, 3.0] {
            for n in [1_u64, 2, 1000] {
                let zipf = Zipf::new(n, theta);
                let mut random = Random::new(n, Purpose::Offsets);
                let mut counts = vec![0_u64; n as usize + 1];
                for _ in 0..DRAWS {
                    counts[zipf.rank(&mut random) as usize] += 1;
                }
                assert_eq!(counts[0], 0);
                let weights: Vec<_> = (1..=n).map(|r| (r as f64).powf(-theta)).collect();
                let total: f64 = weights.iter().sum();
                for (rank, weight) in (1..).zip(&weights) {
                    let expected = DRAWS as f64 * weight / total;
                    let deviation = (counts[rank] as f64 - expected).abs();
                    // Five standard deviations, and one for rounding.
                    assert!(
                        deviation < 5.0 * expected.sqrt() + 1.0,
                        "theta {theta}, {n} ranks, rank {rank}: {} for {expected}",
                        counts[rank]
                    );
                }
            }
        }
    }

    #[test]
    fn ranks_stay_in_range() {
        let n = 1 << 48;
        for theta in [0.0, 0.99, 1.0, 5.0] {
            let zipf = Zipf::new(n, theta);
            let mut random = Random::new(1, Purpose::Offsets);
            assert!((0..10_000).all(|_| (1..=n).contains(&zipf.rank(&mut random))));
        }
    }
}
