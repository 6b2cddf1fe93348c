//! The decision about one read: forecast, page cache, admission limiter, in this order. The
//! cheap steps that most reads need come first: a read in time costs no system call.

use std::io;
use std::mem::MaybeUninit;

use trimtab_io::Nanos;
use trimtab_predict::Model;

use crate::cached::{self, Held};
use crate::error::{Refusal, RefusalCause, Urgency};
use crate::figures::FailOpenReason;
use crate::forecast::{Decision, Detail, Outlook, Query, duration, judge, outlook, pages};
use crate::lane::Lane;
use crate::limiter::Ruling;
use crate::probes::Part;
use crate::reader::Reader;
use crate::token::{AdmissionReason, ReadToken, Scored};
use trimtab_block::{NoDrive, Place};

/// What is asked for.
pub(super) enum ReadRequest<'b> {
    /// Data, in this buffer.
    Data(&'b mut [MaybeUninit<u8>]),
    /// Admission of a read of this many bytes, which the caller sends.
    Length(u64),
}

/// Whether the kernel can read there: the end of a read is a signed number of 64 bits.
pub(crate) fn is_in_range(offset: u64, length: u64) -> bool {
    offset.checked_add(length).is_some_and(|end| i64::try_from(end).is_ok())
}

impl ReadRequest<'_> {
    const fn length(&self) -> u64 {
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

    /// Whether a read that would be late is sent all the same, or the cause of its refusal.
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
            Ruling::OverCap => counters.over_ceiling(),
        }
        Ok(AdmissionReason::Forced)
    }
}

/// The answer to a request that is not refused.
pub(super) enum Admission<'a> {
    /// It is to be sent.
    Send(ReadToken<'a>),
    /// It need not be sent; if data were asked for, this many bytes of them are there.
    Done(usize),
}

impl Reader {
    /// Decides on a read at this time, and counts it.
    pub(super) fn ask(
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
            counters.plain();
            return Ok(Admission::Send(lane.token(AdmissionReason::NoForecast, None)));
        }
        let number = counters.asked();
        lane.limiter.asked(number, now);
        if !is_in_range(offset, length) {
            // The kernel says what is wrong with it.
            return Ok(lane.admit_unforecast(FailOpenReason::Unsure));
        }
        if self.has_too_many_abandoned(lane, now) {
            return self.held_or_refused(lane, found, wanted, offset);
        }
        let detail = Detail::of(urgency);
        let (outlook, place, model) = match self.outlook(lane, found, length, offset, now, detail) {
            Ok(known) => known,
            Err(reason) => return Ok(lane.admit_unforecast(reason)),
        };
        let label = &model.card.label;
        let scored = Scored { label, sent: now, pages: pages(length), load: outlook.load };
        match judge(&outlook.forecast, urgency, label) {
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

    /// Whether the drive has as many abandoned reads as it may. That is known without a
    /// model, and holds whatever a model forecasts.
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

    /// What is expected of a read, if something may be, and where on the drive it goes.
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
            // A state that was given is taken for that of what is read.
            Err(NoDrive::NoDisk) => Place::At(offset),
        };
        let ready = lane.drive_state.at(now)?;
        let Some(ready) = ready.as_ref() else { return Err(FailOpenReason::NotKept) };
        let ask = Query { trained: &model.trained, drive: &ready.drive, now, length };
        let outlook = outlook(&ask, place, lane.size, detail);
        outlook.map(|outlook| (outlook, place, &**model)).ok_or(FailOpenReason::Unsure)
    }

    /// Serves a read without the drive, where possible: from the page cache, or because it
    /// lies in a hole. Where the kernel does not tell, the read is admitted.
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
            // The drive is delivering it, or the cache has just dropped it.
            Ok(None) => None,
            Err(_) => Some(lane.admit_unforecast(FailOpenReason::Unsure)),
        }
    }

    /// Reads from the page cache; none if it does not hold all of the read.
    ///
    /// # Errors
    /// The kernel does not tell.
    fn held(&self, wanted: ReadRequest<'_>, offset: u64) -> io::Result<Option<usize>> {
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

    /// Whether the page cache is known to lack some of a read.
    pub(super) fn is_missing_in_cache(&self, length: u64, offset: u64) -> bool {
        if cached::is_held(&self.file, offset, length) != Held::No {
            return false;
        }
        // There are no pages beyond the end of a file, where a read may end.
        self.length_to_end(length, offset)
            .is_none_or(|within| cached::is_held(&self.file, offset, within) == Held::No)
    }

    /// Reads what the page cache holds to the end of the buffer or of the file; none if it
    /// does not hold all of that.
    fn read_cached(
        &self,
        buffer: &mut [MaybeUninit<u8>],
        offset: u64,
    ) -> io::Result<Option<usize>> {
        let read = match cached::read(&self.file, buffer, offset)? {
            // A page may be filled no further than the file goes.
            None => match self.length_to_end(buffer.len() as u64, offset) {
                Some(within) => cached::read(&self.file, &mut buffer[..within as usize], offset)?,
                None => None,
            },
            read => read,
        };
        match read {
            // The rest would come from the drive, which is not decided yet.
            Some(bytes) if bytes < buffer.len() && !self.is_end(offset + bytes as u64)? => Ok(None),
            read => Ok(read),
        }
    }

    /// Whether what is read ends here, as far as can be said without the drive. A device
    /// does not tell its length as a file does.
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

    /// How much of a read there is until the file ends, if it ends within it.
    fn length_to_end(&self, length: u64, offset: u64) -> Option<u64> {
        // Mostly it is known to go on, and there is no need for a system call.
        if self.location.length()? >= offset.saturating_add(length) {
            return None;
        }
        let within = self.file.metadata().ok()?.len().saturating_sub(offset);
        (within < length).then_some(within)
    }
}
