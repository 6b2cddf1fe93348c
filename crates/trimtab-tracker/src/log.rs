//! A log of the changes of a drive's state, for tests.

use trimtab_io::{Nanos, Op};
use trimtab_shm::Mapping;

use crate::abi::{Control, LogEntry};

/// A step, as a call of [`trimtab_predict::DriveTracker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The time.
    pub now: Nanos,
    /// The request's slot in the kernel's table, which it owns from submission to completion.
    pub slot: u32,
    /// The change.
    pub act: Act,
}

/// A change of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A request was sent.
    Sent(Extent),
    /// It grew.
    Grown(Extent),
    /// It completed; whether with data.
    Completed(bool),
}

/// The extent of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its operation.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// The steps in order. Writers never wait: steps that were not read in time are overwritten.
pub(crate) struct Log {
    pub(crate) entries: Mapping<LogEntry>,
    pub(crate) bits: u32,
}

impl Log {
    /// All steps for a device since the start; `None` if some have been overwritten or are
    /// being written.
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
