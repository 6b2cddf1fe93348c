//! Cleaning in turns: `PL_Win` (IODA, §4.3).

use rand_pcg::Pcg64;
use trimtab_io::Nanos;

use super::{Candidates, Concerns, Firmware, PlannedCleaning, Standard, WindowSchedule};
use crate::profile::Profile;

/// Cleans only in the drive's own windows, so that at any time at most one drive of the array does.
///
/// Outside its windows a drive cleans only when it must: below the low watermark, where user
/// requests stall in any case. [`SsdStats::forced_outside_window`] counts that.
///
/// A window must not end with cleanings in progress, because the next drive's begins. So a cleaning
/// begins only if it will end in time, given the valid data of its block, and an eighth more.
///
/// A channel works on one cleaning at a time (as the formula assumes, Table 2: S_r), because two of
/// them occupy most of the channel, and delay the reads of its other dies, which are not refused.
/// With less than nine tenths of the reserve between the watermarks it works on more, but on no more than
/// it can move data for: that would not be faster, only each of them longer.
/// If a cleaning takes longer than a whole window, it may begin in the window's first quarter, and
/// reaches into other drives' windows, as in the paper's measurement of short windows (§6.3.6).
/// [`SsdStats::window_overruns`] counts cleanings that ended too late.
///
/// In a window, planes are cleaned up to `clean_to` free blocks. The default is the high watermark,
/// a quarter of the over-provisioned blocks: a cycle as long as [`WindowFormula`] permits takes a
/// twentieth of them at most, and forced cleaning begins when a twentieth is left. Longer windows,
/// or bursts that outlast several cycles, need more; but the more blocks are free, the fewer
/// invalid units are in the others, and the more has to be moved.
///
/// The same windows can apply to flushes of the write buffer (§7.1); see
/// [`with_flushes`](Self::with_flushes).
///
/// [`SsdStats::forced_outside_window`]: crate::SsdStats::forced_outside_window
/// [`SsdStats::window_overruns`]: crate::SsdStats::window_overruns
/// [`WindowFormula`]: super::WindowFormula
#[derive(Clone, Debug)]
pub struct Windows {
    ordinary: Standard,
    schedule: WindowSchedule,
    /// What replaces it when its start has come.
    next: Option<WindowSchedule>,
    clean_to: usize,
    per_channel: u32,
    /// Dirty share of the buffer that is flushed outside a window; `None`: at the watermark.
    flush_at: Option<f64>,
    /// Planes per channel, if each LBA range has windows of its own.
    by_range: Option<u32>,
}

/// The part of a window, from its start, in which a cleaning may begin that is longer than it.
const LATE_START: u64 = 4;
/// With a smaller reserve a channel works on more than one cleaning at a time.
const ENOUGH: f64 = 0.9;
/// The part of a cleaning's time that is added to it.
const MARGIN: u64 = 8;

impl Windows {
    /// Cleans to the high watermark, with no more cleanings per channel than are needed.
    #[must_use]
    pub fn new(profile: &Profile, schedule: WindowSchedule) -> Self {
        Self {
            ordinary: Standard::new(profile),
            schedule,
            next: None,
            clean_to: 0,
            per_channel: u32::MAX,
            flush_at: None,
            by_range: None,
        }
    }

    /// Cleans each plane up to this many free blocks, at least to the high watermark.
    #[must_use]
    pub const fn with_clean_to(self, blocks: usize) -> Self {
        Self { clean_to: blocks, ..self }
    }

    /// Works on at most this many cleanings per channel, however small the reserve is.
    #[must_use]
    pub const fn with_cleanings_per_channel(self, cleanings: u32) -> Self {
        Self { per_channel: cleanings, ..self }
    }

    /// Flushes the write buffer in the windows too: at their start, and at its watermark; outside
    /// them only when this share of the buffer is dirty, which
    /// [`SsdStats::flushes_outside_window`](crate::SsdStats::flushes_outside_window) counts.
    #[must_use]
    pub const fn with_flushes(self, flush_at: f64) -> Self {
        Self { flush_at: Some(flush_at), ..self }
    }

