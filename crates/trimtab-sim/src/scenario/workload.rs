//! The workload of a device: synthetic or a trace.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use trimtab_io::{Issuer, Nanos, derived_seed};
use trimtab_trace::Format;
use trimtab_trace::synth::{self, Spec};

use super::text::Text;
use crate::error::Error;
use crate::lane::Workload;
use crate::source::{Offsets, Replay, ReplayOptions, Source};

/// A workload of a scenario, parsed and checked.
#[derive(Clone, Debug)]
pub struct WorkloadSpec {
    name: String,
    queue: Option<u32>,
    issuer: Issuer,
    is_noise: bool,
    /// Its number on its device.
    number: u64,
    kind: WorkloadKind,
    /// Its position in the text.
    pub span: Range<usize>,
}

#[derive(Clone, Debug)]
enum WorkloadKind {
    Synthetic { spec: Box<Spec>, rate_millionths: u64 },
    Trace { path: PathBuf, options: ReplayOptions },
}

/// The scenario's and the device's parameters for their workloads.
pub(super) struct About<'a> {
    pub(super) capacity: u64,
    pub(super) queues: u32,
    pub(super) directory: &'a Path,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTrace {
    trace: PathBuf,
    #[serde(default)]
    offsets: Offsets,
    rate: Option<Spanned<f64>>,
    trace_device: Option<String>,
    format: Option<Spanned<String>>,
    begin_s: Option<Spanned<f64>>,
    spread_s: Option<Spanned<f64>>,
    repeat: Option<Spanned<u32>>,
}

/// Parses one workload, or a list of them.
pub(super) fn parse(
    value: Spanned<DeValue<'_>>,
    text: Text<'_>,
    about: &About<'_>,
) -> Result<Vec<WorkloadSpec>, Error> {
    let at = value.span();
    let list = match value.into_inner() {
        DeValue::Table(table) => vec![(at, table)],
        DeValue::Array(list) if !list.is_empty() => {
            let tables = list.into_iter().map(|entry| match (entry.span(), entry.into_inner()) {
                (at, DeValue::Table(table)) => Ok((at, table)),
                (at, _) => Err(text.wrong(&at, "a `workload` must be a table")),
            });
            tables.collect::<Result<_, _>>()?
        }
        _ => return Err(text.wrong(&at, "`workload` must be a table, or a list of them")),
    };
    let mut all: Vec<WorkloadSpec> = Vec::new();
    for ((at, table), number) in list.into_iter().zip(0..) {
        let workload = WorkloadSpec::new(table, at, number, text, about)?;
        if all.iter().any(|other| other.name == workload.name) {
            let what = format!("there are two workloads called `{}`", workload.name);
            return Err(text.wrong(&workload.span, what));
        }
        all.push(workload);
    }
    Ok(all)
}

impl WorkloadSpec {
    fn new(
        mut table: DeTable<'_>,
        span: Range<usize>,
        number: u64,
        text: Text<'_>,
        about: &About<'_>,
    ) -> Result<Self, Error> {
        let name = match table.remove("name") {
            Some(name) => read(name, text)?,
            None => format!("workload {number}"),
        };
        let queue = table.remove("queue").map(|queue| {
            let at = queue.span();
            let queue: u32 = read(queue, text)?;
            text.within("queue", &at, queue, 0..=about.queues - 1)?;
            Ok::<_, Error>(queue)
        });
        let queue = queue.transpose()?;
        let issuer = match table.remove("issuer") {
            Some(issuer) => issuer_of(issuer, number, text)?,
            None => Issuer::of_process(number as u32),
        };
        let is_noise = match table.remove("noise") {
            Some(noise) => read(noise, text)?,
            None => false,
        };
        let kind = if table.contains_key("trace") {
            WorkloadKind::trace(table, &span, text, about)?
        } else {
            WorkloadKind::synthetic(table, &span, text, about.capacity)?
        };
        Ok(Self { name, queue, issuer, is_noise, number, kind, span })
    }

