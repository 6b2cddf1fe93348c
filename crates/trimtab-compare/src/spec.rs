//! A comparison in TOML; docs/compare.md describes every key.

pub(crate) mod faults;
pub(crate) mod groups;
mod rows;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;
use toml::de::DeValue;
use trimtab_device::{DriveProfile, Fault};
use trimtab_io::Nanos;
use trimtab_predict::LabelRule;
use trimtab_sim::Error;
use trimtab_sim::scenario::{self, DeviceSpec, RawDevice, Text, devices, take_dependent};
use trimtab_steer::{Costs, MOST_DRIVES, MOST_REPLICAS, StrategyKind, Tuning};

pub use rows::Entry;

use crate::error::SeedsError;
use crate::phase::Slice;
use crate::settings::Settings;
use groups::Group;
use rows::{About, RawTuning, entries, tuning};

/// A comparison, parsed and checked.
#[derive(Clone, Debug)]
pub struct Comparison {
    text: String,
    pub(crate) seeds: Vec<u64>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) correlated_bursts: bool,
    pub(crate) phase_one: Slice,
    pub(crate) phase_two: Slice,
    pub(crate) gap: Nanos,
    pub(crate) refusal_samples: usize,
    pub(crate) failover: Nanos,
    /// What it takes to send a read again after waiting.
    pub(crate) resend: Nanos,
    inference: BTreeMap<String, Nanos>,
    pub(crate) tuning: Tuning,
    pub(crate) devices: Vec<DeviceSpec<DriveProfile>>,
    /// By device; times count from the start of phase two.
    pub(crate) faults: Vec<Vec<Fault>>,
    pub(crate) change: Option<Change>,
    /// The upper bound of the workloads' offsets, bytes.
    pub(crate) reach: Option<u64>,
    /// How often phase two is served for each seed.
    pub(crate) turns: u32,
    /// The rule by which `trimtab` is trained.
    pub(crate) label: LabelRule,
    /// Drives that hold the same blocks, with the deadlines of reads under `mitt`.
    pub(crate) groups: Vec<Group>,
    /// How many drives hold each block; all if `None`.
    pub(crate) copies: Option<usize>,
    /// Reads of a user's request.
    pub(crate) parallel: u32,
}

/// The workload after a change, and the part of it that retrained rows are trained on.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) retrain: Slice,
    /// The devices with their workloads after the change.
    pub(crate) devices: Vec<DeviceSpec<DriveProfile>>,
}

/// The predictor of `mitt` on flash, in `costs.inference_us`.
const MITT_SSD: &str = "mitt-ssd";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    seeds: Option<Spanned<Vec<u64>>>,
    #[serde(default = "yes")]
    correlated_bursts: bool,
    phase_one: Spanned<RawPhase>,
    phase_two: Spanned<RawPhase>,
    gap_s: Option<Spanned<f64>>,
    // Its name in earlier versions is accepted.
    #[serde(alias = "judge_samples")]
    refusal_samples: Option<Spanned<u32>>,
    deadline_us: Option<Spanned<RawDeadline>>,
    copies: Option<Spanned<u32>>,
    parallel: Option<Spanned<u32>>,
    #[serde(default)]
    costs: RawCosts,
    #[serde(default)]
    tuning: RawTuning,
    device: Vec<Spanned<RawDevice>>,
    change: Option<RawChange>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChange {
    retrain: Spanned<RawPhase>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPhase {
    from_s: Option<f64>,
    duration_s: Option<f64>,
    reads: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "`deadline_us` must be a number of µs, or \"auto\"")]
