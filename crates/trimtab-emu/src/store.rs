//! A drive's content with its power state: what survives a power cut.
//!
//! A write changes the content at once, and is durable when a flush that arrived after it is
//! answered. Until then it is in the undo log (undo.rs), by which a power cut reverts it, or a part
//! of it. A discard takes effect at once, and is never reverted; data that was written there and
//! not flushed before the discard may come back, as it may on a real drive. While the power is off
//! every request fails.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use rustix::io::Errno;
use trimtab_io::{LatencyHistogram, Nanos};
use trimtab_serve::Error;

use super::content::{Content, Payload};
use super::spec::{Data, Flush, Spec};
use super::undo::{PowerLoss, UndoLog};

/// Content that a power cut can revert.
pub(super) struct Store {
    content: Content,
    /// Whether a flush has to reach the disk below.
    durable: bool,
    /// The atomic unit of a write, bytes.
    sector: usize,
    /// Whether a power cut can revert anything.
    is_volatile: bool,
    /// Held for reading while a request changes content: a power cut comes between two requests'
    /// changes, not within one.
    power: RwLock<Power>,
    unflushed: Mutex<UndoLog>,
    /// Requests that failed because the power was off.
    refused: AtomicU64,
    /// A write or flush of the disk below has failed.
    broken: AtomicBool,
    disk: Mutex<DiskFlushes>,
}

#[derive(Clone, Copy, Debug)]
struct Power {
    on: bool,
    /// Power cuts. A flush that began before one does not hold after it.
    cuts: u64,
    loss: Option<PowerLoss>,
}

/// Power cuts so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct PowerCuts {
    pub(super) count: u64,
    /// By the last cut.
    pub(super) loss: Option<PowerLoss>,
    /// Requests that failed because the power was off.
    pub(super) refused: u64,
}

/// Flushes of the disk below.
#[derive(Default)]
pub(super) struct DiskFlushes {
    pub(super) latency: LatencyHistogram,
    /// Flushes answered later than the model says, because of the disk.
    pub(super) late: u64,
    /// Flushes that failed on the disk.
    pub(super) failed: u64,
}

/// A flush's position among the writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    cuts: u64,
    writes: u64,
}

impl Store {
    /// Opens the content of a drive.
    ///
    /// # Errors
    /// The file cannot be used, another drive uses it, or it holds a drive of another size.
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

    /// Whether accesses may block on a disk.
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
            // Read and logged in one step: of two writes to one place, the log must not hold the
            // same old data for both.
            let mut unflushed = lock(&self.unflushed);
            unflushed.record(offset, self.content.read(offset, bytes.len())?);
        }
        self.content.write(offset, bytes)
    }

    /// Discards bytes within the drive: they read as zeroes then, and take no space.
    pub(super) fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let _powered = self.powered()?;
        self.content.discard(offset, length)
    }

    /// Begins a flush.
    ///
    /// # Errors
    /// `EIO`: the power is off.
    pub(super) fn begin_flush(&self) -> io::Result<Mark> {
        let power = self.powered()?;
        Ok(Mark { cuts: power.cuts, writes: lock(&self.unflushed).mark() })
    }

    /// Ends a flush: what was written before its mark is durable. False if the power was cut
    /// meanwhile.
    pub(super) fn end_flush(&self, mark: Mark) -> bool {
        let power = self.power.read().unwrap_or_else(PoisonError::into_inner);
        let holds = power.cuts == mark.cuts;
        if holds {
            lock(&self.unflushed).commit(mark.writes);
        }
        holds
    }

    /// Cuts the power, and reverts what was not flushed, as drawn by the seed.
    pub(super) fn cut_power(&self, seed: u64) {
        let mut power = self.power.write().unwrap_or_else(PoisonError::into_inner);
        let (before, loss) = lock(&self.unflushed).lose(seed, self.sector);
        for (offset, bytes) in before {
            if let Err(error) = self.content.write(offset, &bytes) {
                // The write stays, which is a valid outcome too.
                warn(format_args!("power cut: cannot revert the sector at {offset}: {error}"));
            }
        }
        *power = Power { on: false, cuts: power.cuts + 1, loss: Some(loss) };
    }

    /// Restores the power.
    pub(super) fn restore_power(&self) {
        self.power.write().unwrap_or_else(PoisonError::into_inner).on = true;
    }

    /// Power cuts so far.
    pub(super) fn cuts(&self) -> PowerCuts {
        let power = *self.power.read().unwrap_or_else(PoisonError::into_inner);
        let refused = self.refused.load(Ordering::Relaxed);
        PowerCuts { count: power.cuts, loss: power.loss, refused }
    }

    /// Bytes of content allocated, and the cap.
    pub(super) fn used(&self) -> (u64, Option<u64>) {
        self.content.used()
    }

    /// Bytes written and not flushed, and the most there may be.
    pub(super) fn unflushed(&self) -> (u64, u64) {
        lock(&self.unflushed).used()
    }

    /// Makes content durable, if it is in a file.
    ///
    /// # Errors
    /// The disk below has failed, now or before. The kernel reports a failed write once, and then
    /// treats the pages as clean, so a later success proves nothing.
    pub(super) fn sync(&self) -> io::Result<()> {
        if let Err(error) = self.content.sync() {
            warn(format_args!("cannot flush the file of the content: {error}"));
            self.broken.store(true, Ordering::Release);
        }
        if self.broken.load(Ordering::Acquire) { Err(Errno::IO.into()) } else { Ok(()) }
    }

    /// Flushes of the disk below.
    pub(super) fn disk_flushes(&self) -> MutexGuard<'_, DiskFlushes> {
        lock(&self.disk)
    }

    /// Keeps the power on while the guard lives. Fails if it is off.
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
    // No update is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a line to the server's log.
fn warn(what: fmt::Arguments<'_>) {
    // A failure of this cannot be reported anywhere.
    _ = io::Write::write_fmt(&mut io::stderr(), format_args!("trimtab: {what}\n"));
}

#[cfg(test)]
mod tests;
