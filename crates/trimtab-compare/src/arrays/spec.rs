//! A comparison on arrays in TOML; docs/arrays.md describes every key.

use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;
use toml::de::DeTable;
use trimtab_array::driver::ComputeCost;
use trimtab_array::{Layout, Level, Rotation};
use trimtab_device::Fault;
use trimtab_io::Nanos;
use trimtab_sim::Error;
use trimtab_sim::scenario::{
    self, Bytes, DeviceSpec, RawDevice, Text, WorkloadSpec, drives, take_dependent, workloads,
};

use super::buffer::{BufferOptions, RawBuffer};
use super::entry::{ArrayEntry, Common};
use super::faults as array_faults;
use super::windows::Windows;
use crate::error::SeedsError;
use crate::settings::Settings;
use crate::spec::{check_seeds, faults};

/// A comparison on arrays, parsed and checked.
#[derive(Clone, Debug)]
pub struct ArrayComparison {
    text: String,
    pub(super) seeds: Vec<u64>,
    /// The rows.
    pub(super) strategies: Vec<ArrayEntry>,
    /// Judged reads, for each row; none: the time alone ends it.
    pub(super) reads: Option<u64>,
    pub(super) warm_up: Nanos,
    /// The judged time, at most.
    pub(super) duration: Option<Nanos>,
    pub(super) layout: Layout,
    /// The members.
    pub(super) drives: Vec<DeviceSpec>,
    /// By member.
    pub(super) faults: Vec<Vec<Fault>>,
    /// Members that are lost from the beginning.
    pub(super) lost: Vec<usize>,
    pub(super) workload: WorkloadSpec,
    pub(super) windows: Windows,
    pub(super) buffer: BufferOptions,
    pub(super) compute: ComputeCost,
    /// Of a member's reads under `mitt`.
    pub(super) deadline: Nanos,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    seeds: Option<Spanned<Vec<u64>>>,
    reads: Option<Spanned<u64>>,
    warm_up_s: Option<Spanned<f64>>,
    duration_s: Option<Spanned<f64>>,
    deadline_us: Option<Spanned<f64>>,
    array: Spanned<RawArray>,
    device: Vec<Spanned<RawDevice>>,
    #[serde(default)]
    buffer: RawBuffer,
    #[serde(default)]
    costs: RawCosts,
    /// These are read separately, and are here to be named where a key is unknown.
    #[serde(rename = "strategies")]
    _strategies: Option<IgnoredAny>,
    #[serde(rename = "workload")]
    _workload: Option<IgnoredAny>,
    #[serde(rename = "windows")]
    _windows: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawArray {
    level: Spanned<String>,
    rotation: Option<Spanned<String>>,
    chunk: Option<Spanned<Bytes>>,
    members: Option<Spanned<usize>>,
    lost: Option<Spanned<Vec<usize>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCosts {
    compute_us: Option<Spanned<f64>>,
    compute_gb_s: Option<Spanned<f64>>,
}

/// md's chunk.
const CHUNK: u64 = 512 << 10;
const READS: u64 = 200_000;
const WARM_UP: f64 = 30.0;

impl ArrayComparison {
    /// Whether a scenario is one of arrays: it has a table `array`.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        DeTable::parse(text).is_ok_and(|root| root.get_ref().contains_key("array"))
    }

    /// Reads a comparison from a file.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), with the file's name; or it cannot be read.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::load_with(path, &[])
    }

    /// Reads a comparison from a file, with keys replaced as by [`parse_with`](Self::parse_with).
    ///
    /// # Errors
    /// As [`load`](Self::load), or a setting is not TOML.
    pub fn load_with(path: &Path, settings: &[String]) -> Result<Self, Error> {
        scenario::load(path, "a comparison", |text, directory| {
            Self::parse_with(text, directory, settings)
        })
    }

    /// Reads a comparison. Files that it names are looked for in `directory`.
    ///
    /// # Errors
    /// It is not TOML, or a key is unknown, missing or out of range, there is no such array, or a
    /// profile cannot be read.
    pub fn parse(text: &str, directory: &Path) -> Result<Self, Error> {
        Self::parse_with(text, directory, &[])
    }