enum RawDeadline {
    Micros(f64),
    Word(Auto),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Auto {
    Auto,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCosts {
    failover_us: Option<Spanned<f64>>,
    resend_us: Option<Spanned<f64>>,
    #[serde(default)]
    inference_us: BTreeMap<String, Spanned<f64>>,
}

const fn yes() -> bool {
    true
}

impl Comparison {
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

    /// Sets the most bytes for a copy of a trace that is compressed or not a regular file.
    pub fn set_max_spool(&mut self, bytes: u64) {
        scenario::set_max_spool(&mut self.devices, bytes);
        if let Some(change) = &mut self.change {
            scenario::set_max_spool(&mut change.devices, bytes);
        }
    }

    /// Reads a comparison. Files that it names are looked for in `directory`.
    ///
    /// # Errors
    /// It is not TOML, or a key is unknown, missing or out of range, or a profile cannot be
    /// read.
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
        scenario::expand_counts(root.get_mut(), MOST_DRIVES, text)?;
        let mut dependent = take_dependent(root.get_mut());
        let faults = faults::take(root.get_mut());
        let groups = groups::take(root.get_mut());
        // The workload of devices without their own.
        let shared = root.get_mut().remove("workload");
        if let Some(shared) = &shared
            && !dependent.is_empty()
            && dependent.iter().all(|device| device.workload.is_some())
        {
            let what = "no `[[device]]` has this `workload`: each has its own";
            return Err(text.wrong(&shared.span(), what));
        }
        for device in &mut dependent {
            device.workload = device.workload.take().or_else(|| shared.clone());
        }
        let strategies = root.get_mut().remove("strategies");
        let later = match root.get_mut().get_mut("change").map(Spanned::get_mut) {
            Some(DeValue::Table(change)) => change.remove("workload"),
            _ => None,
        };
        let raw =
            Raw::deserialize(toml::de::Deserializer::from(root)).map_err(|e| text.error(&e))?;
        let replicas = 2..=MOST_DRIVES;
        if !replicas.contains(&raw.device.len()) {
            let (least, most) = (replicas.start(), replicas.end());
            return Err(Error::Scenario(format!(
                "there must be {least} to {most} `[[device]]`, not {}: a read that one refuses \
                 goes to another",
                raw.device.len()
            )));
        }
        let named = groups.iter().any(groups::RawGroup::is_named);
        let copies = copies(raw.copies.as_ref(), raw.device.len(), named, text)?;
        let usual = deadline(raw.deadline_us.as_ref(), text)?;
        let groups = groups::parse(groups, usual, copies, text)?;
        let devices = devices(raw.device, dependent, text, directory)?;
        let readers = |device: &&DeviceSpec<_>| device.workloads.iter().any(|w| !w.is_noise());
        let parallel = match &raw.parallel {
            None => 1,
            Some(parallel) => {
                let most = devices.iter().filter(readers).count() as u32;
                text.within("parallel", &parallel.span(), *parallel.get_ref(), 1..=most)?;
                if named && *parallel.get_ref() > 1 {
                    let what = "`parallel` reads are of one group's users; leave out `group`";
                    return Err(text.wrong(&parallel.span(), what));
                }
                *parallel.get_ref()
            }
        };
        let parsed = faults.into_iter().zip(&devices).map(|(fault, device)| {
            let capacity = device.profile.capacity_bytes();
            fault.map_or(Ok(Vec::new()), |fault| faults::parse(fault, capacity, text))
        });
        let faults = parsed.collect::<Result<_, _>>()?;
        let change = raw.change.map(|raw| change(&raw, later, &devices, text, directory));
        let change = change.transpose()?;
        let later = change.iter().flat_map(|change| &change.devices);
        let mut workloads = devices.iter().chain(later).flat_map(|device| &device.workloads);
        if let Some(closed) = workloads.find(|workload| !workload.is_open_loop()) {
            let what = "a closed loop waits for answers, so strategies would not be given the \
                        same requests; `arrivals` must be \"poisson\" or \"bursty\"";
            return Err(text.wrong(&closed.span, what));
        }
        let times = Times(text);
        Ok(Self {
            text: text.0.to_owned(),
            seeds: seeds(raw.seeds, text)?,
            entries: entries(strategies, &About::new(&devices, change.is_some()), text)?,
            correlated_bursts: raw.correlated_bursts,
            phase_one: slice("phase_one", &raw.phase_one, text)?,
            phase_two: slice("phase_two", &raw.phase_two, text)?,
            gap: times.seconds("gap_s", raw.gap_s.as_ref())?.unwrap_or(Nanos::from_secs(1)),
            refusal_samples: refusal_samples(raw.refusal_samples, text)?,
            failover: times
                .micros("costs.failover_us", raw.costs.failover_us.as_ref())?
                .unwrap_or(Costs::FAILOVER),
            resend: times
                .micros("costs.resend_us", raw.costs.resend_us.as_ref())?
                .unwrap_or_default(),
            inference: inference(raw.costs.inference_us, text)?,
            tuning: tuning(&raw.tuning, text)?,
            devices,
            faults,
            change,
            reach: None,
            turns: 1,
            label: LabelRule::default(),
            groups,
            copies,
            parallel,
        })
    }

    /// Sets the rule by which `trimtab` is trained. The published predictors are always trained
    /// as they were published, by the inflection point.
    pub const fn set_label(&mut self, rule: LabelRule) {
        self.label = rule;
    }

    /// The TOML text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The rows of the table.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The group of each drive.
    pub(crate) fn group_of(&self, drive: usize) -> &Group {
        let holds = |group: &&Group| group.drives.contains(&drive);
        self.groups.iter().find(holds).expect("each drive is in a group")
    }

    /// The number of each drive's group; none if all are one.
    pub(crate) fn group_numbers(&self) -> Vec<u8> {
        if self.groups.len() == 1 {
            return Vec::new();
        }
        let holds = |drive| move |group: &Group| group.drives.contains(&drive);
        let number = |drive| self.groups.iter().position(holds(drive)).unwrap_or_default() as u8;
        (0..self.devices.len()).map(number).collect()
    }

    /// The names of the predictors that its strategies use.
    pub fn predictors(&self) -> impl Iterator<Item = &'static str> {
        let asked = |name: &&str| self.entries.iter().any(|e| e.kind.predictor() == Some(*name));
        ["heur-sim", "heur-adv", "linnos", "trimtab"].into_iter().filter(asked)
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

    /// Simulates phase two `turns` times for each seed, starting a little later each time,
    /// when the drives are at another point of their periodic work. That determines whether
    /// two of them stall together, and varies between runs on the wall clock: several turns
    /// show what to expect of one run. On a testbed there is always one turn.
    pub const fn set_turns(&mut self, turns: u32) {
        self.turns = if turns == 0 { 1 } else { turns };
    }

    /// The charge for a decision of this row; `predictor` is the predictor's own cost.
    pub(crate) fn inference(&self, entry: &Entry, predictor: Option<Nanos>) -> Nanos {
        let model = entry.kind.knows_queues().then_some(MITT_SSD);
        let name = entry.kind.predictor().or(model);
        let said = name.and_then(|name| self.inference.get(name)).copied();
        entry.inference.or(said).or(predictor).unwrap_or_default()
    }
}

fn seeds(raw: Option<Spanned<Vec<u64>>>, text: Text<'_>) -> Result<Vec<u64>, Error> {
    let Some(raw) = raw else { return Ok((1..=5).collect()) };
    let at = raw.span();
    let seeds = raw.into_inner();
    check_seeds(&seeds).map_err(|what| text.wrong(&at, what))?;
    Ok(seeds)
}

pub(crate) fn check_seeds(seeds: &[u64]) -> Result<(), SeedsError> {
    let twice = seeds.iter().enumerate().any(|(i, seed)| seeds[..i].contains(seed));
    if seeds.is_empty() || twice {
        return Err(SeedsError);
    }
    Ok(())
}

fn refusal_samples(raw: Option<Spanned<u32>>, text: Text<'_>) -> Result<usize, Error> {
    let Some(raw) = raw else { return Ok(300) };
    text.within("refusal_samples", &raw.span(), *raw.get_ref(), 0..=100_000)?;
    Ok(*raw.get_ref() as usize)
}

/// `None`: from phase one.
fn deadline(raw: Option<&Spanned<RawDeadline>>, text: Text<'_>) -> Result<Option<Nanos>, Error> {
    let Some(raw) = raw else { return Ok(None) };
    let RawDeadline::Micros(micros) = *raw.get_ref() else { return Ok(None) };
    // A deadline that no read can meet, or that none misses, compares nothing.
    text.within("deadline_us", &raw.span(), micros, 1.0..=1e9)?;
    Ok(Some(Nanos::from_secs_f64(micros * 1e-6)))
}

fn change(
    raw: &RawChange,
    workload: Option<Spanned<DeValue<'_>>>,
    devices: &[DeviceSpec<DriveProfile>],
    text: Text<'_>,
    directory: &Path,
) -> Result<Change, Error> {
    let retrain = slice("change.retrain", &raw.retrain, text)?;
    let Some(workload) = workload else {
        return Err(text.wrong(&raw.retrain.span(), "missing field `change.workload`"));
    };
    let changed = |device: &DeviceSpec<DriveProfile>| {
        device.clone().with_workload(workload.clone(), text, directory)
    };
    let devices = devices.iter().map(changed).collect::<Result<_, _>>()?;
    Ok(Change { retrain, devices })
}

/// How many drives hold each block, if not all do.
fn copies(
    raw: Option<&Spanned<u32>>,
    drives: usize,
    in_groups: bool,
    text: Text<'_>,
) -> Result<Option<usize>, Error> {
    let most = drives.min(MOST_REPLICAS);
    match raw {
        Some(copies) => {
            text.within("copies", &copies.span(), *copies.get_ref(), 2..=most as u32)?;
            Ok(Some(*copies.get_ref() as usize))
        }
        None if drives > MOST_REPLICAS && !in_groups => Err(Error::Scenario(format!(
            "`copies` must say how many of the {drives} drives hold each block, 2 to {most}"
        ))),
        None => Ok(None),
    }
}

fn slice(key: &str, raw: &Spanned<RawPhase>, text: Text<'_>) -> Result<Slice, Error> {
    let (at, raw) = (raw.span(), raw.get_ref());
    let seconds = |key: &str, value: Option<f64>, least: f64| {
        let Some(value) = value else { return Ok(None) };
        text.within(key, &at, value, least..=1e9)?;
        Ok::<_, Error>(Some(Nanos::from_secs_f64(value)))
    };
    if let Some(reads) = raw.reads {
        text.within(&format!("{key}.reads"), &at, reads, 1..=1 << 32)?;
    }
    if raw.reads.is_none() && raw.duration_s.is_none() {
        let what = format!("`{key}.reads` or `{key}.duration_s` must set where it ends");
        return Err(text.wrong(&at, what));
    }
    Ok(Slice {
        from: seconds(&format!("{key}.from_s"), raw.from_s, 0.0)?,
        duration: seconds(&format!("{key}.duration_s"), raw.duration_s, 1e-6)?,
        reads: raw.reads,
    })
}

fn inference(
    raw: BTreeMap<String, Spanned<f64>>,
    text: Text<'_>,
) -> Result<BTreeMap<String, Nanos>, Error> {
    let trained = |name: &str| StrategyKind::ALL.iter().any(|kind| kind.predictor() == Some(name));
    let known = |name: &str| name == MITT_SSD || trained(name);
    let mut costs = BTreeMap::new();
    for (name, value) in raw {
        if !known(&name) {
            let what = format!("`costs.inference_us.{name}`: there is no such predictor");
            return Err(text.wrong(&value.span(), what));
        }
        let key = format!("costs.inference_us.{name}");
        costs.insert(name, Times(text).micros(&key, Some(&value))?.unwrap_or_default());
    }
    Ok(costs)
}

/// Times with their units.
struct Times<'t>(Text<'t>);

impl Times<'_> {
    fn micros(&self, key: &str, value: Option<&Spanned<f64>>) -> Result<Option<Nanos>, Error> {
        self.scaled(key, value, 1e-6)
    }

    fn seconds(&self, key: &str, value: Option<&Spanned<f64>>) -> Result<Option<Nanos>, Error> {
        self.scaled(key, value, 1.0)
    }

    fn scaled(
        &self,
        key: &str,
        value: Option<&Spanned<f64>>,
        unit: f64,
    ) -> Result<Option<Nanos>, Error> {
        let Some(value) = value else { return Ok(None) };
        self.0.within(key, &value.span(), *value.get_ref(), 0.0..=1e9)?;
        Ok(Some(Nanos::from_secs_f64(value.get_ref() * unit)))
    }
}

#[cfg(test)]
mod tests;
