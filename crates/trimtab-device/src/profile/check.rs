//! Validation of profiles. Every error names the key and the range.

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::{Dimension, Geometry, Profile, Timing, WatermarksOf};
use crate::error::Error;

/// Maximum number of mapping units: unit numbers have 31 bits.
const MAX_UNITS: u64 = (1 << 31) - 1;
/// Maximum number of blocks: each takes some thirty bytes of memory.
const MAX_BLOCKS: u64 = 1 << 24;
/// Valid units per block are counted in 16 bits.
const MAX_UNITS_PER_BLOCK: u64 = 1 << 15;
/// Blocks of a plane that never count as free: the user's open block, cleaning's open block, and
/// one for cleaning to start with.
pub(crate) const RESERVED_PER_PLANE: u32 = 3;
/// Minimum of over-provisioned blocks in a plane.
pub(super) const MIN_SPARE: f64 = RESERVED_PER_PLANE as f64 + 1.0;
/// Minimum of blocks in a plane.
pub(super) const MIN_BLOCKS: u32 = 8;

impl Profile {
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (key, text) in [("name", &self.name), ("about", &self.about)] {
            if text.contains(char::is_control) {
                return Error::profile(format!("{key} must have no control characters: {text:?}"));
            }
        }
        self.geometry.check()?;
        self.timing.check(self.geometry.pages_per_block)?;
        self.check_ftl()?;
        self.check_buffer()?;
        self.check_spare()?;
        self.check_gc()?;
        self.check_noise()
    }

    fn check_ftl(&self) -> Result<(), Error> {
        let (unit, page) = (self.ftl.unit_bytes, self.geometry.page_bytes);
        within("ftl.unit_bytes", unit, 512..=page)?;
        if !unit.is_power_of_two() || page % unit != 0 {
            return Error::profile(format!(
                "ftl.unit_bytes must be a power of two that divides geometry.page_bytes ({page}), \
                 not {unit}"
            ));
        }
        let per_page = page / unit;
        within("geometry.page_bytes / ftl.unit_bytes", per_page, 1..=64)?;
        let units = self.geometry.bytes() / u64::from(unit);
        within("units of the whole drive (bytes / ftl.unit_bytes)", units, 1..=MAX_UNITS)?;
        let per_block = u64::from(self.geometry.pages_per_block) * u64::from(per_page);
        within("units per block", per_block, 1..=MAX_UNITS_PER_BLOCK)?;
        let mut stripe = self.ftl.stripe;
        stripe.sort_unstable_by_key(|&dimension| dimension as u8);
        use Dimension::{Channel, Die, Plane, Way};
        if stripe != [Channel, Way, Die, Plane] {
            return Error::profile(
                "ftl.stripe must name channel, way, die and plane, each once".to_owned(),
            );
        }
        if self.ftl.parity && (self.geometry.channels < 2 || self.ftl.stripe[0] != Channel) {
            return Error::profile(
                "ftl.parity needs at least 2 geometry.channels, and channel first in ftl.stripe",
            );
        }
        within("ftl.ranges", self.ftl.ranges, 1..=self.geometry.channels)?;
        if !self.geometry.channels.is_multiple_of(self.ftl.ranges)
            || self.ftl.parity && self.ftl.ranges > 1
        {
            return Error::profile(format!(
                "ftl.ranges must divide geometry.channels ({}), and be 1 with ftl.parity; it is {}",
                self.geometry.channels, self.ftl.ranges
            ));
        }
        within("ftl.mapping_cache_mb", self.ftl.mapping_cache_mb, 0.0..=1e6)
    }

    fn check_buffer(&self) -> Result<(), Error> {
        let buffer = &self.buffer;
        within("buffer.size_mb", buffer.size_mb, 0.0..=256.0)?;
        let least = f64::from(self.geometry.page_bytes) / 1e6;
        if buffer.size_mb > 0.0 && buffer.size_mb < least {
            return Error::profile(format!(
                "buffer.size_mb must be 0 or hold a page ({least} MB), not {}",
                buffer.size_mb
            ));
        }
        within("buffer.flush_watermark", buffer.flush_watermark, 0.0..=1.0)?;
        if buffer.flush_period_ms != 0.0 {
            within("buffer.flush_period_ms", buffer.flush_period_ms, 0.1..=1e5)?;
        }
        Ok(())
    }

    /// Whether over-provisioning suffices for cleaning.
    fn check_spare(&self) -> Result<(), Error> {
        let g = &self.geometry;
        within("geometry.over_provisioning", g.over_provisioning, 0.0..=0.9)?;
        let spare = f64::from(g.blocks_per_plane) * g.over_provisioning;
        if spare < MIN_SPARE {
            return Error::profile(format!(
                "geometry.over_provisioning × blocks_per_plane must be at least {MIN_SPARE} blocks, \
                 for cleaning to have room; it is {spare:.1}"
            ));
        }
        Ok(())
    }

    fn check_gc(&self) -> Result<(), Error> {
        let gc = &self.gc;
        within("gc.high_watermark", gc.high_watermark, 0.0..=1.0)?;
        within("gc.low_watermark", gc.low_watermark, 0.0..=1.0)?;
        if gc.low_watermark >= gc.high_watermark {
            return Error::profile(format!(
                "gc.low_watermark ({}) must be less than gc.high_watermark ({})",
                gc.low_watermark, gc.high_watermark
            ));
        }
        let spare = self.geometry.over_provisioning;
        if gc.watermarks_of == WatermarksOf::Capacity && gc.high_watermark >= spare {
            return Error::profile(format!(
                "gc.high_watermark ({}), as a share of all blocks, must be less than \
                 geometry.over_provisioning ({spare}): on a full drive it could not be reached",
                gc.high_watermark
            ));
        }
        let free = self.high_blocks() + RESERVED_PER_PLANE;
        let spare = f64::from(self.geometry.blocks_per_plane) * spare;
        if f64::from(free) >= spare {
            return Error::profile(format!(
                "gc.high_watermark asks for {} free blocks in each plane beside {} in use, of \
                 {spare:.1} over-provisioned ones: on a full drive it could not be reached",
                self.high_blocks(),
                RESERVED_PER_PLANE
            ));
        }
        within("gc.choices", gc.choices, 1..=1000)?;
        within("gc.suspend_us", gc.suspend_us, 0.0..=1e6)
    }

    /// Free blocks of a plane at the high watermark.
    pub(crate) fn high_blocks(&self) -> u32 {
        self.blocks_at(self.gc.high_watermark).max(1)
    }

    /// Free blocks of a plane at the low watermark.
    pub(crate) fn low_blocks(&self) -> f64 {
        self.share_of_blocks(self.gc.low_watermark)
    }

    /// This share of a plane's over-provisioned blocks.
    pub(crate) fn spare_blocks(&self, share: f64) -> usize {
        let blocks = f64::from(self.geometry.blocks_per_plane);
        (share * self.geometry.over_provisioning * blocks).round() as usize
    }

    fn blocks_at(&self, mark: f64) -> u32 {
        self.share_of_blocks(mark).round() as u32
    }

    fn share_of_blocks(&self, mark: f64) -> f64 {
        let whole = match self.gc.watermarks_of {
            WatermarksOf::OverProvisioning => self.geometry.over_provisioning,
            WatermarksOf::Capacity => 1.0,
        };
        mark * whole * f64::from(self.geometry.blocks_per_plane)
    }

    fn check_noise(&self) -> Result<(), Error> {
        let noise = &self.noise;
        within("noise.retry_probability", noise.retry_probability, 0.0..=1.0)?;
        within("noise.retry_most", noise.retry_most, 0..=1000)?;
        if noise.pause_every_ms != 0.0 {
            // Every pause is drawn, even without a request during it.
            within("noise.pause_every_ms", noise.pause_every_ms, 0.01..=1e9)?;
        }
        within("noise.pause_ms", noise.pause_ms, 0.0..=1e5)?;
        if noise.retry_probability > 0.0 && noise.retry_most == 0 {
            return Error::profile(
                "noise.retry_most must be at least 1 where noise.retry_probability is not 0",
            );
        }
        Ok(())
    }
}

