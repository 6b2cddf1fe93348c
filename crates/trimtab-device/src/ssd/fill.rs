//! Fast ageing: brings a drive into a state without simulating the writes.
//!
//! A drive that has been overwritten at random for a while has blocks of every age, with various
//! numbers of valid units, and as many free blocks as cleaning maintains. Simulating these writes
//! takes hours for a large drive. But its planes are alike: striping assigns pages to all of them
//! in turn, and each is cleaned separately. And the blocks of a large plane are like those of a
//! small one with a few hundred blocks. So a small drive is overwritten, with the same code and
//! without timing, and its blocks serve as templates: free, open or full, and which units are
//! valid. The valid units are then assigned to the user's at random.

use std::ops::{ControlFlow, Range};

use rand::RngExt as _;
use rand_pcg::Pcg64;

use super::Ssd;
use crate::blocks::{BlockState, RESERVED_FOR_CLEANING, WriteStream};
use crate::firmware::Ideal;
use crate::layout::Layout;
use crate::map::Location;
use crate::permutation::Permutation;
use crate::profile::Profile;

/// Blocks of a template plane: enough to behave like a larger plane, and few enough to be
/// overwritten quickly.
const TEMPLATE_BLOCKS: u32 = 512;
/// Units of all template planes together, unless one plane has more.
const TEMPLATE_UNITS: u32 = 1 << 20;
/// Batch of assigned units, so that their table entries can be prefetched.
const ASSIGN_BATCH: usize = 64;
/// Units assigned, and pages written, between two calls of the progress callback: some
/// milliseconds; a tenth of a second if each unit is the first in its part of two tables, for which
/// the kernel has to find and clear a huge page.
const UNITS_PER_CALLBACK: u64 = 1 << 8;
const PAGES_PER_CALLBACK: u64 = 1 << 12;

/// Progress callback. Filling a drive of a terabyte takes seconds: it is called from time to time
/// with the share of the work done, 0 to 1, and may stop it; then the drive is unusable.
pub type FillProgress<'a> = dyn FnMut(f64) -> ControlFlow<()> + 'a;

impl Ssd {
    /// Writes a share of the user's units sequentially, without timing.
    pub fn fill_in_order(&mut self, share: f64) {
        _ = self.fill_in_order_watched(share, &mut |_| ControlFlow::Continue(()));
    }

    /// [`fill_in_order`](Self::fill_in_order) with progress.
    pub fn fill_in_order_watched(
        &mut self,
        share: f64,
        watch: &mut FillProgress<'_>,
    ) -> ControlFlow<()> {
        let end = (f64::from(self.layout.visible_units) * share.clamp(0.0, 1.0)) as u32;
        let per_page = self.layout.units_per_page;
        for (page, first) in (0..end).step_by(per_page as usize).enumerate() {
            if (page as u64).is_multiple_of(PAGES_PER_CALLBACK) {
                watch(f64::from(first) / f64::from(end))?;
            }
            while let Some(parity) = self.buffer.parity_page() {
                self.write_at_once(0, parity..parity + per_page);
            }
            let range = self.layout.range_of_user(first);
            self.write_at_once(range, first..end.min(first + per_page));
        }
        ControlFlow::Continue(())
    }

    /// Brings a new drive into the state after a share of the user's units was written sequentially
    /// and then overwritten `overwrites` times, uniformly at random. `profile` is the drive's own.
    ///
    /// # Panics
    /// The drive has been written before.
    pub fn age(&mut self, profile: &Profile, share: f64, overwrites: f64) {
        _ = self.age_watched(profile, share, overwrites, &mut |_| ControlFlow::Continue(()));
    }

    /// [`age`](Self::age) with progress.
    ///
    /// # Panics
    /// The drive has been written before.
    pub fn age_watched(
        &mut self,
        profile: &Profile,
        share: f64,
        overwrites: f64,
        watch: &mut FillProgress<'_>,
    ) -> ControlFlow<()> {
        assert_eq!(self.map.valid_total(), 0, "only a new drive can be aged");
        watch(0.0)?;
        let mut template = Self::template(profile, &self.layout, &mut self.random);
        // The template's share of all units to be written and assigned.
        let units = |ssd: &Self| f64::from(ssd.layout.user_units);
        let written = units(&template) * (1.0 + overwrites);
        let first = units(&template) / (written + units(self));
        let both = written / (written + units(self));
        template.fill_in_order_watched(share, &mut |done| watch(done * first))?;
        template.overwrite(share, overwrites, &mut |done| watch(first + done * (both - first)))?;
        self.adopt(&template, share, &mut |done| watch(both + done * (1.0 - both)))
    }

