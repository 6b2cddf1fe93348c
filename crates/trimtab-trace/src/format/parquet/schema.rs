//! What reader and writer must agree on: column names, metadata keys, and
//! which values a row may hold.

use crate::fields::{LARGEST_LENGTH, LARGEST_OFFSET, LATEST_NS};

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
/// The key under which pandas looks for the types that columns had.
pub(crate) const PANDAS_KEY: &str = "pandas";
/// What precedes the key of each of [`Meta::notes`](crate::Meta::notes).
pub(crate) const NOTE_PREFIX: &str = "trimtab.note.";

/// Stands for null among values that are all smaller.
pub(crate) const NULL: u64 = u64::MAX;
/// Stands for any value that no column may hold; larger than what any may.
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
    /// Whether this is a row that a trace can hold. The writer asks as well,
    /// so that it never makes a file that the reader refuses.
    #[inline]
    pub(crate) fn are_sound(&self) -> bool {
        // A missing time takes the place of the one before it, so that one
        // chain of comparisons covers all cases; `&` keeps it free of branches.
        let issue = if self.issue == NULL { self.arrival } else { self.issue };
        let complete = if self.complete == NULL { issue } else { self.complete };
        (self.arrival <= issue)
            & (issue <= complete)
            & (complete <= LATEST_NS)
            & (self.offset <= LARGEST_OFFSET)
            & (self.length <= LARGEST_LENGTH)
            & (self.flags <= u64::from(u16::MAX))
            & ((self.pid <= u64::from(u32::MAX)) | (self.pid == NULL))
    }

    /// What is wrong with a row that is not sound, by column. `found` gives the
    /// value of a column as it stands in the file.
    #[cold]
    pub(crate) fn fault(&self, found: impl Fn(&str, u64) -> String) -> String {
        let columns = [
            (ARRIVAL, self.arrival, LATEST_NS, true),
            (ISSUE, self.issue, LATEST_NS, false),
            (COMPLETE, self.complete, LATEST_NS, false),
            (OFFSET, self.offset, LARGEST_OFFSET, true),
            (LENGTH, self.length, LARGEST_LENGTH, true),
            (FLAGS, self.flags, u64::from(u16::MAX), true),
            (PID, self.pid, u64::from(u32::MAX), false),
        ];
        for (name, value, most, required) in columns {
            if value == NULL && required {
                return format!("column {name}: expected a number, found null");
            }
            if value > most && value != NULL {
                let found = found(name, value);
                return format!(
                    "column {name}: expected a whole number from 0 to {most}, found {found}"
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
