//! Measures the seek curve of a disk, where it is known least.
//!
//! MittOS fills a matrix with the latencies of all pairs of places, which takes hours (§4.9: a
//! million pairs for 1000 GB, ten times each; 11 hours by the talk). But latency depends on the
//! distance only, in cylinders, and on the angle of the spindle, and both can be used:
//!
//! - Long reads at some places show the rate by place, and with it how many cylinders are between
//!   two places.
//! - A read that follows another at a given distance takes the seek and a wait that is uniform over
//!   a revolution T. So each latency bounds the seek from both sides: latency − T < seek ≤ latency.
//!   The mean of n latencies is off by about T / √(12 n), the middle of these bounds by less than
//!   T / n.
//! - Longer seeks take no less time, so the bounds of one distance hold for others.
//!
//! The next distance is always the one whose bounds are furthest apart. [`DiskProfiler`] is a state
//! machine: it proposes a probe and is told the time that it took. Its state is serializable, so a
//! driver can save it and go on later.

use serde::{Deserialize, Serialize};
use trimtab_device::{DiskProfile, DiskTiming};
use trimtab_io::{Nanos, Op, mix64};

use super::{HEADS, SECTOR};

/// Two reads, one right after the other; the second is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskProbe {
    /// First byte of the first read.
    pub from: u64,
    /// Its length, bytes.
    pub from_length: u64,
    /// First byte of the second read.
    pub to: u64,
    /// Its length, bytes.
    pub length: u64,
}

/// What the profiler knows of one distance.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Knot {
    /// Share of the stroke, in cylinders.
    share: f64,
    /// The least two latencies, µs: the second counts, so that a single wrong one does no harm.
    least: [f64; 2],
    /// The greatest, descending, at most [`LATE`], µs. A host is late now and then, so beyond the
    /// first one in a hundred is taken for late.
    greatest: Vec<f64>,
    probes: u32,
}

/// Latencies that are kept of a distance.
const LATE: usize = 8;

impl Knot {
    fn take(&mut self, us: f64) {
        self.probes += 1;
        let [first, next] = self.least;
        self.least = [us.min(first), us.max(first).min(next)];
        let at = self.greatest.partition_point(|&other| other > us);
        self.greatest.insert(at, us);
        self.greatest.truncate(LATE);
    }

    /// The greatest latency that counts.
    fn greatest(&self) -> f64 {
        let late = 1 + self.probes as usize / 100;
        self.greatest.get(late).or(self.greatest.last()).copied().unwrap_or_default()
    }
}

/// What a probe in progress is for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Purpose {
    Rate(usize),
    Seek(usize),
}

/// The profiler.
///
/// Probes must not be answered from the disk's buffer: places are random, and a driver reads around
/// the host's cache (`O_DIRECT`).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskProfiler {
    capacity: u64,
    period_us: f64,
    goal_us: f64,
    seed: u64,
    drawn: u64,
    /// Time of a long read by place, µs.
    rates: Vec<f64>,
    knots: Vec<Knot>,
    purpose: Option<Purpose>,
    /// Time of all probes so far, µs.
    spent_us: f64,
    probes: u64,
}

/// Places at which the rate is measured, and the length of these reads.
const RATES: usize = 16;
const LONG: u64 = 16 << 20;
/// Distances of the curve.
const KNOTS: usize = 24;
const LONGEST: f64 = 0.97;
/// Length of reads that measure seeks.
const SHORT: u64 = 4096;

impl DiskProfiler {
    /// A profiler of a disk of `capacity` bytes that turns at `rpm` (disks report their nominal
    /// speed). It is done when no seek time is uncertain by more than `goal`.
    ///
    /// # Panics
    /// The disk is smaller than 1 GiB, or `rpm` is not positive.
    #[must_use]
    pub fn new(capacity: u64, rpm: f64, goal: Nanos, seed: u64) -> Self {
        assert!(capacity >= 1 << 30 && rpm > 0.0, "{capacity} bytes, {rpm} rpm");
        let knot = |i: usize| Knot {
            // Cubed: short seeks differ most. Not the whole stroke: its ends would be in the buffer.
            share: LONGEST * ((i + 1) as f64 / KNOTS as f64).powi(3),
            least: [f64::MAX; 2],
            greatest: Vec::new(),
            probes: 0,
        };
        Self {
            capacity,
            period_us: 60e6 / rpm,
            goal_us: goal.as_micros_f64(),
            seed,
            drawn: 0,
            rates: Vec::new(),
            knots: (0..KNOTS).map(knot).collect(),
            purpose: None,
            spent_us: 0.0,
            probes: 0,
        }
    }

