//! Address arithmetic: numbers of dies, planes, blocks, pages and units.
//!
//! ```text
//!   unit   = page × units per page + slot      what is mapped, 4 KiB mostly
//!   page   = block × pages per block + page    all numbers count over the
//!   block  = plane × blocks per plane + block  whole drive
//!   plane  = die × planes per die + plane
//!   die    = (channel × chips + chip) × dies per chip + die
//! ```

use trimtab_io::Nanos;

use crate::profile::{Dimension, Profile};

/// A divisor known at run time. Division becomes a multiplication, at a third of the cost (Lemire,
/// Kaser and Kurz, 2019).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    by: u32,
    /// 2⁶⁴ / `by`, rounded up.
    inverse: u64,
}

impl Divisor {
    pub(crate) const fn new(by: u32) -> Self {
        assert!(by > 0);
        Self { by, inverse: (u64::MAX / by as u64).wrapping_add(1) }
    }

    pub(crate) const fn divide(self, n: u32) -> u32 {
        if self.by == 1 {
            // Its inverse has 65 bits.
            return n;
        }
        ((self.inverse as u128 * n as u128) >> 64) as u32
    }

    pub(crate) const fn remainder(self, n: u32) -> u32 {
        n - self.divide(n) * self.by
    }
}

/// The drive's dimensions, precomputed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) channels: u32,
    pub(crate) dies: u32,
    pub(crate) planes: u32,
    pub(crate) planes_per_die: u32,
    pub(crate) dies_per_channel: u32,
    pub(crate) blocks_per_plane: u32,
    pub(crate) pages_per_block: u32,
    pub(crate) units_per_page: u32,
    pub(crate) units_per_block: u32,
    pub(crate) unit_bytes: u32,
    /// log2 of `unit_bytes`: units are powers of two.
    unit_bits: u32,
    /// Units of flash.
    pub(crate) units: u32,
    /// Units that are mapped: the user's, and after these the parity's.
    pub(crate) user_units: u32,
    /// Units visible to the user.
    pub(crate) visible_units: u32,
    /// LBA ranges that are kept apart, each on its own channels.
    pub(crate) ranges: u32,
    /// Units of each; the last may have fewer.
    pub(crate) range_units: u32,
    by_range: Divisor,
    by_page: Divisor,
    by_block: Divisor,
    by_blocks: Divisor,
    by_planes: Divisor,
    by_dies: Divisor,
    by_pages: Divisor,
}

impl Layout {
    pub(crate) fn new(profile: &Profile) -> Self {
        let g = &profile.geometry;
        let units_per_page = g.page_bytes / profile.ftl.unit_bytes;
        let units_per_block = units_per_page * g.pages_per_block;
        let dies_per_channel = g.chips_per_channel * g.dies_per_chip;
        let user_units = profile.mapped_units() as u32;
        let ranges = profile.ftl.ranges;
        // Whole pages, so that no page is of two ranges.
        let range_units = user_units.div_ceil(ranges).next_multiple_of(units_per_page);
        Self {
            channels: g.channels,
            dies: g.dies(),
            planes: g.planes(),
            planes_per_die: g.planes_per_die,
            dies_per_channel,
            blocks_per_plane: g.blocks_per_plane,
            pages_per_block: g.pages_per_block,
            units_per_page,
            units_per_block,
            unit_bytes: profile.ftl.unit_bytes,
            unit_bits: profile.ftl.unit_bytes.trailing_zeros(),
            units: g.planes() * g.blocks_per_plane * units_per_block,
            user_units,
            ranges,
            range_units,
            by_range: Divisor::new(range_units.max(1)),
            visible_units: (profile.capacity_bytes() / u64::from(profile.ftl.unit_bytes)) as u32,
            by_page: Divisor::new(units_per_page),
            by_block: Divisor::new(units_per_block),
            by_blocks: Divisor::new(g.blocks_per_plane),
            by_planes: Divisor::new(g.planes_per_die),
            by_dies: Divisor::new(dies_per_channel),
            by_pages: Divisor::new(g.pages_per_block),
        }
    }

    pub(crate) const fn blocks(&self) -> u32 {
        self.planes * self.blocks_per_plane
    }

    /// The user unit of a byte.
    pub(crate) const fn unit_of_byte(&self, offset: u64) -> u64 {
        offset >> self.unit_bits
    }

    /// Bytes of `units` units.
    pub(crate) const fn bytes(&self, units: u32) -> u64 {
        (units as u64) << self.unit_bits
    }

