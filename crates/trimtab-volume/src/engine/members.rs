//! Requests to members, and members that fail.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::io::Errno;
use trimtab_array::planner::MemberIo;
use trimtab_array::{Level, Member};
use trimtab_io::{Flags, Nanos, Op, Outcome, Request, monotonic};
use trimtab_md::DeviceRole;
use trimtab_uring::{Finished, Io, Watched};

use super::{Engine, Fatal, MemberRequest, SlotState, warn};
use crate::predictable::FlaggedRead;

/// A member of which this many reads were corrected by writing within [`CORRECTIONS_WITHIN`] fails.
const MOST_CORRECTIONS: usize = 20;
const CORRECTIONS_WITHIN: Nanos = Nanos::from_secs(3600);

/// Carries out a request to a file in memory.
fn at_once(file: &File, what: Io, tag: u64) -> Finished {
    let (result, buffer) = match what {
        Io::Read { offset, length, mut buffer } => {
            let into = buffer.content(length as usize);
            (file.read_exact_at(into, offset), Some(buffer))
        }
        Io::Write { offset, length, mut buffer } => {
            let from = buffer.content(length as usize);
            (file.write_all_at(from, offset), Some(buffer))
        }
        Io::Flush | Io::WaitReadable => (Ok(()), None),
    };
    let outcome = result.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO));
    Finished { tag, outcome, buffer }
}

impl Engine {
    /// Sends a request to a member.
    pub(super) fn send(&mut self, io: MemberIo, request: &Request) -> Result<(), Fatal> {
        let role = io.member.index();
        let slot = &self.slots[role];
        let is_usable = matches!(slot.state, SlotState::Active | SlotState::Rebuilding);
        let Some(device) = slot.device.as_ref().filter(|_| is_usable) else {
            self.planner.ended(self.now, io, self.now, Some(Outcome::Error));
            return Ok(());
        };
        let device = Arc::clone(device);
        let (offset, length) = (slot.data_offset + request.offset, request.length as u32);
        let what = match request.op {
            Op::Read => {
                let buffer = self.buffers.take(length as usize).map_err(Fatal::Memory)?;
                Io::Read { offset, length, buffer }
            }
            Op::Write => {
                let mut buffer = self.buffers.take(length as usize).map_err(Fatal::Memory)?;
                let view = self.planner.part(io.part);
                let user = match view.is_refresh {
                    true => &[][..],
                    false => &self.users[view.request.0 as u32].data,
                };
                let from = self.content.write_from(&view, &io, user);
                buffer.content(length as usize).copy_from_slice(from);
                Io::Write { offset, length, buffer }
            }
            // Discards are not offered.
            Op::Flush | Op::Discard => Io::Flush,
        };
        let is_flagged = request.flags.contains(Flags::LATENCY_CRITICAL);
        let flag = is_flagged.then(|| self.predictable.flag(role, offset, request.length));
        let flag = flag.flatten();
        let sent = monotonic();
        let of_member = MemberRequest { io, sent, op: request.op, offset: request.offset, flag };
        let number = self.requests.insert(of_member);
        self.in_flight[role] += 1;
        if device.in_memory {
            let finished = at_once(device.file(), what, number.into());
            self.at_once.push_back(finished);
            return Ok(());
        }
        let file: Watched = device;
        Ok(self.ring.push(&file, what, number.into())?)
    }

    /// A member has answered.
    pub(super) fn member_done(&mut self, finished: Finished) -> Result<(), Fatal> {
        let number = finished.tag as u32;
        let request = &mut self.requests[number];
        let refused = request.flag.take().and_then(FlaggedRead::refused);
        let &mut MemberRequest { io, sent, op, offset, .. } = request;
        self.requests.remove(number);
        let role = io.member.index();
        self.in_flight[role] -= 1;
        // What came with a refusal is not used.
        let refused = refused.filter(|_| finished.outcome.is_ok());
        let is_done = finished.outcome.is_ok() && refused.is_none();
        match refused {
            Some(_) => self.figures.members[role].refused += 1,
            None => self.figures.member(role, op, monotonic().since(sent), is_done),
        }
        if let Some(mut buffer) = finished.buffer {
            if op == Op::Read && is_done && self.planner.awaits(io) {
                let view = self.planner.part(io.part);
                let into = self.content.read_into(&view, &io);
                into.copy_from_slice(buffer.content(into.len()));
            }
            self.buffers.give(buffer);
        }
        if let Err(errno) = finished.outcome {
            let name = self.name(role);
            warn(format_args!("{name}: {op:?} of data at {offset} failed: {errno}"));
            if op == Op::Read && self.slots[role].state == SlotState::Active {
                self.read_failed(role, offset);
            }
        }
        let outcome = match refused {
            Some(expected_wait) => Outcome::Refused { expected_wait },
            None if is_done => Outcome::Done,
            None => Outcome::Error,
        };
        self.planner.ended(self.now, io, sent, Some(outcome));
        Ok(())
    }

    /// The name of a member, for messages.
    pub(crate) fn name(&self, role: usize) -> String {
        let device = self.slots[role].device.as_ref();
        device.map_or_else(|| format!("member {role}"), |device| device.path.display().to_string())
    }

    /// What a member cannot read is computed, and written to it.
    fn read_failed(&mut self, role: usize, offset: u64) {
        if self.layout.level() == Level::Raid0 || self.degraded() >= self.redundancy() {
            return;
        }
        let stripe = self.layout.stripe_at(offset).0;
        self.tasks.correct(stripe);
        if self.figures.corrections(role, self.now, CORRECTIONS_WITHIN) > MOST_CORRECTIONS {
            self.fail(role, format!("more than {MOST_CORRECTIONS} reads failed in an hour"));
        }
    }

    /// A member is not used any more, and the superblocks of the others say so.
    pub(crate) fn fail(&mut self, role: usize, why: String) {
        let state = self.slots[role].state;
        if !matches!(state, SlotState::Active | SlotState::Rebuilding) {
            return;
        }
        warn(format_args!("{} is not used any more: {why}", self.name(role)));
        self.planner.lose(Member(role as u8));
        self.slots[role].state = SlotState::Failed;
        self.slots[role].why = Some(why);
        self.tasks.give_up_rebuild(role);
        if self.has_failed() {
            // With the superblocks as they are the array can be assembled again, with what was
            // flushed: its members may be there again then.
            warn(format_args!(
                "too many members have failed: the array is not written to any more"
            ));
            return;
        }
        if self.redundancy() > 0 {
            self.failure = Some(self.metadata.forget(role, DeviceRole::Faulty));
        }
    }
}