    /// Gives each LBA range windows of its own (IODA, §7.4): in any window each drive of the array
    /// cleans one range, and each range is cleaned by one drive. A stripe of the array has the same
    /// addresses on all drives, so one of its pages at most is blocked, as with windows for whole
    /// drives; but every drive may clean all of the time.
    ///
    /// A block that is cleaned must then hold data of one range only. The drive's profile has as
    /// many ranges as the array has drives (`ftl.ranges`), each on channels of its own, so cleaning
    /// one does not touch the channels of the others. The costs: a range has a fraction of the
    /// channels, so requests to one range are not spread over all; and a fraction of the
    /// over-provisioned space, so if one range takes most of the writes it runs low while the
    /// others have space. (The paper leaves the mechanism open. Streams that share the channels
    /// would avoid the first cost, and cleaning would delay the other ranges' reads.)
    #[must_use]
    pub const fn by_range(self, profile: &Profile) -> Self {
        let g = &profile.geometry;
        let per_channel = g.chips_per_channel * g.dies_per_chip * g.planes_per_die;
        Self { by_range: Some(per_channel), ..self }
    }

    /// The schedule of a plane.
    const fn of_plane(&self, schedule: WindowSchedule, plane: u32) -> WindowSchedule {
        match self.by_range {
            Some(per_channel) => schedule.for_range(plane / per_channel),
            None => schedule,
        }
    }

    /// The schedule that applies now.
    fn current(&self, now: Nanos) -> WindowSchedule {
        self.next.filter(|next| next.start <= now).unwrap_or(self.schedule)
    }

    /// A plane's window in progress, or the next one. The next schedule's start cuts it short.
    fn window(&self, now: Nanos, plane: u32) -> (Nanos, Nanos) {
        let (from, until) = self.of_plane(self.current(now), plane).window(now);
        match self.next {
            Some(next) if now < next.start && next.start <= from => {
                self.of_plane(next, plane).window(next.start)
            }
            Some(next) if now < next.start => (from, until.min(next.start)),
            _ => (from, until),
        }
    }
}

impl Firmware for Windows {
    fn concerns(&self) -> Concerns {
        let flushes = self.flush_at.is_some();
        Concerns { beginnings: true, flushes, ..self.ordinary.concerns() }
    }

    fn may_clean(&mut self, now: Nanos, plane: u32) -> bool {
        self.window(now, plane).0 <= now
    }

    fn next_change(&self, now: Nanos) -> Option<Nanos> {
        if self.by_range.is_some() {
            // Some range's window begins with every window.
            let turn = WindowSchedule { position: 0, drives: 1, ..self.current(now) };
            let (from, until) = turn.window(now);
            let at = if now < from { from } else { until };
            let next = self.next.filter(|next| now < next.start);
            return Some(next.map_or(at, |next| at.min(next.start)));
        }
        let (from, until) = self.window(now, 0);
        Some(if now < from { from } else { self.window(until, 0).0 })
    }

    fn clean_to(&self, _: Nanos, high: usize) -> usize {
        self.clean_to.max(high)
    }

    fn choose(
        &mut self,
        now: Nanos,
        candidates: &Candidates<'_>,
        random: &mut Pcg64,
    ) -> Option<u32> {
        self.ordinary.choose(now, candidates, random)
    }

    fn may_begin(&mut self, now: Nanos, planned: &PlannedCleaning) -> bool {
        let (from, until) = self.window(now, planned.plane);
        if now < from || planned.on_channel >= self.per_channel {
            return false;
        }
        let with_others = Nanos(planned.channel_time.0 * u64::from(planned.on_channel + 1));
        let shares = planned.on_channel > 0;
        if shares && (with_others > planned.time || planned.reserve >= ENOUGH) {
            return false;
        }
        // The channel serves users in between.
        let time = planned.time + Nanos(planned.time.0 / MARGIN);
        let length = until.since(from);
        if time > length {
            return now.since(from).0 <= length.0 / LATE_START;
        }
        now + time <= until
    }

    fn may_flush(&mut self, now: Nanos, dirty: f64) -> bool {
        self.flush_at.is_none_or(|share| dirty >= share) || self.window(now, 0).0 <= now
    }

    fn windows(&self, now: Nanos) -> Option<WindowSchedule> {
        Some(self.current(now))
    }

    fn is_outside_window(&self, now: Nanos, plane: u32) -> bool {
        self.window(now, plane).0 > now
    }

    fn set_windows(&mut self, now: Nanos, windows: WindowSchedule) -> bool {
        self.schedule = self.current(now);
        self.next = Some(windows);
        true
    }

    fn forget(&mut self) {
        self.ordinary.forget();
    }

    fn boxed_clone(&self) -> Box<dyn Firmware> {
        Box::new(self.clone())
    }
}
