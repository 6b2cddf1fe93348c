//! What may be looked at from outside.

use trimtab_io::{Nanos, Op, Request};

use super::Ssd;
use super::die::Phase;
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

/// A time in which a die was cleaning a block, or one of its planes was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The die.
    pub die: u32,
    /// When it began.
    pub from: Nanos,
    /// When the block had been erased. Pauses for others lie between.
    pub until: Nanos,
}

impl Ssd {
    /// Where a byte's data is; none if it is in the buffer, or was never
    /// written. White-box: not for black-box predictors.
    #[must_use]
    pub fn spot(&self, offset: u64) -> Option<Spot> {
        let user = u32::try_from(self.layout.unit_of_byte(offset)).ok()?;
        if user >= self.layout.user_units {
            return None;
        }
        let Place::Flash(unit) = self.map.place(user) else { return None };
        let plane = self.layout.plane_of_block(self.layout.block_of_unit(unit));
        let die = self.layout.die_of_plane(plane);
        Some(Spot { channel: self.layout.channel_of_die(die), die })
    }

    /// When a die will have done all that it has been asked for, as far as the
    /// times of its operations tell: that transfers may have to wait for the
    /// channel, and how much there is to clean, is not counted. White-box.
    #[must_use]
    pub fn die_free_at(&self, die: u32) -> Nanos {
        self.current_ends(die) + self.queued_time(die)
    }

    /// When a channel will have moved all data that is ready for it. White-box.
    #[must_use]
    pub fn channel_free_at(&self, channel: u32) -> Nanos {
        self.channel_queue_ends(channel)
    }

    /// A time that this request takes at least, as things stand: its answer cannot
    /// come earlier, whoever else is served first. For who must be awake by then.
    #[must_use]
    pub fn least_time(&self, request: &Request) -> Nanos {
        let mut time = self.times.firmware;
        match request.op {
            Op::Read => {
                let in_flash = |&user: &u64| matches!(self.map.place(user as u32), Place::Flash(_));
                let first = self.layout.unit_of_byte(request.offset);
                let end = request.end().div_ceil(u64::from(self.layout.unit_bytes));
                let end = end.min(u64::from(self.layout.user_units));
                // The first that is, of many: the bound need not be the best.
                if (first..end).take(32).find(in_flash).is_some() {
                    time += self.times.read + self.times.transfer(self.layout.bytes(1));
                }
                time += self.times.link(request.length);
            }
            Op::Write => time += self.times.link(request.length),
            Op::Discard | Op::Flush => {}
        }
        time
    }

    /// Whether a die is erasing a block, in any of its planes. White-box.
    #[must_use]
    pub fn is_erasing(&self, die: u32) -> bool {
        self.cleaning_lanes(die).any(|lane| self.lanes[lane as usize].phase == Phase::Erasing)
    }

    /// Whether a die is cleaning, or cannot be used because of one. White-box.
    #[must_use]
    pub fn is_cleaning(&self, die: u32) -> bool {
        self.dies[die as usize].cleaning.is_running()
    }

    /// Begins or ends to note when blocks are cleaned. For study.
    pub fn note_cleanings(&mut self, note: bool) {
        self.cleanings = note.then(Vec::new);
    }

    /// Takes the cleanings that have ended since the last call, in order of
    /// their ends. For study.
    pub fn cleanings(&mut self) -> Vec<Interval> {
        self.cleanings.as_mut().map(std::mem::take).unwrap_or_default()
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
