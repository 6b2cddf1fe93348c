//! Description of a synthetic workload, parsed and validated.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use trimtab_io::Nanos;

use crate::error::Error;

const SECTOR: u64 = 512;
const MAX_CLIENTS: u32 = 1 << 16;
/// More than any disk could store.
const MAX_REQUESTS: u64 = 1 << 47;

/// A synthetic workload in TOML; the [module's documentation](super) has every key.
///
/// A trace needs all keys. A simulation supplies some itself: then seed, capacity, end and service
/// time may be omitted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub(super) seed: Option<u64>,
    pub(super) requests: Option<u64>,
    pub(super) duration_s: Option<f64>,
    pub(super) capacity_gb: Option<f64>,
    pub(super) read_share: f64,
    #[serde(default = "four_kib")]
    pub(super) align_bytes: u64,
    #[serde(default = "unnamed")]
    pub(super) device: String,
    pub(super) arrivals: Arrivals,
    pub(super) offsets: Offsets,
    pub(super) sizes: Vec<Size>,
    /// Sizes of writes, if they differ.
    #[serde(default)]
    pub(super) write_sizes: Vec<Size>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Arrivals {
    Poisson {
        iops: f64,
    },
    Bursty {
        on_iops: f64,
        off_iops: f64,
        on_ms: f64,
        off_ms: f64,
    },
    Periodic {
        on_iops: f64,
        on_ms: f64,
        period_ms: f64,
        #[serde(default)]
        begin_ms: f64,
    },
    Closed {
        queue_depth: u32,
        service_us: Option<f64>,
        think_us: f64,
    },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Offsets {
    // With braces, because serde accepts unknown keys for unit variants.
    Uniform {},
    Zipf { theta: f64 },
    Sequential { streams: u32, run_requests: u64 },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Size {
    pub(super) bytes: u64,
    pub(super) weight: u64,
}

const fn four_kib() -> u64 {
    4096
}

fn unnamed() -> String {
    "synth".to_owned()
}

impl Spec {
    /// Parses the description of a trace, which must be complete.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let spec: Self = toml::from_str(text).map_err(|e| {
            let what = e.message().trim().replace('\n', " ");
            Error::Usage(match e.span() {
                // A missing key has no line.
                Some(span) if !what.starts_with("missing field") => {
                    format!("line {}: {what}", line_at(text, span.start))
                }
                _ => what,
            })
        })?;
        spec.check_trace().map_err(|wrong| Error::Usage(wrong.with_line(text)))?;
        Ok(spec)
    }

    /// The seed, if given.
    #[must_use]
    pub const fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// The share of reads.
    #[must_use]
    pub const fn read_share(&self) -> f64 {
        self.read_share
    }

    /// The number of requests, if given.
    #[must_use]
    pub const fn requests(&self) -> Option<u64> {
        self.requests
    }

    /// The duration, if given.
    #[must_use]
    pub fn duration(&self) -> Option<Nanos> {
        self.duration_s.map(Nanos::from_secs_f64)
    }

    /// The device's capacity in bytes, if given.
    #[must_use]
    pub fn capacity_bytes(&self) -> Option<u64> {
        self.capacity_gb.map(|gb| (gb * 1e9) as u64)
    }

    /// Whether arrivals are independent of completions.
    #[must_use]
    pub const fn is_open_loop(&self) -> bool {
        !matches!(self.arrivals, Arrivals::Closed { .. })
    }

    /// Validates a trace description.
    fn check_trace(&self) -> Result<(), InvalidValue> {
        let missing = |key| Err(InvalidValue::without_key(&format!("missing field `{key}`")));
        if self.seed.is_none() {
            return missing("seed");
        }
        let Some(capacity) = self.capacity_bytes() else { return missing("capacity_gb") };
        if self.requests.is_none() && self.duration_s.is_none() {
            return Err(InvalidValue::without_key(
                "`requests` or `duration_s` must set where the trace ends",
            ));
        }
        if matches!(self.arrivals, Arrivals::Closed { service_us: None, .. }) {
            return missing("arrivals.service_us");
        }
        self.check(capacity)
    }

    /// Validates the workload for a device of `capacity` bytes.
    ///
    /// # Errors
    /// A value is out of range.
    pub fn check(&self, capacity: u64) -> Result<(), InvalidValue> {
        if let Some(requests) = self.requests {
            within("requests", requests, 1..=MAX_REQUESTS)?;
        }
        if let Some(duration) = self.duration_s {
            within("duration_s", duration, 1e-6..=1e9)?;
        }
        if let Some(gb) = self.capacity_gb {
            within("capacity_gb", gb, 1e-6..=1e9)?;
        }
        within("read_share", self.read_share, 0.0..=1.0)?;
        within("align_bytes", self.align_bytes, SECTOR..=1 << 30)?;
        multiple("align_bytes", self.align_bytes, SECTOR)?;
        self.arrivals.check()?;
        self.check_sizes(capacity)?;
        self.check_offsets()
    }

    fn check_sizes(&self, capacity: u64) -> Result<(), InvalidValue> {
        if self.sizes.is_empty() {
            return Err(InvalidValue::without_key("`sizes` must have at least one entry"));
        }
        check_list(&self.sizes, &SIZES, capacity)?;
        if self.write_sizes.is_empty() {
            return Ok(());
        }
        check_list(&self.write_sizes, &WRITE_SIZES, capacity)
    }

    fn check_offsets(&self) -> Result<(), InvalidValue> {
        match self.offsets {
            Offsets::Uniform {} => Ok(()),
            Offsets::Zipf { theta } => within("offsets.theta", theta, 0.0..=5.0),
            Offsets::Sequential { streams, run_requests: _ } => {
                within("offsets.streams", streams, 1..=MAX_CLIENTS)?;
                let aligned = |sizes: &[Size], keys: &SizeKeys| {
                    sizes.iter().zip(0..).try_for_each(|(size, i)| {
                        multiple(keys.bytes, size.bytes, self.align_bytes).map_err(|wrong| {
                            wrong.with_reason("offsets are sequential").at_entry(i)
                        })
                    })
                };
                aligned(&self.sizes, &SIZES)?;
                aligned(&self.write_sizes, &WRITE_SIZES)
            }
        }
    }
}

