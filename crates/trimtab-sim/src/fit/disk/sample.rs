//! A recording of a disk, as the fit needs it.

use trimtab_io::{Nanos, Op};
use trimtab_trace::Record;

use crate::error::Error;

/// One request of the recording. Times in µs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) read: bool,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// When it was issued, from the first request on.
    pub(super) issue: f64,
    pub(super) service: f64,
    /// From the last completion to this issue.
    pub(super) gap: Nanos,
    /// Where the request before ended, byte; of the first: its own offset.
    pub(super) previous_end: u64,
    /// Whether that was a read.
    pub(super) after_read: bool,
}

impl Sample {
    pub(super) const fn end(&self) -> u64 {
        self.offset + self.length
    }

    pub(super) const fn op(&self) -> Op {
        if self.read { Op::Read } else { Op::Write }
    }

    pub(super) const fn continues(&self) -> bool {
        self.offset == self.previous_end
    }

    /// Bytes from the last request to this one, either way.
    pub(super) const fn distance(&self) -> u64 {
        self.offset.abs_diff(self.previous_end)
    }
}

/// The fewest requests of a fit.
const LEAST: usize = 1000;

/// The requests of a recording. They must have been sent one at a time: only then is the time of
/// each the disk's alone.
pub(super) fn samples(records: &[Record]) -> Result<Vec<Sample>, Error> {
    let mut samples: Vec<Sample> = Vec::with_capacity(records.len());
    let (mut start, mut done, mut together) = (None, Nanos::ZERO, 0);
    for record in records {
        let (Some(complete), true) = (record.complete, record.length > 0) else { continue };
        if !matches!(record.op, Op::Read | Op::Write) {
            continue;
        }
        let issue = record.issue.unwrap_or(record.arrival);
        let start = *start.get_or_insert(issue);
        together += usize::from(!samples.is_empty() && issue < done);
        let last = samples.last();
        samples.push(Sample {
            read: record.op == Op::Read,
            offset: record.offset,
            length: record.length,
            issue: issue.since(start).as_micros_f64(),
            service: complete.since(issue).as_micros_f64(),
            gap: if last.is_some() { issue.since(done) } else { Nanos::ZERO },
            previous_end: last.map_or(record.offset, Sample::end),
            after_read: last.is_some_and(|last| last.read),
        });
        done = complete;
    }
    if samples.len() < LEAST {
        let found = samples.len();
        let what = format!("{found} requests with latencies, at least {LEAST} are needed");
        return Err(Error::Fit(what));
    }
    if together * 100 > samples.len() {
        let of = samples.len();
        return Err(Error::Fit(format!(
            "{together} of {of} requests were issued while another was in flight: the fit of a disk \
             needs a recording of one request at a time"
        )));
    }
    Ok(samples)
}

/// The q-quantile of values, which are sorted here.
pub(super) fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get((q * (values.len().saturating_sub(1)) as f64).round() as usize).copied()
}

/// The mean; `None` of nothing.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
