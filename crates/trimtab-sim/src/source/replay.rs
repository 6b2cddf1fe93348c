//! A trace as a workload: times and offsets are adapted to a device.

use std::collections::VecDeque;
use std::path::Path;

use serde::{Deserialize, Serialize};
use trimtab_io::{DeviceId, Flags, Nanos, Op};
use trimtab_trace::synth::GeneratedRequest;
use trimtab_trace::{Error as TraceError, Format, Record, Trace, TraceOptions};

use super::NEVER;
use crate::error::Error;

/// How offsets beyond the device's end are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Offsets {
    /// They are an error.
    #[default]
    Error,
    /// They wrap around.
    Wrap,
    /// All offsets are scaled by the same factor, so that the trace's last byte is the
    /// device's last.
    Scale,
}

/// Options of a replay.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// How offsets beyond the device's end are handled.
    pub offsets: Offsets,
    /// The speed-up, in millionths; 0 means unchanged.
    pub rate_millionths: u64,
    /// The trace's device, by name, if it has several.
    pub device: Option<String>,
    /// The trace's format, if its content does not show it.
    pub format: Option<Format>,
    /// The most bytes for a copy of the trace; by default [`TraceOptions::max_spool`].
    pub max_spool: Option<u64>,
    /// The start within the trace, on the trace's clock. The part before it follows after the
    /// end.
    pub begin: Nanos,
    /// Simultaneous requests are spread evenly over this time, on the trace's clock.
    pub spread: Nanos,
    /// How often the whole trace is replayed, one after the other; 0 means once.
    pub repeat: u32,
}

const MILLION: u64 = 1_000_000;

/// A trace as a workload.
pub struct Replay {
    reader: Reader,
    options: ReplayOptions,
    fit: Fit,
    /// Simultaneous requests of the trace, with their times here.
    group: VecDeque<(Nanos, Record)>,
    /// The first one after that.
    ahead: Option<Record>,
    /// The number of the pass through the file. The last pass only has the part that was skipped
    /// at the beginning.
    pass: u32,
    /// The time from one pass to the next, known after the first.
    period: Nanos,
}

/// The mapping of offsets to the device.
#[derive(Clone, Copy, Debug)]
struct Fit {
    offsets: Offsets,
    capacity: u64,
    /// Bytes of the trace's device, as far as known.
    span: u64,
}

impl Replay {
    /// Opens a trace for a device of `capacity` bytes.
    ///
    /// # Errors
    /// It cannot be read, or lacks data that a replay needs.
    pub fn open(path: &Path, capacity: u64, options: ReplayOptions) -> Result<Self, Error> {
        let mut fit = Fit { offsets: options.offsets, capacity, span: 0 };
        let twice = match &options {
            ReplayOptions { offsets: Offsets::Scale, .. } => Some("offsets = \"scale\""),
            ReplayOptions { begin, .. } if *begin > Nanos::ZERO => Some("`begin_s`"),
            ReplayOptions { repeat: 2.., .. } => Some("`repeat`"),
            _ => None,
        };
        if let Some(key) = twice.filter(|_| !trimtab_trace::can_be_read_twice(path)) {
            let what = format!("{key} reads the trace twice, so it must be a file");
            return Err(Error::Replay { path: path.to_owned(), what });
        }
        if fit.offsets == Offsets::Scale {
            fit.span = Reader::open(path, &options)?.furthest()?;
        }
        let reader = Reader::open(path, &options)?;
        let (group, ahead) = (VecDeque::new(), None);
        Ok(Self { reader, options, fit, group, ahead, pass: 0, period: Nanos::ZERO })
    }

    /// The time of the next request, counted from the first.
    pub(super) fn next_arrival(&mut self) -> Result<Nanos, Error> {
        if self.group.is_empty() {
            self.next_group()?;
        }
        Ok(self.group.front().map_or(NEVER, |(at, _)| *at))
    }

