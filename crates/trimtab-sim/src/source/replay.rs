//! A trace as a workload: its times and places fitted to a device.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use trimtab_io::{DeviceId, Flags, Nanos, Op};
use trimtab_trace::synth::Drawn;
use trimtab_trace::{Error as TraceError, Format, Options, Record, Trace};

use super::NEVER;
use crate::error::Error;

/// What becomes of offsets that the device does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Offsets {
    /// They are an error.
    #[default]
    Error,
    /// They begin again at the device's front.
    Wrap,
    /// All offsets are scaled by the same factor, so that the trace's furthest
    /// byte is the device's last.
    Scale,
}

/// How a trace becomes a workload.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// What becomes of offsets that the device does not have.
    pub offsets: Offsets,
    /// How much faster it goes, in millionths; 0 stands for as it was.
    pub rate_millionths: u64,
    /// The trace's device, by name, where it has several.
    pub device: Option<String>,
    /// The trace's format, where its content does not tell.
    pub format: Option<Format>,
}

const MILLION: u64 = 1_000_000;

/// A trace as a workload.
pub struct Replay {
    trace: Trace,
    path: PathBuf,
    batch: Vec<Record>,
    /// The next record's place in the batch.
    at: usize,
    /// Records read so far, for messages.
    records: u64,
    first: Option<Nanos>,
    last: Nanos,
    wanted: Option<String>,
    device: Option<DeviceId>,
    fit: Fit,
    rate_millionths: u64,
}

/// How offsets become the device's.
#[derive(Clone, Copy, Debug)]
struct Fit {
    offsets: Offsets,
    capacity: u64,
    /// Bytes of the trace's own device, as far as it tells.
    span: u64,
}

impl Replay {
    /// Opens a trace for a device of `capacity` bytes.
    ///
    /// # Errors
    /// It cannot be read, or lacks what a replay needs.
    pub fn open(path: &Path, capacity: u64, options: ReplayOptions) -> Result<Self, Error> {
        let mut fit = Fit { offsets: options.offsets, capacity, span: 0 };
        if fit.offsets == Offsets::Scale {
            if !trimtab_trace::can_be_read_twice(path) {
                let what = "offsets = \"scale\" reads the trace twice, so it must be a file";
                return Err(Error::Replay { path: path.to_owned(), what: what.to_owned() });
            }
            fit.span = Self::of(path, fit, options.clone())?.furthest()?;
        }
        Self::of(path, fit, options)
    }

    fn of(path: &Path, fit: Fit, options: ReplayOptions) -> Result<Self, Error> {
        let read = Options { format: options.format, ..Options::default() };
        let trace = Trace::open(&[path.to_owned()], &read).map_err(Error::Trace)?;
        let replay = Self {
            trace,
            path: path.to_owned(),
            batch: Vec::new(),
            at: 0,
            records: 0,
            first: None,
            last: Nanos::ZERO,
            wanted: options.device,
            device: None,
            fit,
            rate_millionths: if options.rate_millionths == 0 {
                MILLION
            } else {
                options.rate_millionths
            },
        };
        if !replay.trace.meta().has_offsets {
            return Err(replay.unfit("has no offsets, so it cannot be replayed".to_owned()));
        }
        Ok(replay)
    }

    /// The first byte after all requests.
    fn furthest(mut self) -> Result<u64, Error> {
        let mut furthest = 0;
        while self.next_arrival()? != NEVER {
            furthest = furthest.max(self.batch[self.at].end());
            self.at += 1;
        }
        Ok(furthest)
    }

    fn unfit(&self, what: String) -> Error {
        Error::Replay { path: self.path.clone(), what }
    }

    /// When the next request comes, counted from the first.
    pub(super) fn next_arrival(&mut self) -> Result<Nanos, Error> {
        loop {
            while let Some(record) = self.batch.get(self.at) {
                let (arrival, device) = (record.arrival, record.device);
                if self.is_wanted(device)? {
                    return self.on_our_clock(arrival);
                }
                self.at += 1;
                self.records += 1;
            }
            self.at = 0;
            if !self.trace.read(&mut self.batch).map_err(|e| self.unordered(e))? {
                return match (self.device, &self.wanted) {
                    (None, Some(name)) => {
                        Err(self.unfit(format!("has no request for a device `{name}`")))
                    }
                    _ => Ok(NEVER),
                };
            }
        }
    }