    pub(crate) const fn page_of_unit(&self, unit: u32) -> u32 {
        self.by_page.divide(unit)
    }

    pub(crate) const fn block_of_unit(&self, unit: u32) -> u32 {
        self.by_block.divide(unit)
    }

    pub(crate) const fn block_of_page(&self, page: u32) -> u32 {
        self.by_pages.divide(page)
    }

    /// The page's number within its block.
    pub(crate) const fn page_in_block(&self, page: u32) -> u32 {
        self.by_pages.remainder(page)
    }

    pub(crate) const fn plane_of_block(&self, block: u32) -> u32 {
        self.by_blocks.divide(block)
    }

    /// The range of a user unit.
    pub(crate) const fn range_of_user(&self, user: u32) -> u32 {
        if self.ranges == 1 { 0 } else { self.by_range.divide(user) }
    }

    /// The range whose data a plane holds.
    pub(crate) const fn range_of_plane(&self, plane: u32) -> u32 {
        self.channel_of_die(self.die_of_plane(plane)) % self.ranges
    }

    pub(crate) const fn die_of_plane(&self, plane: u32) -> u32 {
        self.by_planes.divide(plane)
    }

    pub(crate) const fn channel_of_die(&self, die: u32) -> u32 {
        self.by_dies.divide(die)
    }

    /// Planes in striping order.
    pub(crate) fn stripe(&self, profile: &Profile) -> Box<[u32]> {
        let g = &profile.geometry;
        let extent = |dimension| match dimension {
            Dimension::Channel => g.channels,
            Dimension::Way => g.chips_per_channel,
            Dimension::Die => g.dies_per_chip,
            Dimension::Plane => g.planes_per_die,
        };
        let plane_at = |mut n: u32| {
            let mut at = [0; 4];
            for dimension in profile.ftl.stripe {
                at[dimension as usize] = n % extent(dimension);
                n /= extent(dimension);
            }
            let [channel, way, die, plane] = at;
            let die = (channel * g.chips_per_channel + way) * g.dies_per_chip + die;
            die * g.planes_per_die + plane
        };
        (0..self.planes).map(plane_at).collect()
    }
}

/// Latencies, in whole nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    pub(crate) read: Nanos,
    /// By page of a block.
    program: Box<[Nanos]>,
    pub(crate) erase: Nanos,
    pub(crate) firmware: Nanos,
    pub(crate) regenerate: Nanos,
    pub(crate) resume: Nanos,
    /// An operation's command on the channel, in picoseconds; plus what rounds up to whole
    /// nanoseconds.
    command_ps: u64,
    /// Picoseconds per byte.
    channel_ps: u64,
    link_ps: u64,
}

impl Times {
    pub(crate) fn new(profile: &Profile) -> Self {
        let t = &profile.timing;
        let us = |us: f64| Nanos((us * 1e3).round() as u64);
        let ps_per_byte = |mb_s: f64| if mb_s > 0.0 { (1e6 / mb_s).round() as u64 } else { 0 };
        let program = match (&t.program_pattern_us, t.program_us) {
            (Some(pattern), _) => pattern.iter().map(|&time| us(time)).collect(),
            (None, time) => {
                let time = time.expect("Profile::check demands one or the other");
                vec![us(time); profile.geometry.pages_per_block as usize].into()
            }
        };
        Self {
            read: us(t.read_us),
            program,
            erase: us(t.erase_us),
            firmware: us(t.firmware_us),
            regenerate: us(t.regenerate_us),
            resume: us(profile.gc.suspend_us),
            command_ps: us(t.command_us).0 * 1000 + 999,
            channel_ps: ps_per_byte(t.channel_mb_s),
            link_ps: ps_per_byte(t.host_link_mb_s),
        }
    }

    /// Program time of the page with this number in its block.
    pub(crate) fn program(&self, page_in_block: u32) -> Nanos {
        self.program[page_in_block as usize]
    }

    /// Time of one operation's data on a channel.
    pub(crate) const fn transfer(&self, bytes: u64) -> Nanos {
        Nanos((self.command_ps + bytes * self.channel_ps) / 1000)
    }

    /// Time on the host link; zero if it has no limit.
    pub(crate) const fn link(&self, bytes: u64) -> Nanos {
        if self.link_ps == 0 {
            return Nanos::ZERO;
        }
        Nanos((bytes * self.link_ps).div_ceil(1000))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn divisor_divides(n: u32, by in 1..=u32::MAX) {
            let divisor = Divisor::new(by);
            prop_assert_eq!((divisor.divide(n), divisor.remainder(n)), (n / by, n % by));
        }
    }
}
