//! Bringing a drive into a state without writing it there.

use super::Ssd;
use crate::blocks::Writer;
use crate::map::Place;

impl Ssd {
    /// Writes a share of the user's units in order, in no time, as a drive that
    /// was written once from front to end.
    pub fn fill_in_order(&mut self, share: f64) {
        let end = (f64::from(self.layout.user_units) * share.clamp(0.0, 1.0)) as u32;
        let per_page = self.layout.units_per_page;
        for first in (0..end).step_by(per_page as usize) {
            let plane = self.next_plane().expect("the user's units are fewer than the flash's");
            let page = self.blocks.take_page(&self.layout, plane, Writer::User);
            for (user, i) in (first..end.min(first + per_page)).zip(0..) {
                self.map.programmed(&self.layout, user, Place::Nowhere, page * per_page + i);
            }
            self.blocks.programmed(&self.layout, page);
        }
    }
}