    /// Sets the most bytes for a copy of its trace, if it has one.
    pub(super) const fn set_max_spool(&mut self, bytes: u64) {
        if let WorkloadKind::Trace { options, .. } = &mut self.kind {
            options.max_spool = Some(bytes);
        }
    }

    /// Whether it is a neighbour's, which no strategy steers and no figure counts.
    #[must_use]
    pub const fn is_noise(&self) -> bool {
        self.is_noise
    }

    /// Who issues its requests.
    #[must_use]
    pub const fn issuer(&self) -> Issuer {
        self.issuer
    }

    /// Whether requests arrive independently of completions.
    #[must_use]
    pub fn is_open_loop(&self) -> bool {
        match &self.kind {
            WorkloadKind::Synthetic { spec, .. } => spec.is_open_loop(),
            WorkloadKind::Trace { .. } => true,
        }
    }

    /// Whether it may read: a trace may, and a synthetic one unless its share of reads is none.
    #[must_use]
    pub fn may_read(&self) -> bool {
        match &self.kind {
            WorkloadKind::Synthetic { spec, .. } => spec.read_share() > 0.0,
            WorkloadKind::Trace { .. } => true,
        }
    }

    /// Whether it ends by itself.
    #[must_use]
    pub fn ends(&self) -> bool {
        match &self.kind {
            WorkloadKind::Synthetic { spec, .. } => {
                spec.requests().is_some() || spec.duration().is_some()
            }
            WorkloadKind::Trace { .. } => true,
        }
    }

    /// The workload on a device of `capacity` bytes. `seed` is the device's; `bursts` seeds
    /// the times of bursts, if they are shared between workloads.
    ///
    /// # Errors
    /// A trace cannot be read.
    pub fn build(&self, capacity: u64, seed: u64, bursts: Option<u64>) -> Result<Workload, Error> {
        let source = match &self.kind {
            WorkloadKind::Synthetic { spec, rate_millionths } => {
                let reach = spec.capacity_bytes().unwrap_or(capacity);
                let seed = spec.seed().unwrap_or_else(|| derived_seed(seed, self.number));
                let workload = match bursts {
                    Some(bursts) => synth::Workload::with_bursts(spec, seed, reach, bursts),
                    None => synth::Workload::new(spec, seed, reach),
                };
                let source = Source::synthetic(workload, spec.requests(), spec.duration());
                source.at_rate(*rate_millionths)
            }
            WorkloadKind::Trace { path, options } => {
                Source::replay(Replay::open(&expanded(path)?, capacity, options.clone())?)?
            }
        };
        Ok(Workload { name: self.name.clone(), queue: self.queue, issuer: self.issuer, source })
    }
}

/// Who issues the requests of a workload: a process of its own, unless another is named.
fn issuer_of(value: Spanned<DeValue<'_>>, number: u64, text: Text<'_>) -> Result<Issuer, Error> {
    let at = value.span();
    let names_process = value.get_ref().get("process").is_some();
    let mut issuer: Issuer = read(value, text)?;
    text.within("issuer.level", &at, issuer.level, 0..=Issuer::LAST_LEVEL)?;
    if !names_process {
        issuer.process = number as u32;
    }
    Ok(issuer)
}

