//! Where pages go: the planes of an LBA range, and parity.

use crate::layout::Layout;
use crate::profile::Profile;
use crate::slab::NONE;

/// The buffer's data of an LBA range, and the planes that it is written to: all of them, unless
/// ranges are kept apart.
#[derive(Clone, Debug)]
pub(super) struct Region {
    /// Dirty slots, linked in order.
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) dirty: u32,
    /// Dirty slots that the current flush still has to write.
    pub(super) to_flush: u32,
    /// Planes in striping order, and the position of the next page.
    pub(super) stripe: Box<[u32]>,
    pub(super) turn: usize,
}

impl Region {
    pub(super) fn new(profile: &Profile, layout: &Layout, range: u32) -> Self {
        let planes = layout.stripe(profile).into_iter();
        let stripe = planes.filter(|&plane| layout.range_of_plane(plane) == range).collect();
        Self { first: NONE, last: NONE, dirty: 0, to_flush: 0, stripe, turn: 0 }
    }
}

/// The parity pages of the stripes over the channels.
///
/// No content is modelled, so neither is which pages a parity page covers: its space and its work
/// are. After every (channels − 1) pages of data one page of parity is written, to the plane whose
/// turn it is, at a position that moves by one channel from stripe to stripe. It takes the place of
/// the oldest parity page of the drive; there is one for each (channels − 1) pages of user
/// capacity. So a parity page lives for as long as the user takes to overwrite the drive, as does a
/// page of data on average, and cleaning moves it like data. It is mapped as a unit beyond the
/// user's capacity.
#[derive(Clone, Debug)]
pub(super) struct Parity {
    channels: u32,
    /// The first unit, units per page, and pages.
    first: u32,
    units: u32,
    pages: u32,
    /// The next page of parity to write.
    next: u32,
    /// Stripes written, modulo the channels, and pages of the current one.
    stripe: u32,
    written: u32,
}

impl Parity {
    pub(super) fn new(layout: &Layout) -> Self {
        let (first, units) = (layout.visible_units, layout.units_per_page);
        let pages = ((layout.user_units - first) / units).max(1);
        Self { channels: layout.channels, first, units, pages, next: 0, stripe: 0, written: 0 }
    }

    /// A page is about to be written: the units if it is parity.
    pub(super) fn page(&mut self) -> Option<u32> {
        let is_parity = self.written == self.stripe;
        self.written += 1;
        if self.written == self.channels {
            self.written = 0;
            self.stripe = (self.stripe + 1) % self.channels;
        }
        if !is_parity {
            return None;
        }
        let unit = self.first + self.next * self.units;
        self.next = (self.next + 1) % self.pages;
        Some(unit)
    }

    /// Starts anew.
    pub(super) const fn forget(&mut self) {
        (self.next, self.stripe, self.written) = (0, 0, 0);
    }
}
