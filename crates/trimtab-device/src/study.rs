//! What can be learnt about a drive from inside: for study, never for
//! predictors.

use trimtab_io::Nanos;

/// Where a request's time went: of the part of it that was done last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// It waited while the whole drive let nobody in: free blocks had run out,
    /// or the firmware paused.
    pub stalled: Nanos,
    /// It waited for its die, because of other requests.
    pub die: Nanos,
    /// It waited for its die, because a block was being cleaned.
    pub cleaning: Nanos,
    /// It waited for the channel.
    pub channel: Nanos,
    /// It waited for room in the write buffer.
    pub buffer: Nanos,
    /// Its page had to be read again.
    pub retries: Nanos,
}

/// What a drive has done since it was made or last reset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Study {
    /// Units that users have written.
    pub user_units_written: u64,
    /// Units programmed for users, fillings of half-empty pages included.
    pub units_programmed: u64,
    /// Units programmed by cleaning.
    pub units_moved: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Times that users had to wait because free blocks had run out.
    pub stalls: u64,
    /// Time in which they had to.
    pub stalled: Nanos,
    /// Time that dies spent on cleaning, summed over dies.
    pub cleaning: Nanos,
    /// Reads answered as refused.
    pub refused: u64,
    /// Reads whose data was regenerated.
    pub regenerated: u64,
    /// Operations that were interrupted.
    pub suspended: u64,
}

impl Study {
    /// What was programmed for each unit that users wrote.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let programmed = self.units_programmed + self.units_moved;
        (self.user_units_written > 0).then(|| programmed as f64 / self.user_units_written as f64)
    }
}
