//! Read access to a drive's internal state. "White-box" methods are for predictors of host-managed
//! flash (as in MittSSD), never for black-box predictors.

use trimtab_io::{Nanos, Op, Request};

use super::Ssd;
use super::die::Phase;
use crate::map::Location;
use crate::stats::SsdStats;

/// Physical location of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashLocation {
    /// The channel.
    pub channel: u32,
    /// The die, counted over the whole drive.
    pub die: u32,
}

/// A period in which a block of a die was being cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleaningInterval {
    /// The die.
    pub die: u32,
    /// When it began.
    pub from: Nanos,
    /// When the block had been erased. Includes preemptions.
    pub until: Nanos,
}

impl Ssd {
    /// Physical location of a byte; `None` if it is in the buffer, or was never written. White-box.
    #[must_use]
    pub fn locate(&self, offset: u64) -> Option<FlashLocation> {
        let user = u32::try_from(self.layout.unit_of_byte(offset)).ok()?;
        if user >= self.layout.visible_units {
            return None;
        }
        let Location::Flash(unit) = self.map.location(user) else { return None };
        let plane = self.layout.plane_of_block(self.layout.block_of_unit(unit));
        let die = self.layout.die_of_plane(plane);
        Some(FlashLocation { channel: self.layout.channel_of_die(die), die })
    }

    /// When a die will have done all queued operations, without waits for the channel and without
    /// cleaning that has not started. White-box.
    #[must_use]
    pub fn die_free_at(&self, die: u32) -> Nanos {
        self.current_ends(die) + self.queued_time(die)
    }

    /// When a channel will have moved all data ready for it. White-box.
    #[must_use]
    pub fn channel_free_at(&self, channel: u32) -> Nanos {
        self.channel_queue_ends(channel)
    }

    /// A lower bound of this request's latency in the current state, whatever is served first. Lets
    /// a driver sleep until then.
    #[must_use]
    pub fn min_latency(&self, request: &Request) -> Nanos {
        let mut time = self.times.firmware;
        match request.op {
            Op::Read => {
                let in_flash =
                    |&user: &u64| matches!(self.map.location(user as u32), Location::Flash(_));
                let first = self.layout.unit_of_byte(request.offset);
                let end = request.end().div_ceil(u64::from(self.layout.unit_bytes));
                let end = end.min(u64::from(self.layout.visible_units));
                // The first of many: the bound need not be tight.
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

    /// Whether a die is cleaning, or blocked by cleaning. White-box.
    #[must_use]
    pub fn is_cleaning(&self, die: u32) -> bool {
        self.dies[die as usize].cleaning.is_running()
    }

    /// Starts or stops the log of cleanings. For analysis.
    pub fn log_cleanings(&mut self, note: bool) {
        self.cleanings = note.then(Vec::new);
    }

    /// Takes the cleanings that have ended since the last call, in order of their ends. For
    /// analysis.
    pub fn cleanings(&mut self) -> Vec<CleaningInterval> {
        self.cleanings.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The drive's counters. For analysis.
    #[must_use]
    pub fn stats(&self) -> SsdStats {
        let cleaning = self.cleaned().since(self.cleaned_before);
        SsdStats { cleaning, ..self.stats.clone() }
    }

    /// Cleaning time of all dies since the drive was made.
    fn cleaned(&self) -> Nanos {
        Nanos(self.dies.iter().map(|die| die.cleaning.read(self.now).0).sum())
    }

    /// Resets the counters of [`stats`](Self::stats).
    pub fn reset_stats(&mut self) {
        self.stats = SsdStats::default();
        // The dies' clocks continue: waiting operations refer to them.
        self.cleaned_before = self.cleaned();
    }

    /// Erase count of each block. For analysis.
    #[must_use]
    pub fn erases(&self) -> &[u32] {
        self.blocks.all_erases()
    }

    /// Valid units of each block. For analysis.
    #[must_use]
    pub fn valid_by_block(&self) -> &[u16] {
        self.map.valid_by_block()
    }

    /// Valid units of the drive. For analysis.
    #[must_use]
    pub const fn valid_units(&self) -> u64 {
        self.map.valid_total()
    }

    /// Free blocks of the drive. For analysis.
    #[must_use]
    pub fn free_blocks(&self) -> usize {
        self.blocks.free()
    }
}
