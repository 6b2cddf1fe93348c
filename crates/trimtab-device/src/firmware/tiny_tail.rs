//! One drive that tolerates its own cleaning: Tiny-Tail Flash.

use rand_pcg::Pcg64;
use trimtab_io::Nanos;

use super::{
    Candidates, Concerns, ContentionDecision, Firmware, PlannedCleaning, ReadContention, Standard,
};
use crate::profile::Profile;

/// Circumvents cleaning inside the drive (Yan et al., "Tiny-Tail Flash", FAST 2017; Li's
/// dissertation, §6.3).
///
/// The drive's pages form stripes over its channels, with a parity page in each, so one page of a
/// stripe that is blocked can be computed from the others. The mechanism has five parts. Three are
/// decisions, and switched on here; two are the flash's, and keys of the profile:
///
/// | part | where | effect |
/// | --- | --- | --- |
/// | plane-blocking cleaning | `gc.blocks = "plane"`, `gc.copy = "copyback"` | cleaning blocks only its plane, and with copyback does not use the channel |
/// | parity | `ftl.parity = true` | one page in each stripe is parity: less capacity, and a page more to write for every (channels − 1) |
/// | rotating cleaning | [`rotating`](Self::rotating) | at most one plane of a plane group is cleaned at a time: the planes at the same position on all channels, whose pages form stripes |
/// | tolerant reads | [`tolerant_reads`](Self::tolerant_reads) | a blocked page is regenerated from the other channels; a cleaning does not overtake reads |
/// | tolerant flush | [`tolerant_flush`](Self::tolerant_flush) | pages leave the buffer for planes that are not being cleaned; the capacitor-backed memory holds the data meanwhile |
///
/// Without rotation two pages of a stripe may be blocked at once: then a read is regenerated only
/// if the others are free sooner than its own, and waits for them. A drive of this kind needs no help from an array.
///
/// Copyback is what the design depends on and what IODA (§3.3) holds against it: data goes from the
/// cells to the plane's register and back to other cells without passing the controller, so nobody
/// checks it against its error correction code. Bit errors of one copy are programmed into the
/// next, and accumulate until the page is read by a user. Vendors therefore move data through the
/// controller, and then the channel is busy and other planes' requests wait for it. The model has
/// no bit errors: it shows what copyback would gain, not what it would cost.
#[derive(Clone, Debug)]
pub struct TinyTail {
    ordinary: Standard,
    rotating: bool,
    tolerant_reads: bool,
    tolerant_flush: bool,
}

impl TinyTail {
    /// With none of the three parts: as the ordinary firmware.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        let ordinary = Standard::new(profile);
        Self { ordinary, rotating: false, tolerant_reads: false, tolerant_flush: false }
    }

    /// Switches rotating cleaning.
    #[must_use]
    pub const fn rotating(self, on: bool) -> Self {
        Self { rotating: on, ..self }
    }

    /// Switches reads that regenerate blocked pages.
    #[must_use]
    pub const fn tolerant_reads(self, on: bool) -> Self {
        Self { tolerant_reads: on, ..self }
    }

    /// Switches writing around planes being cleaned.
    #[must_use]
    pub const fn tolerant_flush(self, on: bool) -> Self {
        Self { tolerant_flush: on, ..self }
    }
}

impl Firmware for TinyTail {
    fn concerns(&self) -> Concerns {
        Concerns {
            reads: self.tolerant_reads,
            siblings: self.tolerant_reads,
            beginnings: self.rotating,
            flushes: false,
            after_reads: self.tolerant_reads,
            write_around: self.tolerant_flush,
        }
    }

    fn choose(
        &mut self,
        now: Nanos,
        candidates: &Candidates<'_>,
        random: &mut Pcg64,
    ) -> Option<u32> {
        self.ordinary.choose(now, candidates, random)
    }

    fn may_begin(&mut self, _: Nanos, planned: &PlannedCleaning) -> bool {
        !self.rotating || planned.in_group == 0
    }

    fn contend(&mut self, contention: &ReadContention) -> ContentionDecision {
        let pays = match self.rotating {
            // Another plane of the group is being cleaned, so this one is not, only queued, and it
            // may not begin before that one ends.
            true => contention.siblings == Nanos::ZERO,
            false => contention.siblings < contention.wait,
        };
        match self.tolerant_reads && pays {
            true => ContentionDecision::Regenerate,
            false => ContentionDecision::Wait,
        }
    }

    fn forget(&mut self) {
        self.ordinary.forget();
    }

    fn boxed_clone(&self) -> Box<dyn Firmware> {
        Box::new(self.clone())
    }
}