    /// Whether a state that was read from a file is one that a profiler can be in.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let positive = |us: f64| us.is_finite() && us > 0.0;
        let knot = |knot: &Knot| {
            let mut times = knot.least.iter().chain(&knot.greatest);
            (0.0..=1.0).contains(&knot.share)
                && knot.greatest.len() <= LATE
                && times.all(|us| us.is_finite())
        };
        let purpose = match self.purpose {
            None => true,
            Some(Purpose::Rate(i)) => i < RATES,
            Some(Purpose::Seek(i)) => i < KNOTS,
        };
        self.capacity >= 1 << 30
            && positive(self.period_us)
            && positive(self.goal_us)
            && self.spent_us.is_finite()
            && self.rates.len() <= RATES
            && self.rates.iter().all(|us| us.is_finite())
            && self.knots.len() == KNOTS
            && self.knots.iter().all(knot)
            && purpose
    }

    /// A number from 0 to 1.
    fn draw(&mut self) -> f64 {
        self.drawn += 1;
        (mix64(self.seed ^ mix64(self.drawn)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The next probe; `None` when it is done. A probe whose time was not told is proposed anew,
    /// elsewhere.
    pub fn propose(&mut self) -> Option<DiskProbe> {
        if self.rates.len() < RATES {
            let place = self.rates.len();
            self.purpose = Some(Purpose::Rate(place));
            let step = (self.capacity - 2 * LONG) / RATES as u64;
            let from = align(step * place as u64 + step / 2);
            return Some(DiskProbe {
                from,
                from_length: 1 << 20,
                to: from + (1 << 20),
                length: LONG,
            });
        }
        let (widest, width) = (0..KNOTS)
            .map(|i| (i, self.width(i)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .expect("there are knots");
        if width <= self.goal_us {
            return None;
        }
        self.purpose = Some(Purpose::Seek(widest));
        let share = self.knots[widest].share;
        let (start, outwards) = (self.draw() * (1.0 - share), self.draw() < 0.5);
        let (near, far) = (self.offset(start), self.offset(start + share));
        let (from, to) = if outwards { (far, near) } else { (near, far) };
        // Anywhere on the track, so that the angle is arbitrary.
        let around = (self.draw() * (1 << 20) as f64) as u64;
        let to = align((to + around).min(self.capacity - SHORT));
        Some(DiskProbe {
            from: align(from.min(self.capacity - SHORT)),
            from_length: SHORT,
            to,
            length: SHORT,
        })
    }

    /// Takes the time of the probe proposed last: of its second read, and of both with all that the
    /// driver did.
    pub fn measured(&mut self, second: Nanos, whole: Nanos) {
        let us = second.as_micros_f64();
        match self.purpose.take() {
            None => return,
            Some(Purpose::Rate(_)) => self.rates.push(us),
            Some(Purpose::Seek(i)) => {
                self.knots[i].take(us);
            }
        }
        self.spent_us += whole.as_micros_f64();
        self.probes += 1;
    }

    /// Bounds of the time of a seek, µs, the electronics included.
    fn bounds(&self, i: usize) -> (f64, f64) {
        let (before, after) = (&self.knots[..=i], &self.knots[i..]);
        let low = before.iter().filter(|k| k.probes > 1).map(|k| k.greatest() - self.period_us);
        let high = after.iter().filter(|k| k.probes > 1).map(|k| k.least[1]);
        (low.fold(0.0, f64::max), high.fold(f64::MAX, f64::min))
    }

    /// The likeliest time of a seek, µs. Hosts are late, never early: where the bounds contradict each
    /// other, only the upper one counts, which is the second of n latencies and so above the seek by
    /// two parts of n + 1 of a revolution.
    fn seek_us(&self, i: usize) -> f64 {
        let (low, high) = self.bounds(i);
        match low > high {
            true => high - 2.0 * self.period_us / f64::from(self.knots[i].probes + 1),
            false => f64::midpoint(low, high),
        }
    }

    fn width(&self, i: usize) -> f64 {
        let knot = &self.knots[i];
        if knot.probes < 4 {
            return f64::MAX / f64::from(knot.probes + 2);
        }
        let (low, high) = self.bounds(i);
        // With few probes bounds may be near each other by chance.
        (high - low).max(self.period_us / f64::from(knot.probes))
    }

    /// The offset at a share of the cylinders. The rate falls linearly with the cylinder.
    fn offset(&self, share: f64) -> u64 {
        let (outer, inner) = self.ends();
        let of = |share: f64| share * (outer + (inner - outer) * share / 2.0);
        (of(share) / of(1.0) * self.capacity as f64) as u64
    }

    /// Rates of the outermost and the innermost cylinder, bytes per µs.
    ///
    /// Of a disk whose rate falls linearly with the cylinder, the square of the rate falls linearly
    /// with the offset: least squares on that.
    fn ends(&self) -> (f64, f64) {
        let n = self.rates.len() as f64;
        let points =
            self.rates.iter().enumerate().map(|(i, us)| {
                ((i as f64 + 0.5) / RATES as f64, (LONG as f64 / us.max(1.0)).powi(2))
            });
        let (x, y) = points.clone().fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
        let (xx, xy) = points
            .fold((0.0, 0.0), |(xx, xy), p| (xx + (p.0 - x).powi(2), xy + (p.0 - x) * (p.1 - y)));
        let slope = xy / xx.max(1e-9);
        let at = |place: f64| (y + slope * (place - x)).max(y / 16.0).sqrt();
        (at(0.0), at(1.0))
    }

    /// Probes so far, and the time that they took.
    #[must_use]
    pub fn spent(&self) -> (u64, Nanos) {
        (self.probes, Nanos::from_secs_f64(self.spent_us / 1e6))
    }

    /// The uncertainty of the least known seek time; `None` before all have been probed.
    #[must_use]
    pub fn uncertainty(&self) -> Option<Nanos> {
        let widest = (0..KNOTS).map(|i| self.width(i)).fold(0.0, f64::max);
        (widest < 1e9).then(|| Nanos::from_secs_f64(widest / 1e6))
    }

    /// About the time until it is done, at the pace so far. Bounds approach each other with the
    /// number of probes.
    #[must_use]
    pub fn remaining(&self) -> Option<Nanos> {
        let missing: f64 = (0..KNOTS)
            .map(|i| {
                f64::from(self.knots[i].probes) * (self.width(i) / self.goal_us - 1.0).max(0.0)
            })
            .sum();
        self.uncertainty()?;
        let pace = self.spent_us / self.probes as f64;
        Some(Nanos::from_secs_f64(missing * pace / 1e6))
    }

    /// The profile of what is known so far; `None` before all distances have been probed.
    ///
    /// The electronics' time is in the seek times. Tracks per cylinder are set to 8, and the buffer
    /// is off.
    #[must_use]
    pub fn profile(&self, name: &str) -> Option<DiskProfile> {
        const ZONES: u32 = 8;
        self.uncertainty()?;
        let (outer, inner) = self.ends();
        let track = |zone: u32| {
            let place = (f64::from(zone) + 0.5) / f64::from(ZONES);
            let bytes = (outer + (inner - outer) * place) * self.period_us;
            (bytes / SECTOR as f64).round().max(1.0) as u32
        };
        let tracks: Vec<u32> = (0..ZONES).map(track).collect();
        let row: u64 = tracks.iter().map(|&t| u64::from(t) * u64::from(HEADS) * SECTOR).sum();
        let cylinders = (self.capacity.div_ceil(row)).max(1) as u32;
        let stroke = f64::from(cylinders * ZONES);
        let transfer = SHORT as f64 / f64::midpoint(outer, inner);
        let (mut distances, mut times, mut last) = (vec![], vec![], 0.0);
        for (i, knot) in self.knots.iter().enumerate() {
            let distance = ((knot.share * stroke) as u32).max(1);
            if distances.last().is_some_and(|&before| before >= distance) {
                continue;
            }
            last = f64::max(last, self.seek_us(i) - transfer);
            distances.push(if distances.is_empty() { 1 } else { distance });
            times.push((last * 10.0).round() / 10.0);
        }
        let text = format!(
            "name = {name:?}\nabout = \"Measured by {probes} probes\"\n[disk]\nrpm = {rpm}\nheads = \
             {HEADS}\nzone_cylinders = {zones:?}\nzone_sectors_per_track = {tracks:?}\n[seek]\n\
             cylinders = {distances:?}\nus = {times:?}\n[interface]\ncommand_us = 0\nhit_us = 0\n\
             bus_mb_s = 10000\n[cache]\nsegments = 0\n",
            probes = self.probes,
            // To a hundredth: the rest is the rounding of the period.
            rpm = (6e9 / self.period_us).round() / 100.0,
            zones = [cylinders; ZONES as usize],
        );
        DiskProfile::parse(&text).ok()
    }
}

/// The mean distance between the closed forms of two profiles, over random pairs of places.
#[must_use]
pub fn mean_forecast_error(one: &DiskProfile, other: &DiskProfile, seed: u64) -> Nanos {
    const PAIRS: u64 = 10_000;
    let capacity = one.capacity_bytes().min(other.capacity_bytes());
    let timings = [one, other].map(DiskTiming::new);
    let error = |i: u64| {
        let place = |n: u64| align(mix64(seed ^ mix64(2 * i + n)) % (capacity - SHORT));
        let of = |t: &DiskTiming| t.expected_service(place(0), Op::Read, place(1), SHORT).0;
        of(&timings[0]).abs_diff(of(&timings[1]))
    };
    Nanos((0..PAIRS).map(error).sum::<u64>() / PAIRS)
}

const fn align(offset: u64) -> u64 {
    offset / SHORT * SHORT
}

#[cfg(test)]
mod tests {
    use trimtab_device::Disk;
    use trimtab_io::{DeviceId, Request, RequestId};

    use super::*;

    /// Runs probes on a disk; returns the profiler when done, or after so many.
    fn run(mut profiler: DiskProfiler, disk: &mut Disk, most: u64) -> DiskProfiler {
        let mut read = |at: Nanos, offset, length| {
            let request = Request::new(RequestId(0), DeviceId(0), at, Op::Read, offset, length);
            disk.submit(at, &request).unwrap();
            disk.advance_to_answer(Nanos(u64::MAX));
            disk.served().next().unwrap().completion.complete
        };
        let mut now = Nanos::ZERO;
        for _ in 0..most {
            let Some(probe) = profiler.propose() else { break };
            let begun = now;
            let between = read(now, probe.from, probe.from_length);
            now = read(between, probe.to, probe.length);
            profiler.measured(now.since(between), now.since(begun));
        }
        profiler
    }

    fn truth() -> DiskProfile {
        DiskProfile::builtin("disk-7200").unwrap()
    }

    /// A tenth of the latencies has up to 0.2 ms of a busy host in it, and one in two hundred 3 ms.
    #[test]
    fn late_hosts_do_little_harm() {
        let truth = truth();
        let mut disk = Disk::new(&truth, DeviceId(0), 1);
        let goal = Nanos::from_micros(250);
        let mut profiler = DiskProfiler::new(disk.capacity(), 7200.0, goal, 1);
        let (mut now, mut draws) = (Nanos::ZERO, 0);
        while let Some(probe) = profiler.propose() {
            let mut read = |at: Nanos, offset, length| {
                let request = Request::new(RequestId(0), DeviceId(0), at, Op::Read, offset, length);
                disk.submit(at, &request).unwrap();
                disk.advance_to_answer(Nanos(u64::MAX));
                draws += 1;
                let late = match mix64(draws) % 200 {
                    0 => Nanos::from_millis(3),
                    1..=20 => Nanos(mix64(!draws) % 200_000),
                    _ => Nanos::ZERO,
                };
                disk.served().next().unwrap().completion.complete + late
            };
            let begun = now;
            let between = read(now, probe.from, probe.from_length);
            now = read(between, probe.to, probe.length);
            profiler.measured(now.since(between), now.since(begun));
        }
        let error = mean_forecast_error(&truth, &profiler.profile("found").unwrap(), 1);
        assert!(error < goal, "{error}");
    }

    #[test]
    fn few_minutes_give_the_seek_curve() {
        let truth = truth();
        let mut disk = Disk::new(&truth, DeviceId(0), 1);
        let goal = Nanos::from_micros(150);
        let profiler = DiskProfiler::new(disk.capacity(), 7200.0, goal, 1);
        let profiler = run(profiler, &mut disk, u64::MAX);
        let found = profiler.profile("found").unwrap();
        let error = mean_forecast_error(&truth, &found, 1);
        let (probes, took) = profiler.spent();
        assert!(took < Nanos::from_secs(300), "{probes} probes took {took}");
        assert!(error < Nanos::from_micros(150), "{error}");
        assert_eq!(profiler.remaining(), Some(Nanos::ZERO));
    }

    #[test]
    fn saved_profiler_goes_on_as_if_never_interrupted() {
        let mut disk = Disk::new(&truth(), DeviceId(0), 1);
        let profiler = DiskProfiler::new(disk.capacity(), 7200.0, Nanos::from_micros(300), 1);
        let mut profiler = run(profiler, &mut disk, 100);
        let saved = toml::to_string(&profiler).unwrap();
        let mut restored: DiskProfiler = toml::from_str(&saved).unwrap();
        assert!(restored.is_sound());
        let few = saved.replacen("[[knots]]", "[[nots]]", 1);
        assert!(toml::from_str::<DiskProfiler>(&few).is_ok_and(|few| !few.is_sound()));
        for _ in 0..50 {
            assert_eq!(profiler.propose(), restored.propose());
            let time = Nanos::from_millis(11);
            profiler.measured(time, time);
            restored.measured(time, time);
        }
    }

    /// Curve of error against time, beside the matrix of all pairs: `cargo test -p trimtab-sim
    /// --lib curve_of_error -- --ignored --nocapture` prints the table of
    /// docs/measurements/disks.md.
    #[test]
    #[ignore = "prints a table"]
    #[expect(clippy::print_stdout, reason = "the table is its purpose")]
    fn curve_of_error_against_time() {
        let truth = truth();
        let capacity = truth.capacity_bytes();
        for goal_us in [2000, 1000, 500, 250, 150, 100, 50, 25] {
            let runs = (1..=5).map(|seed| {
                let mut disk = Disk::new(&truth, DeviceId(0), seed);
                let goal = Nanos::from_micros(goal_us);
                let profiler = DiskProfiler::new(capacity, 7200.0, goal, seed);
                let profiler = run(profiler, &mut disk, u64::MAX);
                let found = profiler.profile("found").unwrap();
                (profiler.spent(), mean_forecast_error(&truth, &found, seed))
            });
            let runs: Vec<_> = runs.collect();
            let mean = |f: &dyn Fn(usize) -> f64| (0..runs.len()).map(f).sum::<f64>() / 5.0;
            println!(
                "bounds, goal {goal_us} µs: {:.0} probes, {:.1} s, off by {:.0} µs",
                mean(&|i| runs[i].0.0 as f64),
                mean(&|i| runs[i].0.1.as_secs_f64()),
                mean(&|i| runs[i].1.as_micros_f64()),
            );
        }
        let mut bare = truth.clone();
        bare.cache.segments = 0;
        // The paper's: all pairs of places, means per pair, and least squares over all.
        for (places, tries) in [(10, 1), (30, 1), (100, 1), (100, 10), (300, 10)] {
            let mut disk = Disk::new(&bare, DeviceId(0), 1);
            let (mut now, mut draws) = (Nanos::ZERO, 0);
            let mut place = |i: u64| {
                draws += 1;
                align((capacity / places) * i + mix64(draws) % (1 << 20))
            };
            let mut read = |at: Nanos, offset| {
                let request = Request::new(RequestId(0), DeviceId(0), at, Op::Read, offset, SHORT);
                disk.submit(at, &request).unwrap();
                disk.advance_to_answer(Nanos(u64::MAX));
                disk.served().next().unwrap().completion.complete
            };
            let (mut sums, mut off, mut count) = (super::super::seeks::Sums::default(), 0.0, 0.0);
            let timing = DiskTiming::new(&truth);
            let expected = |from, to| {
                timing.expected_service(from + SHORT, Op::Read, to, SHORT).as_micros_f64()
            };
            for i in 0..places {
                for j in (0..places).filter(|&j| j != i) {
                    let mut cell = 0.0;
                    for _ in 0..tries {
                        let between = read(now, place(i));
                        now = read(between, place(j));
                        let us = now.since(between).as_micros_f64();
                        cell += us / tries as f64;
                        sums.add(i.abs_diff(j) as f64, us, 1.0);
                    }
                    off += (cell - expected(capacity / places * i, capacity / places * j)).abs();
                    count += 1.0;
                }
            }
            let curve = sums.curve().unwrap();
            let mut line = 0.0;
            for i in 0..places {
                for j in (0..places).filter(|&j| j != i) {
                    let truth = expected(capacity / places * i, capacity / places * j);
                    line += (curve.at(i.abs_diff(j) as f64) - truth).abs() / count;
                }
            }
            println!(
                "pairs, {places}² places, {tries} tries: {:.0} s, matrix off by {:.0} µs, regression \
                 {line:.0} µs",
                now.as_secs_f64(),
                off / count,
            );
        }
    }
}
