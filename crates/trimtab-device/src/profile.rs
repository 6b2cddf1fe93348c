//! Drive profiles: geometry, timing and firmware, from TOML.
//!
//! docs/device-profile.md documents every key for users, in the same words as the fields here.
//! Units are in the names. Unknown keys are errors.

mod builtin;
mod check;

pub(crate) use builtin::builtin;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Hardware and firmware of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name in tables.
    pub name: String,
    /// Origin of its figures.
    #[serde(default)]
    pub about: String,
    /// Layout of the flash.
    pub geometry: Geometry,
    /// Latencies and bandwidths.
    pub timing: Timing,
    /// Mapping of user data to flash.
    #[serde(default)]
    pub ftl: Ftl,
    /// The write buffer.
    #[serde(default)]
    pub buffer: Buffer,
    /// Garbage collection.
    #[serde(default)]
    pub gc: Gc,
    /// Wear levelling.
    #[serde(default)]
    pub wear: Wear,
    /// Slowness from other causes.
    #[serde(default)]
    pub noise: Noise,
}

/// Layout of the flash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Buses between controller and chips; each moves one page at a time.
    pub channels: u32,
    /// Chips that share a channel ("ways").
    pub chips_per_channel: u32,
    /// Dies in a chip; each works on one operation at a time.
    #[serde(default = "one")]
    pub dies_per_chip: u32,
    /// Planes in a die, which can run the same operation together.
    #[serde(default = "one")]
    pub planes_per_die: u32,
    /// Erase blocks in a plane.
    pub blocks_per_plane: u32,
    /// Pages in a block, written in order.
    pub pages_per_block: u32,
    /// Bytes in a page.
    pub page_bytes: u32,
    /// Share of the flash that the user does not see (IODA's R_p; Table 2).
    pub over_provisioning: f64,
}

/// Latencies and bandwidths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Read time, cells to page register, µs.
    pub read_us: f64,
    /// Program time, page register to cells, µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_us: Option<f64>,
    /// Program time of each page of a block, where they differ: one entry per page, µs. Instead of
    /// `program_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_pattern_us: Option<Vec<f64>>,
    /// Erase time of a block, µs.
    pub erase_us: f64,
    /// Bandwidth of each channel, MB/s (10⁶ bytes).
    pub channel_mb_s: f64,
    /// Channel time of each operation's command, µs.
    #[serde(default)]
    pub command_us: f64,
    /// Bandwidth of the link to the host, each way, MB/s. 0: no limit.
    #[serde(default)]
    pub host_link_mb_s: f64,
    /// Firmware latency per request, µs. Requests overlap in it.
    #[serde(default)]
    pub firmware_us: f64,
    /// Time to regenerate a page from the other channels' data, in the controller, µs; one page at
    /// a time.
    #[serde(default = "regenerate_us")]
    pub regenerate_us: f64,
}

/// Mapping of user data to flash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ftl {
    /// Bytes per mapping unit; a page holds one or several.
    pub unit_bytes: u32,
    /// Striping order of consecutive pages, fastest-changing dimension first.
    pub stripe: [Dimension; 4],
    /// Memory for the mapping table, MB. 0: the whole table.
    pub mapping_cache_mb: f64,
    /// Scheduling of a die's operations.
    pub schedule: Schedule,
    /// Whether one page in each stripe over the channels is parity.
    // Not written while it is off: saved drives have had their profiles without it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub parity: bool,
    /// LBA ranges of equal size that are kept apart: each is written to its own channels.
    #[serde(skip_serializing_if = "is_one")]
    pub ranges: u32,
}

/// Scheduling of a die's operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// First come, first served.
    #[default]
    Fifo,
    /// Reads first, then the rest, each in order.
    ReadsFirst,
}

/// A dimension of the geometry that pages are striped over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dimension {
    /// Channels.
    Channel,
    /// Chips of a channel.
    Way,
    /// Dies of a chip.
    Die,
    /// Planes of a die.
    Plane,
}

/// The write buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Buffer {
    /// Its size, MB. 0: a write completes when it is in the flash.
    pub size_mb: f64,
    /// Share of the buffer that may be dirty before a flush starts.
    pub flush_watermark: f64,
    /// Period of flushes, ms. 0: by the watermark only.
    pub flush_period_ms: f64,
    /// Page writes from the buffer outstanding per die. 0: no limit.
    pub writes_per_die: u32,
}

/// Garbage collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gc {
    /// Victim selection.
    pub victim: Victim,
    /// Blocks that `d-choices` samples.
    pub choices: u32,
    /// With fewer free blocks, a plane is cleaned in the background.
    pub high_watermark: f64,
    /// With fewer free blocks in the drive, user requests wait until the high mark is reached
    /// again.
    pub low_watermark: f64,
    /// The base of the watermarks.
    pub watermarks_of: WatermarksOf,
    /// The part of the drive that user requests cannot use while a block is cleaned.
    pub blocks: Scope,
    /// How valid pages move.
    pub copy: CopyMode,
    /// Whether user requests are served between a cleaning's steps.
    pub preemptive: bool,
    /// Whether reads suspend a program or an erase.
    pub suspend: bool,
    /// Cost of resuming, µs.
    pub suspend_us: f64,
}

/// Victim selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Victim {
    /// The block with the fewest valid units.
    Greedy,
    /// The greatest age × (1 − u) / 2u, u being the valid share (Rosenblum and
    /// Ousterhout, 1992).
    CostBenefit,
    /// The block filled first.
    Fifo,
    /// A random block.
    Random,
    /// The block with the fewest valid units of a random sample.
    DChoices,
}

/// The base of the watermarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WatermarksOf {
    /// The over-provisioned blocks.
    OverProvisioning,
    /// All blocks.
    Capacity,
}

