//! A profile for a disk that was recorded, one request at a time.
//!
//! The parts are found one after the other, from the first half of the recording only:
//!
//! 1. The bus: reads that the buffer held take a constant and the transfer, which is the slope of
//!    their times over their lengths.
//! 2. The spindle's period and the sectors of a track, from the angles at which reads end
//!    (spindle.rs). Without them (too few reads near each other) the period is taken from the
//!    spread of service times.
//! 3. The seek curve, by least squares on reads from the platters (seeks.rs).
//! 4. The electronics: medians of the buffer's answers.
//! 5. The buffer: of a few hundred sizes and policies the one whose model finds the same reads in
//!    its buffer as the disk did.
//!
//! A recording does not show tracks per cylinder (which the profile sets to 8), nor the order of a
//! queue. The second half is the measure of the quality, as the demerit: the root mean square
//! distance between the distribution functions (Ruemmler and Wilkes, 1994).

mod distance;
mod player;
mod profiler;
mod rotation;
mod sample;
pub(crate) mod seeks;
mod spindle;

use trimtab_device::{DiskCache, DiskProfile, DiskQueue, Interface, Order, Platters, Seek};
use trimtab_trace::Record;

use crate::error::Error;
use player::play;
use sample::{Sample, mean, quantile, samples};
use seeks::Sums;
use spindle::Spindle;

pub use distance::DiskDistance;
pub use profiler::{DiskProbe, DiskProfiler, mean_forecast_error};
pub use rotation::RotationProbe;

/// A fitted disk.
#[derive(Clone, Debug)]
pub struct FittedDisk {
    /// The profile.
    pub profile: DiskProfile,
    /// How well the ends of reads agree with the period, 0 (not at all) to 1; `None` if the period
    /// is from the spread of service times.
    pub rotation_resultant: Option<f64>,
    /// Pairs of reads behind it.
    pub rotation_pairs: usize,
    /// By class, on the half that it was fitted to.
    pub first_half: Vec<DiskDistance>,
    /// By class, on the half that it has not seen.
    pub second_half: Vec<DiskDistance>,
    /// The demerit between the disk's own service times in the two halves, as a share of the mean
    /// of the second.
    pub halves: f64,
}

/// Tracks of a cylinder in fitted profiles: a recording does not show them.
const HEADS: u32 = 8;
const SECTOR: u64 = 512;

/// Fits a profile to a recording of one disk, in order of arrival, one request at a time. The same
/// recording gives the same profile.
///
/// # Errors
/// The recording has too few latencies or reads, or requests overlap in time.
pub fn fit_disk(records: &[Record], name: &str) -> Result<FittedDisk, Error> {
    let samples = samples(records)?;
    let (first, second) = samples.split_at(samples.len() / 2);
    let end = samples.iter().map(Sample::end).max().unwrap_or_default();
    let parts = Parts::find(first)?;
    let profile = parts.profile(first, end, name)?;
    let played = play(&profile, &samples);
    let (played_first, played_second) = played.split_at(first.len());
    let fast = |s: &Sample| parts.is_fast(s);
    let services = |half: &[Sample]| half.iter().map(|s| s.service).collect::<Vec<_>>();
    let halves = distance::demerit(&mut services(first), &mut services(second));
    let halves = halves.unwrap_or_default() / mean(&services(second)).unwrap_or(1.0);
    Ok(FittedDisk {
        rotation_resultant: parts.spindle_is_known.then_some(parts.spindle.resultant),
        rotation_pairs: parts.spindle.pairs,
        first_half: distance::classes(first, played_first, fast),
        second_half: distance::classes(second, played_second, fast),
        halves,
        profile,
    })
}

/// What the first half shows.
struct Parts {
    /// Of a byte on the bus, µs.
    bus: f64,
    /// Reads with less beside their transfer come from the buffer, µs.
    threshold: f64,
    spindle: Spindle,
    spindle_is_known: bool,
    /// Indices of reads from the platters.
    misses: Vec<usize>,
}

impl Parts {
    fn find(samples: &[Sample]) -> Result<Self, Error> {
        let bus = bus(samples);
        let net = |s: &Sample| s.service - bus * s.length as f64;
        let mut reads: Vec<f64> = samples.iter().filter(|s| s.read).map(net).collect();
        if reads.len() < 300 {
            let found = reads.len();
            return Err(Error::Fit(format!(
                "{found} reads in the recording's first half, at least 300 are needed"
            )));
        }
        let slow = quantile(&mut reads, 0.9).expect("there are reads");
        let threshold = threshold(&reads, slow);
        let misses: Vec<usize> = (0..samples.len())
            .filter(|&i| samples[i].read && net(&samples[i]) > threshold)
            .collect();
        if misses.len() < 100 {
            let found = misses.len();
            return Err(Error::Fit(format!(
                "{found} reads from the platters in the recording's first half, at least 100 are \
                 needed"
            )));
        }
        let known = spindle::find(samples, &misses, bus);
        let spindle = known.unwrap_or_else(|| spread(samples, &misses, &net));
        Ok(Self { bus, threshold, spindle, spindle_is_known: known.is_some(), misses })
    }