    /// Reads a comparison some of whose keys are replaced: each setting is a line of TOML.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), or a setting is not TOML.
    pub fn parse_with(text: &str, directory: &Path, settings: &[String]) -> Result<Self, Error> {
        let settings = Settings::new(text, settings);
        let (text, mut root) = settings.parse()?;
        let dependent = take_dependent(root.get_mut());
        let faults = faults::take(root.get_mut());
        let faults_at = faults.iter().flatten().next().map_or(0..0, Spanned::span);
        let load = root.get_mut().remove("workload");
        let windows = root.get_mut().remove("windows");
        let strategies = root.get_mut().remove("strategies");
        let raw =
            Raw::deserialize(toml::de::Deserializer::from(root)).map_err(|e| text.error(&e))?;
        let at = raw.array.span();
        let array = raw.array.into_inner();
        let devices = drives(raw.device, dependent, text, directory)?;
        scenario::without_hosts(&devices, text)?;
        let stands_for = match (&devices[..], &array.members) {
            ([_], Some(members)) => *members.get_ref(),
            _ => 1,
        };
        let capacities: Vec<u64> =
            devices.iter().map(|device| device.profile.capacity_bytes()).collect();
        let drives = members(devices, array.members.as_ref(), text)?;
        let of_device =
            |(fault, capacity)| array_faults::of_device(fault, stands_for, capacity, text);
        let faults = faults
            .into_iter()
            .zip(capacities)
            .map(of_device)
            .collect::<Result<Vec<_>, _>>()?
            .concat();
        let least = drives.iter().map(|drive| drive.profile.capacity_bytes()).min();
        let level: Level = named(&array.level, text)?;
        let rotation = array.rotation.as_ref().map(|rotation| named(rotation, text));
        let rotation: Rotation = rotation.transpose()?.unwrap_or_default();
        let chunk = array.chunk.as_ref().map_or(CHUNK, |chunk| chunk.get_ref().0);
        let layout = Layout::new(level, rotation, drives.len(), chunk, least.unwrap_or_default())
            .map_err(|error| text.wrong(&at, format!("`array`: {error}")))?;
        let lost = array_faults::lost(array.lost.as_ref(), &layout, text)?;
        array_faults::check_failures(&faults, &lost, &layout, &faults_at, text)?;
        let Some(load) = load else {
            return Err(Error::Scenario("missing field `workload`".to_owned()));
        };
        let mut loads = workloads(load, layout.capacity(), 1, text, directory)?;
        let workload = loads.remove(0);
        if let Some(second) = loads.first() {
            return Err(text.wrong(&second.span, "an array has one `workload`"));
        }
        let windows =
            windows.map(|windows| Windows::parse(windows, text)).transpose()?.unwrap_or_default();
        let duration = raw.duration_s.as_ref().map(|seconds| {
            text.within("duration_s", &seconds.span(), *seconds.get_ref(), 1e-3..=1e6)?;
            Ok::<_, Error>(Nanos::from_secs_f64(*seconds.get_ref()))
        });
        let duration = duration.transpose()?;
        let reads = number("reads", raw.reads.as_ref(), READS, 1_000, 1 << 32, text)?;
        if duration.is_none() && !workload.may_read() && !workload.ends() {
            let what = "a workload without reads does not end by `reads`: it needs `duration_s`";
            return Err(text.wrong(&workload.span, what));
        }
        let buffer = BufferOptions::new(&raw.buffer, &layout, text)?;
        Ok(Self {
            text: text.0.to_owned(),
            seeds: seeds(raw.seeds, text)?,
            strategies: ArrayEntry::parse(
                strategies,
                Common { windows: &windows, buffer: &buffer, drives: &drives },
                text,
            )?,
            reads: (duration.is_none() || raw.reads.is_some()).then_some(reads),
            warm_up: Nanos::from_secs_f64(number(
                "warm_up_s",
                raw.warm_up_s.as_ref(),
                WARM_UP,
                0.0,
                1e6,
                text,
            )?),
            duration,
            buffer,
            layout,
            drives,
            faults,
            lost,
            workload,
            windows,
            compute: compute(&raw.costs, text)?,
            deadline: deadline(raw.deadline_us.as_ref(), text)?,
        })
    }

