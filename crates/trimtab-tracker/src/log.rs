//! What was done to a drive's state, step by step: for tests.

use trimtab_io::{Nanos, Op};
use trimtab_shm::Mapping;

use crate::abi::{Control, LogEntry};

/// A step, in the words of [`trimtab_predict::DriveTracker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub now: Nanos,
    /// The place of the request in the kernel's table: from its being sent to its
    /// answer it is the request's alone.
    pub slot: u32,
    /// What was done.
    pub act: Act,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A request was sent.
    Sent(Extent),
    /// It has grown.
    Grown(Extent),
    /// It was answered; whether with its data.
    Completed(bool),
}

/// What a request is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// What it does.
    pub op: Op,
    /// Where it begins, bytes.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// The steps in the order in which they were done. It has no limits on its
/// writers: what was not read in time is overwritten.
pub(crate) struct Log {
    pub(crate) entries: Mapping<LogEntry>,
    pub(crate) bits: u32,
}

impl Log {
    /// All steps for a device since the start; `None` if some have been
    /// overwritten or are just being written.
    pub(crate) fn read(&self, control: &Control, device: u8) -> Option<Vec<Step>> {
        if control.log_taken > 1 << self.bits {
            return None;
        }
        let mut steps = Vec::new();
        for place in 0..control.log_taken {
            let entry = self.entries.read(place as usize);
            if entry.place != place + 1 {
                return None;
            }
            if entry.device == device {
                steps.push(step(&entry)?);
            }
        }
        Some(steps)
    }
}

fn step(entry: &LogEntry) -> Option<Step> {
    let LogEntry { offset, length, .. } = *entry;
    let extent = Extent { op: Op::from_u8(entry.op)?, offset, length };
    let act = match entry.step {
        1 => Act::Sent(extent),
        2 => Act::Grown(extent),
        3 => Act::Completed(entry.data != 0),
        _ => return None,
    };
    Some(Step { now: Nanos(entry.time_ns), slot: entry.slot, act })
}
