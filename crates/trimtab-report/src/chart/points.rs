//! Points, few enough and short enough to be kept in a page.

use serde_json::Value;

/// Points of one series that a page keeps. More than a screen has columns is
/// of no use.
const MOST_POINTS: usize = 2_000;

/// Bins of equal width along an axis, in the axis' unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bins {
    /// Where the first begins.
    pub start: f64,
    /// Of each.
    pub width: f64,
}

impl Bins {
    fn edge(self, index: usize) -> f64 {
        self.start + self.width * index as f64
    }
}

/// The corners of a step line. With `step-after` a value reaches to the next
/// point, so the last one before a gap or the end needs another.
pub(super) fn steps_of(bins: Bins, values: &[Option<f64>]) -> Vec<(f64, Option<f64>)> {
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
pub(super) fn thin(points: &[(f64, Option<f64>)]) -> Vec<(f64, Option<f64>)> {
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

/// Numbers for a page: six significant digits are more than a plot shows.
pub(super) fn column(values: impl Iterator<Item = Option<f64>>) -> Vec<Value> {
    values.map(|v| v.map_or(Value::Null, number)).collect()
}

fn number(v: f64) -> Value {
    if v == 0.0 || !v.is_finite() {
        return if v == 0.0 { Value::from(0) } else { Value::Null };
    }
    let scale = 10_f64.powi(5 - v.abs().log10().floor() as i32);
    // Dividing by a whole number rounds to the shortest decimal; multiplying
    // by its inverse does not.
    let rounded = if scale.is_finite() && scale >= 1.0 {
        (v * scale).round() / scale
    } else {
        let unit = (1.0 / scale).round();
        (v / unit).round() * unit
    };
    if rounded.fract() == 0.0 && rounded.abs() < 9e15 {
        Value::from(rounded as i64)
    } else {
        Value::from(rounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_reach_to_the_end_of_their_bin() {
        let bins = Bins { start: 0.0, width: 1.0 };
        let points = steps_of(bins, &[None, Some(5.0), None, None, Some(6.0)]);
        let expected =
            [(1.0, Some(5.0)), (2.0, Some(5.0)), (2.0, None), (4.0, Some(6.0)), (5.0, Some(6.0))];
        assert_eq!(points, expected);
        assert!(steps_of(bins, &[None]).is_empty());
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
        let texts = [0.0, 1.0, 0.1 + 0.2, 123_456.7, 1_234_567_890.0, 1e-7 / 3.0, f64::NAN]
            .map(|v| number(v).to_string());
        assert_eq!(texts, ["0", "1", "0.3", "123457", "1234570000", "3.33333e-8", "null"]);
    }
}
