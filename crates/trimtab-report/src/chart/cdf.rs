//! Cumulative distributions of latency.

use trimtab_io::LatencyHistogram;

use super::points::Point;
use super::{Axis, Chart, LineSeries, Unit, line};

/// Points per factor of ten of the tail.
const POINTS_PER_DECADE: i32 = 64;

/// Cumulative distributions of latencies: the percentile over the latency, both on a
/// logarithmic scale (see [`Unit::Percentile`]).
///
/// Each curve ends at the last percentile that its number of samples supports: ten must
/// lie beyond.
#[must_use]
pub fn cdf(title: &str, x_title: &str, series: &[(&str, &LatencyHistogram)]) -> Chart {
    let lines: Vec<_> = series
        .iter()
        .map(|(name, latencies)| LineSeries { name: (*name).to_owned(), points: points(latencies) })
        .collect();
    let x = Axis::new(x_title, Unit::Nanos).log();
    let y = Axis::new("percentile", Unit::Percentile);
    line(title, &x, &y, &lines)
}

/// Latency, and the share of requests that took longer.
fn points(latencies: &LatencyHistogram) -> Vec<Point> {
    let last = 10.0 / latencies.count() as f64;
    let shares = (0..).map(|i| 10_f64.powf(-f64::from(i) / f64::from(POINTS_PER_DECADE)));
    shares
        .take_while(|&slower| slower >= last)
        .filter_map(|slower| {
            let latency = latencies.quantile(1.0 - slower)?;
            // A log axis has no zero.
            Some((latency.0.max(1) as f64, Some(slower)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_io::Nanos;

    #[test]
    fn curve_ends_at_the_last_supported_percentile() {
        let mut latencies = LatencyHistogram::new();
        latencies.extend((1..=10_000).map(Nanos::from_micros));
        let points = points(&latencies);
        assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 > b.1));
        let (latency, slower) = *points.last().unwrap();
        assert!((slower.unwrap() - 0.001).abs() < 1e-9, "{slower:?}");
        assert!((latency - 9_990_000.0).abs() < 0.01 * latency);
        assert!(points.len() < 2_000);
    }

    #[test]
    fn few_samples_make_no_curve() {
        let mut latencies = LatencyHistogram::new();
        latencies.extend((1..=9).map(Nanos::from_micros));
        assert!(points(&latencies).is_empty());
        assert!(points(&LatencyHistogram::new()).is_empty());
    }
}