    /// Beside the transfer, µs.
    fn net(&self, sample: &Sample) -> f64 {
        sample.service - self.bus * sample.length as f64
    }

    fn is_fast(&self, sample: &Sample) -> bool {
        self.net(sample) <= self.threshold
    }

    fn profile(&self, samples: &[Sample], end: u64, name: &str) -> Result<DiskProfile, Error> {
        let platters = self.platters(samples, end);
        let (seek, command_us) = self.seek(samples, &platters);
        let interface = self.interface(samples, command_us);
        let buffers_writes = self.buffers_writes(samples);
        let cache =
            DiskCache { write_kib: if buffers_writes { 512 } else { 0 }, ..DiskCache::default() };
        let mut profile = DiskProfile {
            name: name.to_owned(),
            about: "Fitted to a recording of one request at a time".to_owned(),
            disk: platters,
            seek,
            interface,
            cache,
            queue: DiskQueue { depth: 1, order: Order::Fifo, ..DiskQueue::default() },
        };
        profile.cache = self.cache(samples, &profile);
        self.distances(samples, &mut profile);
        let valid = DiskProfile::parse(&profile.to_toml());
        valid.map_err(|error| Error::Fit(format!("the recording fits no profile: {error}")))
    }

    /// Zones by thirds of the disk, where enough reads show their sector time.
    fn platters(&self, samples: &[Sample], end: u64) -> Platters {
        let thirds = [0, end / 3, 2 * (end / 3), end + 1];
        let mut last = 0.0;
        let mut tracks = Vec::new();
        for part in thirds.windows(2) {
            let range = (part[0], part[1]);
            let found = self.spindle_is_known.then(|| {
                spindle::sector_time(samples, &self.misses, self.bus, &self.spindle, range)
            });
            // Outer tracks are longer.
            let time: f64 = found.flatten().unwrap_or(self.spindle.sector).max(last);
            last = time;
            tracks.push((self.spindle.period / time).round().clamp(16.0, 10_000.0) as u32);
        }
        let cylinders = tracks.iter().map(|&track| {
            let cylinder = u64::from(track) * u64::from(HEADS) * SECTOR;
            (end / 3 + 1).div_ceil(cylinder).max(1) as u32
        });
        Platters {
            rpm: (60e6 / self.spindle.period * 100.0).round() / 100.0,
            heads: HEADS,
            sector_bytes: SECTOR as u32,
            zone_cylinders: cylinders.collect(),
            zone_sectors_per_track: tracks,
            track_skew_us: None,
            cylinder_skew_us: None,
        }
    }

    /// The seek curve, and the time before it.
    fn seek(&self, samples: &[Sample], platters: &Platters) -> (Seek, f64) {
        let cylinders: u32 = platters.zone_cylinders.iter().sum();
        let cylinder = cylinder_of(platters);
        let half = self.spindle.period / 2.0 + self.spindle.sector;
        let moved = |&&i: &&usize| samples[i].distance() >= 4 * cylinder_bytes(platters);
        let distance = |i: usize| {
            let s = &samples[i];
            f64::from(cylinder(s.offset).abs_diff(cylinder(s.previous_end)))
        };
        let still: Vec<usize> = self.misses.iter().filter(|i| !moved(i)).copied().collect();
        // Outliers are retries and other work: twice without what the last fit cannot explain.
        let mut curve = None;
        for _ in 0..3 {
            let mut sums = Sums::default();
            for &i in self.misses.iter().filter(moved) {
                let (d, net) = (distance(i), self.net(&samples[i]));
                let far = curve.is_some_and(|curve: seeks::Curve| {
                    (net - curve.at(d)).abs() > 0.75 * self.spindle.period
                });
                if !far {
                    sums.add(d, net, 1.0);
                }
            }
            curve = sums.curve().or(curve);
        }
        let nets = self.misses.iter().map(|&i| self.net(&samples[i])).collect::<Vec<_>>();
        let all = mean(&nets).unwrap_or(half);
        let mut command = 100.0;
        if still.len() >= 20 {
            let nets: Vec<f64> = still.iter().map(|&i| self.net(&samples[i])).collect();
            let crossing = still.iter().filter(|&&i| distance(i) > 0.0).count();
            let crossing = (crossing as f64 / still.len() as f64).min(0.5);
            let step = curve.map_or(0.0, |curve| curve.at(1.0) - half);
            // The mean has some steps to the next cylinder in it.
            let without = mean(&nets).unwrap_or(half) - half;
            command = ((without - crossing * step) / (1.0 - crossing)).max(0.0);
        }
        let command = (command * 10.0).round() / 10.0;
        let (distances, us) = match curve {
            Some(curve) => curve.table(cylinders, half + command),
            None => (vec![1], vec![(all - half - command).max(0.0)]),
        };
        // Changes of track are part of the mean without movement, and with it of the command.
        let seek = Seek { cylinders: distances, us, head_switch_us: 0.0, write_settle_us: 0.0 };
        (seek, command)
    }