    /// A smaller drive with blocks like those of this layout.
    fn template(profile: &Profile, layout: &Layout, random: &mut Pcg64) -> Self {
        // If few blocks in a hundred are spare, more are needed for cleaning.
        let least = profile.min_blocks().unwrap_or(layout.blocks_per_plane);
        let blocks = layout.blocks_per_plane.min(TEMPLATE_BLOCKS.max(least));
        let planes = (TEMPLATE_UNITS / (blocks * layout.units_per_block)).clamp(1, layout.planes);
        let mut small = profile.clone();
        let g = &mut small.geometry;
        (g.channels, g.chips_per_channel, g.dies_per_chip, g.planes_per_die) = (1, planes, 1, 1);
        g.blocks_per_plane = blocks;
        (small.ftl.parity, small.ftl.ranges) = (false, 1);
        let firmware = Ideal::new(profile);
        let device = trimtab_io::DeviceId::default();
        Self::with_firmware(&small, device, random.random(), Box::new(firmware))
    }

    /// Writes units at random, without timing: `times` times the share, and then until all planes
    /// have had equally many pages. (Planes one page apart would start and clean their blocks in
    /// turn; in a drive with real writes they do so together.)
    fn overwrite(
        &mut self,
        share: f64,
        times: f64,
        watch: &mut FillProgress<'_>,
    ) -> ControlFlow<()> {
        let users = (f64::from(self.layout.user_units) * share.clamp(0.0, 1.0)) as u32;
        if users == 0 {
            return ControlFlow::Continue(());
        }
        let per_page = self.layout.units_per_page;
        let all = (f64::from(users) * times / f64::from(per_page)) as u64;
        let mut left = all;
        let mut random = self.random.clone();
        while left > 0 || !self.buffer.is_at_start() {
            if left % PAGES_PER_CALLBACK == 1 {
                watch(1.0 - left as f64 / all as f64)?;
            }
            self.write_at_once(0, (0..per_page).map(|_| random.random_range(0..users)));
            left = left.saturating_sub(1);
        }
        ControlFlow::Continue(())
    }

    /// Writes a page of units of a range, without timing.
    fn write_at_once(&mut self, range: u32, users: impl Iterator<Item = u32>) {
        let plane = self.next_plane(range).or_else(|| {
            // Planes full of valid data have been skipped, and some of it was overwritten since; or
            // the watermark is so low that no plane is cleaned before it is full.
            if !self.firmware.cleaning_takes_time() {
                for plane in 0..self.layout.planes {
                    while !self.blocks.has_page(plane, WriteStream::User)
                        && self.clean_at_once(plane)
                    {}
                }
            }
            self.next_plane(range)
        });
        let plane = plane.expect("the user's units are fewer than the flash's");
        let page = self.blocks.take_page(&self.layout, plane, WriteStream::User);
        let first = page * self.layout.units_per_page;
        for (user, unit) in users.zip(first..) {
            let before = self.map.location(user);
            self.map.programmed(&self.layout, user, before, unit);
        }
        self.blocks.programmed(&self.layout, page);
        if !self.firmware.cleaning_takes_time() {
            self.want_cleaning(plane);
        }
    }

    /// Copies the state of a template, block by block.
    fn adopt(
        &mut self,
        template: &Self,
        share: f64,
        watch: &mut FillProgress<'_>,
    ) -> ControlFlow<()> {
        let users = (f64::from(self.layout.user_units) * share.clamp(0.0, 1.0)) as u32;
        let mut sources = Vec::new();
        for plane in 0..self.layout.planes {
            let first = plane * self.layout.blocks_per_plane;
            for (block, source) in (first..).zip(self.plan_plane(template, plane)) {
                if let Some(from) = source {
                    sources.push((block, from));
                }
            }
        }
        // Adjacent user units are assigned one after the other, if not at once; in a random order
        // of blocks they land on dies in random order.
        for i in (1..sources.len()).rev() {
            sources.swap(i, self.random.random_range(0..=i));
        }
        for range in 0..self.layout.ranges {
            let first = range * self.layout.range_units;
            let end = users.min(first.saturating_add(self.layout.range_units));
            self.adopt_range(template, range, first..end.max(first), &sources, watch)?;
        }
        ControlFlow::Continue(())
    }

