//! How long a disk takes for a request, by where it starts and how large it is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use trimtab_io::{Nanos, Op, Request};

/// The time that a device takes for one request, alone.
pub trait ServiceTime {
    /// The expected time for `length` bytes from `offset`, if the request before ended at
    /// `previous_end`.
    fn expected(&self, previous_end: u64, op: Op, offset: u64, length: u64) -> Nanos;

    /// The same of a device whose times depend on when the service begins: a disk whose angle is
    /// known.
    #[inline]
    fn expected_from(&self, start: Start, previous_end: u64, request: &Served) -> Nanos {
        _ = start;
        let &Served { op, offset, length } = request;
        self.expected(previous_end, op, offset, length)
    }

    /// A request is sent that will be served from `begin` on, after all that was sent before.
    /// Returns the expected time, as [`expected_from`](Self::expected_from) does. A model of the
    /// disk may serve the request now. Only where requests are served first come, first served.
    #[inline]
    fn sent(&mut self, begin: Nanos, previous_end: u64, request: &Served) -> Nanos {
        self.expected_from(Start::at(begin), previous_end, request)
    }

    /// A service took from its start to `end`. May be learned from.
    #[inline]
    fn served(&mut self, start: Start, end: Nanos, previous_end: u64, request: &Served) {
        _ = (start, end, previous_end, request);
    }
}

/// When a service starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Since when the device has the request: one that has waited there is ready at once.
    pub entered: Nanos,
    /// When the device is free for it; not before `entered`.
    pub begin: Nanos,
}

impl Start {
    /// Of a request that the device gets when it is free.
    #[must_use]
    pub const fn at(begin: Nanos) -> Self {
        Self { entered: begin, begin }
    }
}

/// What a disk is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// What it did.
    pub op: Op,
    /// Its first byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl Served {
    /// The byte after its last one.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

impl From<&Request> for Served {
    fn from(request: &Request) -> Self {
        let &Request { op, offset, length, .. } = request;
        Self { op, offset, length }
    }
}

impl<T: ServiceTime + ?Sized> ServiceTime for Arc<T> {
    #[inline]
    fn expected(&self, previous_end: u64, op: Op, offset: u64, length: u64) -> Nanos {
        (**self).expected(previous_end, op, offset, length)
    }
}

/// The time to reach data at a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekKnot {
    /// Distance from the end of the request before, in either direction, bytes.
    pub distance_bytes: u64,
    /// Seek and mean rotation, ns.
    pub time_ns: u64,
}

/// A part of the disk with one transfer rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Its first byte.
    pub start_bytes: u64,
    /// Transfer time of 4 KiB, ns.
    pub page_ns: u64,
}

/// A disk's service times (MittOS, §4.9): seek with mean rotation by distance, transfer by zone,
/// and an overhead for each operation.
///
/// Between two knots the seek is linear; beyond the last it is the last one's. A request that
/// starts where the one before ended pays the `sequential` overhead only, and its transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawTimes", into = "RawTimes")]
pub struct DiskTimes {
    raw: RawTimes,
    /// Of the seek after each knot, ns per byte.
    slopes: Vec<f64>,
}

/// As it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTimes {
    read_overhead_ns: u64,
    write_overhead_ns: u64,
    seek: Vec<SeekKnot>,
    zone: Vec<Zone>,
}

