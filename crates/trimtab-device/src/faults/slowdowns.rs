//! Distributions of slowdowns.

use std::fmt;

use super::FaultError;

/// The most points of a distribution.
const MOST_POINTS: usize = 24;

/// A distribution of slowdowns: factors by the share of requests that are slowed down less.
///
/// It is given by points of its distribution function, as studies publish them: `(0.99, 1.4)` says
/// that 99% are slowed down by less than 1.4. Between two points the share of greater factors falls
/// as a power of the factor, as tails of latency do; below the first point from factor 1; what lies
/// beyond the last point has its factor.
///
/// ```
/// use trimtab_device::Slowdowns;
///
/// // Disks ("The tail at store", Table 3.3): 2.7 at 99.9%, 9 at 99.99%.
/// let disks = Slowdowns::new(&[(0.5, 1.0), (0.999, 2.7), (0.9999, 9.0)])?;
/// assert_eq!(disks.at(0.2), 1.0);
/// assert!((disks.at(0.9999) - 9.0).abs() < 1e-6);
/// assert_eq!(disks.at(0.999_99), 9.0);
/// # Ok::<(), trimtab_device::FaultError>(())
/// ```
#[derive(Clone, Copy, PartialEq)]
pub struct Slowdowns {
    points: [(f64, f64); MOST_POINTS],
    count: u8,
}

impl Slowdowns {
    /// A distribution through these points: shares from 0 to less than 1, each greater than the one
    /// before, with factors from 1 that do not decrease.
    ///
    /// # Errors
    /// There are none, more than 24, or they are not in order.
    pub fn new(points: &[(f64, f64)]) -> Result<Self, FaultError> {
        let wrong = |what: String| Err(FaultError(format!("a fault's factors {what}")));
        if points.is_empty() || points.len() > MOST_POINTS {
            return wrong(format!("must have 1 to {MOST_POINTS} points, not {}", points.len()));
        }
        let mut before = (-1.0, 1.0);
        for &(share, factor) in points {
            if !(0.0..1.0).contains(&share) || !(1.0..=1e6).contains(&factor) {
                return wrong(format!(
                    "must have shares from 0 to less than 1 with factors from 1 to 1000000, not \
                     [{share}, {factor}]"
                ));
            }
            if share <= before.0 || factor < before.1 {
                return wrong(format!("must ascend: [{share}, {factor}] is after {before:?}"));
            }
            before = (share, factor);
        }
        let mut all = [(0.0, 1.0); MOST_POINTS];
        all[..points.len()].copy_from_slice(points);
        Ok(Self { points: all, count: points.len() as u8 })
    }

    /// Its points.
    #[must_use]
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points[..self.count.into()]
    }

    /// The factor that this share, 0 to 1, is below: a random one for a random share.
    #[must_use]
    pub fn at(&self, share: f64) -> f64 {
        let points = self.points();
        let behind = points.partition_point(|point| point.0 <= share);
        let low = behind.checked_sub(1).map_or((0.0, 1.0), |before| points[before]);
        let Some(high) = points.get(behind) else { return low.1 };
        let left = |share: f64| (-share).ln_1p();
        let way = (left(share.max(0.0)) - left(low.0)) / (left(high.0) - left(low.0));
        low.1 * (high.1 / low.1).powf(way)
    }
}

impl fmt::Debug for Slowdowns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.points()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_io::SplitMix64;

    #[test]
    fn random_shares_give_the_published_percentiles() {
        let points = [(0.9, 1.1), (0.99, 1.4), (0.999, 2.7), (0.9999, 9.0)];
        let slowdowns = Slowdowns::new(&points).unwrap();
        let mut random = SplitMix64::new(3);
        let mut drawn: Vec<_> = (0..1_000_000).map(|_| slowdowns.at(random.unit())).collect();
        drawn.sort_unstable_by(f64::total_cmp);
        for (share, factor) in points {
            let found = drawn[(share * 1e6) as usize];
            assert!((found / factor - 1.0).abs() < 0.05, "{share}: {found}, {factor}");
        }
        assert!(drawn[0] >= 1.0 && drawn[999_999] <= 9.0);
    }

    #[test]
    fn points_are_met_and_factors_never_decrease() {
        let slowdowns = Slowdowns::new(&[(0.0, 1.5), (0.5, 1.5), (0.9, 40.0)]).unwrap();
        assert_eq!(slowdowns.at(0.3), 1.5);
        let steps: Vec<_> = (0..=1000).map(|n| slowdowns.at(f64::from(n) / 1000.0)).collect();
        assert!(steps.windows(2).all(|two| two[0] <= two[1]));
        assert_eq!(steps[1000], 40.0);
    }

    #[test]
    fn points_out_of_order_or_range_are_errors() {
        for points in [
            &[][..],
            &[(1.0, 2.0)],
            &[(-0.1, 2.0)],
            &[(0.5, 0.9)],
            &[(0.5, f64::NAN)],
            &[(0.5, 2.0), (0.5, 3.0)],
            &[(0.5, 2.0), (0.6, 1.9)],
            &[(0.5, 1.0); 25],
        ] {
            let error = Slowdowns::new(points).unwrap_err().to_string();
            assert!(
                error.starts_with("a fault's factors must") && !error.contains('\n'),
                "{error}"
            );
        }
    }
}
