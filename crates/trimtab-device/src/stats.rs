//! Statistics from inside a drive: for analysis, never for predictors.

use trimtab_io::Nanos;

/// A request's latency by cause, along the part of it that completed last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyBreakdown {
    /// Waited while the drive admitted no requests: free blocks had run out, or the firmware
    /// paused.
    pub stalled: Nanos,
    /// Waited for its die, because of other requests.
    pub die: Nanos,
    /// Waited for its die, because of cleaning.
    pub cleaning: Nanos,
    /// Waited for the channel.
    pub channel: Nanos,
    /// Waited for space in the write buffer.
    pub buffer: Nanos,
    /// Read retries.
    pub retries: Nanos,
}

/// Counters of a drive since it was made or last reset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SsdStats {
    /// Units written by users.
    pub user_units_written: u64,
    /// Units programmed for users, padding of partial pages included.
    pub units_programmed: u64,
    /// Units programmed by cleaning.
    pub units_moved: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Times that user requests had to wait because free blocks had run out.
    pub stalls: u64,
    /// Total time of these stalls.
    pub stalled: Nanos,
    /// Cleaning time, summed over dies.
    pub cleaning: Nanos,
    /// Reads completed as refused.
    pub refused: u64,
    /// Reads whose data was regenerated.
    pub regenerated: u64,
    /// Suspended operations.
    pub suspended: u64,
    /// Units of parity pages programmed.
    pub parity_units: u64,
    /// Cleanings begun outside the drive's windows, because free blocks had run out.
    pub forced_outside_window: u64,
    /// Cleanings that ended outside the drive's windows, without having been forced.
    pub window_overruns: u64,
    /// Flushes of the write buffer outside the drive's windows, where these apply to them.
    pub flushes_outside_window: u64,
}

impl SsdStats {
    /// The counters since they were `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            user_units_written: self.user_units_written - before.user_units_written,
            units_programmed: self.units_programmed - before.units_programmed,
            units_moved: self.units_moved - before.units_moved,
            erases: self.erases - before.erases,
            stalls: self.stalls - before.stalls,
            stalled: self.stalled - before.stalled,
            cleaning: self.cleaning - before.cleaning,
            refused: self.refused - before.refused,
            regenerated: self.regenerated - before.regenerated,
            suspended: self.suspended - before.suspended,
            parity_units: self.parity_units - before.parity_units,
            forced_outside_window: self.forced_outside_window - before.forced_outside_window,
            window_overruns: self.window_overruns - before.window_overruns,
            flushes_outside_window: self.flushes_outside_window - before.flushes_outside_window,
        }
    }

    /// Units programmed per unit written by users.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let programmed = self.units_programmed + self.parity_units + self.units_moved;
        (self.user_units_written > 0).then(|| programmed as f64 / self.user_units_written as f64)
    }
}