    /// Medians of what the buffer answers.
    fn interface(&self, samples: &[Sample], command_us: f64) -> Interface {
        let median = |of: &dyn Fn(&Sample) -> bool| {
            let mut times: Vec<f64> =
                samples.iter().filter(|s| of(s)).map(|s| self.net(s)).collect();
            let enough = times.len() >= 20;
            let middle = quantile(&mut times, 0.5).filter(|_| enough)?;
            Some((middle.max(0.0) * 10.0).round() / 10.0)
        };
        let hit = median(&|s| s.read && self.is_fast(s) && !s.continues());
        let sequential = median(&|s| s.read && self.is_fast(s) && s.continues());
        let hit_us = hit.or(sequential).unwrap_or(command_us);
        Interface {
            command_us,
            hit_us,
            sequential_hit_us: sequential.filter(|&us| us != hit_us),
            write_us: median(&|s| !s.read).unwrap_or(command_us),
            distant_write_us: None,
            write_after_read_us: None,
            bus_mb_s: ((1.0 / self.bus) * 1e3).round() / 1e3,
        }
    }

    /// Whether most writes take less than the platters would need.
    fn buffers_writes(&self, samples: &[Sample]) -> bool {
        let mut writes: Vec<f64> =
            samples.iter().filter(|s| !s.read).map(|s| self.net(s)).collect();
        quantile(&mut writes, 0.75).is_some_and(|time| time < self.spindle.period / 4.0)
    }

    /// The size and the policy of the buffer for which the model hits and misses as the disk.
    fn cache(&self, samples: &[Sample], profile: &DiskProfile) -> DiskCache {
        let fast: Vec<bool> = samples.iter().map(|s| self.is_fast(s)).collect();
        let mut best = (usize::MAX, profile.cache.clone());
        let mut profile = profile.clone();
        for segments in [0, 1, 2, 3, 4, 6, 8, 12, 16, 32] {
            for segment_kib in [16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 192, 256, 512, 1024] {
                for (read_on_arrival, keep_sent) in
                    [(false, false), (false, true), (true, false), (true, true)]
                {
                    let base = profile.cache.clone();
                    let cache =
                        DiskCache { segments, segment_kib, read_on_arrival, keep_sent, ..base };
                    profile.cache = cache;
                    let played = play(&profile, samples);
                    let wrong = samples.iter().zip(&played).zip(&fast);
                    let wrong =
                        wrong.filter(|((s, played), fast)| s.read && played.hit != **fast).count();
                    if wrong < best.0 {
                        best = (wrong, profile.cache.clone());
                    }
                }
                if segments == 0 {
                    break;
                }
            }
        }
        best.1
    }

    /// Times of writes near the last request and far from it, which needs the segment's size.
    fn distances(&self, samples: &[Sample], profile: &mut DiskProfile) {
        if profile.cache.write_kib == 0 {
            return;
        }
        let segment = u64::from(profile.cache.segment_kib) * 1024;
        let median = |is: &dyn Fn(&Sample) -> bool| {
            let of = samples.iter().filter(|s| !s.read && is(s));
            let mut times: Vec<f64> = of.map(|s| self.net(s)).collect();
            let enough = times.len() >= 20;
            quantile(&mut times, 0.5)
                .filter(|_| enough)
                .map(|us| (us.max(0.0) * 10.0).round() / 10.0)
        };
        let is_far = |s: &Sample| s.distance() > segment;
        let to = &mut profile.interface;
        if let (Some(near), Some(far)) = (median(&|s| !is_far(s)), median(&is_far)) {
            to.write_us = near;
            to.distant_write_us = Some(far);
            let after = |read: bool| median(&|s| !is_far(s) && s.after_read == read);
            if let (Some(after_write), Some(after_read)) = (after(false), after(true)) {
                to.write_us = after_write;
                to.write_after_read_us = Some(after_read).filter(|&us| us != after_write);
            }
        }
    }
}

