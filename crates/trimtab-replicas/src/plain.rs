//! Reads without a ring: one replica at a time, where nothing can be hedged.
//!
//! Each read has a time limit, except for one at the last replica without a deadline, so a
//! replica that stalls is left for the next one. `trimtab-read` keeps the limit, with helper
//! threads where io_uring is not available.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use rustix::io::Errno;
use trimtab_block::DirectBuffer;
use trimtab_io::{Nanos, monotonic};
use trimtab_read::{ReadError as OneError, Urgency};
use trimtab_steer::Replica;

use crate::error::ReadError;
use crate::figures::count;
use crate::set::{Set, copy};
use crate::thread::{Wanted, is_of_replica};

/// The time limit of a read without a deadline, except at the last replica.
const LIMIT: Nanos = Nanos::from_millis(100);

/// Reads from one replica after the other until one answers, into a buffer of at most the
/// largest request.
pub(crate) fn read(
    set: &Set,
    buffer: &mut [MaybeUninit<u8>],
    wanted: &Wanted,
) -> Result<usize, ReadError> {
    count(&set.shared.counters.plain);
    let all = wanted.order.replicas();
    let mut failed = None;
    let mut timed_out = false;
    for (number, &replica) in all.iter().enumerate() {
        let is_last = number + 1 == all.len();
        let now = monotonic();
        let limit = match wanted.deadline {
            Some(deadline) if now >= deadline => {
                timed_out = true;
                break;
            }
            Some(deadline) if is_last => Some(deadline.since(now)),
            Some(deadline) => Some(Nanos(deadline.since(now).0 / 2)),
            None if is_last => None,
            None => Some(LIMIT),
        };
        match one(set, replica, buffer, wanted.offset, limit) {
            Ok(bytes) => return Ok(bytes),
            Err(OneError::Io(error)) => failed = Some(error),
            Err(OneError::Refused(_) | OneError::TimedOut(_)) => timed_out = true,
        }
    }
    match (wanted.deadline, failed) {
        (Some(deadline), None) if timed_out => {
            let within = deadline.since(wanted.arrival);
            Err(ReadError::TimedOut(Duration::from_nanos(within.0)))
        }
        (_, failed) => Err(failed.unwrap_or_else(|| Errno::TIMEDOUT.into()).into()),
    }
}

/// Reads from one replica, and records what comes of it.
fn one(
    set: &Set,
    replica: Replica,
    buffer: &mut [MaybeUninit<u8>],
    offset: u64,
    limit: Option<Nanos>,
) -> Result<usize, OneError> {
    let (known, counters) = (&set.shared.known, &set.shared.counters);
    let (seen, health) = (&known.seen[replica.index()], &known.health[replica.index()]);
    let sent = monotonic();
    count(&counters.of(replica).sent);
    if seen.sent(sent) {
        health.is_unresponsive(sent);
    }
    let file = &set.files[replica.index()];
    let read = match limit {
        // Into the application's buffer: this thread waits as long as it takes.
        None if is_aligned(buffer, offset, file.alignment) => {
            pread(&file.file, buffer, offset).map_err(OneError::Io)
        }
        limit => through_buffer(set, replica, buffer, offset, limit),
    };
    let ended = monotonic();
    seen.ended(ended, sent, read.is_ok(), true);
    let is_short = |bytes: usize| {
        let left = file.length.saturating_sub(offset);
        (bytes as u64) < left.min(buffer.len() as u64)
    };
    match &read {
        Ok(bytes) if !is_short(*bytes) => {
            health.has_answered();
            count(&counters.of(replica).served);
        }
        Ok(_) => {}
        Err(OneError::Io(error)) => {
            count(&counters.of(replica).errors);
            if is_of_replica(error) {
                health.has_failed(ended);
            }
        }
        Err(OneError::TimedOut(_)) => health.is_unresponsive(ended),
        Err(OneError::Refused(_)) => {}
    }
    read
}

/// Reads into a buffer that has the alignment of direct I/O, and copies the part that was
/// requested.
fn through_buffer(
    set: &Set,
    replica: Replica,
    into: &mut [MaybeUninit<u8>],
    offset: u64,
    limit: Option<Nanos>,
) -> Result<usize, OneError> {
    let alignment = u64::from(set.files[replica.index()].alignment);
    let start = offset / alignment * alignment;
    let skip = (offset - start) as usize;
    let bytes = (skip + into.len()).next_multiple_of(alignment as usize);
    let mut aligned = DirectBuffer::new(bytes)?;
    let whole = aligned.content(bytes);
    let urgency =
        limit.map_or(Urgency::None, |limit| Urgency::Deadline(Duration::from_nanos(limit.0)));
    let read = set.shared.readers[replica.index()].read_at(whole, start, urgency)?;
    let read = read.saturating_sub(skip).min(into.len());
    Ok(copy(&whole[skip..skip + read], into, &set.shared.counters))
}

fn is_aligned(buffer: &[MaybeUninit<u8>], offset: u64, alignment: u32) -> bool {
    let alignment = u64::from(alignment);
    [buffer.as_ptr() as u64, buffer.len() as u64, offset].iter().all(|n| n % alignment == 0)
}

/// `pread(2)`, repeated if a signal interrupts it.
fn pread(file: &std::fs::File, buffer: &mut [MaybeUninit<u8>], offset: u64) -> io::Result<usize> {
    loop {
        match rustix::io::pread(file, &mut *buffer, offset) {
            Err(Errno::INTR) => {}
            Ok((read, _)) => return Ok(read.len()),
            Err(e) => return Err(e.into()),
        }
    }
}