    /// The TOML text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The layout of the array.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// When the length of the windows changes, counted from the end of the warm-up.
    #[must_use]
    pub fn change(&self) -> Option<Nanos> {
        self.windows.then.map(|then| then.at)
    }

    /// Whether requests arrive independently of completions, so that the array may be overloaded.
    #[must_use]
    pub fn is_open_loop(&self) -> bool {
        self.workload.is_open_loop()
    }

    /// Replaces the seeds.
    ///
    /// # Errors
    /// There are none, or two are alike.
    pub fn set_seeds(&mut self, seeds: Vec<u64>) -> Result<(), SeedsError> {
        check_seeds(&seeds)?;
        self.seeds = seeds;
        Ok(())
    }
}

/// One device is repeated; several are the members.
fn members(
    mut drives: Vec<DeviceSpec>,
    members: Option<&Spanned<usize>>,
    text: Text<'_>,
) -> Result<Vec<DeviceSpec>, Error> {
    if drives.is_empty() {
        return Err(Error::Scenario("there must be a `[[device]]`, the members".to_owned()));
    }
    let Some(members) = members else { return Ok(drives) };
    let (at, members) = (members.span(), *members.get_ref());
    text.within("array.members", &at, members, 2..=trimtab_array::MOST_MEMBERS)?;
    if drives.len() == 1 {
        let first = drives.remove(0);
        let named =
            |number: usize| DeviceSpec { name: format!("device {number}"), ..first.clone() };
        drives = (0..members).map(named).collect();
    }
    if drives.len() != members {
        let what = format!(
            "`array.members` is {members}, and there are {} `[[device]]`: one for each, or one for \
             all",
            drives.len()
        );
        return Err(text.wrong(&at, what));
    }
    Ok(drives)
}

fn named<T: std::str::FromStr>(name: &Spanned<String>, text: Text<'_>) -> Result<T, Error>
where
    T::Err: std::fmt::Display,
{
    name.get_ref().parse().map_err(|error| text.wrong(&name.span(), error))
}

fn seeds(raw: Option<Spanned<Vec<u64>>>, text: Text<'_>) -> Result<Vec<u64>, Error> {
    let Some(raw) = raw else { return Ok(vec![1]) };
    let at = raw.span();
    let seeds = raw.into_inner();
    check_seeds(&seeds).map_err(|what| text.wrong(&at, what))?;
    Ok(seeds)
}

fn number<T: Copy + PartialOrd + std::fmt::Display>(
    key: &str,
    value: Option<&Spanned<T>>,
    usual: T,
    least: T,
    most: T,
    text: Text<'_>,
) -> Result<T, Error> {
    let Some(value) = value else { return Ok(usual) };
    text.within(key, &value.span(), *value.get_ref(), least..=most)?;
    Ok(*value.get_ref())
}

/// The deadline of a member's reads, if nothing else is said, µs.
const DEADLINE_US: f64 = 1_000.0;

fn deadline(raw: Option<&Spanned<f64>>, text: Text<'_>) -> Result<Nanos, Error> {
    let micros = number("deadline_us", raw, DEADLINE_US, 1.0, 1e9, text)?;
    Ok(Nanos::from_secs_f64(micros * 1e-6))
}

fn compute(raw: &RawCosts, text: Text<'_>) -> Result<ComputeCost, Error> {
    let usual = ComputeCost::default();
    let each = number("costs.compute_us", raw.compute_us.as_ref(), -1.0, 0.0, 1e6, text)?;
    let rate = number("costs.compute_gb_s", raw.compute_gb_s.as_ref(), -1.0, 1e-3, 1e6, text)?;
    Ok(ComputeCost {
        each_ns: if each < 0.0 { usual.each_ns } else { (each * 1e3) as u64 },
        per_kib_ns: if rate < 0.0 { usual.per_kib_ns } else { 1024.0 / rate },
    })
}