impl Geometry {
    fn check(&self) -> Result<(), Error> {
        within("geometry.channels", self.channels, 1..=256)?;
        within("geometry.chips_per_channel", self.chips_per_channel, 1..=256)?;
        within("geometry.dies_per_chip", self.dies_per_chip, 1..=64)?;
        within("geometry.planes_per_die", self.planes_per_die, 1..=16)?;
        within("geometry.blocks_per_plane", self.blocks_per_plane, MIN_BLOCKS..=1 << 20)?;
        within("geometry.pages_per_block", self.pages_per_block, 1..=4096)?;
        within("geometry.page_bytes", self.page_bytes, 512..=1 << 20)?;
        let planes = u64::from(self.channels)
            * u64::from(self.chips_per_channel)
            * u64::from(self.dies_per_chip)
            * u64::from(self.planes_per_die);
        within("planes of the whole drive", planes, 1..=1 << 14)?;
        let blocks = planes * u64::from(self.blocks_per_plane);
        within("blocks of the whole drive", blocks, 1..=MAX_BLOCKS)
    }
}

impl Timing {
    fn check(&self, pages_per_block: u32) -> Result<(), Error> {
        const US: RangeInclusive<f64> = 0.001..=1e6;
        within("timing.read_us", self.read_us, US)?;
        within("timing.erase_us", self.erase_us, US)?;
        within("timing.channel_mb_s", self.channel_mb_s, 0.1..=1e6)?;
        within("timing.command_us", self.command_us, 0.0..=1e6)?;
        within("timing.firmware_us", self.firmware_us, 0.0..=1e6)?;
        within("timing.regenerate_us", self.regenerate_us, 0.0..=1e6)?;
        if self.host_link_mb_s != 0.0 {
            within("timing.host_link_mb_s", self.host_link_mb_s, 0.1..=1e6)?;
        }
        match (&self.program_us, &self.program_pattern_us) {
            (Some(us), None) => within("timing.program_us", *us, US),
            (None, Some(pattern)) => {
                if pattern.len() != pages_per_block as usize {
                    return Error::profile(format!(
                        "timing.program_pattern_us must have one entry for each of the \
                         {pages_per_block} pages of a block, it has {}",
                        pattern.len()
                    ));
                }
                pattern.iter().try_for_each(|us| within("timing.program_pattern_us", *us, US))
            }
            _ => {
                Error::profile("timing needs either program_us or program_pattern_us, and not both")
            }
        }
    }
}

