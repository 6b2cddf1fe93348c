//! The read itself, after the decision: with a deadline so that the caller can abandon it,
//! otherwise as `pread(2)`.

use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;

use rustix::io::Errno;
use trimtab_io::{Nanos, monotonic};

use crate::admission::{Admission, ReadRequest, is_in_range};
use crate::cached;
use crate::detachable::{self, Ask, Came, LONGEST, Left};
use crate::error::{ReadError, Urgency};
use crate::outstanding::Outstanding;
use crate::reader::Reader;
use crate::token::{AdmissionReason, ReadToken};

/// A read that returned no data.
enum Failed {
    Io(io::Error),
    /// The deadline has passed; the read that the drive still has, if any.
    Late(Option<Arc<dyn Left>>),
}

/// The time limit of a read.
struct Limit {
    asked: Nanos,
    /// Not automatic, once the read is admitted.
    urgency: Urgency,
}

impl Limit {
    fn until(&self) -> Option<Nanos> {
        self.urgency.until(self.asked)
    }
}

impl Reader {
    /// Reads into the buffer from this offset (bytes), as `pread(2)` does. Returns the number
    /// of bytes.
    ///
    /// With [`Urgency::Deadline`] it returns by the deadline, plus the time that the machine
    /// takes to schedule the thread. The buffer is not written to after that.
    ///
    /// # Errors
    /// The read was refused, and nothing was sent to the drive; or it was sent, and missed its
    /// deadline or failed.
    pub fn read_at(
        &self,
        buffer: &mut [u8],
        offset: u64,
        urgency: Urgency,
    ) -> Result<usize, ReadError> {
        self.read_uninit_at(as_uninit(buffer), offset, urgency)
    }

