//! How far a disk's model is from the disk.

use serde::Serialize;

use super::sample::{Sample, mean, quantile};

/// Percentiles of a comparison.
const PERCENTILES: [(&str, f64); 7] = [
    ("p5", 0.05),
    ("p25", 0.25),
    ("p50", 0.5),
    ("p75", 0.75),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
];

/// The distance between the service times of a model and those measured, over a class of requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskDistance {
    /// The class: all, reads, writes, hits (reads from the buffer) or misses.
    pub class: &'static str,
    /// Requests of the class: measured.
    pub requests: u64,
    /// Their mean service time, µs: measured.
    pub mean_us: f64,
    /// Their mean service time, µs: of the model.
    pub model_mean_us: f64,
    /// The root mean square of the horizontal distance between the two distribution functions, µs
    /// ("demerit"; Ruemmler and Wilkes, 1994).
    pub demerit_us: f64,
    /// The same as a share of the measured mean.
    pub demerit: f64,
    /// The mean over requests of the absolute difference between model and measurement, µs: the
    /// model plays the request at the recorded time, its angle of the spindle being arbitrary.
    /// `None` of hits and misses, where model and disk differ in which requests they are.
    pub request_error_us: Option<f64>,
    /// The same for the closed form, the mean over the angles.
    pub expected_error_us: Option<f64>,
    /// Percentiles: name, measured and model, µs. Only those with ten requests beyond them.
    pub percentiles: Vec<(&'static str, f64, f64)>,
}

/// What the model made of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Played {
    /// Service time, µs.
    pub(super) service: f64,
    /// The same with the mean over the angles, if the arm served it.
    pub(super) expected: f64,
    /// Whether the buffer had it, if it is a read.
    pub(super) hit: bool,
}

/// The root mean square distance of two samples' quantile functions.
pub(super) fn demerit(one: &mut [f64], other: &mut [f64]) -> Option<f64> {
    if one.is_empty() || other.is_empty() {
        return None;
    }
    one.sort_unstable_by(f64::total_cmp);
    other.sort_unstable_by(f64::total_cmp);
    let steps = one.len().max(other.len());
    let at = |sorted: &[f64], i: usize| sorted[(2 * i + 1) * sorted.len() / (2 * steps)];
    let sum: f64 = (0..steps).map(|i| (at(one, i) - at(other, i)).powi(2)).sum();
    Some((sum / steps as f64).sqrt())
}

/// The classes that have requests. `fast` tells which measured reads were buffered.
pub(super) fn classes(
    samples: &[Sample],
    played: &[Played],
    fast: impl Fn(&Sample) -> bool,
) -> Vec<DiskDistance> {
    type Of<'a> = &'a dyn Fn(&Sample, Option<bool>) -> bool;
    let classes: [(&'static str, bool, Of<'_>); 5] = [
        ("all", true, &|_, _| true),
        ("reads", true, &|s, _| s.read),
        ("writes", true, &|s, _| !s.read),
        // Which reads are hits: by the model for its own, by their time for those measured.
        ("hits", false, &|s, hit| s.read && hit.unwrap_or_else(|| fast(s))),
        ("misses", false, &|s, hit| s.read && !hit.unwrap_or_else(|| fast(s))),
    ];
    let distance = |(class, paired, of): (&'static str, bool, Of<'_>)| {
        let both = || samples.iter().zip(played);
        let mut measured: Vec<f64> =
            samples.iter().filter(|s| of(s, None)).map(|s| s.service).collect();
        let mut model: Vec<f64> =
            both().filter(|(s, p)| of(s, Some(p.hit))).map(|(_, p)| p.service).collect();
        let mean_us = mean(&measured)?;
        let model_mean_us = mean(&model)?;
        let error = |of_played: &dyn Fn(&Played) -> f64| {
            let errors = both().filter(|(s, _)| of(s, None));
            let errors: Vec<f64> = errors.map(|(s, p)| (of_played(p) - s.service).abs()).collect();
            mean(&errors).filter(|_| paired)
        };
        let enough = |q: f64, n: usize| n as f64 * (1.0 - q) >= 10.0;
        let mut percentiles = Vec::new();
        for (name, q) in PERCENTILES {
            if enough(q, measured.len().min(model.len())) {
                percentiles.push((name, quantile(&mut measured, q)?, quantile(&mut model, q)?));
            }
        }
        let demerit_us = demerit(&mut measured, &mut model)?;
        Some(DiskDistance {
            class,
            requests: measured.len() as u64,
            mean_us,
            model_mean_us,
            demerit_us,
            demerit: demerit_us / mean_us,
            request_error_us: error(&|p| p.service),
            expected_error_us: error(&|p| p.expected),
            percentiles,
        })
    };
    classes.into_iter().filter_map(distance).collect()
}
