//! The numbers that a decision is made from.

use trimtab_io::{Nanos, Op, Request};

use super::unit::Unit;
use super::{WINDOWS, Watch};
use crate::in_flight::{UNITS, pages_of};

/// Numbers of the drive as a whole, and of each unit.
const OF_DRIVE: usize = 13 + 3 * WINDOWS.len();
const OF_UNIT: usize = 11;

/// How many numbers there are.
pub const FEATURES: usize = OF_DRIVE + OF_UNIT * (1 + UNITS);

const DRIVE_NAMES: [&str; OF_DRIVE] = [
    "pages",
    "is-write",
    "oldest-read-us",
    "since-write-done-us",
    "write-latency-us",
    "since-stall-us",
    "stall-us",
    "written-since-stall-kib",
    "since-rest-us",
    "written-since-rest-kib",
    "latency-us",
    "mean-latency-of-4-us",
    "others-pages",
    "written-131us-kib",
    "written-1ms-kib",
    "written-8ms-kib",
    "written-67ms-kib",
    "reads-131us",
    "reads-1ms",
    "reads-8ms",
    "reads-67ms",
    "mean-latency-131us-us",
    "mean-latency-1ms-us",
    "mean-latency-8ms-us",
    "mean-latency-67ms-us",
];

const UNIT_NAMES: [&str; OF_UNIT] = [
    "reads",
    "read-pages",
    "writes",
    "write-pages",
    "latency-us",
    "mean-latency-us",
    "since-read-done-us",
    "mean-age-us",
    "service-ns",
    "queue-us",
    "written-ago-kib",
];

/// What each number is called: those of the drive, of the drive as one unit
/// (`drive.`), and of the request's unit by each function (`unit0.` …).
pub const FEATURE_NAMES: [(&str, &str); FEATURES] = {
    let mut names = [("", ""); FEATURES];
    let mut i = 0;
    while i < OF_DRIVE {
        names[i] = ("", DRIVE_NAMES[i]);
        i += 1;
    }
    let groups = ["drive.", "unit0.", "unit1.", "unit2."];
    let mut group = 0;
    while group <= UNITS {
        let mut j = 0;
        while j < OF_UNIT {
            names[OF_DRIVE + group * OF_UNIT + j] = (groups[group], UNIT_NAMES[j]);
            j += 1;
        }
        group += 1;
    }
    names
};

/// A time in microseconds, at most 2^30 of them.
pub(super) fn micros(time: Nanos) -> i32 {
    // 2^30 ns fit: dividing 32 bits is several times faster than 64.
    match u32::try_from(time.0) {
        Ok(ns) => (ns / 1000) as i32,
        Err(_) => (time.0 / 1000).min(1 << 30) as i32,
    }
}

fn kib(bytes: u64) -> i32 {
    (bytes >> 10).min(1 << 30) as i32
}

fn count(count: u32) -> i32 {
    count.min(1 << 30) as i32
}

impl Watch {
    /// The numbers for a request that would be sent now, in the order of
    /// [`FEATURE_NAMES`].
    #[must_use]
    pub fn features(&self, now: Nanos, request: &Request) -> [i32; FEATURES] {
        let mut features = [0; FEATURES];
        self.of_drive(now, request, (&mut features[..OF_DRIVE]).try_into().expect("so many"));
        let (units, _) = features[OF_DRIVE..].as_chunks_mut::<OF_UNIT>();
        self.of_unit(now, &self.whole, &mut units[0]);
        for (i, function) in self.functions.iter().enumerate() {
            let unit = &self.units[self.first[i] + usize::from(function.unit(request.offset))];
            self.of_unit(now, unit, &mut units[1 + i]);
        }
        features
    }

    fn of_drive(&self, now: Nanos, request: &Request, features: &mut [i32; OF_DRIVE]) {
        let oldest = self.reads.oldest().map_or(Nanos::ZERO, |read| now.since(read.sent));
        let mean_of_4 = Nanos(self.latencies.iter().map(|latency| latency.0).sum::<u64>() / 4);
        let (first, windows) = features.split_at_mut(13);
        first.copy_from_slice(&[
            count(pages_of(request)),
            i32::from(request.op == Op::Write),
            micros(oldest),
            micros(now.since(self.last_write_done)),
            micros(self.last_write_latency),
            micros(now.since(self.stall.ended)),
            micros(self.stall.length),
            kib(self.written - self.stall.written),
            micros(now.since(self.rest.ended)),
            kib(self.written - self.rest.written),
            micros(self.latencies[0]),
            micros(mean_of_4),
            count(self.others.pages()),
        ]);
        for i in 0..WINDOWS.len() {
            let answered = self.reads_answered[i].sum(now);
            let latencies = self.read_latencies[i].sum(now);
            windows[i] = count(self.bytes_written[i].sum(now));
            windows[WINDOWS.len() + i] = count(answered);
            windows[2 * WINDOWS.len() + i] = count(latencies / answered.max(1));
        }
    }

    fn of_unit(&self, now: Nanos, unit: &Unit, features: &mut [i32; OF_UNIT]) {
        let queue = u64::from(unit.reads) * u64::from(unit.service_ns);
        *features = [
            count(unit.reads),
            count(unit.read_pages),
            count(unit.writes),
            count(unit.write_pages),
            count(unit.latency_us),
            count(unit.mean_latency_us),
            micros(now.since(unit.last_done)),
            micros(unit.mean_age(now)),
            count(unit.service_ns),
            micros(Nanos(queue)),
            unit.written_ago(self.written),
        ];
    }
}
