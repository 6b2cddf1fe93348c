//! What may be looked at from outside.

use trimtab_io::Nanos;

use super::Ssd;
use super::die::Phase;
use crate::agenda::NEVER;
use crate::map::Place;
use crate::study::Study;

/// Where data is: for predictors that are entitled to know (host-managed flash,
/// as in MittSSD).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The channel.
    pub channel: u32,
    /// The die, counted over the whole drive.
    pub die: u32,
}

impl Ssd {
    /// Where a byte's data is; none if it is in the buffer, or was never
    /// written. White-box: not for black-box predictors.
    #[must_use]
    pub fn spot(&self, offset: u64) -> Option<Spot> {
        let user = u32::try_from(offset / u64::from(self.layout.unit_bytes)).ok()?;
        if user >= self.layout.user_units {
            return None;
        }
        let Place::Flash(unit) = self.map.place(user) else { return None };
        let plane = self.layout.plane_of_block(self.layout.block_of_unit(unit));
        let die = self.layout.die_of_plane(plane);
        Some(Spot { channel: self.layout.channel_of_die(die), die })
    }

    /// When what a die is doing now will be over, its data's way over the
    /// channel not counted; the past if it does nothing. White-box.
    #[must_use]
    pub fn die_busy_until(&self, die: u32) -> Nanos {
        match self.agenda.at(die as usize) {
            NEVER => self.now,
            at => at,
        }
    }

    /// Whether a die is erasing a block. White-box.
    #[must_use]
    pub fn is_erasing(&self, die: u32) -> bool {
        self.lanes[die as usize].phase == Phase::Erasing
    }

    /// Whether a die is cleaning, or cannot be used because of one. White-box.
    #[must_use]
    pub fn is_cleaning(&self, die: u32) -> bool {
        self.dies[die as usize].cleaning.is_running()
    }

    /// What it has done. For study.
    #[must_use]
    pub fn study(&self) -> Study {
        let cleaning = self.cleaned().since(self.cleaned_before);
        Study { cleaning, ..self.study.clone() }
    }

    /// Time that dies have spent on cleaning since the drive was made.
    fn cleaned(&self) -> Nanos {
        Nanos(self.dies.iter().map(|die| die.cleaning.read(self.now).0).sum())
    }

    /// Begins to count anew what [`study`](Self::study) tells.
    pub fn reset_study(&mut self) {
        self.study = Study::default();
        // The dies' clocks go on: operations that wait have noted them.
        self.cleaned_before = self.cleaned();
    }

    /// How often each block has been erased. For study.
    #[must_use]
    pub fn erases(&self) -> &[u32] {
        self.blocks.all_erases()
    }

    /// How many valid units each block holds. For study.
    #[must_use]
    pub fn valid_by_block(&self) -> &[u16] {
        self.map.valid_by_block()
    }

    /// Units that hold data. For study.
    #[must_use]
    pub const fn valid_units(&self) -> u64 {
        self.map.valid_total()
    }

    /// Free blocks of the whole drive. For study.
    #[must_use]
    pub fn free_blocks(&self) -> usize {
        self.blocks.free()
    }
}
