//! What a device is given to do: a synthetic workload or a trace.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use trimtab_trace::Format;
use trimtab_trace::synth::{self, Spec};

use super::derived;
use super::text::Text;
use crate::error::Error;
use crate::lane::Workload;
use crate::source::{Offsets, Replay, ReplayOptions, Source};

/// A workload, read and checked.
#[derive(Clone, Debug)]
pub(super) struct WorkloadSpec {
    name: String,
    queue: Option<u32>,
    kind: Kind,
    /// Where it stands in the text.
    pub(super) span: Range<usize>,
}

#[derive(Clone, Debug)]
enum Kind {
    Synthetic { spec: Box<Spec>, seed: u64 },
    Trace { path: PathBuf, options: ReplayOptions },
}

/// What the scenario and the device say about their workloads.
pub(super) struct About<'a> {
    pub(super) capacity: u64,
    pub(super) queues: u32,
    pub(super) directory: &'a Path,
    pub(super) seed: u64,
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
}

/// Reads one workload, or a list of them.
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
        let kind = if table.contains_key("trace") {
            Kind::trace(table, &span, text, about)?
        } else {
            Kind::synthetic(table, &span, text, derived(about.seed, number), about.capacity)?
        };
        Ok(Self { name, queue, kind, span })
    }

    /// Whether it ends by itself.
    pub(super) fn ends(&self) -> bool {
        match &self.kind {
            Kind::Synthetic { spec, .. } => spec.requests().is_some() || spec.duration().is_some(),
            Kind::Trace { .. } => true,
        }
    }

    /// The workload on a device of `capacity` bytes.
    pub(super) fn build(&self, capacity: u64) -> Result<Workload, Error> {
        let source = match &self.kind {
            Kind::Synthetic { spec, seed } => {
                let reach = spec.capacity_bytes().unwrap_or(capacity);
                let workload = synth::Workload::new(spec, *seed, reach);
                Source::synthetic(workload, spec.requests(), spec.duration())
            }
            Kind::Trace { path, options } => {
                Source::replay(Replay::open(path, capacity, options.clone())?)?
            }
        };
        Ok(Workload { name: self.name.clone(), queue: self.queue, source })
    }
}

impl Kind {
    fn synthetic(
        table: DeTable<'_>,
        span: &Range<usize>,
        text: Text<'_>,
        seed: u64,
        capacity: u64,
    ) -> Result<Self, Error> {
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
        Ok(Self::Synthetic { seed: spec.seed().unwrap_or(seed), spec: Box::new(spec) })
    }

    fn trace(
        table: DeTable<'_>,
        span: &Range<usize>,
        text: Text<'_>,
        about: &About<'_>,
    ) -> Result<Self, Error> {
        let raw: RawTrace = read(Spanned::new(span.clone(), DeValue::Table(table)), text)?;
        let rate_millionths = raw.rate.map_or(Ok(0), |rate| {
            text.within("rate", &rate.span(), *rate.get_ref(), 1e-6..=1e6)?;
            // From here on in whole numbers: they are the same everywhere.
            Ok::<_, Error>((rate.get_ref() * 1e6).round() as u64)
        })?;
        let format = raw.format.map(|format| {
            let at = format.span();
            format.get_ref().parse::<Format>().map_err(|e| text.wrong(&at, e))
        });
        let options = ReplayOptions {
            offsets: raw.offsets,
            rate_millionths,
            device: raw.trace_device,
            format: format.transpose()?,
        };
        let path = about.directory.join(raw.trace);
        Ok(Self::Trace { path, options })
    }
}

fn read<T: DeserializeOwned>(value: Spanned<DeValue<'_>>, text: Text<'_>) -> Result<T, Error> {
    let at = value.span();
    T::deserialize(ValueDeserializer::from(value)).map_err(|e| match e.span() {
        Some(_) => text.error(&e),
        None => text.wrong(&at, e.message().trim().replace('\n', " ")),
    })
}
