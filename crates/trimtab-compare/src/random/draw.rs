//! Arrays drawn at random from a documented space.
//!
//! An array is drawn as the text of a scenario, so that one on which a strategy does badly can
//! be kept, read, and run again by itself.
//!
//! # The space
//!
//! Drives, data, load, mix, arrivals and costs are drawn one after the other, as the table in
//! docs/compare.md says. Two things are drawn afterwards, each from a generator of its own, so
//! that they leave everything else of an array as it is:
//!
//! - A recorded workload (random/recorded.rs), in 0.3 of the arrays if recordings are given: all
//!   drives replay one of them, at a rate at which the slowest drive has the utilisation that was
//!   drawn.
//! - An event in phase two (random/event.rs), in 0.3 of the arrays: a drive becomes slow, stalls
//!   or dies, or all become slow.

use std::fmt::Write as _;
use std::path::Path;

use trimtab_io::{Nanos, SplitMix64, derived_seed};
use trimtab_sim::Error;

use super::drive::drive;
use super::event::{self, event};
use super::mix::{Pattern, mix, pattern};
use super::recorded::{self, Recording};
use super::throughput::Throughput;
use crate::spec::Comparison;

/// A drawn array.
#[derive(Clone, Debug)]
pub struct RandomArray {
    /// Its number in its series, from 0.
    pub number: u64,
    /// The scenario, in TOML, without its strategies.
    pub text: String,
    /// What was drawn, by dimension.
    pub traits: Traits,
}

/// The dimensions by which results are grouped.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Traits {
    /// The number of replicas.
    pub replicas: usize,
    /// Whether all drives have the same profile.
    pub alike: bool,
    /// The first drive's profile.
    pub profile: String,
    /// Time of a page read of the first drive's flash, µs.
    pub read_us: f64,
    /// Utilisation of the busiest drive: requests per second in the mean, as a share of what it
    /// completes of the same mix at a queue depth of 64, 0 to 1.
    pub utilisation: f64,
    /// Share of reads among the requests, 0 to 1.
    pub read_share: f64,
    /// Bytes of the most frequent read.
    pub read_bytes: u64,
    /// Cost of a failover, µs.
    pub failover_us: f64,
    /// Kind of the arrivals: `poisson`, `bursty` or `recorded`.
    pub arrivals: &'static str,
    /// The file name of the recording that the drives replay.
    pub recording: Option<String>,
    /// What happens to the drives in phase two: `none`, `slow for good`, `slow for a while`,
    /// `stalls`, `dies`, `dies and returns` or `all slow`.
    pub event: &'static str,
}

/// Reads of phase one and of phase two, of all drives together.
const READS: u64 = 25_000;
/// With few of them among the requests of a recording, there are fewer: phases have at most as
/// many requests as with the lowest share that is drawn, unless p99.9 needs more reads.
const LEAST_SHARE: f64 = 0.1;
const FEWEST_READS: u64 = 10_000;

/// Draws from the space.
pub(super) struct Draw(SplitMix64);

impl Draw {
    pub(super) const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// 0 to 1.
    pub(super) fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// A number below `count`.
    pub(super) fn below(&mut self, count: u64) -> u64 {
        self.0.next() % count
    }

    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.0.unit() <= probability
    }

    pub(super) fn uniform(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.0.unit()
    }

    /// Uniform in the logarithm.
    pub(super) fn scale(&mut self, least: f64, most: f64) -> f64 {
        self.uniform(least.ln(), most.ln()).exp()
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.0.next() % of.len() as u64) as usize]
    }
}

/// Three significant digits: figures of a scenario are to be read.
pub(super) fn round(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let unit = 10_f64.powi(2 - value.abs().log10().floor() as i32);
    (value * unit).round() / unit
}

/// The `number`th array of the series with this seed. Some of the arrays replay one of the
/// recordings; the others do not depend on them.
///
/// # Errors
/// The throughput of a drive cannot be measured, or a recording cannot be read.
pub fn random_array(
    seed: u64,
    number: u64,
    recordings: &[Recording],
) -> Result<RandomArray, Error> {
    let mut seed_of_draw = derived_seed(seed, number);
    loop {
        if let Some(mut array) = drawn(number, seed_of_draw)? {
            let mut draw = Draw::new(derived_seed(seed_of_draw, 3));
            if let Some(recording) = recorded::choose(&mut draw, recordings) {
                array.replay(recording, &mut draw)?;
            }
            let mut draw = Draw::new(derived_seed(seed_of_draw, 2));
            if event::happens(&mut draw) {
                let length = array.phase_two()?.as_secs_f64();
                let event = event(&mut draw, array.devices.len(), length);
                array.traits.event = event.name;
                for (device, faults) in array.devices.iter_mut().zip(event.faults) {
                    device.faults = faults;
                }
            }
            let text = format!("# Array {number} of the series {seed}.\n{}", array.text());
            return Ok(RandomArray { number, text, traits: array.traits });
        }
        seed_of_draw = derived_seed(seed_of_draw, 1);
    }
}

