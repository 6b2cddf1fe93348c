//! The distance between a model and the drive.

use trimtab_io::{LatencyHistogram, Nanos, Op};

use super::player::Sent;

/// The distance between a model's latencies and the measured ones.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Distance {
    /// Reads compared.
    pub reads: u64,
    /// Mean factor between the read latencies of model and drive at every fifth
    /// percentile and at p99, less 1: 0.1 is ten percent off.
    pub read_error: Option<f64>,
    /// The greatest distance between the two CDFs of read latencies
    /// (Kolmogorov–Smirnov), 0 to 1.
    pub read_ks: Option<f64>,
    /// The same of writes.
    pub writes: u64,
    /// See `read_error`.
    pub write_error: Option<f64>,
    /// See `read_ks`.
    pub write_ks: Option<f64>,
}

/// The largest error of a profile that may stand for its drive, of reads and of writes.
const MOST_READ_ERROR: f64 = 0.2;
const MOST_WRITE_ERROR: f64 = 0.3;
/// The fewest requests that an error can be told of.
const LEAST: u64 = 500;

impl Distance {
    /// Whether a model at this distance may stand for the drive's reads; `None` if there are too
    /// few to tell.
    #[must_use]
    pub fn reads_are_near(&self) -> Option<bool> {
        self.read_error.filter(|_| self.reads >= LEAST).map(|error| error <= MOST_READ_ERROR)
    }

    /// The same of writes.
    #[must_use]
    pub fn writes_are_near(&self) -> Option<bool> {
        self.write_error.filter(|_| self.writes >= LEAST).map(|error| error <= MOST_WRITE_ERROR)
    }

    /// The mean of the errors of reads and of writes, weighted by their numbers.
    pub(super) fn error(&self) -> f64 {
        let parts = [(self.read_error, self.reads), (self.write_error, self.writes)];
        let (mut sum, mut count) = (0.0, 0.0);
        for (error, n) in parts {
            if let Some(error) = error {
                sum += error * n as f64;
                count += n as f64;
            }
        }
        sum / f64::max(count, 1.0)
    }
}

/// The latencies of reads and of writes.
#[derive(Default)]
pub(super) struct Latencies {
    reads: LatencyHistogram,
    writes: LatencyHistogram,
}

impl Latencies {
    pub(super) fn add(&mut self, op: Op, latency: Nanos) {
        match op {
            Op::Read => self.reads.record(latency),
            _ => self.writes.record(latency),
        }
    }

    pub(super) fn measured(requests: &[Sent]) -> Self {
        let mut all = Self::default();
        for Sent { record, .. } in requests {
            all.add(record.op, record.response_time().unwrap_or_default());
        }
        all
    }

    /// By which factor the drive is slower than the model: the ratio of their medians, of
    /// reads unless there are very few.
    pub(super) fn slower_by(&self, truth: &Self) -> f64 {
        const ENOUGH: u64 = 100;
        let (model, truth) = match truth.reads.count() >= ENOUGH {
            true => (&self.reads, &truth.reads),
            false => (&self.writes, &truth.writes),
        };
        let median = |of: &LatencyHistogram| of.quantile(0.5).map_or(1, |median| median.0.max(1));
        median(truth) as f64 / median(model) as f64
    }

    pub(super) fn distance(&self, truth: &Self) -> Distance {
        Distance {
            reads: truth.reads.count(),
            read_error: error(&self.reads, &truth.reads),
            read_ks: ks(&self.reads, &truth.reads),
            writes: truth.writes.count(),
            write_error: error(&self.writes, &truth.writes),
            write_ks: ks(&self.writes, &truth.writes),
        }
    }
}

/// The mean factor between the latencies at every fifth percentile and at p99, less 1.
fn error(model: &LatencyHistogram, truth: &LatencyHistogram) -> Option<f64> {
    let shares = (1..20).map(|k| f64::from(k) / 20.0).chain([0.99]);
    let (mut sum, mut count) = (0.0, 0.0);
    for share in shares {
        let (a, b) = (model.quantile(share)?, truth.quantile(share)?);
        sum += libm::fabs(libm::log(a.0.max(1) as f64 / b.0.max(1) as f64));
        count += 1.0;
    }
    Some(libm::exp(sum / count) - 1.0)
}

/// The greatest distance between two CDFs.
fn ks(model: &LatencyHistogram, truth: &LatencyHistogram) -> Option<f64> {
    if model.count() == 0 || truth.count() == 0 {
        return None;
    }
    let mut steps: Vec<(Nanos, f64)> = Vec::new();
    let mut add = |histogram: &LatencyHistogram, sign: f64| {
        let weight = sign / histogram.count() as f64;
        steps.extend(histogram.buckets().map(|(at, count)| (at, weight * count as f64)));
    };
    add(model, 1.0);
    add(truth, -1.0);
    steps.sort_by_key(|step| step.0);
    let (mut difference, mut most) = (0.0, 0.0_f64);
    for same in steps.chunk_by(|a, b| a.0 == b.0) {
        difference += same.iter().map(|step| step.1).sum::<f64>();
        most = most.max(libm::fabs(difference));
    }
    Some(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_requests_tell_nothing() {
        let mut distance = Distance {
            reads: 500,
            read_error: Some(0.21),
            read_ks: None,
            writes: 499,
            write_error: Some(0.1),
            write_ks: None,
        };
        assert_eq!((distance.reads_are_near(), distance.writes_are_near()), (Some(false), None));
        distance.writes = 500;
        assert_eq!(distance.writes_are_near(), Some(true));
    }

    #[test]
    fn equal_distributions_have_no_distance() {
        let mut a = LatencyHistogram::new();
        a.extend((1..1000).map(Nanos::from_micros));
        assert_eq!((error(&a, &a), ks(&a, &a)), (Some(0.0), Some(0.0)));
        let mut b = LatencyHistogram::new();
        b.extend((1..1000).map(|us| Nanos::from_micros(us + 2000)));
        assert!((ks(&a, &b).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(error(&a, &LatencyHistogram::new()), None);
    }
}