/// Time of a byte on the bus, µs: the slope of the fastest reads and writes over their length.
fn bus(samples: &[Sample]) -> f64 {
    // The least squares slope through the tenth percentiles of the lengths.
    let mut by_length: std::collections::BTreeMap<(bool, u64), Vec<f64>> = Default::default();
    for s in samples {
        by_length.entry((s.read, s.length)).or_default().push(s.service);
    }
    let (mut slope_sum, mut weight_sum) = (0.0, 0.0);
    for read in [true, false] {
        let points: Vec<(f64, f64, f64)> = by_length
            .iter_mut()
            .filter(|((of, _), times)| *of == read && times.len() >= 20)
            .map(|((_, length), times)| {
                let n = times.len() as f64;
                (*length as f64, quantile(times, 0.1).unwrap_or(0.0), n)
            })
            .collect();
        let weight: f64 = points.iter().map(|p| p.2).sum();
        if points.len() < 2 {
            continue;
        }
        let of = |f: &dyn Fn(&(f64, f64, f64)) -> f64| {
            points.iter().map(|p| f(p) * p.2).sum::<f64>() / weight
        };
        let (x, y) = (of(&|p| p.0), of(&|p| p.1));
        let xx = of(&|p| (p.0 - x).powi(2));
        let xy = of(&|p| (p.0 - x) * (p.1 - y));
        if xy > 0.0 {
            (slope_sum, weight_sum) = (slope_sum + weight * xy / xx, weight_sum + weight);
        }
    }
    // From 0.5 MB/s to 10 GB/s; 100 MB/s if all requests have one length.
    let slope = if weight_sum > 0.0 { slope_sum / weight_sum } else { 0.01 };
    slope.clamp(1e-4, 2.0)
}

/// Between the buffer's answers and the platters': above the densest tenth of the times, if that is
/// so dense that only the buffer can be its cause. `times` are sorted.
fn threshold(times: &[f64], slow: f64) -> f64 {
    let tenth = (times.len() / 10).max(1);
    let dense = (0..times.len() - tenth)
        .min_by(|&a, &b| (times[a + tenth] - times[a]).total_cmp(&(times[b + tenth] - times[b])));
    let Some(dense) = dense else { return 0.0 };
    let (low, high) = (times[dense], times[dense + tenth]);
    if high - low > 0.02 * slow || high > 0.3 * slow {
        // No buffer.
        return times[0] - 1.0;
    }
    // In the widest gap above it, within a quarter of the slow ones.
    let until = high + 0.12 * slow;
    let above = times.partition_point(|&t| t <= high);
    let gap = (above.max(1)..times.len()).take_while(|&i| times[i - 1] < until);
    let widest =
        gap.max_by(|&a, &b| (times[a] - times[a - 1]).total_cmp(&(times[b] - times[b - 1])));
    widest.map_or(high, |i| (times[i] + times[i - 1]) / 2.0)
}

/// The period from the spread of times over short distances: nine tenths of a uniform wait.
fn spread(samples: &[Sample], misses: &[usize], net: &dyn Fn(&Sample) -> f64) -> Spindle {
    let mut order: Vec<usize> = misses.to_vec();
    order.sort_by_key(|&i| samples[i].distance());
    // In groups of similar distance, so that seeks spread them little.
    let mut widths: Vec<f64> = order
        .chunks(50)
        .filter(|group| group.len() == 50)
        .filter_map(|group| {
            let mut times: Vec<f64> = group.iter().map(|&i| net(&samples[i])).collect();
            Some(quantile(&mut times, 0.95)? - quantile(&mut times, 0.05)?)
        })
        .collect();
    let width = quantile(&mut widths, 0.5).unwrap_or(7500.0);
    let period = (width / 0.9).clamp(60e6 / 16_000.0, 60e6 / 3_500.0);
    Spindle { period, sector: period / 500.0, resultant: 0.0, pairs: 0 }
}

fn cylinder_bytes(platters: &Platters) -> u64 {
    let track = platters.zone_sectors_per_track[0];
    u64::from(track) * u64::from(platters.heads) * SECTOR
}

/// The cylinder of an offset.
fn cylinder_of(platters: &Platters) -> impl Fn(u64) -> u32 {
    let zones = platters.zone_cylinders.iter().zip(&platters.zone_sectors_per_track);
    let mut first = (0, 0);
    let zones: Vec<(u64, u32, u64)> = zones
        .map(|(&cylinders, &track)| {
            let row = u64::from(track) * u64::from(platters.heads) * SECTOR;
            let zone = (first.0, first.1, row);
            first = (first.0 + row * u64::from(cylinders), first.1 + cylinders);
            zone
        })
        .collect();
    move |offset| {
        let zone = zones.partition_point(|&(from, ..)| from <= offset) - 1;
        let (from, cylinder, row) = zones[zone];
        cylinder + ((offset - from) / row) as u32
    }
}

#[cfg(test)]
mod tests;
