//! Bringing a drive into a state without writing it there.
//!
//! A drive that has been overwritten at random for a while has blocks of every
//! age, each with as many valid units as others have left it, and its free
//! blocks at the mark where cleaning keeps them. Writing a large drive there
//! takes hours even in virtual time. But its planes are alike: striping deals
//! pages to all of them in turn, and each is cleaned for itself. So a few
//! planes are overwritten, with the same code and in no time, and serve as
//! templates for all: which blocks are free, open or full, which of their units
//! are valid. The valid units are then dealt to the user's at random.

use rand::RngExt as _;

use super::Ssd;
use crate::blocks::Writer;
use crate::firmware::{Candidates, Firmware, Standard};
use crate::map::Place;
use crate::permutation::Permutation;
use crate::profile::Profile;
use rand_pcg::Pcg64;
use trimtab_io::Nanos;

/// Units of the planes that serve as templates: as many planes as fit, and at
/// least one.
const TEMPLATE_UNITS: u32 = 1 << 21;

impl Ssd {
    /// Writes a share of the user's units in order, in no time, as a drive that
    /// was written once from front to end.
    pub fn fill_in_order(&mut self, share: f64) {
        let end = (f64::from(self.layout.user_units) * share.clamp(0.0, 1.0)) as u32;
        let per_page = self.layout.units_per_page;
        for first in (0..end).step_by(per_page as usize) {
            self.write_at_once(first..end.min(first + per_page));
        }
    }

    /// Brings a new drive into the state of one of which a share of the user's
    /// units was written in order and then overwritten so often, uniformly at
    /// random. `profile` is the drive's own.
    ///
    /// # Panics
    /// The drive has been written before.
    pub fn age(&mut self, profile: &Profile, share: f64, overwrites: f64) {
        assert_eq!(self.map.valid_total(), 0, "only a new drive can be aged");
        let planes = (TEMPLATE_UNITS
            / (self.layout.blocks_per_plane * self.layout.units_per_block))
            .clamp(1, self.layout.planes);
        let mut template = Self::template(profile, planes, &mut self.random);
        template.fill_in_order(share);
        template.overwrite(share, overwrites);
        self.adopt(&template, share);
    }

    /// A drive with so many of this one's planes.
    fn template(profile: &Profile, planes: u32, random: &mut Pcg64) -> Self {
        let mut profile = profile.clone();
        let g = &mut profile.geometry;
        (g.channels, g.chips_per_channel, g.dies_per_chip, g.planes_per_die) = (1, planes, 1, 1);
        let firmware = AtOnce(Standard::new(&profile));
        let device = trimtab_io::DeviceId::default();
        Self::with_firmware(&profile, device, random.random(), Box::new(firmware))
    }

    /// Writes units at random, in no time: so often, and then until all planes
    /// have had equally many pages. (Planes that are a page apart begin their
    /// blocks one after the other, and are cleaned one after the other; in a
    /// drive that was written in earnest they begin them together.)
    fn overwrite(&mut self, share: f64, times: f64) {
        let users = (f64::from(self.layout.user_units) * share.clamp(0.0, 1.0)) as u32;
        if users == 0 {
            return;
        }
        let per_page = self.layout.units_per_page;
        let mut left = (f64::from(users) * times / f64::from(per_page)) as u64;
        let mut random = self.random.clone();
        while left > 0 || !self.buffer.is_at_start() {
            self.write_at_once((0..per_page).map(|_| random.random_range(0..users)));
            left = left.saturating_sub(1);
        }
    }

    /// Writes a page, in no time.
    fn write_at_once(&mut self, users: impl Iterator<Item = u32>) {
        let plane = self.next_plane().expect("the user's units are fewer than the flash's");
        let page = self.blocks.take_page(&self.layout, plane, Writer::User);
        let first = page * self.layout.units_per_page;
        for (user, unit) in users.zip(first..) {
            let before = self.map.place(user);
            self.map.programmed(&self.layout, user, before, unit);
        }
        self.blocks.programmed(&self.layout, page);
        if !self.firmware.cleaning_takes_time() {
            self.want_cleaning(plane);
        }
    }

    /// Takes on the state of a template, plane by plane.
    fn adopt(&mut self, template: &Self, share: f64) {
        let users = (f64::from(self.layout.user_units) * share.clamp(0.0, 1.0)) as u32;
        let mut order = Permutation::new(users, self.random.random());
        let per_plane = self.layout.blocks_per_plane * self.layout.units_per_block;
        for plane in 0..self.layout.planes {
            let from = plane % template.layout.planes;
            self.blocks.adopt(&self.layout, plane, &template.blocks, from);
            let (start, end) = (from * per_plane, (from + 1) * per_plane);
            let mut at = start;
            while let Some(unit) = template.map.next_valid(at, end) {
                // The templates' units are rounded up, so a few are too many.
                let Some(user) = order.next() else { break };
                let unit_here = plane * per_plane + (unit - start);
                self.map.programmed(&self.layout, user, Place::Nowhere, unit_here);
                at = unit + 1;
            }
        }
        // The other way round: what has found no place yet.
        for user in order {
            self.write_at_once(std::iter::once(user));
        }
    }
}

/// Cleans in no time.
#[derive(Clone, Debug)]
struct AtOnce(Standard);

impl Firmware for AtOnce {
    fn choose(
        &mut self,
        now: Nanos,
        candidates: &Candidates<'_>,
        random: &mut Pcg64,
    ) -> Option<u32> {
        self.0.choose(now, candidates, random)
    }

    fn cleaning_takes_time(&self) -> bool {
        false
    }

    fn boxed_clone(&self) -> Box<dyn Firmware> {
        Box::new(self.clone())
    }
}
