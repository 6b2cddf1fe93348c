//! The decision about one read: forecast, page cache, admission limiter, in this order. The
//! cheap steps that most reads need come first: a read in time costs no system call. A read
//! whose deadline only memory can keep is decided on before, by memory alone (memory.rs).

use std::io;
use std::mem::MaybeUninit;

use trimtab_io::Nanos;
use trimtab_predict::Model;

use crate::cached::{self, Held};
use crate::error::{Refusal, RefusalCause, Urgency};
use crate::figures::FailOpenReason;
use crate::forecast::{Decision, Detail, Outlook, Query, compare, duration, outlook, pages};
use crate::lane::Lane;
use crate::limiter::Ruling;
use crate::memory::InMemory;
use crate::probes::Part;
use crate::reader::Reader;
use crate::token::{AdmissionReason, ReadToken, Scored};
use trimtab_block::{NoDrive, Place};

/// A request to the reader.
pub(super) enum ReadRequest<'b> {
    /// Data, into this buffer.
    Data(&'b mut [MaybeUninit<u8>]),
    /// Admission of a read of this many bytes, which the caller sends.
    Length(u64),
}

/// Whether the kernel can read this range: the end of a read is a signed 64-bit number.
pub(crate) fn is_in_range(offset: u64, length: u64) -> bool {
    offset.checked_add(length).is_some_and(|end| i64::try_from(end).is_ok())
}

impl ReadRequest<'_> {
    /// The same request, for a part of the decision.
    pub(super) const fn reborrow(&mut self) -> ReadRequest<'_> {
        match self {
            Self::Data(buffer) => ReadRequest::Data(buffer),
            Self::Length(length) => ReadRequest::Length(*length),
        }
    }

    pub(super) const fn length(&self) -> u64 {
        match self {
            Self::Data(buffer) => buffer.len() as u64,
            Self::Length(length) => *length,
        }
    }
}

impl Lane {
    fn admit_unforecast(&self, reason: FailOpenReason) -> Admission<'_> {
        self.counters().failed_open(reason);
        Admission::Send(self.token(AdmissionReason::NoForecast, None))
    }

    /// Whether a read that would be late is sent nevertheless, or the cause of its refusal.
    fn rule(&self, part: Part, now: Nanos, number: u64) -> Result<AdmissionReason, RefusalCause> {
        let counters = self.counters();
        match self.limiter.rule(part, now, number, &self.outstanding.forced) {
            Ruling::Refuse => {
                counters.refused();
                return Err(RefusalCause::Late);
            }
            Ruling::RefuseBounded => {
                counters.refused();
                counters.bounded();
                return Err(RefusalCause::Outstanding);
            }
            Ruling::Probe => counters.probed(),
            Ruling::Sample => counters.sampled(),
            Ruling::OverCap => counters.over_cap(),
        }
        Ok(AdmissionReason::Forced)
    }
}

/// The decision on a read that is not refused.
pub(super) enum Admission<'a> {
    /// To be sent.
    Send(ReadToken<'a>),
    /// Not to be sent; if data were requested, this many bytes have been read.
    Done(usize),
}

