//! The rows of a comparison: strategies and their parameters.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::DeValue;
use trimtab_device::DriveProfile;
use trimtab_io::Nanos;
use trimtab_predict::ErrorShares;
use trimtab_sim::scenario::{DeviceSpec, Text, WorkloadSpec, read};
use trimtab_sim::{CacheSpec, Error};
use trimtab_steer::{StrategyKind, Tuning};

use super::Times;

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The strategy.
    pub kind: StrategyKind,
    /// The charge for a decision, if it is not the predictor's cost.
    pub inference: Option<Nanos>,
    /// Whether it is trained on the recording after the change of workload.
    pub retrained: bool,
    /// Its parameters, if they are not the scenario's.
    pub tuning: Option<Tuning>,
    /// The shares of its predictors' decisions that are turned around.
    pub errors: ErrorShares,
}

/// The published time of a decision of LinnOS (§5.1).
const PUBLISHED_INFERENCE: Nanos = Nanos::from_micros(6);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTuning {
    tied_delay_us: Option<Spanned<f64>>,
    margin: Option<Spanned<f64>>,
    most_extra: Option<Spanned<f64>>,
    #[serde(default)]
    charge_moves: bool,
    control: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    strategy: Spanned<String>,
    name: Option<String>,
    inference_us: Option<Spanned<f64>>,
    retrained: Option<Spanned<bool>>,
    tuning: Option<RawTuning>,
    errors: Option<Spanned<RawErrors>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawErrors {
    #[serde(default)]
    false_negatives: f64,
    #[serde(default)]
    false_positives: f64,
}

impl Entry {
    fn new(kind: StrategyKind) -> Self {
        let name = kind.name().to_owned();
        let errors = ErrorShares::default();
        Self { name, kind, inference: None, retrained: false, tuning: None, errors }
    }

    /// LinnOS at the published cost.
    fn published(kind: StrategyKind) -> Self {
        let name = format!("{kind} at 6 µs");
        Self { name, inference: Some(PUBLISHED_INFERENCE), ..Self::new(kind) }
    }

    fn retrained(kind: StrategyKind) -> Self {
        Self { name: format!("{kind}, retrained"), retrained: true, ..Self::new(kind) }
    }
}

/// What rows are possible in a scenario.
pub(super) struct About {
    changes: bool,
    has_noise: bool,
    has_flash: bool,
}

impl About {
    pub(super) fn new(devices: &[DeviceSpec<DriveProfile>], changes: bool) -> Self {
        let mut workloads = devices.iter().flat_map(|device| &device.workloads);
        let takes_memory = |cache: CacheSpec| cache.evict.is_some();
        let is_flash = |device: &DeviceSpec<_>| matches!(device.profile, DriveProfile::Flash(_));
        Self {
            changes,
            has_noise: workloads.any(WorkloadSpec::is_noise)
                || devices.iter().any(|device| device.cache.is_some_and(takes_memory)),
            has_flash: devices.iter().any(is_flash),
        }
    }

    /// Why a strategy is not possible.
    fn excludes(&self, kind: StrategyKind) -> Option<&'static str> {
        match kind {
            StrategyKind::NoNoise if !self.has_noise => Some(
                "`no-noise` leaves out workloads with `noise = true` and `cache.evict`, \
                     and there are none",
            ),
            StrategyKind::Ideal if !self.has_flash => {
                Some("`ideal` is about the firmware of flash drives, and there are none")
            }
            _ => None,
        }
    }
}

/// All strategies, and those of LinnOS a second time at the published cost; if the workload
/// changes, those with predictors also retrained.
fn every_entry(about: &About) -> Vec<Entry> {
    let linnos = [StrategyKind::Linnos, StrategyKind::LinnosHl, StrategyKind::LinnosH99];
    let all = StrategyKind::ALL.into_iter().filter(|kind| about.excludes(*kind).is_none());
    let all = all.map(Entry::new).chain(linnos.map(Entry::published));
    let asks = |kind: &StrategyKind| about.changes && kind.predictor().is_some();
    let asking = StrategyKind::ALL.into_iter().filter(asks);
    all.chain(asking.map(Entry::retrained)).collect()
}

