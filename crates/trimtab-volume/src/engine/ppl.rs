//! Writes of parity arrays with partial parity logs: logged before they begin.

use std::sync::{Arc, Weak};

use trimtab_array::Level;
use trimtab_io::Op;
use trimtab_uring::{Finished, Io};

use super::members::at_once;
use super::{Engine, Fatal, SlotState, TAG_LOG};
use crate::logs::Entry;
use crate::member::MemberDevice;

/// A request of a member's log.
pub(super) struct LogRequest {
    /// The member with the log.
    member: usize,
    kind: Kind,
    /// The device that was asked. That does not keep open what has been let go of.
    device: Weak<MemberDevice>,
    /// It is waited for: the device has not been given up.
    is_awaited: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// The log is written.
    Log,
    /// A device flushes behind the stripes of the log.
    Flush,
}

impl Engine {
    /// A part's strips have been computed. If it changes parity it is logged first.
    pub(super) fn computed(&mut self, part: u32) -> Result<(), Fatal> {
        let view = self.planner.part(part);
        let stripe = view.piece.start.stripe;
        let is_logged = view.op == Op::Write && !view.is_refresh && self.logs.is_some();
        let parity = self.layout.p_member(stripe).filter(|_| is_logged);
        let Some(member) = parity.filter(|_| self.layout.level() == Level::Raid5) else {
            self.planner.computed(self.now, part);
            return Ok(());
        };
        let user = &self.users[view.request.0 as u32].data;
        let mut entries = Vec::with_capacity(view.rows().len());
        for number in 0..view.rows().len() {
            let partial = self.content.partial_parity(part, &view, number, user);
            entries.push(Entry {
                data_offset: partial.data_offset,
                chunks: partial.chunks,
                bytes: view.rows()[number].length,
                partial: partial.xor,
            });
        }
        if let Some(logs) = &mut self.logs {
            logs.push(member, part, entries);
        }
        self.log_next(member)
    }

    /// Writes a member's next log, if it is time for one.
    fn log_next(&mut self, member: usize) -> Result<(), Fatal> {
        let slot = &self.slots[member];
        let is_usable = matches!(slot.state, SlotState::Active | SlotState::Rebuilding);
        let device = slot.device.clone().filter(|_| is_usable);
        let Some(logs) = &mut self.logs else { return Ok(()) };
        let now = device.as_ref().map(Arc::downgrade);
        let is_same = match (&self.logged_on[member], &now) {
            (Some(before), Some(now)) => before.ptr_eq(now),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            logs.restart(member);
        }
        let Some(log) = logs.next(member) else { return Ok(()) };
        self.logged_on[member] = now;
        let area = self.metadata.superblock(member).and_then(trimtab_md::Superblock::ppl_at);
        let (Some(device), Some((start, _))) = (device, area) else {
            // Its parity is not written either.
            return self.log_goes_on(member, Kind::Log);
        };
        let length = log.bytes.len() as u32;
        let mut buffer = self.buffers.take(log.bytes.len()).map_err(Fatal::Memory)?;
        buffer.content(log.bytes.len()).copy_from_slice(&log.bytes);
        let what = Io::WriteThrough { offset: start + log.at, length, buffer };
        self.log_io(member, Kind::Log, &device, what)
    }

    fn log_io(
        &mut self,
        member: usize,
        kind: Kind,
        device: &Arc<MemberDevice>,
        what: Io,
    ) -> Result<(), Fatal> {
        let request = LogRequest { member, kind, device: Arc::downgrade(device), is_awaited: true };
        let tag = TAG_LOG | u64::from(self.log_requests.insert(request));
        self.count_sent(device);
        if device.in_memory {
            let finished = at_once(device.file(), what, tag);
            self.at_once.push_back(finished);
            return Ok(());
        }
        let file: trimtab_uring::Watched = Arc::<MemberDevice>::clone(device);
        Ok(self.ring.push(&file, what, tag)?)
    }