/// The least share of the reads that a drive gets: with fewer nothing is known of it.
const LEAST_READS: f64 = 0.002;

/// An array before its text.
struct Drawn {
    number: u64,
    /// Of each phase, of all drives together.
    reads: u64,
    correlated: bool,
    /// What the rate of each drive's requests relates to.
    utilisation: f64,
    devices: Vec<Device>,
    throughput: Throughput,
    traits: Traits,
}

/// A drive of it, in TOML.
struct Device {
    drive: String,
    workload: String,
    faults: String,
}

impl Drawn {
    /// The scenario.
    fn text(&self) -> String {
        let Self { number, reads, correlated, traits, .. } = self;
        let mut text = format!(
            "seeds = [{}]\n\
             phase_one = {{ reads = {reads} }}\n\
             phase_two = {{ reads = {reads} }}\n\
             correlated_bursts = {correlated}\n\
             refusal_samples = 0\n\
             costs.failover_us = {}\n",
            1 + number,
            traits.failover_us,
        );
        for Device { drive, workload, faults } in &self.devices {
            write!(text, "\n[[device]]\n{drive}workload = {workload}\n{faults}")
                .expect("a string grows");
        }
        text
    }

    /// The duration of phase two.
    fn phase_two(&self) -> Result<Nanos, Error> {
        let comparison = Comparison::parse(&self.text(), Path::new(""))?;
        let mut workloads = comparison.workloads(comparison.seeds[0])?;
        workloads.take("phase_one", &comparison.phase_one)?;
        let requests = workloads.take("phase_two", &comparison.phase_two)?;
        Ok(requests.last().map_or(Nanos::ZERO, |last| last.at))
    }

    /// Replaces the workloads by a recording.
    fn replay(&mut self, recording: &Recording, draw: &mut Draw) -> Result<(), Error> {
        let Self { utilisation, throughput, devices, .. } = self;
        let mix = &recording.mix;
        let mut slowest = f64::INFINITY;
        for device in &*devices {
            slowest = slowest.min(throughput.of(&device.drive, mix)?);
        }
        let iops = *utilisation * slowest;
        let share = (mix.read_share / LEAST_SHARE).min(1.0);
        self.reads = ((READS as f64 * share) as u64).max(FEWEST_READS);
        // With a margin, because the drives' parts of it end at a common time.
        let wanted = self.reads * 5 / 2;
        let drives = self.devices.len();
        let mut replay = |together, devices: &mut Vec<Device>| {
            let workloads = recording.workloads(draw, drives, iops, wanted, together);
            for (device, workload) in devices.iter_mut().zip(workloads) {
                device.workload = workload;
            }
        };
        replay(self.correlated, &mut self.devices);
        // A drive whose part of the recording has no reads: from the same moment on, all have.
        if self.phase_two().is_err() {
            replay(true, &mut self.devices);
        }
        self.traits.utilisation = self.utilisation;
        self.traits.read_share = mix.read_share;
        self.traits.read_bytes = mix.reads[0].0;
        self.traits.arrivals = "recorded";
        self.traits.recording = Some(recording.name());
        Ok(())
    }
}