pub(super) fn entries(
    raw: Option<Spanned<DeValue<'_>>>,
    about: &About,
    text: Text<'_>,
) -> Result<Vec<Entry>, Error> {
    let Some(raw) = raw else { return Ok(every_entry(about)) };
    let at = raw.span();
    let DeValue::Array(list) = raw.into_inner() else {
        return Err(text.wrong(&at, "`strategies` must be a list"));
    };
    let mut entries: Vec<Entry> = Vec::new();
    for item in list {
        let at = item.span();
        let entry = entry(item, about, text)?;
        if entries.iter().any(|other| other.name == entry.name) {
            let what = format!("there are two strategies called `{}`", entry.name);
            return Err(text.wrong(&at, what));
        }
        entries.push(entry);
    }
    if entries.is_empty() {
        return Err(text.wrong(&at, "`strategies` must have at least one entry"));
    }
    Ok(entries)
}

/// A row: a strategy's name, or a table with more.
fn entry(item: Spanned<DeValue<'_>>, about: &About, text: Text<'_>) -> Result<Entry, Error> {
    let at = item.span();
    let raw: RawEntry = match item.get_ref() {
        DeValue::String(name) => {
            let strategy = Spanned::new(at, name.to_string());
            RawEntry {
                strategy,
                name: None,
                inference_us: None,
                retrained: None,
                tuning: None,
                errors: None,
            }
        }
        _ => read(item, text)?,
    };
    let kind: StrategyKind =
        raw.strategy.get_ref().parse().map_err(|e| text.wrong(&raw.strategy.span(), e))?;
    if let Some(what) = about.excludes(kind) {
        return Err(text.wrong(&raw.strategy.span(), what));
    }
    let retrained = raw.retrained.filter(|retrained| *retrained.get_ref());
    if let Some(retrained) = &retrained
        && !(about.changes && kind.predictor().is_some())
    {
        let what = "`retrained` is for strategies that ask predictors, where there is a \
                    `change` to learn from";
        return Err(text.wrong(&retrained.span(), what));
    }
    let inference = Times(text).micros("inference_us", raw.inference_us.as_ref())?;
    let entry = if retrained.is_some() { Entry::retrained(kind) } else { Entry::new(kind) };
    let tuning = raw.tuning.map(|raw| tuning(&raw, text)).transpose()?;
    let errors = raw.errors.map_or(Ok(ErrorShares::default()), |raw| errors(raw, kind, text))?;
    Ok(Entry { name: raw.name.unwrap_or(entry.name), inference, tuning, errors, ..entry })
}

fn errors(
    raw: Spanned<RawErrors>,
    kind: StrategyKind,
    text: Text<'_>,
) -> Result<ErrorShares, Error> {
    let (at, RawErrors { false_negatives, false_positives }) = (raw.span(), raw.into_inner());
    if !kind.knows_queues() && kind.predictor().is_none() {
        return Err(text.wrong(&at, "`errors` is for strategies that predict"));
    }
    text.within("errors.false_negatives", &at, false_negatives, 0.0..=1.0)?;
    text.within("errors.false_positives", &at, false_positives, 0.0..=1.0)?;
    Ok(ErrorShares { false_negatives, false_positives })
}

pub(super) fn tuning(raw: &RawTuning, text: Text<'_>) -> Result<Tuning, Error> {
    let usual = Tuning::default();
    let control = raw.control.unwrap_or(usual.control);
    let mut tuning = Tuning { charge_moves: raw.charge_moves, control, ..usual };
    let set = |key: &str, value: &Option<Spanned<f64>>, range: Range<f64>| {
        let Some(value) = value else { return Ok(None) };
        text.within(key, &value.span(), *value.get_ref(), range.start..=range.end)?;
        Ok::<_, Error>(Some(*value.get_ref()))
    };
    let delay = Times(text).micros("tuning.tied_delay_us", raw.tied_delay_us.as_ref())?;
    tuning.tied_delay = delay.unwrap_or(tuning.tied_delay);
    if let Some(margin) = set("tuning.margin", &raw.margin, 0.0..1.0)? {
        tuning.margin = margin;
    }
    if let Some(most) = set("tuning.most_extra", &raw.most_extra, 0.0..1.0)? {
        tuning.most_extra = most;
    }
    Ok(tuning)
}