    /// [`read_at`](Self::read_at) into memory that need not be initialised. The bytes that
    /// were read, from the beginning on, are initialised.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn read_uninit_at(
        &self,
        buffer: &mut [MaybeUninit<u8>],
        offset: u64,
        urgency: Urgency,
    ) -> Result<usize, ReadError> {
        self.read_within(buffer, offset, urgency).map(|(bytes, _)| bytes)
    }

    /// Reads, and returns how long all of the read may take, and since when.
    fn read_within(
        &self,
        buffer: &mut [MaybeUninit<u8>],
        offset: u64,
        urgency: Urgency,
    ) -> Result<(usize, Limit), ReadError> {
        let mut limit = Limit { asked: asked(urgency), urgency };
        let token = match self.ask(ReadRequest::Data(buffer), offset, urgency, limit.asked)? {
            Admission::Send(token) => token,
            Admission::Done(bytes) => return Ok((bytes, limit)),
        };
        if let Some(within) = token.auto_deadline() {
            limit.urgency = Urgency::Deadline(within);
        }
        match self.fetch(buffer, offset, limit.until(), token.drive()) {
            Ok(bytes) => {
                self.saw(offset, bytes as u64);
                token.finish();
                Ok((bytes, limit))
            }
            Err(failed) => Err(failed.end(token, limit.urgency)),
        }
    }

    /// Fills the buffer from this offset (bytes). The rest of a short read is not decided on
    /// again: the drive has responded. The deadline is for all of it.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); `UnexpectedEof` if the file ends earlier.
    pub fn read_exact_at(
        &self,
        buffer: &mut [u8],
        offset: u64,
        urgency: Urgency,
    ) -> Result<(), ReadError> {
        let (mut done, mut limit) = self.read_within(as_uninit(buffer), offset, urgency)?;
        if limit.urgency == Urgency::Auto && done < buffer.len() {
            // The beginning came from memory.
            limit.urgency = Urgency::Deadline(self.auto_deadline());
        }
        while done < buffer.len() {
            let at = offset + done as u64;
            let (lane, _) = self.lane(at, (buffer.len() - done) as u64, Nanos::ZERO);
            let rest = as_uninit(&mut buffer[done..]);
            match self.fetch(rest, at, limit.until(), &lane.outstanding) {
                Ok(bytes) if bytes > 0 => done += bytes,
                Err(late @ Failed::Late(_)) => {
                    let token = lane.token(AdmissionReason::NoForecast, None);
                    return Err(late.end(token, limit.urgency));
                }
                Err(Failed::Io(e)) if !self.is_end_of_direct(at) => return Err(e.into()),
                Ok(_) | Err(_) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            }
        }
        Ok(())
    }

    fn fetch(
        &self,
        buffer: &mut [MaybeUninit<u8>],
        offset: u64,
        until: Option<Nanos>,
        drive: &Outstanding,
    ) -> Result<usize, Failed> {
        match until {
            Some(until) if is_in_range(offset, buffer.len() as u64) => {
                self.fetch_until(buffer, offset, until, drive)
            }
            // For io_uring the largest offset means the file's own position.
            _ => self.pread(buffer, offset).map_err(Failed::Io),
        }
    }

    /// `pread(2)`, repeated if a signal interrupts it: the decision to send the read stands.
    fn pread(&self, buffer: &mut [MaybeUninit<u8>], offset: u64) -> io::Result<usize> {
        loop {
            match rustix::io::pread(&self.file, &mut *buffer, offset) {
                Err(Errno::INTR) => {}
                Ok((read, _)) => return Ok(read.len()),
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn fetch_until(
        &self,
        buffer: &mut [MaybeUninit<u8>],
        offset: u64,
        until: Nanos,
        drive: &Outstanding,
    ) -> Result<usize, Failed> {
        // The queue of a drive that stalls may be full.
        let may_block = drive.has_abandoned();
        let mut done = self.fetch_cached(buffer, offset, may_block);
        while done < buffer.len() {
            let piece = (buffer.len() - done).min(LONGEST);
            let ask = Ask { file: &self.file, offset: offset + done as u64, until, may_block };
            let into = &mut buffer[done..done + piece];
            let sent = monotonic();
            match detachable::read(&ask, into, &drive.helpers) {
                Came::Read(Ok(bytes)) => {
                    done += bytes;
                    drive.floor.completed(monotonic().since(sent));
                    if bytes < piece {
                        break;
                    }
                }
                // Like `pread(2)`: returns the bytes read so far first.
                Came::Read(Err(_)) if done > 0 => break,
                Came::Read(Err(e)) => return Err(Failed::Io(e)),
                Came::Late(left) => {
                    // Without one it was never sent.
                    if left.is_some() {
                        drive.floor.abandoned(until.since(sent));
                    }
                    return Err(Failed::Late(left));
                }
            }
        }
        Ok(done)
    }

    /// Copies the beginning from the page cache, as much as it holds. This may start readahead
    /// in the kernel, which blocks if the drive's queue is full: then the cache is tested
    /// first.
    fn fetch_cached(&self, buffer: &mut [MaybeUninit<u8>], offset: u64, may_block: bool) -> usize {
        let is_of_use = !self.is_direct
            && (!may_block || !self.is_missing_in_cache(buffer.len() as u64, offset));
        // If it fails, the read itself reports the error.
        let read = is_of_use.then(|| cached::read(&self.file, buffer, offset));
        read.and_then(Result::ok).flatten().unwrap_or(0)
    }

    /// Whether a file that is read past the page cache ends here. Reading on would be an
    /// invalid call rather than the end, because this offset is not aligned.
    fn is_end_of_direct(&self, offset: u64) -> bool {
        let is_end = |metadata: std::fs::Metadata| metadata.is_file() && metadata.len() <= offset;
        self.is_direct && self.file.metadata().is_ok_and(is_end)
    }
}

impl Failed {
    fn end(self, token: ReadToken<'_>, urgency: Urgency) -> ReadError {
        match (self, urgency) {
            (Self::Late(left), Urgency::Deadline(within)) => {
                token.abandon(left);
                ReadError::TimedOut(within)
            }
            (Self::Late(_), _) => unreachable!("only a deadline ends"),
            (Self::Io(e), _) => e.into(),
        }
    }
}

/// The same memory, write-only: nothing here makes initialised bytes uninitialised.
fn as_uninit(buffer: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: the same layout and lifetime. It is only ever written with bytes that were read.
    unsafe { std::slice::from_raw_parts_mut(start, length) }
}

/// The start time of a read; without a deadline no clock is read.
fn asked(urgency: Urgency) -> Nanos {
    if urgency == Urgency::None { Nanos::ZERO } else { monotonic() }
}
