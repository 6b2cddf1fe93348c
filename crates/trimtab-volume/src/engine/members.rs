//! Requests to members, and members that fail.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use trimtab_array::planner::MemberIo;
use trimtab_array::{Level, Member};
use trimtab_io::{Flags, Nanos, Op, Outcome, Request, monotonic};
use trimtab_md::DeviceRole;
use trimtab_uring::{Finished, Io, Watched};

use super::{Engine, Fatal, MemberRequest, Recipient, SlotState, TAG_TWIN, warn};
use crate::doubt;
use crate::member::MemberDevice;
use crate::predictable::FlaggedRead;
use crate::windows::{End, WindowDone};

/// A member of which this many reads were corrected by writing within [`CORRECTIONS_WITHIN`] fails.
const MOST_CORRECTIONS: usize = 20;
const CORRECTIONS_WITHIN: Nanos = Nanos::from_secs(3600);

/// Carries out a request to a file in memory.
pub(super) fn at_once(file: &File, what: Io, tag: u64) -> Finished {
    let (result, buffer) = match what {
        Io::Read { offset, length, mut buffer } => {
            let into = buffer.content(length as usize);
            (file.read_exact_at(into, offset), Some(buffer))
        }
        // Memory is as stable as it gets.
        Io::Write { offset, length, mut buffer }
        | Io::WriteThrough { offset, length, mut buffer } => {
            let from = buffer.content(length as usize);
            (file.write_all_at(from, offset), Some(buffer))
        }
        Io::Zero { offset, length } => {
            let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            (rustix::fs::fallocate(file, mode, offset, length).map_err(Into::into), None)
        }
        Io::Flush | Io::WaitReadable => (Ok(()), None),
    };
    let outcome = result.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO));
    Finished { tag, outcome, buffer }
}

impl Engine {
    /// Sends a request to a member, and to what replaces it if that has the stripe already.
    pub(super) fn send(&mut self, io: MemberIo, request: &Request) -> Result<(), Fatal> {
        let role = io.member.index();
        let slot = &self.slots[role];
        let is_usable = matches!(slot.state, SlotState::Active | SlotState::Rebuilding);
        let Some(device) = slot.device.clone().filter(|_| is_usable) else {
            self.planner.ended(self.now, io, self.now, Some(Outcome::Error));
            return Ok(());
        };
        let data_offset = slot.data_offset;
        let twin = self.twin_of(role, request);
        let is_flagged = request.flags.contains(Flags::LATENCY_CRITICAL);
        let at = data_offset + request.offset;
        let flag = is_flagged.then(|| self.predictable.flag(role, at, request.length)).flatten();
        let number = self.requests.insert(MemberRequest {
            io,
            own: Recipient::of(&device),
            twin: twin.as_ref().map_or_else(Recipient::default, |twin| Recipient::of(&twin.0)),
            unanswered: 1 + u8::from(twin.is_some()),
            sent: monotonic(),
            op: request.op,
            offset: request.offset,
            length: request.length,
            flag,
        });
        if let Some((twin, data_offset)) = twin {
            let what = self.io_of(io, request, data_offset)?;
            self.give(twin, what, u64::from(number) | TAG_TWIN)?;
        }
        let what = self.io_of(io, request, data_offset)?;
        self.give(device, what, number.into())
    }

    /// A request to a member, for a device whose data begin at this byte.
    fn io_of(&mut self, io: MemberIo, request: &Request, data_offset: u64) -> Result<Io, Fatal> {
        let (offset, length) = (data_offset + request.offset, request.length as u32);
        match request.op {
            Op::Read => {
                let buffer = self.buffers.take(length as usize).map_err(Fatal::Memory)?;
                Ok(Io::Read { offset, length, buffer })
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
                Ok(Io::Write { offset, length, buffer })
            }
            Op::Discard => Ok(Io::Zero { offset, length: request.length }),
            Op::Flush => Ok(Io::Flush),
        }
    }

    fn give(&mut self, device: Arc<MemberDevice>, what: Io, tag: u64) -> Result<(), Fatal> {
        self.count_sent(&device);
        if device.in_memory {
            let finished = at_once(device.file(), what, tag);
            self.at_once.push_back(finished);
            return Ok(());
        }
        let file: Watched = device;
        Ok(self.ring.push(&file, what, tag)?)
    }