/// Why service times are not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskTimesError {
    /// There are none.
    #[error("`{0}` must have at least one entry")]
    Empty(&'static str),
    /// They are not in order.
    #[error("`{0}` must ascend, and entry {1}, from 0, does not; sort them")]
    Order(&'static str, usize),
}

impl DiskTimes {
    /// From plain arrays: `seek` as (distance in bytes, ns), ascending; `zones` as (first byte, ns
    /// for 4 KiB), ascending; the overheads of reads and writes, ns.
    ///
    /// # Errors
    /// An array is empty, or does not ascend.
    pub fn new(
        seek: &[(u64, u64)],
        zones: &[(u64, u64)],
        read_overhead: Nanos,
        write_overhead: Nanos,
    ) -> Result<Self, DiskTimesError> {
        let knot = |&(distance_bytes, time_ns)| SeekKnot { distance_bytes, time_ns };
        let zone = |&(start_bytes, page_ns)| Zone { start_bytes, page_ns };
        Self::try_from(RawTimes {
            read_overhead_ns: read_overhead.0,
            write_overhead_ns: write_overhead.0,
            seek: seek.iter().map(knot).collect(),
            zone: zones.iter().map(zone).collect(),
        })
    }

    /// Seek and mean rotation over a distance, bytes.
    #[must_use]
    #[inline]
    pub fn seek(&self, distance: u64) -> Nanos {
        let knots = &self.raw.seek;
        let after = knots.partition_point(|knot| knot.distance_bytes <= distance);
        let Some(before) = after.checked_sub(1) else { return Nanos(knots[0].time_ns) };
        let knot = knots[before];
        let past = (distance - knot.distance_bytes) as f64 * self.slopes[before];
        Nanos(knot.time_ns.saturating_add_signed(past as i64))
    }

    /// Transfer of `length` bytes from `offset`, at the rate where it begins.
    #[must_use]
    #[inline]
    pub fn transfer(&self, offset: u64, length: u64) -> Nanos {
        let zones = &self.raw.zone;
        let after = zones.partition_point(|zone| zone.start_bytes <= offset);
        let page = zones[after.saturating_sub(1)].page_ns;
        Nanos((u128::from(page) * u128::from(length) / 4096).try_into().unwrap_or(u64::MAX))
    }

    /// The same disk with the transfer rate of its middle zone everywhere: what zones are worth.
    #[must_use]
    pub fn without_zones(&self) -> Self {
        let middle = self.raw.zone[self.raw.zone.len() / 2];
        let zone = vec![Zone { start_bytes: 0, ..middle }];
        Self { raw: RawTimes { zone, ..self.raw.clone() }, slopes: self.slopes.clone() }
    }
}

impl ServiceTime for DiskTimes {
    #[inline]
    fn expected(&self, previous_end: u64, op: Op, offset: u64, length: u64) -> Nanos {
        let overhead = match op {
            Op::Read => self.raw.read_overhead_ns,
            Op::Write => self.raw.write_overhead_ns,
            // Neither moves the arm.
            Op::Discard | Op::Flush => return Nanos(self.raw.write_overhead_ns),
        };
        let distance = previous_end.abs_diff(offset);
        let seek = if distance == 0 { Nanos::ZERO } else { self.seek(distance) };
        Nanos(overhead) + seek + self.transfer(offset, length)
    }
}

impl TryFrom<RawTimes> for DiskTimes {
    type Error = DiskTimesError;

    fn try_from(raw: RawTimes) -> Result<Self, DiskTimesError> {
        check("seek", &raw.seek, |knot| knot.distance_bytes)?;
        check("zone", &raw.zone, |zone| zone.start_bytes)?;
        let slope = |pair: &[SeekKnot]| {
            let rise = pair[1].time_ns as f64 - pair[0].time_ns as f64;
            rise / (pair[1].distance_bytes - pair[0].distance_bytes) as f64
        };
        let slopes = raw.seek.windows(2).map(slope).chain([0.0]).collect();
        Ok(Self { raw, slopes })
    }
}

impl From<DiskTimes> for RawTimes {
    fn from(times: DiskTimes) -> Self {
        times.raw
    }
}

fn check<T>(
    name: &'static str,
    entries: &[T],
    key: impl Fn(&T) -> u64,
) -> Result<(), DiskTimesError> {
    if entries.is_empty() {
        return Err(DiskTimesError::Empty(name));
    }
    let unsorted = (1..entries.len()).find(|&i| key(&entries[i - 1]) >= key(&entries[i]));
    unsorted.map_or(Ok(()), |i| Err(DiskTimesError::Order(name, i)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeks_are_linear_between_knots() {
        let times = DiskTimes::new(
            &[(1000, 100), (2000, 300), (10_000, 700)],
            &[(0, 4096), (5000, 8192)],
            Nanos(10),
            Nanos(20),
        )
        .unwrap();
        for (distance, expected) in [(1, 100), (1500, 200), (2000, 300), (6000, 500), (99_999, 700)]
        {
            assert_eq!(times.seek(distance), Nanos(expected), "{distance}");
        }
        // Sequential: overhead and transfer only.
        assert_eq!(times.expected(100, Op::Read, 100, 512), Nanos(10 + 512));
        assert_eq!(times.expected(6500, Op::Write, 5000, 512), Nanos(20 + 200 + 1024));
        assert_eq!(times.expected(6500, Op::Flush, 0, 0), Nanos(20));
    }

    #[test]
    fn documents_are_checked() {
        let text = r#"{"read_overhead_ns":1,"write_overhead_ns":2,
            "seek":[{"distance_bytes":1,"time_ns":5}],"zone":[{"start_bytes":0,"page_ns":7}]}"#;
        let times: DiskTimes = serde_json::from_str(text).unwrap();
        let again = serde_json::to_string(&times).unwrap();
        assert_eq!(serde_json::from_str::<DiskTimes>(&again).unwrap(), times);
        assert_eq!(times, DiskTimes::new(&[(1, 5)], &[(0, 7)], Nanos(1), Nanos(2)).unwrap());
        let bad = text.replace("\"zone\":[{\"start_bytes\":0,\"page_ns\":7}]", "\"zone\":[]");
        let error = serde_json::from_str::<DiskTimes>(&bad).unwrap_err().to_string();
        assert!(error.contains("`zone` must have at least one entry"), "{error}");
        assert!(serde_json::from_str::<DiskTimes>(&text.replace("seek", "sick")).is_err());
        let unsorted = DiskTimes::new(&[(5, 1), (5, 2)], &[(0, 1)], Nanos(0), Nanos(0));
        assert_eq!(unsorted, Err(DiskTimesError::Order("seek", 1)));
    }
}