impl Reader {
    /// Decides on a read at this time, and counts it. Its urgency is not [`Urgency::Auto`].
    pub(super) fn decide(
        &self,
        wanted: ReadRequest<'_>,
        offset: u64,
        urgency: Urgency,
        now: Nanos,
    ) -> Result<Admission<'_>, Refusal> {
        let length = wanted.length();
        let (lane, found) = self.lane(offset, length, now);
        let counters = lane.counters();
        if urgency == Urgency::None {
            counters.without_deadline();
            return Ok(Admission::Send(lane.token(AdmissionReason::NoForecast, None)));
        }
        let number = counters.with_deadline();
        lane.limiter.asked(number, now);
        if !is_in_range(offset, length) {
            // The kernel reports the error.
            return Ok(lane.admit_unforecast(FailOpenReason::Unsure));
        }
        if self.has_too_many_abandoned(lane, now) {
            return self.held_or_refused(lane, found, wanted, offset);
        }
        let wanted = match self.expected_in_memory(lane, wanted, offset, urgency, number) {
            InMemory::Decided(decision) => return decision,
            InMemory::Undecided(wanted) => wanted,
        };
        let detail = Detail::of(urgency);
        let (outlook, place, model) = match self.outlook(lane, found, length, offset, now, detail) {
            Ok(known) => known,
            Err(reason) => return Ok(lane.admit_unforecast(reason)),
        };
        let label = &model.card.label;
        let scored = Scored { label, sent: now, pages: pages(length), load: outlook.load };
        match compare(&outlook.forecast, urgency, label) {
            Decision::InTime => {
                lane.limiter.sent(outlook.part, now);
                return Ok(Admission::Send(lane.token(AdmissionReason::InTime, Some(scored))));
            }
            Decision::Unsure => return Ok(lane.admit_unforecast(FailOpenReason::Unsure)),
            Decision::TooLate => {}
        }
        if let Some(leave) = self.serve_without_drive(lane, wanted, offset, place) {
            return Ok(leave);
        }
        match lane.rule(outlook.part, now, number) {
            Ok(reason) => Ok(Admission::Send(lane.token(reason, Some(scored)))),
            Err(cause) => Err(Refusal { expected_wait: duration(outlook.forecast.wait), cause }),
        }
    }

    /// Whether the drive has the maximum of abandoned reads. Independent of the model and its
    /// forecasts.
    fn has_too_many_abandoned(&self, lane: &Lane, now: Nanos) -> bool {
        let abandoned = lane.outstanding.abandoned(now);
        abandoned > 0 && (abandoned >= self.most_abandoned || lane.outstanding.helpers.are_stuck())
    }

    /// Decides on a read that is not to be sent to the drive.
    fn held_or_refused<'a>(
        &self,
        lane: &'a Lane,
        found: Result<Place, NoDrive>,
        wanted: ReadRequest<'_>,
        offset: u64,
    ) -> Result<Admission<'a>, Refusal> {
        let is_hole = found == Ok(Place::Hole);
        let held = if is_hole || self.is_direct { Ok(None) } else { self.held(wanted, offset) };
        if is_hole || matches!(held, Ok(Some(_))) {
            lane.counters().cached();
        }
        match held {
            _ if is_hole => Ok(Admission::Send(lane.token(AdmissionReason::NoForecast, None))),
            Ok(Some(bytes)) => Ok(Admission::Done(bytes)),
            Ok(None) | Err(_) => {
                lane.counters().refused();
                lane.counters().bounded();
                Err(Refusal { expected_wait: None, cause: RefusalCause::Outstanding })
            }
        }
    }

    /// The forecast for a read, if there can be one, and its place on the drive.
    pub(super) fn outlook<'a>(
        &self,
        lane: &'a Lane,
        found: Result<Place, NoDrive>,
        length: u64,
        offset: u64,
        now: Nanos,
        detail: Detail,
    ) -> Result<(Outlook, Place, &'a Model), FailOpenReason> {
        if !is_in_range(offset, length) {
            return Err(FailOpenReason::Unsure);
        }
        let model = lane.drive_state.model().ok_or(FailOpenReason::NoModel)?;
        let place = match found {
            Ok(place) => place,
            Err(NoDrive::SeveralDrives) => return Err(FailOpenReason::SeveralDrives),
            Err(NoDrive::UnknownMapping) => return Err(FailOpenReason::UnknownMapping),
            // A state that the caller gave is assumed to be that of the drive read from.
            Err(NoDrive::NoDisk) => Place::At(offset),
        };
        let ready = lane.drive_state.at(now)?;
        let Some(ready) = ready.as_ref() else { return Err(FailOpenReason::NotTracked) };
        let ask = Query { trained: &model.trained, drive: &ready.drive, now, length };
        let outlook = outlook(&ask, place, lane.size, detail);
        outlook.map(|outlook| (outlook, place, &**model)).ok_or(FailOpenReason::Unsure)
    }

    /// Serves a read without the drive, if possible: from the page cache, or because it lies
    /// in a hole. If the kernel does not report what is cached, the read is admitted.
    fn serve_without_drive<'a>(
        &self,
        lane: &'a Lane,
        wanted: ReadRequest<'_>,
        offset: u64,
        place: Place,
    ) -> Option<Admission<'a>> {
        if place == Place::Hole {
            lane.counters().cached();
            return Some(Admission::Send(lane.token(AdmissionReason::NoForecast, None)));
        }
        if self.is_direct {
            return None;
        }
        match self.held(wanted, offset) {
            Ok(Some(bytes)) => {
                lane.counters().cached();
                Some(Admission::Done(bytes))
            }
            // The drive is delivering it, or the cache has dropped it in the meantime.
            Ok(None) => None,
            Err(_) => Some(lane.admit_unforecast(FailOpenReason::Unsure)),
        }
    }

    /// Reads from the page cache; `None` if it does not hold all of the read.
    ///
    /// # Errors
    /// The kernel does not report what is cached.
    pub(super) fn held(&self, wanted: ReadRequest<'_>, offset: u64) -> io::Result<Option<usize>> {
        if self.is_missing_in_cache(wanted.length(), offset) {
            return Ok(None);
        }
        match wanted {
            ReadRequest::Data(buffer) => self.read_cached(buffer, offset),
            ReadRequest::Length(length) => {
                self.holds_ends(length, offset).map(|is| is.then_some(0))
            }
        }
    }

    /// Whether the page cache certainly lacks part of a read.
    pub(super) fn is_missing_in_cache(&self, length: u64, offset: u64) -> bool {
        if cached::is_held(&self.file, offset, length) != Held::No {
            return false;
        }
        // There are no pages beyond the end of a file, where a read may end.
        self.length_to_end(length, offset)
            .is_none_or(|within| cached::is_held(&self.file, offset, within) == Held::No)
    }

    /// Reads from the page cache to the end of the buffer or of the file; `None` if it does
    /// not hold all of that.
    fn read_cached(
        &self,
        buffer: &mut [MaybeUninit<u8>],
        offset: u64,
    ) -> io::Result<Option<usize>> {
        let read = match cached::read(&self.file, buffer, offset)? {
            // A page at the end of the file is filled only up to that end.
            None => match self.length_to_end(buffer.len() as u64, offset) {
                Some(within) => cached::read(&self.file, &mut buffer[..within as usize], offset)?,
                None => None,
            },
            read => read,
        };
        match read {
            // The rest would come from the drive, which has not been decided on.
            Some(bytes) if bytes < buffer.len() && !self.is_end(offset + bytes as u64)? => Ok(None),
            read => Ok(read),
        }
    }

    /// Whether the file ends here, as far as that is known without the drive. Devices do not
    /// report their length as files do.
    fn is_end(&self, offset: u64) -> io::Result<bool> {
        Ok(cached::read(&self.file, &mut [MaybeUninit::uninit()], offset)? == Some(0))
    }

    /// Whether the page cache holds the first and the last byte of a read.
    fn holds_ends(&self, length: u64, offset: u64) -> io::Result<bool> {
        let last = offset.saturating_add(length.saturating_sub(1));
        let holds =
            |at| self.read_cached(&mut [MaybeUninit::uninit()], at).map(|read| read.is_some());
        Ok(holds(offset)? && (last / 4096 == offset / 4096 || holds(last)?))
    }

    /// The length of a read up to the end of the file, if the file ends within it.
    pub(super) fn length_to_end(&self, length: u64, offset: u64) -> Option<u64> {
        // The last known length is usually sufficient, without a system call.
        if self.location.length()? >= offset.saturating_add(length) {
            return None;
        }
        let within = self.file.metadata().ok()?.len().saturating_sub(offset);
        (within < length).then_some(within)
    }
}