    /// A device that has requests in flight is not let go of.
    pub(super) fn count_sent(&mut self, device: &Arc<MemberDevice>) {
        if let Some(place) = self.place_of(device) {
            self.slots[place].in_flight += 1;
        }
    }

    pub(super) fn count_answered(&mut self, device: &Arc<MemberDevice>) {
        if let Some(place) = self.place_of(device) {
            self.slots[place].in_flight -= 1;
            self.release(place);
        }
    }

    /// The place of a device, if it still has one.
    pub(super) fn place_of(&self, device: &Arc<MemberDevice>) -> Option<usize> {
        self.slots.iter().position(|slot| slot.has(device))
    }

    /// A device has answered.
    pub(super) fn member_done(&mut self, finished: Finished) -> Result<(), Fatal> {
        let number = finished.tag as u32;
        let is_twin = finished.tag & TAG_TWIN != 0;
        // What had no data, and could not be done.
        let is_refused = finished.outcome.is_err() && finished.buffer.is_none();
        if is_refused
            && self.requests[number].op == Op::Discard
            && self.write_zeroes(finished.tag)?
        {
            return Ok(());
        }
        let request = &mut self.requests[number];
        // What came with a refusal is not used.
        let refused = request.flag.take().and_then(FlaggedRead::refused);
        let refused = refused.filter(|_| finished.outcome.is_ok());
        let is_done = finished.outcome.is_ok() && refused.is_none();
        request.unanswered -= 1;
        let MemberRequest { io, sent, op, offset, .. } = *request;
        let recipient = request.recipient(finished.tag);
        let is_awaited = std::mem::take(&mut recipient.is_awaited);
        recipient.is_done = is_done && is_awaited;
        let device = recipient.device.clone().expect("it has answered");
        let place = self.place_of(&device);
        if let Some(place) = place {
            let counted = &mut self.slots[place].counted;
            match refused {
                Some(_) => counted.refused += 1,
                None => counted.ended(op, monotonic().since(sent), is_done),
            }
        }
        self.count_answered(&device);
        if let Some(mut buffer) = finished.buffer {
            if op == Op::Read && is_done && is_awaited && self.planner.awaits(io) {
                let view = self.planner.part(io.part);
                let into = self.content.read_into(&view, &io);
                into.copy_from_slice(buffer.content(into.len()));
            }
            self.buffers.give(buffer);
        }
        if let Err(errno) = finished.outcome {
            let name = device.path.display();
            warn(format_args!("{name}: {op:?} of data at {offset} failed: {errno}"));
            let active = place.filter(|&place| self.slots[place].state == SlotState::Active);
            if let Some(role) = active.filter(|_| op == Op::Read) {
                self.read_failed(role, offset);
            }
            if let Some(place) = place.filter(|_| is_twin) {
                self.twin_failed(place);
            }
        }
        if is_awaited {
            self.end_unless_awaited(number, refused);
        }
        if self.requests[number].unanswered == 0 {
            // A slot keeps its last value until it is used again.
            let request = &mut self.requests[number];
            (request.own, request.twin) = (Recipient::default(), Recipient::default());
            self.requests.remove(number);
        }
        Ok(())
    }

    /// Tells the planner how a request has ended, if no device is waited for.
    fn end_unless_awaited(&mut self, number: u32, refused: Option<Nanos>) {
        let request = &self.requests[number];
        if request.is_awaited() {
            return;
        }
        let (io, sent) = (request.io, request.sent);
        let slot = &self.slots[io.member.index()];
        let is_replaced = !request.own.device.as_ref().is_some_and(|device| slot.has(device));
        let outcome = match refused {
            Some(expected_wait) => Some(Outcome::Refused { expected_wait }),
            None if self.holds(number) => Some(Outcome::Done),
            // What the member is now has the data: it is asked again.
            None if is_replaced && request.op == Op::Read => None,
            None => Some(Outcome::Error),
        };
        self.planner.ended(self.now, io, sent, outcome);
    }