/// Names of the keys in a list of sizes.
struct SizeKeys {
    bytes: &'static str,
    weight: &'static str,
}

const SIZES: SizeKeys = SizeKeys { bytes: "sizes.bytes", weight: "sizes.weight" };
const WRITE_SIZES: SizeKeys = SizeKeys { bytes: "write_sizes.bytes", weight: "write_sizes.weight" };

fn check_list(sizes: &[Size], keys: &SizeKeys, capacity: u64) -> Result<(), InvalidValue> {
    for (size, i) in sizes.iter().zip(0..) {
        let bytes = || {
            within(keys.bytes, size.bytes, SECTOR..=capacity.min(1 << 30))?;
            multiple(keys.bytes, size.bytes, SECTOR)?;
            within(keys.weight, size.weight, 0..=1_000_000_000)
        };
        bytes().map_err(|wrong| wrong.at_entry(i))?;
    }
    if sizes.iter().all(|size| size.weight == 0) {
        let what = format!("`{}` must be more than 0 for at least one size", keys.weight);
        return Err(InvalidValue::without_key(&what));
    }
    Ok(())
}

impl Arrivals {
    fn check(&self) -> Result<(), InvalidValue> {
        const IOPS: RangeInclusive<f64> = 1e-3..=1e8;
        const PHASE_MS: RangeInclusive<f64> = 1e-3..=1e9;
        match *self {
            Self::Poisson { iops } => within("arrivals.iops", iops, IOPS),
            Self::Bursty { on_iops, off_iops, on_ms, off_ms } => {
                within("arrivals.on_iops", on_iops, IOPS)?;
                within("arrivals.off_iops", off_iops, 0.0..=1e8)?;
                within("arrivals.on_ms", on_ms, PHASE_MS)?;
                within("arrivals.off_ms", off_ms, PHASE_MS)
            }
            Self::Periodic { on_iops, on_ms, period_ms, begin_ms } => {
                within("arrivals.on_iops", on_iops, IOPS)?;
                within("arrivals.period_ms", period_ms, PHASE_MS)?;
                within("arrivals.on_ms", on_ms, *PHASE_MS.start()..=period_ms)?;
                within("arrivals.begin_ms", begin_ms, 0.0..=*PHASE_MS.end())
            }
            Self::Closed { queue_depth, service_us, think_us } => {
                within("arrivals.queue_depth", queue_depth, 1..=MAX_CLIENTS)?;
                if let Some(service_us) = service_us {
                    within("arrivals.service_us", service_us, 0.1..=1e9)?;
                }
                within("arrivals.think_us", think_us, 0.0..=1e12)
            }
        }
    }
}

/// An invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidValue {
    /// `key` or `table.key`; `None` for a missing key.
    pub key: Option<&'static str>,
    /// Index, if the table is a list.
    pub entry: usize,
    /// The value and its range.
    pub what: String,
}

impl InvalidValue {
    fn without_key(what: &str) -> Self {
        Self { key: None, entry: 0, what: what.to_owned() }
    }

    fn at_entry(self, entry: usize) -> Self {
        Self { entry, ..self }
    }

    fn with_reason(self, why: &str) -> Self {
        Self { what: format!("{}, because {why}", self.what), ..self }
    }

    /// The error, with its line if known.
    fn with_line(&self, text: &str) -> String {
        let root = DeTable::parse(text).ok();
        match root.and_then(|root| self.span_in(root.get_ref())) {
            Some(span) => format!("line {}: {}", line_at(text, span.start), self.what),
            None => self.what.clone(),
        }
    }

    /// Position of the value in the text of `table`.
    #[must_use]
    pub fn span_in(&self, table: &DeTable<'_>) -> Option<Range<usize>> {
        let key = self.key?;
        let (first, rest) = key.split_once('.').map_or((key, None), |(a, b)| (a, Some(b)));
        let mut value = value_of(table, first)?;
        if let Some(rest) = rest {
            if let DeValue::Array(list) = value.get_ref() {
                value = list.get(self.entry)?;
            }
            value = value_of(value.get_ref().as_table()?, rest)?;
        }
        Some(value.span())
    }
}

fn value_of<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<&'t Spanned<DeValue<'i>>> {
    table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
}

fn line_at(text: &str, byte: usize) -> usize {
    1 + memchr::memchr_iter(b'\n', &text.as_bytes()[..byte.min(text.len())]).count()
}

fn within<T: PartialOrd + Display>(
    key: &'static str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), InvalidValue> {
    trimtab_io::within(&format!("`{key}`"), value, range).map_err(|error| InvalidValue {
        key: Some(key),
        entry: 0,
        what: error.to_string(),
    })
}

fn multiple(key: &'static str, value: u64, of: u64) -> Result<(), InvalidValue> {
    if value.is_multiple_of(of) {
        return Ok(());
    }
    let what = format!("`{key}` must be a multiple of {of}, not {value}");
    Err(InvalidValue { key: Some(key), entry: 0, what })
}