    /// Reads the next request, and those at the same time if they are to be spread.
    fn next_group(&mut self) -> Result<(), Error> {
        let Some(first) = self.next_record()? else { return Ok(()) };
        let passes = Nanos(self.period.0.saturating_mul(self.pass.into()));
        let since = (passes + self.reader.since_first(&first)).since(self.options.begin);
        self.group.push_back((Nanos::ZERO, first));
        while self.options.spread > Nanos::ZERO {
            match self.next_record()? {
                Some(record) if record.arrival == first.arrival => {
                    self.group.push_back((Nanos::ZERO, record));
                }
                other => {
                    self.ahead = other;
                    break;
                }
            }
        }
        let count = self.group.len() as u128;
        for (i, (at, _)) in (0..).zip(&mut self.group) {
            let spread = u128::from(self.options.spread.0) * i / count;
            *at = on_our_clock(u128::from(since.0) + spread, self.options.rate_millionths);
        }
        Ok(())
    }

    /// The next request of the trace, of its repetitions, or of the part that was skipped.
    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        if self.ahead.is_some() {
            return Ok(self.ahead.take());
        }
        let ReplayOptions { begin, spread, repeat, .. } = self.options;
        let whole = repeat.max(1);
        loop {
            match self.reader.next()? {
                Some(record) => {
                    let is_before = self.reader.since_first(&record) < begin;
                    if self.pass == whole && !is_before {
                        return Ok(None);
                    }
                    if self.pass > 0 || !is_before {
                        return Ok(Some(record));
                    }
                }
                None if self.pass < whole - u32::from(begin == Nanos::ZERO) => {
                    let length = self.reader.last.since(self.reader.first.unwrap_or_default());
                    if length < begin {
                        let (begin, length) = (begin.as_secs_f64(), length.as_secs_f64());
                        return Err(self.reader.unfit(format!(
                            "lasts for {length:.3} s, and cannot begin after {begin} s"
                        )));
                    }
                    self.pass += 1;
                    self.period = length + spread;
                    self.reader = Reader::open(self.reader.trace.path(), &self.options)?;
                }
                None => return Ok(None),
            }
        }
    }

    /// Takes the request announced by [`next_arrival`](Self::next_arrival).
    pub(super) fn take(&mut self) -> Result<(GeneratedRequest, Flags), Error> {
        let (_, record) = self.group.pop_front().expect("next_arrival was asked");
        let Record { op, length, flags, .. } = record;
        let offset = self.fit.offset(&record).ok_or_else(|| {
            let (number, capacity) = (self.reader.records, self.fit.capacity);
            let place = format!("request {number} ({op} of {length} bytes at {})", record.offset);
            let help = if length > capacity {
                "give the device a larger `capacity`"
            } else {
                "set `offsets` to \"wrap\" or \"scale\", or give the device a larger `capacity`"
            };
            self.reader.unfit(format!("{place} ends beyond the device's {capacity} bytes; {help}"))
        })?;
        Ok((GeneratedRequest { op, offset, length }, flags))
    }
}

/// Converts a time of the trace, at a rate in millionths.
fn on_our_clock(since: u128, rate_millionths: u64) -> Nanos {
    let rate = if rate_millionths == 0 { MILLION } else { rate_millionths };
    let scaled = since * u128::from(MILLION) / u128::from(rate);
    Nanos(u64::try_from(scaled).unwrap_or(u64::MAX - 1))
}

/// A trace, request by request.
struct Reader {
    trace: Trace,
    batch: Vec<Record>,
    /// The next record's position in the batch.
    at: usize,
    /// Records read so far, for messages.
    records: u64,
    first: Option<Nanos>,
    last: Nanos,
    wanted: Option<String>,
    device: Option<DeviceId>,
}

impl Reader {
    fn open(path: &Path, options: &ReplayOptions) -> Result<Self, Error> {
        let &ReplayOptions { format, max_spool, .. } = options;
        let read = TraceOptions { format, max_spool, ..TraceOptions::default() };
        let trace = Trace::open(&[path.to_owned()], &read).map_err(Error::Trace)?;
        let reader = Self {
            trace,
            batch: Vec::new(),
            at: 0,
            records: 0,
            first: None,
            last: Nanos::ZERO,
            wanted: options.device.clone(),
            device: None,
        };
        if !reader.trace.meta().has_offsets {
            return Err(reader.unfit("has no offsets, so it cannot be replayed".to_owned()));
        }
        Ok(reader)
    }

    /// The end of the furthest request.
    fn furthest(mut self) -> Result<u64, Error> {
        let mut furthest = 0;
        while let Some(record) = self.next()? {
            furthest = furthest.max(record.end());
        }
        Ok(furthest)
    }

