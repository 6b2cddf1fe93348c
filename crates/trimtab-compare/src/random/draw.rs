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

use trimtab_device::{Profile, Scope};
use trimtab_io::{Nanos, SplitMix64, derived_seed};
use trimtab_sim::Error;

use super::event::{self, event};
use super::recorded::{self, Recording};
use super::throughput::Throughput;
use crate::phase::Workloads;
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

/// Reads and writes of a workload, per request.
#[derive(Clone, Debug)]
pub(super) struct Mix {
    pub(super) read_share: f64,
    /// Bytes and weights.
    pub(super) reads: Vec<(u64, u32)>,
    pub(super) writes: Vec<(u64, u32)>,
    pub(super) offsets: String,
}

/// How requests arrive, relative to their mean rate.
#[derive(Clone, Copy)]
enum Pattern {
    Poisson,
    Bursty { on: f64, off: f64, on_ms: f64, off_ms: f64 },
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
        let Comparison { devices, phase_one, phase_two, correlated_bursts, seeds, .. } =
            Comparison::parse(&self.text(), Path::new(""))?;
        let mut workloads = Workloads::new(&devices, seeds[0], correlated_bursts, None)?;
        workloads.take("phase_one", &phase_one)?;
        let requests = workloads.take("phase_two", &phase_two)?;
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

/// A drive, before it is known how much data the array holds.
#[derive(Clone)]
struct Drive {
    /// The profile that it is made from, and the keys that it replaces.
    base: String,
    overrides: String,
    read_us: f64,
    /// The least capacity that is possible or wanted, GiB.
    least: u64,
    /// How it was filled.
    kind: &'static str,
    depth: u32,
}

fn drive(draw: &mut Draw) -> Drive {
    let names: Vec<_> = Profile::builtin_names().collect();
    let base = if draw.chance(0.5) { draw.pick(&names) } else { "reference" };
    let is_random = base == "reference" && draw.chance(0.9);
    let base = Profile::builtin(base).expect("a built-in name");
    let (mut profile, mut overrides) = (base.clone(), String::new());
    if is_random {
        overrides = random_profile(draw, &mut profile);
    }
    // As small as it can be: a small drive is aged sooner, and behaves like a large one under
    // the same load.
    let mut least = draw.pick(&[1_u64, 2, 4]);
    while profile.clone().with_capacity(least << 30).is_err() {
        least *= 2;
    }
    Drive {
        base: base.name,
        overrides,
        read_us: profile.timing.read_us,
        least,
        kind: if draw.chance(0.75) { "aged" } else { "sequential" },
        depth: draw.pick(&[32, 64, 128, 256]),
    }
}

impl Drive {
    /// Its keys, in TOML: with this capacity, GiB, and this share of it filled.
    fn text(&self, capacity: u64, share: f64) -> String {
        let Self { base, overrides, kind, depth, .. } = self;
        format!(
            "profile = \"{base}\"\n{overrides}capacity = \"{capacity}G\"\n\
             fill = {{ share = {share}, kind = \"{kind}\" }}\nhost = {{ queue_depth = {depth} }}\n"
        )
    }
}

/// Replaces figures of a profile, and returns the keys that do.
fn random_profile(draw: &mut Draw, profile: &mut Profile) -> String {
    let mut text = String::new();
    let mut set = |key: &str, value: &dyn std::fmt::Display| {
        writeln!(text, "override.{key} = {value}").expect("a string grows");
    };
    let geometry = &mut profile.geometry;
    geometry.channels = draw.pick(&[2, 4, 8, 16]);
    geometry.chips_per_channel = draw.pick(&[1, 2, 4, 8]);
    geometry.page_bytes = draw.pick(&[4096, 8192, 16384]);
    geometry.pages_per_block = draw.pick(&[64, 128, 256]);
    geometry.over_provisioning = round(draw.uniform(0.1, 0.4));
    set("geometry.channels", &geometry.channels);
    set("geometry.chips_per_channel", &geometry.chips_per_channel);
    set("geometry.page_bytes", &geometry.page_bytes);
    set("geometry.pages_per_block", &geometry.pages_per_block);
    set("geometry.over_provisioning", &geometry.over_provisioning);
    let timing = &mut profile.timing;
    timing.read_us = round(draw.scale(5.0, 5000.0));
    let program = round((timing.read_us * draw.scale(2.0, 40.0)).min(20_000.0));
    timing.program_us = Some(program);
    timing.erase_us = round((program * draw.scale(2.0, 10.0)).min(50_000.0));
    timing.channel_mb_s = round(draw.scale(200.0, 1600.0));
    set("timing.read_us", &timing.read_us);
    set("timing.program_us", &program);
    set("timing.erase_us", &timing.erase_us);
    set("timing.channel_mb_s", &timing.channel_mb_s);
    let scopes = [
        (Scope::Plane, "plane"),
        (Scope::Die, "die"),
        (Scope::Channel, "channel"),
        (Scope::Controller, "controller"),
    ];
    let (scope, name) = draw.pick(&scopes);
    profile.gc.blocks = scope;
    profile.gc.preemptive = draw.chance(0.5);
    profile.gc.suspend = draw.chance(0.3);
    set("gc.blocks", &format!("\"{name}\""));
    set("gc.preemptive", &profile.gc.preemptive);
    set("gc.suspend", &profile.gc.suspend);
    if draw.chance(0.6) {
        set("buffer.size_mb", &round(draw.scale(1.0, 64.0)));
        set("buffer.flush_watermark", &round(draw.uniform(0.2, 0.8)));
        let period = if draw.chance(0.5) { round(draw.scale(5.0, 1000.0)) } else { 0.0 };
        set("buffer.flush_period_ms", &period);
        set("buffer.writes_per_die", &draw.pick(&[0, 1, 4]));
    }
    if draw.chance(0.4) {
        set("noise.retry_probability", &round(draw.scale(1e-4, 0.1)));
        set("noise.retry_most", &draw.pick(&[1, 4, 10]));
    }
    if draw.chance(0.3) {
        set("noise.pause_every_ms", &round(draw.scale(20.0, 2000.0)));
        set("noise.pause_ms", &round(draw.scale(0.2, 20.0)));
    }
    text
}

/// The most bytes that are written for each read, in the mean, and the shortest request.
const WRITTEN: f64 = 65_536.0;
const SECTOR: u64 = 512;

fn mix(draw: &mut Draw) -> Mix {
    let read_share = if draw.chance(0.25) { 1.0 } else { round(draw.uniform(0.1, 0.98)) };
    let mut sizes = || {
        let size = |draw: &mut Draw, most: f64| 512 << (draw.uniform(0.0, most) as u64);
        // Mostly of up to 64 KiB, some of up to 1 MiB.
        let mut sizes = vec![(size(draw, 8.0), 3)];
        if draw.chance(0.3) {
            let other = size(draw, 12.0);
            if other != sizes[0].0 {
                sizes.push((other, 1));
            }
        }
        sizes
    };
    let (reads, mut writes) = (sizes(), sizes());
    // Large writes among few reads would take hours to simulate, and wear the drive out.
    let mean = |sizes: &[(u64, u32)]| {
        let weight: u32 = sizes.iter().map(|size| size.1).sum();
        sizes.iter().map(|&(bytes, w)| bytes as f64 * f64::from(w)).sum::<f64>() / f64::from(weight)
    };
    while mean(&writes) * (1.0 - read_share) / read_share > WRITTEN
        && writes.iter().any(|size| size.0 > SECTOR)
    {
        writes.iter_mut().for_each(|size| size.0 = (size.0 / 2).max(SECTOR));
    }
    let offsets = match draw.pick(&[0, 0, 1, 2]) {
        0 => "{ kind = \"uniform\" }".to_owned(),
        1 => format!("{{ kind = \"zipf\", theta = {} }}", round(draw.uniform(0.5, 1.2))),
        _ => "{ kind = \"uniform\" }".to_owned(),
    };
    Mix { read_share, reads, writes, offsets }
}

fn pattern(draw: &mut Draw, utilisation: f64) -> Pattern {
    if draw.chance(0.5) {
        return Pattern::Poisson;
    }
    let (on_ms, off_ms) = (round(draw.scale(10.0, 2000.0)), round(draw.scale(10.0, 10_000.0)));
    let busy = on_ms / (on_ms + off_ms);
    // The rate of a burst, as a multiple of the mean: rarely more than the drives can serve.
    let most = if draw.chance(0.2) { 1.5 } else { 0.95 } / utilisation;
    let on = draw.uniform(1.0, 20.0).min(most.max(1.0)).min(1.0 / busy);
    let off = (1.0 - on * busy) / (1.0 - busy);
    Pattern::Bursty { on, off: off.max(0.0), on_ms, off_ms }
}

impl Pattern {
    /// Arrivals of so many requests per second in the mean, in TOML.
    fn arrivals(self, iops: f64) -> String {
        match self {
            Self::Poisson => format!("{{ kind = \"poisson\", iops = {} }}", round(iops)),
            Self::Bursty { on, off, on_ms, off_ms } => format!(
                "{{ kind = \"bursty\", on_iops = {}, off_iops = {}, on_ms = {on_ms}, \
                 off_ms = {off_ms} }}",
                round(on * iops),
                round(off * iops),
            ),
        }
    }
}

impl Mix {
    /// A workload with these arrivals, in TOML.
    pub(super) fn workload(&self, arrivals: &str) -> String {
        let list = |sizes: &[(u64, u32)]| {
            let of =
                |(bytes, weight): &(u64, u32)| format!("{{ bytes = {bytes}, weight = {weight} }}");
            sizes.iter().map(of).collect::<Vec<_>>().join(", ")
        };
        let writes = match self.read_share < 1.0 {
            true => format!(", write_sizes = [{}]", list(&self.writes)),
            false => String::new(),
        };
        format!(
            "{{ read_share = {}, sizes = [{}]{writes}, offsets = {}, arrivals = {arrivals} }}",
            self.read_share,
            list(&self.reads),
            self.offsets
        )
    }
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
            let Comparison { devices, phase_one, phase_two, .. } = comparison;
            let mut workloads = Workloads::new(&devices, 1, true, None).unwrap();
            workloads.take("phase_one", &phase_one).unwrap();
            let requests = workloads.take("phase_two", &phase_two).unwrap();
            assert!(requests.len() >= FEWEST_READS as usize);
        }
        assert!(replaying > 0);
    }
}
