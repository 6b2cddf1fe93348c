//! Drives of an array that clean at the same time: Harmonia.

use rand_pcg::Pcg64;
use trimtab_io::Nanos;

use super::{Candidates, Concerns, Firmware, Standard};
use crate::profile::Profile;

/// Cleans when another drive of the array does (Kim et al., "Harmonia: a globally coordinated
/// garbage collector for arrays of solid-state drives", 2011; as IODA, §5, builds it).
///
/// A request to an array is as slow as its slowest drive. If each drive cleans when it must, some
/// drive cleans most of the time; if they clean together, requests are slow less often, and then all
/// of their parts are.
///
/// Drives share nothing. A driver relays: when [`Ssd::took_cleaning_start`] reports that one has
/// begun, it calls [`Ssd::clean_now`] on the others.
///
/// Between rounds a drive does nothing until one of its planes has fewer free blocks than the high
/// watermark; that begins a round. In a round each plane is cleaned until it has `ahead` free
/// blocks more than the high watermark, and the round ends when no cleaning is left: so the next
/// round begins some time later, and for all of the planes.
///
/// [`Ssd::took_cleaning_start`]: crate::Ssd::took_cleaning_start
/// [`Ssd::clean_now`]: crate::Ssd::clean_now
#[derive(Clone, Debug)]
pub struct Harmonia {
    ordinary: Standard,
    ahead: usize,
    /// Whether a round is in progress.
    round: bool,
    /// Whether it was begun by this drive, and that has not been reported.
    unreported: bool,
}

impl Harmonia {
    /// `ahead`: free blocks of each plane, beyond the high watermark, that a round makes.
    #[must_use]
    pub fn new(profile: &Profile, ahead: u32) -> Self {
        let ordinary = Standard::new(profile);
        Self { ordinary, ahead: ahead as usize, round: false, unreported: false }
    }
}

impl Firmware for Harmonia {
    fn concerns(&self) -> Concerns {
        self.ordinary.concerns()
    }

    fn clean_to(&self, _: Nanos, high: usize) -> usize {
        if self.round { high + self.ahead } else { high }
    }

    fn choose(
        &mut self,
        now: Nanos,
        candidates: &Candidates<'_>,
        random: &mut Pcg64,
    ) -> Option<u32> {
        self.ordinary.choose(now, candidates, random)
    }

    fn began(&mut self, _: Nanos) -> bool {
        let first = !self.round;
        self.round = true;
        self.unreported |= first;
        first
    }

    fn ended(&mut self, _: Nanos, left: u32) {
        if left == 0 {
            self.round = false;
        }
    }

    fn clean_now(&mut self, _: Nanos) -> bool {
        !std::mem::replace(&mut self.round, true)
    }

    fn take_cleaning_start(&mut self) -> bool {
        std::mem::take(&mut self.unreported)
    }

    fn forget(&mut self) {
        self.ordinary.forget();
        (self.round, self.unreported) = (false, false);
    }

    fn boxed_clone(&self) -> Box<dyn Firmware> {
        Box::new(self.clone())
    }
}