    fn may_be_written(&mut self, member: usize) -> Result<(), Fatal> {
        let parts = self.logs.as_mut().map(|logs| logs.logged(member)).unwrap_or_default();
        parts.into_iter().for_each(|part| self.planner.computed(self.now, part));
        Ok(())
    }

    /// A log has been written, or a flush behind its stripes has been answered.
    pub(super) fn log_done(&mut self, finished: Finished) -> Result<(), Fatal> {
        let number = finished.tag as u32;
        let LogRequest { member, kind, is_awaited, .. } = self.log_requests[number];
        let device = self.log_requests[number].device.upgrade();
        self.log_requests.remove(number);
        if let Some(buffer) = finished.buffer {
            self.buffers.give(buffer);
        }
        device.iter().for_each(|device| self.count_answered(device));
        if !is_awaited {
            return Ok(());
        }
        if let (Err(errno), Some(device)) = (finished.outcome, device) {
            let why = match kind {
                Kind::Log => "its partial parity log cannot be written",
                // What the next log overwrites may not be there.
                Kind::Flush => "it cannot flush behind a log",
            };
            self.fail_device(&device, format!("{why}: {errno}"));
        }
        self.log_goes_on(member, kind)
    }

    /// What a log's request was for goes on: but not before the superblocks say that a member failed. Data
    /// would be written without the log, or the log be overwritten, and after a crash that member
    /// would be taken for a current one.
    fn log_goes_on(&mut self, member: usize, kind: Kind) -> Result<(), Fatal> {
        if self.failure.is_some() {
            self.logs_waiting.push_back((member, kind));
            return Ok(());
        }
        match kind {
            Kind::Log => self.may_be_written(member),
            Kind::Flush => {
                if let Some(logs) = &mut self.logs {
                    logs.flushed(member);
                }
                self.log_next(member)
            }
        }
    }

    /// Goes on with logs that waited for the superblocks.
    pub(super) fn logs_go_on(&mut self) -> Result<(), Fatal> {
        while self.failure.is_none()
            && let Some((member, kind)) = self.logs_waiting.pop_front()
        {
            self.log_goes_on(member, kind)?;
            self.carry_out()?;
        }
        Ok(())
    }

    /// Whether a request of a log is waited for.
    pub(super) fn logs_are_awaited(&self) -> bool {
        self.log_requests.find(|request| request.is_awaited).is_some()
    }

    /// Logs do not wait any more for a device, which has failed.
    pub(super) fn give_up_logs(&mut self, device: &Arc<MemberDevice>) -> Result<(), Fatal> {
        let device = Arc::downgrade(device);
        let is_its = |request: &LogRequest| request.is_awaited && request.device.ptr_eq(&device);
        while let Some(number) = self.log_requests.find(is_its) {
            let request = &mut self.log_requests[number];
            request.is_awaited = false;
            let (member, kind) = (request.member, request.kind);
            self.log_goes_on(member, kind)?;
            self.carry_out()?;
        }
        Ok(())
    }

    /// A part is over: the next log of its member waits for it.
    pub(super) fn logged_part_done(&mut self, part: u32) -> Result<(), Fatal> {
        let ended = self.logs.as_mut().and_then(|logs| logs.part_done(part));
        let Some(member) = ended else { return Ok(()) };
        let devices = self.members().iter().filter(|slot| slot.state.is_used());
        let devices = devices.filter_map(|slot| slot.device.clone());
        let volatile: Vec<_> = devices.filter(|device| device.is_volatile).collect();
        // Without flushes the next log would replace this one at once (`log_goes_on`).
        let waits = volatile.is_empty() && self.failure.is_some();
        if let Some(logs) = &mut self.logs {
            logs.flushing(member, volatile.len().max(usize::from(waits)));
        }
        if waits {
            self.logs_waiting.push_back((member, Kind::Flush));
        }
        for device in volatile {
            self.log_io(member, Kind::Flush, &device, Io::Flush)?;
        }
        self.log_next(member)
    }
}