    /// Assigns the template's valid units to a range of users, in the planes of that range.
    fn adopt_range(
        &mut self,
        template: &Self,
        range: u32,
        users: Range<u32>,
        sources: &[(u32, u32)],
        watch: &mut FillProgress<'_>,
    ) -> ControlFlow<()> {
        let layout = self.layout.clone();
        let is_here = |block| layout.range_of_plane(layout.plane_of_block(block)) == range;
        let sources = sources.iter().filter(|&&(block, _)| is_here(block));
        let valid: u64 =
            sources.clone().map(|&(_, from)| u64::from(template.map.valid_in(from))).sum();
        let count = users.end - users.start;
        // Rounding to whole blocks may leave a few valid units too many.
        let surplus = valid.saturating_sub(count.into()) as f64 / valid.max(1) as f64;
        let mut order = Permutation::new(count, self.random.random());
        let per_block = self.layout.units_per_block;
        let mut assigned = Vec::with_capacity(ASSIGN_BATCH);
        let (mut done, mut looked) = (0, 0);
        for &(block, from) in sources.clone() {
            let mut at = from * per_block;
            let end = at + per_block;
            while let Some(unit) = template.map.next_valid(at, end) {
                at = unit + 1;
                if surplus > 0.0 && self.random.random_bool(surplus) {
                    continue;
                }
                let Some(user) = order.next() else { break };
                let user = users.start + user;
                self.map.prefetch(user);
                assigned.push((user, unit - from * per_block + block * per_block));
                if assigned.len() == ASSIGN_BATCH {
                    self.assign(&mut assigned);
                    done += ASSIGN_BATCH as u64;
                    if done >= looked + UNITS_PER_CALLBACK {
                        looked = done;
                        let share = done as f64 / f64::from(count);
                        watch((f64::from(range) + share) / f64::from(self.layout.ranges))?;
                    }
                }
            }
        }
        self.assign(&mut assigned);
        // Or a few too few.
        let mut blocks = sources.cycle();
        for user in order {
            let user = users.start + user;
            let has_page = |plane| self.blocks.has_page(plane, WriteStream::User);
            let mut planes =
                (0..self.layout.planes).filter(|&plane| layout.range_of_plane(plane) == range);
            if planes.any(has_page) {
                self.write_at_once(range, std::iter::once(user));
                continue;
            }
            // No space to write: units that were overwritten in the template are missing here.
            let unit = blocks.by_ref().find_map(|&(block, _)| {
                let first = self.blocks.is_full(block).then_some(block * per_block)?;
                (first..first + per_block)
                    .find(|&unit| self.map.next_valid(unit, unit + 1).is_none())
            });
            let unit = unit.expect("the flash has more units than users have");
            self.map.programmed(&self.layout, user, Location::Unmapped, unit);
        }
        ControlFlow::Continue(())
    }

    fn assign(&mut self, assigned: &mut Vec<(u32, u32)>) {
        for (user, unit) in assigned.drain(..) {
            self.map.programmed(&self.layout, user, Location::Unmapped, unit);
        }
    }

    /// Makes each block of a plane free, open or full, like some template block; returns the
    /// template of each block with data.
    fn plan_plane(&mut self, template: &Self, plane: u32) -> Vec<Option<u32>> {
        let (ours, theirs) = (self.layout.blocks_per_plane, template.layout.blocks_per_plane);
        let tiles = ours.div_ceil(theirs);
        let plane_of = |tile: u32| (plane * tiles + tile) % template.layout.planes;
        // As many free blocks above the watermark as the template has.
        let above = template.blocks.free_in(plane_of(0)).saturating_sub(template.cleaning.high);
        let mut free = self.cleaning.high + above + RESERVED_FOR_CLEANING;
        if tiles == 1 {
            free = usize::MAX;
        }
        let mut sources = Vec::with_capacity(ours as usize);
        let mut states = Vec::with_capacity(ours as usize);
        for block in 0..ours {
            let (tile, in_tile) = (block / theirs, block % theirs);
            let first = plane_of(tile) * theirs;
            let state_of = |from| template.blocks.state(&template.layout, from);
            let mut from = first + in_tile;
            let mut state = state_of(from);
            if state == BlockState::Free && free == 0
                || matches!(state, BlockState::Open(..)) && tile > 0
            {
                // One too many: treated as a full block. Where few blocks are in use the plane
                // may have none.
                if (first..first + theirs).any(|from| state_of(from) == BlockState::Full) {
                    while state != BlockState::Full {
                        from = first + self.random.random_range(0..theirs);
                        state = state_of(from);
                    }
                } else {
                    state = BlockState::Free;
                }
            }
            free = free.saturating_sub(usize::from(state == BlockState::Free));
            states.push((state, from));
            sources.push((state != BlockState::Free).then_some(from));
        }
        self.blocks.set_plane(&self.layout, plane, &states, &template.blocks);
        sources
    }
}
