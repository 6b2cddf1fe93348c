//! Partial parity logs while the array runs: what is logged next, and when.
//!
//! Before a part of a write changes data and parity of its stripe, the member with the parity has it in
//! its log. A log is written when the stripes of the one before it on that member are on stable storage,
//! because after a crash only the newest log counts; what arrives meanwhile is in the next one together.
//!
//! A state machine: the engine writes the logs (engine/ppl.rs), and assembly recovers from them
//! (recover.rs).

use std::collections::VecDeque;

use trimtab_array::Layout;
use trimtab_md::{PPL_HEADER_BYTES, PplLog, Superblock, ppl_signature};

/// Bytes of a log, unless one part needs more: as md's.
const LOG_BYTES: usize = 128 << 10;

/// A write of a row of a stripe that is to be logged.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The array's byte where it begins.
    pub(crate) data_offset: u64,
    /// How many chunks of data it goes to.
    pub(crate) chunks: usize,
    /// Bytes in each.
    pub(crate) bytes: u32,
    /// The XOR of the chunks that it leaves alone; empty if there are none.
    pub(crate) partial: Vec<u8>,
}

/// A log that is to be written to a member.
#[derive(Debug)]
pub(crate) struct NewLog {
    /// Where, from the beginning of the area.
    pub(crate) at: u64,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// The log is being written.
    Logging,
    /// Its stripes are being written.
    Writing,
    /// They are being brought to stable storage: answers that are missing.
    Flushing(usize),
}

/// The logs on a member.
#[derive(Debug)]
struct MemberLogs {
    generation: u64,
    next_at: u64,
    state: State,
    waiting: VecDeque<(u32, Vec<Entry>)>,
    /// The parts of the current log that are not over.
    parts: Vec<u32>,
}

/// The logs of all members.
#[derive(Debug)]
pub(crate) struct Logs {
    layout: Layout,
    signature: u32,
    /// Bytes of the area on each member.
    area: u64,
    /// Whether the area has several logs in turn.
    is_multiple: bool,
    members: Vec<MemberLogs>,
}

impl Logs {
    /// Logs that have been emptied with this generation; none if the array has no logs.
    pub(crate) fn new(layout: Layout, superblock: &Superblock, generation: u64) -> Option<Self> {
        let (_, area) = superblock.ppl_at()?;
        let member = || MemberLogs {
            generation,
            next_at: 0,
            state: State::Idle,
            waiting: VecDeque::new(),
            parts: Vec::new(),
        };
        Some(Self {
            layout,
            signature: ppl_signature(superblock.array_uuid),
            area,
            is_multiple: superblock.features().has(trimtab_md::Features::MULTIPLE_PPLS),
            members: (0..layout.members()).map(|_| member()).collect(),
        })
    }

    /// The member's next log is the first one of its area: of another device, say, of which only
    /// the first header is looked for.
    pub(crate) fn restart(&mut self, member: usize) {
        self.members[member].next_at = 0;
    }

    /// Whether the area has room for the partial parity of a chunk.
    pub(crate) const fn has_room(layout: &Layout, area: u64) -> bool {
        layout.chunk() + PPL_HEADER_BYTES as u64 <= area
    }

    /// Whether no log and no flush behind one is out.
    pub(crate) fn is_idle(&self) -> bool {
        self.members.iter().all(|logs| logs.state == State::Idle && logs.waiting.is_empty())
    }

    /// A part waits until it is logged on the member.
    pub(crate) fn push(&mut self, member: usize, part: u32, entries: Vec<Entry>) {
        self.members[member].waiting.push_back((part, entries));
    }

    /// The next log of a member, if it is time for one.
    pub(crate) fn next(&mut self, member: usize) -> Option<NewLog> {
        let (area, is_multiple) = (self.area, self.is_multiple);
        let logs = &mut self.members[member];
        if logs.state != State::Idle || logs.waiting.is_empty() {
            return None;
        }
        logs.generation += 1;
        let new = |room: u64| PplLog::new(self.signature, logs.generation, room as usize);
        let mut log = new((LOG_BYTES as u64).min(area));
        while let Some((_, entries)) = logs.waiting.front() {
            let mut with = log.clone();
            if !entries.iter().all(|entry| entry.push_to(&mut with, &self.layout)) {
                if !logs.parts.is_empty() {
                    break;
                }
                // It needs more than is usual.
                with = new(area);
                entries.iter().for_each(|entry| {
                    entry.push_to(&mut with, &self.layout);
                });
            }
            log = with;
            logs.parts.extend(logs.waiting.pop_front().map(|(part, _)| part));
        }
        let bytes = log.to_bytes();
        // Linux 6.1 reads a header behind the newest log, and seems not to find that log if there is no room
        // for one.
        let next_header = logs.next_at + (bytes.len() + PPL_HEADER_BYTES) as u64;
        let at = if is_multiple && next_header < area { logs.next_at } else { 0 };
        logs.next_at = at + bytes.len() as u64;
        logs.state = State::Logging;
        Some(NewLog { at, bytes })
    }

    /// A member's log has been written, or the member has failed: its parts may be written.
    pub(crate) fn logged(&mut self, member: usize) -> Vec<u32> {
        let logs = &mut self.members[member];
        logs.state = State::Writing;
        logs.parts.clone()
    }

    /// A part is over. Returns the member whose log has none left now.
    pub(crate) fn part_done(&mut self, part: u32) -> Option<usize> {
        let has = |logs: &MemberLogs| logs.state == State::Writing && logs.parts.contains(&part);
        let member = self.members.iter().position(has)?;
        let parts = &mut self.members[member].parts;
        parts.retain(|one| *one != part);
        parts.is_empty().then_some(member)
    }

    /// The stripes of a member's log have been written. So many flushes have to be answered before they
    /// are on stable storage.
    pub(crate) fn flushing(&mut self, member: usize, flushes: usize) {
        let state = if flushes == 0 { State::Idle } else { State::Flushing(flushes) };
        self.members[member].state = state;
    }

    /// A flush has been answered.
    pub(crate) fn flushed(&mut self, member: usize) {
        if let State::Flushing(left) = self.members[member].state {
            self.flushing(member, left - 1);
        }
    }
}

impl Entry {
    fn push_to(&self, log: &mut PplLog, layout: &Layout) -> bool {
        log.push(layout, self.data_offset, self.chunks, self.bytes, &self.partial)
    }
}

#[cfg(test)]
mod tests;