/// A part of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The plane of the block.
    Plane,
    /// Its die.
    Die,
    /// All dies of its channel.
    Channel,
    /// The whole drive.
    Controller,
}

/// How cleaning moves valid pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CopyMode {
    /// One after the other through the controller: read, out over the channel,
    /// back in, program.
    Serial,
    /// Within the plane: read, program. The channel is not used.
    Copyback,
}

/// Wear levelling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wear {
    /// Dynamic levelling: the free block with the fewest erases is written next.
    pub dynamic: bool,
    /// Static levelling: when the erase counts of a plane's blocks differ by this, the least worn
    /// is cleaned. 0: off.
    pub static_threshold: u32,
}

/// Slowness that is not garbage collection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Noise {
    /// Probability that a page read needs retries.
    pub retry_probability: f64,
    /// Maximum number of retries; uniformly distributed.
    pub retry_most: u32,
    /// Mean time between firmware pauses, ms. 0: none.
    pub pause_every_ms: f64,
    /// Mean length of a pause, ms.
    pub pause_ms: f64,
}

const fn one() -> u32 {
    1
}

/// For serde.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(n: &u32) -> bool {
    *n == 1
}

/// IODA, §4.2.1: less than that, on a host's processor. No figure is published for controllers.
const fn regenerate_us() -> f64 {
    10.0
}

impl Default for Ftl {
    fn default() -> Self {
        use Dimension::{Channel, Die, Plane, Way};
        Self {
            unit_bytes: 4096,
            stripe: [Channel, Way, Die, Plane],
            mapping_cache_mb: 0.0,
            schedule: Schedule::Fifo,
            parity: false,
            ranges: 1,
        }
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self { size_mb: 0.0, flush_watermark: 0.5, flush_period_ms: 0.0, writes_per_die: 0 }
    }
}

impl Default for Gc {
    fn default() -> Self {
        Self {
            victim: Victim::Greedy,
            choices: 10,
            high_watermark: 0.25,
            low_watermark: 0.05,
            watermarks_of: WatermarksOf::OverProvisioning,
            blocks: Scope::Die,
            copy: CopyMode::Serial,
            preemptive: false,
            suspend: false,
            suspend_us: 20.0,
        }
    }
}

impl Default for Wear {
    fn default() -> Self {
        Self { dynamic: true, static_threshold: 0 }
    }
}

impl Profile {
    /// Parses a profile.
    ///
    /// # Errors
    /// One line that names the line or the key, and the range.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let profile: Self = toml::from_str(text).map_err(|e| Error::of_toml(&e, text))?;
        profile.check()?;
        Ok(profile)
    }

    /// The profile as TOML.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every profile has a form in TOML")
    }

    /// The same drive with about `bytes` bytes of user capacity: only `blocks_per_plane` changes.
    ///
    /// # Errors
    /// The drive would have too few blocks, or too many.
    pub fn with_capacity(mut self, bytes: u64) -> Result<Self, Error> {
        let g = &self.geometry;
        let block = u64::from(g.pages_per_block) * u64::from(g.page_bytes);
        let row = block * u64::from(g.channels * g.chips_per_channel) // one block of each plane
            * u64::from(g.dies_per_chip * g.planes_per_die);
        let physical = bytes as f64 / (1.0 - g.over_provisioning) / self.data_share();
        let blocks = (physical / row as f64).round();
        self.geometry.blocks_per_plane = blocks.min(f64::from(u32::MAX)) as u32;
        let Err(error) = self.check() else { return Ok(self) };
        let asked = self.geometry.blocks_per_plane;
        Err(match self.min_blocks() {
            Some(least) if asked < least => {
                self.geometry.blocks_per_plane = least;
                let mib = self.capacity_bytes().div_ceil(1 << 20);
                Error::Profile(format!("{error}; so laid out, a drive has at least {mib} MiB"))
            }
            _ => error,
        })
    }

    /// The fewest blocks per plane for this layout.
    pub(crate) fn min_blocks(&self) -> Option<u32> {
        let mut smaller = self.clone();
        let spare = check::MIN_SPARE / self.geometry.over_provisioning.max(1e-6);
        let least = check::MIN_BLOCKS.max(spare.ceil() as u32);
        // More if the watermarks need them.
        (least..least + 64).find(|&blocks| {
            smaller.geometry.blocks_per_plane = blocks;
            smaller.check().is_ok()
        })
    }

    /// User capacity, a whole number of mapping units.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        let (units, channels) = (self.mapped_units(), u64::from(self.geometry.channels));
        let visible = if self.ftl.parity { units * (channels - 1) / channels } else { units };
        visible * u64::from(self.ftl.unit_bytes)
    }

    /// Units of data and parity.
    pub(crate) fn mapped_units(&self) -> u64 {
        let units = self.geometry.bytes() / u64::from(self.ftl.unit_bytes);
        (units as f64 * (1.0 - self.geometry.over_provisioning)) as u64
    }

    /// The share of data in data and parity.
    fn data_share(&self) -> f64 {
        let channels = f64::from(self.geometry.channels);
        if self.ftl.parity { (channels - 1.0) / channels } else { 1.0 }
    }
}

impl Geometry {
    /// Planes of the whole drive.
    pub(crate) const fn planes(&self) -> u32 {
        self.dies() * self.planes_per_die
    }

    /// Dies of the whole drive.
    pub(crate) const fn dies(&self) -> u32 {
        self.channels * self.chips_per_channel * self.dies_per_chip
    }

    /// Raw capacity, over-provisioning included. Saturates: the factors may be within their bounds
    /// and the product beyond 64 bits.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        let blocks = self.planes() as u64 * self.blocks_per_plane as u64;
        blocks.saturating_mul(self.pages_per_block as u64).saturating_mul(self.page_bytes as u64)
    }
}
