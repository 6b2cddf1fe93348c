//! Points of a series: the corners of steps, and fewer and shorter ones for a page.

/// x, and y if it is known.
pub(crate) type Point = (f64, Option<f64>);

/// Points of one series that a page keeps. A screen has fewer columns.
const MOST_POINTS: usize = 2_000;

/// Bins of equal width along an axis, in the axis' unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bins {
    /// Lower edge of the first bin.
    pub start: f64,
    /// Width of each bin.
    pub width: f64,
}

impl Bins {
    /// The lower edge of a bin.
    pub(crate) fn edge(self, index: usize) -> f64 {
        self.start + self.width * index as f64
    }
}

/// The corners of a step line. A value holds up to the next point, so the last one before
/// a gap or the end needs another at its bin's end.
pub(super) fn corners(bins: Bins, values: &[Option<f64>]) -> Vec<Point> {
    let mut points = Vec::with_capacity(values.len() + 1);
    let mut last = None;
    for (i, &value) in values.iter().enumerate() {
        if value.is_none() && last.is_some() {
            points.push((bins.edge(i), last));
        }
        // One point per gap breaks the line.
        if value.is_some() || last.is_some() {
            points.push((bins.edge(i), value));
        }
        last = value;
    }
    if last.is_some() {
        points.push((bins.edge(values.len()), last));
    }
    points
}

/// At most [`MOST_POINTS`] of the points: of each stretch the least and the
/// greatest, so that no spike is lost.
pub(super) fn thin(points: &[Point]) -> Vec<Point> {
    if points.len() <= MOST_POINTS {
        return points.to_vec();
    }
    let mut kept = Vec::with_capacity(MOST_POINTS);
    for stretch in points.chunks(points.len().div_ceil(MOST_POINTS / 2)) {
        let by_y = |i: &usize, j: &usize| {
            let y = |k: usize| stretch[k].1.unwrap_or(f64::NAN);
            y(*i).total_cmp(&y(*j))
        };
        let known = || (0..stretch.len()).filter(|&i| stretch[i].1.is_some());
        match (known().min_by(by_y), known().max_by(by_y)) {
            (Some(least), Some(greatest)) => {
                kept.push(stretch[least.min(greatest)]);
                if least != greatest {
                    kept.push(stretch[least.max(greatest)]);
                }
            }
            _ => kept.push(stretch[0]),
        }
    }
    kept
}

/// A number with six significant digits: more than a plot shows.
pub(crate) fn rounded(v: f64) -> f64 {
    format!("{v:.5e}").parse().unwrap_or(v)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_reach_to_the_end_of_their_bin() {
        let bins = Bins { start: 0.0, width: 1.0 };
        let points = corners(bins, &[None, Some(5.0), None, None, Some(6.0)]);
        let expected =
            [(1.0, Some(5.0)), (2.0, Some(5.0)), (2.0, None), (4.0, Some(6.0)), (5.0, Some(6.0))];
        assert_eq!(points, expected);
        assert!(corners(bins, &[None]).is_empty());
    }

    #[test]
    fn thinning_keeps_the_extremes() {
        let mut points: Vec<_> = (0..50_000).map(|i| (f64::from(i), Some(1.0))).collect();
        points[31_234].1 = Some(99.0);
        points[31_235].1 = Some(-99.0);
        let kept = thin(&points);
        assert!(kept.len() <= MOST_POINTS);
        assert!(kept.contains(&points[31_234]) && kept.contains(&points[31_235]));
        assert!(kept.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 1.0, 0.1 + 0.2, 123_456.7, 1_234_567_890.0, 1e-7 / 3.0]
            .map(|v| rounded(v).to_string());
        assert_eq!(texts, ["0", "1", "0.3", "123457", "1234570000", "0.0000000333333"]);
        assert!(rounded(f64::NAN).is_nan());
    }
}