    /// Whether a record is for the device that is replayed.
    fn is_wanted(&mut self, device: DeviceId) -> Result<bool, Error> {
        if self.device == Some(device) {
            return Ok(true);
        }
        let names = self.trace.names();
        match (self.device, &self.wanted) {
            (None, None) => self.device = Some(device),
            (None, Some(wanted)) if names.device(device) == wanted => self.device = Some(device),
            (Some(first), None) => {
                let (first, second) = (names.device(first), names.device(device));
                return Err(self.unfit(format!(
                    "holds requests for several devices (`{first}`, `{second}`, …); choose one \
                     with `trace_device`"
                )));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn on_our_clock(&mut self, arrival: Nanos) -> Result<Nanos, Error> {
        let first = *self.first.get_or_insert(arrival);
        if arrival < self.last {
            let number = self.records + 1;
            return Err(self.unfit(format!(
                "time runs back: request {number} at {} ns after one at {} ns",
                arrival.0, self.last.0
            )));
        }
        self.last = arrival;
        let since = u128::from(arrival.since(first).0) * u128::from(MILLION);
        let scaled = since / u128::from(self.rate_millionths);
        Ok(Nanos(u64::try_from(scaled).unwrap_or(u64::MAX - 1)))
    }

    fn unordered(&self, error: TraceError) -> Error {
        match error {
            TraceError::BeyondWindow { record, .. } => self.unfit(format!(
                "record {record} is far out of order; `trimtab trace convert` sorts it"
            )),
            other => Error::Trace(other),
        }
    }

    /// Takes the request that [`next_arrival`](Self::next_arrival) spoke of.
    pub(super) fn take(&mut self) -> Result<(Drawn, Flags), Error> {
        let record = self.batch[self.at];
        self.at += 1;
        self.records += 1;
        let Record { op, length, flags, .. } = record;
        let offset = self.fit.offset(&record).ok_or_else(|| {
            let (number, capacity) = (self.records, self.fit.capacity);
            let place = format!("request {number} ({op} of {length} bytes at {})", record.offset);
            let help = if length > capacity {
                "give the device a larger `capacity`"
            } else {
                "set `offsets` to \"wrap\" or \"scale\", or give the device a larger `capacity`"
            };
            self.unfit(format!("{place} ends beyond the device's {capacity} bytes; {help}"))
        })?;
        Ok((Drawn { op, offset, length }, flags))
    }
}

impl Fit {
    /// Where a request goes; none if the device has no such place.
    fn offset(&self, record: &Record) -> Option<u64> {
        let Record { offset, length, .. } = *record;
        if record.op == Op::Flush {
            return Some(0);
        }
        let last = self.capacity.checked_sub(length)?;
        match self.offsets {
            Offsets::Error => (offset <= last).then_some(offset),
            Offsets::Wrap => Some((offset % self.capacity).min(last)),
            Offsets::Scale => {
                // What was aligned stays aligned.
                let align = if offset % 4096 == 0 { 4096 } else { 512 };
                let span = u128::from(self.span.max(1));
                let scaled = u128::from(offset) * u128::from(self.capacity) / span;
                Some(((scaled as u64) / align * align).min(last))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64, length: u64) -> Record {
        Record::arriving(Nanos::ZERO, DeviceId(0), Op::Read, offset, length)
    }

    #[test]
    fn offsets_fit_the_device() {
        let fit = |offsets| Fit { offsets, capacity: 1 << 20, span: 1 << 22 };
        assert_eq!(fit(Offsets::Error).offset(&at((1 << 20) - 4096, 4096)), Some((1 << 20) - 4096));
        assert_eq!(fit(Offsets::Error).offset(&at((1 << 20) - 4096, 8192)), None);
        assert_eq!(fit(Offsets::Error).offset(&at(u64::MAX, 4096)), None);
        assert_eq!(fit(Offsets::Wrap).offset(&at((1 << 20) + 8192, 4096)), Some(8192));
        assert_eq!(fit(Offsets::Wrap).offset(&at((1 << 20) - 4096, 8192)), Some((1 << 20) - 8192));
        assert_eq!(fit(Offsets::Wrap).offset(&at(0, 2 << 20)), None);
        assert_eq!(fit(Offsets::Scale).offset(&at(1 << 21, 4096)), Some(1 << 19));
        assert_eq!(fit(Offsets::Scale).offset(&at((1 << 22) - 512, 512)), Some((1 << 20) - 512));
    }
}
