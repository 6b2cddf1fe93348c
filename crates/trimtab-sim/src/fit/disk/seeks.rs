//! The seek curve, from service times at known distances.
//!
//! The wait for the first sector is uniform over a revolution, so the mean service time over a
//! distance is the seek, half a revolution and a constant. Seek time grows with the root of the
//! distance while the arm accelerates, and with the distance at full speed (Ruemmler and Wilkes,
//! 1994): a + b √d + c d, by least squares.

/// a + b √d + c d, d in cylinders, µs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Curve(pub(crate) [f64; 3]);

impl Curve {
    /// Its value for a distance.
    pub(crate) fn at(&self, distance: f64) -> f64 {
        let Self([a, b, c]) = *self;
        a + b * distance.sqrt() + c * distance
    }

    /// A monotone table of it, for a profile: distances to `longest` and times, of which
    /// `subtract` is not the seek's.
    pub(crate) fn table(&self, longest: u32, subtract: f64) -> (Vec<u32>, Vec<f64>) {
        let mut distances = vec![1];
        let mut distance = 4.0;
        while distance < f64::from(longest) {
            distances.push(distance as u32);
            distance *= 1.8;
        }
        distances.push(longest.max(2));
        distances.dedup();
        let mut last = 0.0;
        let times = distances.iter().map(|&d| {
            let time: f64 = (self.at(f64::from(d)) - subtract).max(last);
            last = time;
            (time * 10.0).round() / 10.0
        });
        let times = times.collect();
        (distances, times)
    }
}

/// Sums of a least squares fit of a [`Curve`], one measurement after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    xx: [[f64; 3]; 3],
    xy: [f64; 3],
}

fn terms(distance: f64) -> [f64; 3] {
    [1.0, distance.sqrt(), distance]
}

impl Sums {
    /// Adds a time, µs, with a weight.
    pub(crate) fn add(&mut self, distance: f64, time: f64, weight: f64) {
        let x = terms(distance);
        for i in 0..3 {
            for j in 0..3 {
                self.xx[i][j] += weight * x[i] * x[j];
            }
            self.xy[i] += weight * x[i] * time;
        }
    }

    /// The curve; `None` if the distances do not determine it.
    pub(crate) fn curve(&self) -> Option<Curve> {
        solve(self.xx, self.xy).map(Curve)
    }
}

/// Solves a symmetric system by elimination with the largest pivot.
#[expect(clippy::needless_range_loop, reason = "rows and columns of small matrices")]
fn solve(mut a: [[f64; 3]; 3], mut b: [f64; 3]) -> Option<[f64; 3]> {
    // Distances are up to millions of cylinders: columns get comparable sizes.
    let scale: [f64; 3] = std::array::from_fn(|i| a[i][i].sqrt());
    if scale.iter().any(|&s| !(s > 0.0 && s.is_finite())) {
        return None;
    }
    for i in 0..3 {
        for j in 0..3 {
            a[i][j] /= scale[i] * scale[j];
        }
        b[i] /= scale[i];
    }
    for i in 0..3 {
        let pivot = (i..3).max_by(|&p, &q| a[p][i].abs().total_cmp(&a[q][i].abs()))?;
        a.swap(i, pivot);
        b.swap(i, pivot);
        if a[i][i].abs() < 1e-12 {
            return None;
        }
        for row in i + 1..3 {
            let factor = a[row][i] / a[i][i];
            for column in i..3 {
                a[row][column] -= factor * a[i][column];
            }
            b[row] -= factor * b[i];
        }
    }
    for i in (0..3).rev() {
        for column in i + 1..3 {
            b[i] -= a[i][column] * b[column];
        }
        b[i] /= a[i][i];
    }
    Some(std::array::from_fn(|i| b[i] / scale[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_measurements_give_the_curve() {
        let (truth, mut sums) = (Curve([700.0, 21.0, 0.013]), Sums::default());
        for distance in [1.0, 50.0, 1000.0, 20_000.0, 300_000.0] {
            sums.add(distance, truth.at(distance), 1.0);
        }
        let found = sums.curve().unwrap();
        for distance in [3.0, 400.0, 100_000.0] {
            assert!((found.at(distance) - truth.at(distance)).abs() < 1e-3);
        }
    }

    #[test]
    fn one_distance_determines_no_curve() {
        let mut sums = Sums::default();
        (0..9).for_each(|_| sums.add(5.0, 1.0, 1.0));
        assert_eq!(sums.curve(), None);
    }
}
