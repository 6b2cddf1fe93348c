//! The replaceable decisions of a drive's firmware.
//!
//! When cleaning may proceed, which block is cleaned, and how a read proceeds whose die is being
//! cleaned: these three distinguish an ordinary drive from the published ones with predictable
//! latency. The flash and the bookkeeping are common to all, in [`Ssd`](crate::Ssd).
//!
//! A policy is a plain state machine: time and questions in, decisions out. It cannot lose data: if
//! its decisions would (never cleaning, say), the drive stops accepting writes, as a real one
//! would.
//!
//! | policy | cleans | a read that cleaning blocks |
//! | --- | --- | --- |
//! | [`Standard`] | at the high watermark | waits |
//! | [`Ideal`] | in no time | |
//! | [`PlIo`] | as the firmware that it wraps | is refused, if flagged |
//! | [`Windows`] | in its turn among the drives of an array | waits |
//! | [`Harmonia`] | when one drive of the array does | waits |
//! | [`TinyTail`] | one plane of a stripe at a time | is regenerated |
//!
//! [`FirmwareKind`] makes each of them from a description in TOML.

mod candidates;
mod harmonia;
mod kind;
mod pl_io;
mod standard;
mod tiny_tail;
mod window_formula;
mod window_schedule;
mod windows;

use std::fmt;

use rand_pcg::Pcg64;
use trimtab_io::{Flags, Nanos};

pub use candidates::{Candidate, Candidates};
pub use harmonia::Harmonia;
pub use kind::{
    ArrayPosition, FirmwareKind, HarmoniaOptions, PlIoOptions, TinyTailOptions, WindowOptions,
};
pub use pl_io::PlIo;
pub use standard::{Ideal, Standard};
pub use tiny_tail::TinyTail;
pub use window_formula::{TimeWindow, WindowFormula};
pub use window_schedule::WindowSchedule;
pub use windows::Windows;

/// A firmware policy.
///
/// Only [`choose`](Self::choose) and [`boxed_clone`](Self::boxed_clone) have no default. A policy
/// that says so in [`concerns`](Self::concerns) is asked and told more.
pub trait Firmware: fmt::Debug + Send + Sync {
    /// What the drive asks this policy. It reads this once, when it gets the policy.
    fn concerns(&self) -> Concerns {
        Concerns::default()
    }

    /// Whether a block of this plane may be cleaned now. Not called while user requests wait for
    /// free blocks: then cleaning must proceed.
    fn may_clean(&mut self, now: Nanos, plane: u32) -> bool {
        _ = (now, plane);
        true
    }

    /// When the result of [`may_clean`](Self::may_clean), [`may_begin`](Self::may_begin) or
    /// [`may_flush`](Self::may_flush) may change.
    fn next_change(&self, now: Nanos) -> Option<Nanos> {
        _ = now;
        None
    }

    /// Free blocks of each plane at which cleaning stops. `high` is the profile's high watermark;
    /// the drive never stops below that. It asks again when the time of
    /// [`next_change`](Self::next_change) has come, and after it has told the policy something.
    fn clean_to(&self, now: Nanos, high: usize) -> usize {
        _ = now;
        high
    }

    /// The block to clean, or `None`.
    fn choose(
        &mut self,
        now: Nanos,
        candidates: &Candidates<'_>,
        random: &mut Pcg64,
    ) -> Option<u32>;

    /// Whether the chosen block may be cleaned now, given how long that takes and what else is
    /// being cleaned. Asked if [`Concerns::beginnings`] is set, and like
    /// [`may_clean`](Self::may_clean) not while user requests wait for free blocks.
    fn may_begin(&mut self, now: Nanos, planned: &PlannedCleaning) -> bool {
        _ = (now, planned);
        true
    }

    /// A cleaning has begun. Returns whether this changes what other planes may do: then they are
    /// asked again.
    fn began(&mut self, now: Nanos) -> bool {
        _ = now;
        false
    }

    /// A cleaning has ended, or did not begin after all; `left` others are queued or in progress.
    fn ended(&mut self, now: Nanos, left: u32) {
        _ = (now, left);
    }

    /// How a read proceeds whose data is blocked by cleaning. Asked if [`Concerns::reads`] is set.
    fn contend(&mut self, contention: &ReadContention) -> ContentionDecision {
        _ = contention;
        ContentionDecision::Wait
    }

    /// How long a refusal takes.
    fn refusal_time(&self) -> Nanos {
        DEFAULT_REFUSAL
    }

