//! What reader and writer share: column names, metadata keys, and the validity of rows.

use crate::fields::{MAX_LENGTH, MAX_OFFSET, MAX_TIME_NS};

pub(crate) const ARRIVAL: &str = "arrival_ns";
pub(crate) const ISSUE: &str = "issue_ns";
pub(crate) const COMPLETE: &str = "complete_ns";
pub(crate) const OP: &str = "op";
pub(crate) const OFFSET: &str = "offset";
pub(crate) const LENGTH: &str = "length";
pub(crate) const DEVICE: &str = "device";
pub(crate) const FLAGS: &str = "flags";
pub(crate) const PID: &str = "pid";
pub(crate) const COMMAND: &str = "command";

pub(crate) const VERSION_KEY: &str = "trimtab.format_version";
pub(crate) const VERSION: &str = "1";
pub(crate) const CLOCK_KEY: &str = "trimtab.clock";
pub(crate) const CLOCK_UNIX: &str = "unix";
pub(crate) const CLOCK_OWN: &str = "own";
pub(crate) const HAS_OFFSETS_KEY: &str = "trimtab.has_offsets";
/// pandas stores columns' types under this key.
pub(crate) const PANDAS_KEY: &str = "pandas";
/// Prefix of the keys of [`Meta::notes`](crate::Meta::notes).
pub(crate) const NOTE_PREFIX: &str = "trimtab.note.";

/// Stands for null; larger than any valid value.
pub(crate) const NULL: u64 = u64::MAX;
/// Stands for an invalid value; larger than any valid one.
pub(crate) const ABSURD: u64 = NULL - 1;

/// The numbers of one row, with [`NULL`] for what is absent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub(crate) arrival: u64,
    pub(crate) issue: u64,
    pub(crate) complete: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) flags: u64,
    pub(crate) pid: u64,
}

impl Numbers {
    /// Whether a trace can hold this row. The writer checks too, so that it never writes a file
    /// that the reader refuses.
    #[inline]
    pub(crate) fn are_sound(&self) -> bool {
        // A missing time is replaced by the one before it, so that one chain of comparisons covers
        // all cases; `&` avoids branches.
        let issue = if self.issue == NULL { self.arrival } else { self.issue };
        let complete = if self.complete == NULL { issue } else { self.complete };
        (self.arrival <= issue)
            & (issue <= complete)
            & (complete <= MAX_TIME_NS)
            & (self.offset <= MAX_OFFSET)
            & (self.length <= MAX_LENGTH)
            & (self.flags <= u64::from(u16::MAX))
            & ((self.pid <= u64::from(u32::MAX)) | (self.pid == NULL))
    }

    /// What is wrong with an invalid row, by column. `found` returns a column's value as stored in
    /// the file.
    #[cold]
    pub(crate) fn fault(&self, found: impl Fn(&str, u64) -> String) -> String {
        let columns = [
            (ARRIVAL, self.arrival, MAX_TIME_NS, true),
            (ISSUE, self.issue, MAX_TIME_NS, false),
            (COMPLETE, self.complete, MAX_TIME_NS, false),
            (OFFSET, self.offset, MAX_OFFSET, true),
            (LENGTH, self.length, MAX_LENGTH, true),
            (FLAGS, self.flags, u64::from(u16::MAX), true),
            (PID, self.pid, u64::from(u32::MAX), false),
        ];
        for (name, value, max, required) in columns {
            if value == NULL && required {
                return format!("column {name}: expected a number, found null");
            }
            if value > max && value != NULL {
                let found = found(name, value);
                return format!(
                    "column {name}: expected a whole number from 0 to {max}, found {found}"
                );
            }
        }
        let Self { arrival, issue, complete, .. } = *self;
        if issue != NULL && issue < arrival {
            return format!("column {ISSUE}: {issue} is before the arrival at {arrival}");
        }
        let (before, when) = if issue == NULL { ("arrival", arrival) } else { ("issue", issue) };
        format!("column {COMPLETE}: {complete} is before the {before} at {when}")
    }
}
