//! Features: the numbers that a forecast is computed from.

use trimtab_io::{Nanos, Request};

use super::drive::{DriveState, WINDOWS};
use super::unit::Unit;
use crate::pages::pages_of;
use crate::share::share;
use crate::units::MAX_FUNCTIONS;

/// Features of the drive as a whole: those before the sums over windows, and all.
const BEFORE_SUMS: usize = 10;
const OF_DRIVE: usize = BEFORE_SUMS + 3 * WINDOWS.len();
/// Features of each unit.
const OF_UNIT: usize = 10;

/// How many features there are.
pub const FEATURES: usize = OF_DRIVE + OF_UNIT * (1 + MAX_FUNCTIONS);

const DRIVE_NAMES: [&str; OF_DRIVE] = [
    "pages",
    "oldest-read",
    "since-write-done",
    "write-latency",
    "since-stall",
    "stall",
    "written-since-stall-kib",
    "since-rest",
    "written-since-rest-kib",
    "mean-latency-of-4",
    "written-1ms-kib",
    "written-34ms-kib",
    "reads-1ms",
    "reads-34ms",
    "mean-latency-1ms",
    "mean-latency-34ms",
];

const UNIT_NAMES: [&str; OF_UNIT] = [
    "reads",
    "read-pages",
    "write-pages",
    "latency",
    "mean-latency",
    "since-read-done",
    "mean-age",
    "service",
    "queue",
    "written-ago-kib",
];

/// The features' names as group and name: those of the drive, of the drive as one unit
/// (`drive.`), and of the busiest of the request's units by each function
/// (`unit0.` …). Times are in ticks of 1.024 µs: a shift instead of a division.
pub const FEATURE_NAMES: [(&str, &str); FEATURES] = {
    let mut names = [("", ""); FEATURES];
    let mut i = 0;
    while i < OF_DRIVE {
        names[i] = ("", DRIVE_NAMES[i]);
        i += 1;
    }
    let groups = ["drive.", "unit0.", "unit1.", "unit2."];
    let mut group = 0;
    while group <= MAX_FUNCTIONS {
        let mut j = 0;
        while j < OF_UNIT {
            names[OF_DRIVE + group * OF_UNIT + j] = (groups[group], UNIT_NAMES[j]);
            j += 1;
        }
        group += 1;
    }
    names
};

/// A time in ticks of 1024 ns, at most 2^30 of them.
pub(crate) fn ticks(time: Nanos) -> i32 {
    (time.0 >> 10).min(1 << 30) as i32
}

fn kib(bytes: u64) -> i32 {
    (bytes >> 10).min(1 << 30) as i32
}

fn count(count: u32) -> i32 {
    count.min(1 << 30) as i32
}

impl DriveState {
    /// The features of a request that would be sent now, in the order of
    /// [`FEATURE_NAMES`]. `units` holds one unit for each function: the
    /// [busiest](Unit::busiest) of those that the request's pieces lie in.
    #[must_use]
    #[expect(clippy::inline_always, reason = "otherwise the array is copied before it is used")]
    #[inline(always)]
    pub fn features<'a>(
        &self,
        now: Nanos,
        request: &Request,
        units: impl IntoIterator<Item = &'a Unit>,
    ) -> [i32; FEATURES] {
        // Written in place: a copy in wider pieces right after the stores would wait until the
        // stores are in the cache.
        let mut features = [0; FEATURES];
        self.of_drive(now, request, &mut features);
        let (numbers, _) = features[OF_DRIVE..].as_chunks_mut::<OF_UNIT>();
        self.of_unit(now, &self.whole, &mut numbers[0]);
        for (unit, numbers) in units.into_iter().zip(&mut numbers[1..]) {
            self.of_unit(now, unit, numbers);
        }
        features
    }

    fn of_drive(&self, now: Nanos, request: &Request, features: &mut [i32; FEATURES]) {
        let oldest = match self.whole.reads {
            0 => Nanos::ZERO,
            _ => now.since(self.oldest_read),
        };
        features[0] = count(pages_of(request));
        features[1] = ticks(oldest);
        features[2] = ticks(now.since(self.last_write_done));
        features[3] = ticks(self.last_write_latency);
        features[4] = ticks(now.since(self.stall.ended));
        features[5] = ticks(self.stall.length);
        features[6] = kib(self.written - self.stall.written);
        features[7] = ticks(now.since(self.rest.ended));
        features[8] = kib(self.written - self.rest.written);
        features[9] = ticks(Nanos(self.latencies.iter().map(|latency| latency.0).sum::<u64>() / 4));
        for (i, shift) in WINDOWS.into_iter().enumerate() {
            let completed = self.reads_completed[i].sum(shift, now);
            let latencies = self.read_latencies[i].sum(shift, now);
            features[BEFORE_SUMS + i] = count(self.bytes_written[i].sum(shift, now));
            features[BEFORE_SUMS + WINDOWS.len() + i] = count(completed);
            features[BEFORE_SUMS + 2 * WINDOWS.len() + i] = count(share(latencies, completed));
        }
    }

    fn of_unit(&self, now: Nanos, unit: &Unit, features: &mut [i32; OF_UNIT]) {
        let queue = u64::from(unit.reads) * u64::from(unit.service_ns);
        *features = [
            count(unit.reads),
            count(unit.read_pages),
            count(unit.write_pages),
            count(unit.latency),
            count(unit.mean_latency),
            ticks(now.since(unit.last_done)),
            count(unit.mean_age(now)),
            ticks(Nanos(unit.service_ns.into())),
            ticks(Nanos(queue)),
            unit.written_ago(self.written),
        ];
    }
}
