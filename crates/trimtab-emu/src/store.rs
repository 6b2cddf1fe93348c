//! A drive's content, and its power: what is there after a power cut.
//!
//! A write changes the content at once, and is durable when a flush that came after it is
//! answered. Until then it is in the undo log (undo.rs), by which a power cut takes it
//! away again, or a part of it. A discard takes effect at once, and is never undone; what
//! was written there and not flushed before it may come back, as it may on a real drive.
//! While the power is off every request fails.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use rustix::io::Errno;
use trimtab_io::{LatencyHistogram, Nanos};

use super::content::{Content, Payload};
use super::error::Error;
use super::spec::{Data, Flush, Spec};
use super::undo::{Loss, UndoLog};

/// Content that a power cut can take back.
pub(super) struct Store {
    content: Content,
    /// Whether a flush has to reach the disk below.
    durable: bool,
    /// Bytes that are written whole or not at all.
    sector: usize,
    /// Whether there is anything that a power cut could take.
    is_volatile: bool,
    /// Held for reading while a request changes content: the power goes between two
    /// requests' changes, not within one.
    power: RwLock<Power>,
    unflushed: Mutex<UndoLog>,
    /// Requests that failed because the power was off.
    refused: AtomicU64,
    /// The disk below has failed to take something.
    broken: AtomicBool,
    disk: Mutex<DiskFlushes>,
}

#[derive(Clone, Copy, Debug)]
struct Power {
    on: bool,
    /// Power cuts so far. A flush that began before one does not hold after it.
    cuts: u64,
    loss: Option<Loss>,
}

/// What power cuts have done so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cuts {
    pub(super) count: u64,
    /// By the last one.
    pub(super) loss: Option<Loss>,
    /// Requests that failed because the power was off.
    pub(super) refused: u64,
}

/// What flushes took on the disk below.
#[derive(Default)]
pub(super) struct DiskFlushes {
    pub(super) latency: LatencyHistogram,
    /// Flushes that were answered later than the model says, because the disk took longer.
    pub(super) late: u64,
    /// Flushes that failed there.
    pub(super) failed: u64,
}

/// Where a flush stands among the writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    cuts: u64,
    writes: u64,
}

impl Store {
    /// For the drive of this description.
    ///
    /// # Errors
    /// The file cannot be used, is used by another drive, or is another drive's.
    pub(super) fn open(spec: &Spec) -> Result<Self, Error> {
        let cache = spec.write_cache_bytes();
        Ok(Self {
            content: Content::open(&spec.data, spec.capacity())?,
            durable: matches!(spec.data, Data::File { flush: Flush::Durable, .. }),
            sector: spec.block_bytes as usize,
            is_volatile: cache > 0,
            power: RwLock::new(Power { on: true, cuts: 0, loss: None }),
            unflushed: Mutex::new(UndoLog::new(cache)),
            refused: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            disk: Mutex::default(),
        })
    }

    /// Whether a flush has to reach the disk below.
    pub(super) const fn is_durable(&self) -> bool {
        self.durable
    }

    /// Whether reading and writing it may wait for a disk.
    pub(super) const fn is_slow(&self) -> bool {
        matches!(self.content, Content::File(_))
    }

    /// Reads bytes within the drive.
    ///
    /// # Errors
    /// `EIO`: the power is off.
    pub(super) fn read(&self, offset: u64, length: usize) -> io::Result<Payload> {
        let _powered = self.powered()?;
        self.content.read(offset, length)
    }