/// An array without event and recording; `None` if one of its drives would get hardly any
/// reads, because it is slow or its bursts are long.
fn drawn(number: u64, seed_of_draw: u64) -> Result<Option<Drawn>, Error> {
    let mut draw = Draw::new(seed_of_draw);
    let replicas = 2 + (draw.0.next() % 7) as usize;
    let alike = draw.chance(0.5);
    // Replicas hold the same data, however long they have been in use.
    let filled = if draw.chance(0.1) { 0.0 } else { round(draw.uniform(0.4, 1.0)) };
    let first = drive(&mut draw);
    let mut profiles = vec![first.clone()];
    while profiles.len() < replicas {
        let next = if alike {
            first.clone()
        } else if draw.chance(0.5) {
            drive(&mut draw)
        } else {
            profiles[profiles.len() - 1].clone()
        };
        profiles.push(next);
    }
    let capacity = profiles.iter().map(|drive| drive.least).max().unwrap_or(1);
    let failover_us = if draw.chance(0.25) { 0.0 } else { round(draw.scale(1.0, 1000.0)) };
    let utilisation = draw.uniform(0.01, 0.95);
    let shared = mix(&mut draw);
    let pattern = pattern(&mut draw, utilisation);
    let own_workloads = draw.chance(0.3);
    let mut throughput = Throughput::default();
    let mut devices = Vec::new();
    let mut busiest: f64 = 0.0;
    let mut reads = Vec::new();
    for profile in &profiles {
        let (mix, share) = if own_workloads {
            (mix(&mut draw), draw.uniform(0.3, 1.0))
        } else {
            (shared.clone(), 1.0)
        };
        busiest = busiest.max(share * utilisation);
        let drive = profile.text(capacity, filled);
        let iops = share * utilisation * throughput.of(&drive, &mix)?;
        reads.push(iops * mix.read_share);
        let workload = mix.workload(&pattern.arrivals(iops));
        devices.push(Device { drive, workload, faults: String::new() });
    }
    let all: f64 = reads.iter().sum();
    if reads.iter().any(|&reads| reads < LEAST_READS * all) {
        return Ok(None);
    }
    let correlated = draw.chance(0.5);
    let traits = Traits {
        replicas,
        alike,
        profile: first.base.clone(),
        read_us: first.read_us,
        utilisation: busiest,
        read_share: shared.read_share,
        read_bytes: shared.reads[0].0,
        failover_us,
        arrivals: match pattern {
            Pattern::Poisson => "poisson",
            Pattern::Bursty { .. } => "bursty",
        },
        recording: None,
        event: event::NONE,
    };
    let reads = READS;
    let drawn = Drawn { number, reads, correlated, utilisation, devices, throughput, traits };
    // With long bursts, a drive may have no reads in a phase.
    Ok(drawn.phase_two().is_ok().then_some(drawn))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Comparison;

    /// Among them are a drive with no full block in a plane, writes that had to become short, and
    /// drives too slow to get reads.
    #[test]
    fn drawn_arrays_are_valid_and_stay_as_they_are() {
        for number in [1, 24, 31] {
            let array = random_array(1, number, &[]).unwrap();
            let text = format!("strategies = [\"base\"]\n{}", array.text);
            let comparison = Comparison::parse(&text, Path::new("")).unwrap();
            assert_eq!(comparison.devices.len(), array.traits.replicas);
            assert_eq!(random_array(1, number, &[]).unwrap().text, array.text);
        }
    }

    /// Without the lines that an event adds.
    fn without_faults(text: &str) -> String {
        let line = |line: &&str| !line.starts_with("fault = ") && !line.starts_with("# ");
        text.lines().filter(line).map(|line| line.to_owned() + "\n").collect()
    }

    #[test]
    fn events_leave_the_rest_of_an_array_and_begin_in_phase_two() {
        let happening: Vec<_> = (0..)
            .filter(|&number| {
                let seed = derived_seed(derived_seed(1, number), 2);
                event::happens(&mut Draw::new(seed))
            })
            .take(3)
            .collect();
        assert!((6..24).contains(&happening[2]), "about every third: {happening:?}");
        for number in happening {
            let array = random_array(1, number, &[]).unwrap();
            let Some(plain) = drawn(number, derived_seed(1, number)).unwrap() else {
                continue;
            };
            assert_eq!(without_faults(&array.text), plain.text());
            assert_ne!((array.traits.event, array.text.contains("fault = ")), ("none", false));
            let length = plain.phase_two().unwrap().as_secs_f64();
            let comparison = Comparison::parse(&array.text, Path::new("")).unwrap();
            let faults: Vec<_> = comparison.faults.iter().flatten().collect();
            assert!(!faults.is_empty());
            assert!(faults.iter().all(|fault| (0.0..length).contains(&fault.at_s)));
        }
    }

    #[test]
    fn recordings_change_the_arrays_that_replay_one_and_no_other() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sqlite.parquet");
        let recordings = [Recording::open(Path::new(path)).unwrap()];
        let mut replaying = 0;
        for number in 0..6 {
            let plain = random_array(1, number, &[]).unwrap();
            let array = random_array(1, number, &recordings).unwrap();
            if array.traits.recording.is_none() {
                assert_eq!(array.text, plain.text);
                continue;
            }
            replaying += 1;
            assert_eq!(array.traits.arrivals, "recorded");
            assert_eq!(array.traits.event, plain.traits.event);
            let drives = |text: &str| -> Vec<String> {
                let keys = ["profile", "override", "capacity", "fill", "host", "costs"];
                let line = |line: &&str| keys.iter().any(|key| line.starts_with(key));
                text.lines().filter(line).map(str::to_owned).collect()
            };
            assert_eq!(drives(&array.text), drives(&plain.text));
            let comparison = Comparison::parse(&array.text, Path::new("/nowhere")).unwrap();
            let mut workloads = comparison.workloads(1).unwrap();
            workloads.take("phase_one", &comparison.phase_one).unwrap();
            let requests = workloads.take("phase_two", &comparison.phase_two).unwrap();
            assert!(requests.len() >= FEWEST_READS as usize);
        }
        assert!(replaying > 0);
    }
}