fn within<T: PartialOrd + Display>(
    key: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), Error> {
    trimtab_io::within(key, value, range).or_else(|error| Error::profile(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_units_are_refused() {
        let mut profile = Profile::builtin("reference").unwrap();
        let g = &mut profile.geometry;
        (g.channels, g.chips_per_channel) = (128, 128);
        (g.blocks_per_plane, g.pages_per_block, g.page_bytes) = (1 << 10, 4096, 1 << 20);
        profile.ftl.unit_bytes = 1 << 20;
        let error = profile.check().unwrap_err().to_string();
        assert!(error.contains("units of the whole drive"), "{error}");
    }

    #[test]
    fn too_small_capacity_error_names_the_minimum() {
        for name in Profile::builtin_names() {
            let scaled = |bytes| Profile::builtin(name).unwrap().with_capacity(bytes);
            let error = scaled(1 << 20).unwrap_err().to_string();
            let (_, least) = error.split_once("a drive has at least ").expect(&error);
            let mib: u64 = least.strip_suffix(" MiB").unwrap().parse().unwrap();
            assert!(scaled(mib << 20).is_ok(), "{name}: {error}");
            assert!(scaled(2 << 40).is_ok(), "{name}");
        }
    }

    #[test]
    fn unbounded_work_and_memory_are_refused() {
        let refused = |change: fn(&mut Profile)| {
            let mut profile = Profile::builtin("reference").unwrap();
            change(&mut profile);
            profile.check().unwrap_err().to_string()
        };
        let error = refused(|p| p.noise.pause_every_ms = 1e-9);
        assert!(error.contains("noise.pause_every_ms must be from 0.01"), "{error}");
        let error = refused(|p| p.geometry.blocks_per_plane = 1 << 20);
        assert!(error.contains("blocks of the whole drive must be from 1 to 16777216"), "{error}");
    }
}
