//! The latency of a read on an idle drive, by its size.

use serde::{Deserialize, Serialize};
use trimtab_io::Nanos;

/// The latency of a read on an idle drive, by its 4 KiB pages: linear between the sizes that
/// training has seen. A predictor forecasts the excess over it, which is the same kind of
/// number for all sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BaseLatency(Vec<(u32, u32)>);

impl BaseLatency {
    /// Takes points of pages and latency (ns). `None` if sizes do not rise, or a larger read
    /// takes less.
    #[must_use]
    pub fn new(points: Vec<(u32, u32)>) -> Option<Self> {
        Some(Self(points)).filter(Self::is_valid)
    }

    /// The base latency of a read of `pages` 4 KiB pages. Beyond the known sizes it is that of
    /// the nearest.
    #[must_use]
    pub fn latency(&self, pages: u32) -> Nanos {
        let after = self.0.partition_point(|point| point.0 <= pages);
        let nanos = match (after.checked_sub(1).map(|i| self.0[i]), self.0.get(after)) {
            (None, None) => 0,
            (Some((_, latency)), None) => latency,
            (None, Some(&(_, latency))) => latency,
            (Some((less, low)), Some(&(more, high))) => {
                let (along, whole) = (u64::from(pages - less), u64::from(more - less));
                low + (u64::from(high - low) * along / whole) as u32
            }
        };
        Nanos(nanos.into())
    }

    /// Whether sizes rise and latencies do not fall. A file may hold other points.
    pub(crate) fn is_valid(&self) -> bool {
        self.0.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_is_linear_between_points_and_constant_beyond() {
        let base = BaseLatency::new(vec![(1, 80_000), (6, 105_000), (24, 195_000)]).unwrap();
        for (pages, micros) in
            [(0, 80), (1, 80), (2, 85), (6, 105), (15, 150), (24, 195), (99, 195)]
        {
            assert_eq!(base.latency(pages), Nanos::from_micros(micros), "{pages}");
        }
        assert_eq!(BaseLatency::new(Vec::new()).unwrap().latency(7), Nanos::ZERO);
        assert_eq!(BaseLatency::new(vec![(1, 2), (1, 3)]), None);
        assert_eq!(BaseLatency::new(vec![(1, 3), (2, 2)]), None);
    }
}