    /// Whether the write buffer may be flushed now, `dirty` being the share of it that is dirty.
    /// Asked if [`Concerns::flushes`] is set, for flushes at the watermark and at the end of a
    /// period: a flush request of the user and a full buffer do not wait.
    fn may_flush(&mut self, now: Nanos, dirty: f64) -> bool {
        _ = (now, dirty);
        true
    }

    /// Whether cleaning takes time. If not, blocks are cleaned instantly: the ideal baseline.
    fn cleaning_takes_time(&self) -> bool {
        true
    }

    /// The windows that it cleans in now: what an array is told about its drive (IODA, §4.4:
    /// `busyTimeWindow` and the cycle's start). `None` if it has none.
    fn windows(&self, now: Nanos) -> Option<WindowSchedule> {
        _ = now;
        None
    }

    /// Whether it has windows, and this is none of this plane's: for the drive's counters.
    fn is_outside_window(&self, now: Nanos, plane: u32) -> bool {
        _ = plane;
        self.windows(now).is_some_and(|windows| !windows.contains(now))
    }

    /// Takes other windows, which apply from their start. False if it has none.
    fn set_windows(&mut self, now: Nanos, windows: WindowSchedule) -> bool {
        _ = (now, windows);
        false
    }

    /// Another drive of the array has begun to clean. Returns whether this changes what the planes
    /// may do.
    fn clean_now(&mut self, now: Nanos) -> bool {
        _ = now;
        false
    }

    /// Whether it has begun to clean of its own accord since the last call, so that other drives
    /// should be told.
    fn take_cleaning_start(&mut self) -> bool {
        false
    }

    /// Resets the policy's state: its drive is being saved, and policy state is not saved.
    fn forget(&mut self) {}

    /// A copy in the same state, for a drive's snapshot.
    fn boxed_clone(&self) -> Box<dyn Firmware>;
}

impl Clone for Box<dyn Firmware> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// Completing a read as refused takes this long (IODA, §4.2.1: over PCIe).
const DEFAULT_REFUSAL: Nanos = Nanos::from_micros(1);

/// What a drive asks its firmware. Each question costs the drive time to put together, so a policy
/// that always gives the default answer says so here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concerns {
    /// Reads that cleaning blocks: [`Firmware::contend`].
    pub reads: bool,
    /// Whether [`ReadContention::siblings`] is filled in.
    pub siblings: bool,
    /// Cleanings about to begin: [`Firmware::may_begin`]. The planes that may not are asked again
    /// whenever a cleaning ends.
    pub beginnings: bool,
    /// Flushes of the write buffer: [`Firmware::may_flush`].
    pub flushes: bool,
    /// A cleaning whose turn comes lets the reads go first that wait for its plane.
    pub after_reads: bool,
    /// Pages are not written to planes being cleaned, while there are others.
    pub write_around: bool,
}

impl Default for Concerns {
    fn default() -> Self {
        Self {
            reads: true,
            siblings: false,
            beginnings: false,
            flushes: false,
            after_reads: false,
            write_around: false,
        }
    }
}

/// A cleaning that could begin now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedCleaning {
    /// The plane.
    pub plane: u32,
    /// The block.
    pub block: u32,
    /// Its valid units.
    pub valid: u16,
    /// How long cleaning it takes if the channel has nothing else to do.
    pub time: Nanos,
    /// The channel's time in that.
    pub channel_time: Nanos,
    /// Cleanings in progress on its channel.
    pub on_channel: u32,
    /// Cleanings in progress in its plane group: the planes at the same position on each channel,
    /// whose pages form stripes.
    pub in_group: u32,
    /// Free blocks of the drive: 0 at the low watermark, 1 at the high one.
    pub reserve: f64,
}

/// A read that is blocked by cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadContention {
    /// Now.
    pub now: Nanos,
    /// The request's flags.
    pub flags: Flags,
    /// The plane that holds the data.
    pub plane: u32,
    /// How long cleaning will still occupy it: the cleaning in progress, and those that the read
    /// would queue behind. Zero if there is none, and the read would follow programs that a cleaning
    /// has held up.
    pub busy_for: Nanos,
    /// How long the read would wait until its die starts it: `busy_for`, and the operations queued
    /// before it.
    pub wait: Nanos,
    /// How long cleanings in progress will still occupy the corresponding pages of other channels,
    /// from which the data could be regenerated: the longest of them. Zero unless
    /// [`Concerns::siblings`] is set.
    pub siblings: Nanos,
}

/// How a read proceeds that is blocked by cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentionDecision {
    /// It waits.
    Wait,
    /// It is refused after [`Firmware::refusal_time`], with the time it would have waited.
    Refuse,
    /// Its data is regenerated: the corresponding pages of all other channels are read, and
    /// combined within the profile's `timing.regenerate_us`.
    Regenerate,
}