    /// Writes bytes within the drive.
    ///
    /// # Errors
    /// `EIO`: the power is off. `ENOSPC`: beyond the memory's cap, or the file system below
    /// is full.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let _powered = self.powered()?;
        if self.is_volatile {
            // Looked at and noted in one step: of two writes to one place the log must not
            // say that both replaced the same.
            let mut unflushed = lock(&self.unflushed);
            unflushed.record(offset, self.content.read(offset, bytes.len())?);
        }
        self.content.write(offset, bytes)
    }

    /// Forgets bytes within the drive: they are zeroes then, and take no room.
    pub(super) fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let _powered = self.powered()?;
        self.content.discard(offset, length)
    }

    /// A flush comes.
    ///
    /// # Errors
    /// `EIO`: the power is off.
    pub(super) fn begin_flush(&self) -> io::Result<Mark> {
        let power = self.powered()?;
        Ok(Mark { cuts: power.cuts, writes: lock(&self.unflushed).mark() })
    }

    /// A flush is to be answered: what was written before it came is durable, unless the
    /// power has gone meanwhile.
    pub(super) fn end_flush(&self, mark: Mark) -> bool {
        let power = self.power.read().unwrap_or_else(PoisonError::into_inner);
        let holds = power.cuts == mark.cuts;
        if holds {
            lock(&self.unflushed).commit(mark.writes);
        }
        holds
    }

    /// The power goes, and with it what was not flushed, as drawn with this seed.
    pub(super) fn cut_power(&self, seed: u64) {
        let mut power = self.power.write().unwrap_or_else(PoisonError::into_inner);
        let (before, loss) = lock(&self.unflushed).lose(seed, self.sector);
        for (offset, bytes) in before {
            if let Err(error) = self.content.write(offset, &bytes) {
                // It stays as it was written: that may be too.
                warn(format_args!("power cut: cannot take back the sector at {offset}: {error}"));
            }
        }
        *power = Power { on: false, cuts: power.cuts + 1, loss: Some(loss) };
    }

    /// The power comes back.
    pub(super) fn restore_power(&self) {
        self.power.write().unwrap_or_else(PoisonError::into_inner).on = true;
    }

    /// What power cuts have done.
    pub(super) fn cuts(&self) -> Cuts {
        let power = *self.power.read().unwrap_or_else(PoisonError::into_inner);
        let refused = self.refused.load(Ordering::Relaxed);
        Cuts { count: power.cuts, loss: power.loss, refused }
    }

    /// Bytes that the content takes, and the most that it may.
    pub(super) fn used(&self) -> (u64, Option<u64>) {
        self.content.used()
    }

    /// Bytes that were written and not flushed, and the most there may be.
    pub(super) fn unflushed(&self) -> (u64, u64) {
        lock(&self.unflushed).used()
    }

    /// Makes content durable, where it can be.
    ///
    /// # Errors
    /// The disk below has failed to, now or before: the kernel tells of a failed write
    /// once, and takes what it could not write for clean. So a later success says nothing.
    pub(super) fn sync(&self) -> io::Result<()> {
        if let Err(error) = self.content.sync() {
            warn(format_args!("cannot flush the file of the content: {error}"));
            self.broken.store(true, Ordering::Release);
        }
        if self.broken.load(Ordering::Acquire) { Err(Errno::IO.into()) } else { Ok(()) }
    }

    /// What flushes took on the disk below.
    pub(super) fn disk_flushes(&self) -> MutexGuard<'_, DiskFlushes> {
        lock(&self.disk)
    }

    /// Keeps the power on while the guard lives, if it is.
    fn powered(&self) -> io::Result<RwLockReadGuard<'_, Power>> {
        let power = self.power.read().unwrap_or_else(PoisonError::into_inner);
        if power.on {
            return Ok(power);
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(Errno::IO.into())
    }
}

impl DiskFlushes {
    pub(super) fn record(&mut self, took: Nanos, failed: bool) {
        self.latency.record(took);
        self.failed += u64::from(failed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done where a thread could panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A line in the server's log.
fn warn(what: fmt::Arguments<'_>) {
    // Nowhere is left to report a failure of this.
    _ = io::Write::write_fmt(&mut io::stderr(), format_args!("trimtab: {what}\n"));
}

#[cfg(test)]
mod tests;