    fn unfit(&self, what: String) -> Error {
        Error::Replay { path: self.trace.path().to_owned(), what }
    }

    /// The time since the first request.
    fn since_first(&self, record: &Record) -> Nanos {
        record.arrival.since(self.first.unwrap_or_default())
    }

    fn next(&mut self) -> Result<Option<Record>, Error> {
        loop {
            while let Some(&record) = self.batch.get(self.at) {
                let is_wanted = self.is_wanted(record.device)?;
                self.at += 1;
                self.records += 1;
                if is_wanted {
                    self.in_order(record.arrival)?;
                    return Ok(Some(record));
                }
            }
            self.at = 0;
            if !self.trace.read(&mut self.batch).map_err(|e| self.unordered(e))? {
                return match (self.device, &self.wanted) {
                    (None, Some(name)) => {
                        Err(self.unfit(format!("has no request for a device `{name}`")))
                    }
                    _ => Ok(None),
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

    fn in_order(&mut self, arrival: Nanos) -> Result<(), Error> {
        self.first.get_or_insert(arrival);
        if arrival < self.last {
            let number = self.records;
            return Err(self.unfit(format!(
                "time runs back: request {number} at {} ns after one at {} ns",
                arrival.0, self.last.0
            )));
        }
        self.last = arrival;
        Ok(())
    }

    fn unordered(&self, error: TraceError) -> Error {
        match error {
            TraceError::BeyondWindow { record, .. } => self.unfit(format!(
                "record {record} is far out of order; `trimtab trace convert` sorts it"
            )),
            other => Error::Trace(other),
        }
    }
}

impl Fit {
    /// The offset of a request on the device; `None` if the device has no such offset.
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
                // Preserves alignment.
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
    fn replay_can_start_anywhere_and_spread_simultaneous_requests() {
        let path = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        // MSR: a time in 100 ns, host, disk, op, offset, bytes, response time.
        let tick = |second: u64| 128_166_372_000_000_000 + second * 10_000_000;
        let lines = [0, 1, 1, 1, 1, 4].map(tick);
        let line = |(i, tick): (usize, &u64)| format!("{tick},h,0,Read,{},4096,1\n", 4096 * i);
        let text: String = lines.iter().enumerate().map(line).collect();
        std::fs::write(path.path(), text).unwrap();
        let repeated = |begin: u64, spread: u64, repeat: u32| {
            let (begin, spread) = (Nanos::from_secs(begin), Nanos::from_secs(spread));
            let rate_millionths = 2_000_000;
            let options =
                ReplayOptions { begin, spread, repeat, rate_millionths, ..Default::default() };
            let mut replay = Replay::open(path.path(), 1 << 20, options).unwrap();
            let mut all = Vec::new();
            loop {
                match replay.next_arrival().unwrap() {
                    NEVER => break all,
                    at => all.push((at.0 / 1_000_000, replay.take().unwrap().0.offset / 4096)),
                }
            }
        };
        let all = |begin, spread| repeated(begin, spread, 0);
        let plain = [(0, 0), (500, 1), (500, 2), (500, 3), (500, 4), (2000, 5)];
        assert_eq!(all(0, 0), plain);
        let spread = [(0, 0), (500, 1), (625, 2), (750, 3), (875, 4), (2000, 5)];
        assert_eq!(all(0, 1), spread);
        let later = [(1000, 5), (1500, 0), (2000, 1), (2125, 2), (2250, 3), (2375, 4)];
        assert_eq!(all(2, 1), later);
        // The second time begins where the first one ends, and the spread of its last request.
        for (begin, spread) in [(0, 0), (0, 1), (2, 1)] {
            let once = all(begin, spread);
            let period = 2000 + 500 * spread;
            let again = once.iter().map(|&(at, offset)| (at + period, offset));
            let twice: Vec<_> = once.iter().copied().chain(again).collect();
            assert_eq!(repeated(begin, spread, 2), twice, "{begin} {spread}");
        }
        let options = ReplayOptions { begin: Nanos::from_secs(5), ..Default::default() };
        let error = Replay::open(path.path(), 1 << 20, options).unwrap().next_arrival();
        assert!(error.unwrap_err().to_string().contains("cannot begin after 5 s"));
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
