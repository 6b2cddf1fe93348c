//! The write buffer of strategies that have one: the table `buffer` of a scenario.

use serde::Deserialize;
use toml::Spanned;
use trimtab_array::Layout;
use trimtab_array::staging::{Destaging, StagingOptions};
use trimtab_device::{WindowOptions, WindowSchedule};
use trimtab_io::Nanos;
use trimtab_sim::Error;
use trimtab_sim::scenario::{Bytes, Text};

use super::strategy::{ArrayStrategy, turns};

/// The host's NVRAM, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BufferOptions {
    /// Bytes.
    capacity: u64,
    /// How long it takes for a write.
    latency: Nanos,
    /// Whether drives are written to only in their windows: of `ioda-nvm`.
    in_turns: bool,
    /// How long a drive of `rails` keeps its role.
    role_ms: f64,
}

/// The table as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBuffer {
    capacity: Option<Spanned<Bytes>>,
    latency_us: Option<Spanned<f64>>,
    destage: Option<Spanned<String>>,
    role_s: Option<Spanned<f64>>,
}

/// More than Rails needs for any of the workloads at 13 drive writes per day.
const CAPACITY: u64 = 1 << 30;
/// DRAM behind the block layer.
const LATENCY_US: f64 = 5.0;
/// IODA, §5: "e.g., every 5 seconds".
const ROLE_S: f64 = 5.0;

impl BufferOptions {
    /// Checks a table.
    pub(super) fn new(raw: &RawBuffer, layout: &Layout, text: Text<'_>) -> Result<Self, Error> {
        let least = layout.chunk() * layout.members() as u64;
        let capacity = raw.capacity.as_ref().map_or(Ok(CAPACITY), |raw| {
            let bytes = raw.get_ref().0;
            if bytes < least {
                let what = format!(
                    "`buffer.capacity` must be at least {least}, a chunk of each member, not {bytes}"
                );
                return Err(text.wrong(&raw.span(), what));
            }
            Ok(bytes)
        })?;
        let number = |key: &str, raw: &Option<Spanned<f64>>, usual: f64, least: f64, most: f64| {
            let Some(raw) = raw else { return Ok(usual) };
            text.within(key, &raw.span(), *raw.get_ref(), least..=most)?;
            Ok::<_, Error>(*raw.get_ref())
        };
        let latency = number("buffer.latency_us", &raw.latency_us, LATENCY_US, 0.0, 1e6)?;
        let role = number("buffer.role_s", &raw.role_s, ROLE_S, 0.001, 1e5)?;
        let in_turns =
            raw.destage.as_ref().map_or(Ok(false), |raw| match raw.get_ref().as_str() {
                "in-turns" => Ok(true),
                "at-once" => Ok(false),
                other => {
                    let what =
                        format!("`buffer.destage` must be `in-turns` or `at-once`, not `{other}`");
                    Err(text.wrong(&raw.span(), what))
                }
            })?;
        let latency = Nanos((latency * 1e3) as u64);
        Ok(Self { capacity, latency, in_turns, role_ms: role * 1e3 })
    }

    /// The firmware of drives with roles cleans while they are written to.
    pub(super) fn roles(&self) -> WindowOptions {
        WindowOptions { window_ms: Some(self.role_ms), ..WindowOptions::default() }
    }

    /// The buffer of a strategy whose first drive has these windows, if it has a buffer.
    pub(super) fn staging(
        &self,
        strategy: ArrayStrategy,
        windows: Option<WindowSchedule>,
    ) -> Option<StagingOptions> {
        let in_turns = match strategy {
            ArrayStrategy::Rails => true,
            ArrayStrategy::IodaNvm => self.in_turns,
            _ => return None,
        };
        let destaging = match windows {
            Some(windows) if in_turns => Destaging::InTurns(turns(windows)),
            _ => Destaging::AtOnce,
        };
        Some(StagingOptions { capacity: self.capacity, latency: self.latency, destaging })
    }
}