impl WorkloadKind {
    fn synthetic(
        mut table: DeTable<'_>,
        span: &Range<usize>,
        text: Text<'_>,
        capacity: u64,
    ) -> Result<Self, Error> {
        let rate = table.remove("rate");
        let value = Spanned::new(span.clone(), DeValue::Table(table.clone()));
        let spec: Spec = read(value, text)?;
        let reach = spec.capacity_bytes().unwrap_or(capacity);
        spec.check(reach).map_err(|wrong| {
            text.wrong(&wrong.span_in(&table).unwrap_or_else(|| span.clone()), &wrong.what)
        })?;
        if reach > capacity {
            let at = table.get("capacity_gb").map_or_else(|| span.clone(), Spanned::span);
            let what = format!("`capacity_gb` is more than the device's {capacity} bytes");
            return Err(text.wrong(&at, what));
        }
        if let Some(rate) = rate.as_ref().filter(|_| !spec.is_open_loop()) {
            let what = "`rate` is for open-loop arrivals: a closed loop has no rate";
            return Err(text.wrong(&rate.span(), what));
        }
        let rate = rate.map(|rate| {
            let at = rate.span();
            Ok::<_, Error>(Spanned::new(at, read(rate, text)?))
        });
        let rate_millionths = millionths(rate.transpose()?.as_ref(), text)?;
        Ok(Self::Synthetic { spec: Box::new(spec), rate_millionths })
    }

    fn trace(
        table: DeTable<'_>,
        span: &Range<usize>,
        text: Text<'_>,
        about: &About<'_>,
    ) -> Result<Self, Error> {
        let raw: RawTrace = read(Spanned::new(span.clone(), DeValue::Table(table)), text)?;
        let rate_millionths = millionths(raw.rate.as_ref(), text)?;
        let format = raw.format.map(|format| {
            let at = format.span();
            format.get_ref().parse::<Format>().map_err(|e| text.wrong(&at, e))
        });
        let seconds = |key: &str, value: Option<&Spanned<f64>>| {
            let Some(value) = value else { return Ok(Nanos::ZERO) };
            text.within(key, &value.span(), *value.get_ref(), 0.0..=1e9)?;
            Ok::<_, Error>(Nanos::from_secs_f64(*value.get_ref()))
        };
        let repeat = raw.repeat.map_or(Ok(1), |repeat| {
            text.within("repeat", &repeat.span(), *repeat.get_ref(), 1..=1_000_000)?;
            Ok::<_, Error>(repeat.into_inner())
        });
        let options = ReplayOptions {
            offsets: raw.offsets,
            rate_millionths,
            device: raw.trace_device,
            format: format.transpose()?,
            max_spool: None,
            begin: seconds("begin_s", raw.begin_s.as_ref())?,
            spread: seconds("spread_s", raw.spread_s.as_ref())?,
            repeat: repeat?,
        };
        let path = match variable(&raw.trace) {
            Some(_) => raw.trace,
            None => about.directory.join(raw.trace),
        };
        Ok(Self::Trace { path, options })
    }
}

/// The environment variable at the beginning of a path: `$TRACES/a.csv`.
fn variable(path: &Path) -> Option<&str> {
    path.components().next()?.as_os_str().to_str()?.strip_prefix('$')
}

/// The path with the variable replaced by its value.
fn expanded(path: &Path) -> Result<PathBuf, Error> {
    let Some(name) = variable(path) else { return Ok(path.to_owned()) };
    let folder = std::env::var_os(name).ok_or_else(|| {
        let trace = path.display();
        let what = format!("`trace` is {trace}: set the environment variable {name} to the folder");
        Error::Scenario(what)
    })?;
    Ok(Path::new(&folder).join(path.components().skip(1).collect::<PathBuf>()))
}

/// The speed-up as an integer, which is the same on all machines.
fn millionths(rate: Option<&Spanned<f64>>, text: Text<'_>) -> Result<u64, Error> {
    let Some(rate) = rate else { return Ok(1_000_000) };
    text.within("rate", &rate.span(), *rate.get_ref(), 1e-6..=1e6)?;
    Ok((rate.get_ref() * 1e6).round() as u64)
}

/// Reads a value of a scenario.
///
/// # Errors
/// It does not fit `T`; the text has the line.
pub fn read<T: DeserializeOwned>(value: Spanned<DeValue<'_>>, text: Text<'_>) -> Result<T, Error> {
    let at = value.span();
    T::deserialize(ValueDeserializer::from(value)).map_err(|e| match e.span() {
        Some(_) => text.error(&e),
        None => text.wrong(&at, e.message().trim().replace('\n', " ")),
    })
}