    /// Does not wait any more for a device, which has failed. It may answer in seconds, or never: what it
    /// was asked for has buffers of its own, and nothing is read from it or expected of it.
    pub(super) fn give_up(&mut self, device: &Arc<MemberDevice>) -> Result<(), Fatal> {
        self.keeper.give_up(device);
        let waits = |one: &Recipient| one.is_awaited && one.is(device);
        let is_its = |request: &MemberRequest| waits(&request.own) || waits(&request.twin);
        while let Some(number) = self.requests.find(is_its) {
            let request = &mut self.requests[number];
            for recipient in [&mut request.own, &mut request.twin] {
                recipient.is_awaited &= !recipient.is(device);
            }
            self.end_unless_awaited(number, None);
            self.carry_out()?;
        }
        self.give_up_logs(device)?;
        let Some(end) = self.windows.give_up(device) else { return Ok(()) };
        self.tasks.abandon_window();
        match end {
            End::Now => self.window_done(WindowDone::default()),
            End::Soon => Ok(()),
        }
    }

    /// Writes the zeroes that a device does not make without data: one that was taken in later, say. False
    /// if it has been let go of.
    fn write_zeroes(&mut self, tag: u64) -> Result<bool, Fatal> {
        let request = &self.requests[tag as u32];
        let (offset, length) = (request.offset, request.length as u32);
        let recipient = if tag & TAG_TWIN == 0 { &request.own } else { &request.twin };
        let device = recipient.device.clone().expect("it has answered");
        let place = self.place_of(&device).filter(|_| recipient.is_awaited);
        let Some(place) = place else { return Ok(false) };
        let mut buffer = self.buffers.take(length as usize).map_err(Fatal::Memory)?;
        buffer.content(length as usize).fill(0);
        let offset = self.slots[place].data_offset + offset;
        self.give(Arc::clone(&device), Io::Write { offset, length, buffer }, tag)?;
        self.count_answered(&device);
        Ok(true)
    }

    /// Whether the member has what it was asked for. One that was replaced meanwhile has what its
    /// replacement has.
    fn holds(&self, number: u32) -> bool {
        let request = &self.requests[number];
        let slot = &self.slots[request.io.member.index()];
        let has = |one: &Recipient| one.device.as_ref().is_some_and(|device| slot.has(device));
        match request.twin.device {
            _ if has(&request.own) || request.op == Op::Read => request.own.is_done,
            Some(_) if has(&request.twin) => request.twin.is_done,
            // What is there now has not got to the stripe yet.
            _ => true,
        }
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
        let corrections = self.slots[role].counted.corrections(self.now, CORRECTIONS_WITHIN);
        if corrections > MOST_CORRECTIONS {
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
        self.given_up.extend(self.slots[role].device.clone());
        self.tasks.give_up_rebuild(role);
        if self.degraded() >= self.redundancy() {
            self.tasks.cut_check();
        }
        if self.has_failed() {
            // With the superblocks as they are the array can be assembled again, with what was
            // flushed: its members may be there again then.
            warn(format_args!(
                "too many members have failed: the array is not written to any more"
            ));
            return;
        }
        if self.redundancy() > 0 {
            let ranges = self.metadata.unsettle();
            self.mark(&ranges);
            self.failure = Some(self.metadata.forget(role, DeviceRole::Faulty));
        }
        if state == SlotState::Active {
            self.lost_unsynced(role);
        }
        self.replacement_takes_over(role);
    }

    /// Bits of these ranges are set again.
    pub(super) fn mark(&self, ranges: &[Range<u64>]) {
        let mut regions = self.shared.regions();
        ranges.iter().for_each(|range| regions.mark(range));
    }

    /// Of a member that is lost it may be wrong what is computed where the members may differ.
    fn lost_unsynced(&mut self, role: usize) {
        let mut regions = self.shared.regions();
        let in_doubt = doubt::bytes(&self.layout, |one| one == role, regions.unsynced(), None);
        if self.degraded() >= self.redundancy() {
            regions.set_all_synced();
        }
        drop(regions);
        if let Some(line) = doubt::line(in_doubt) {
            warn(format_args!("{line}"));
            self.in_doubt += in_doubt;
            // With partial parity logs what is not equal is told from the logs.
            self.doubts = self.logs.is_none();
        }
    }

    /// A device is not used any more, whatever it is now.
    pub(crate) fn fail_device(&mut self, device: &Arc<MemberDevice>, why: String) {
        match self.place_of(device) {
            Some(place) if place < self.layout.members() => self.fail(place, why),
            Some(place) => self.fail_extra(place, why),
            None => {}
        }
    }
}
