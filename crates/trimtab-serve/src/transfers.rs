//! Requests to a device, one after the other or at the same time, and how long each took.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use trimtab_io::{Nanos, monotonic};

/// Bytes of a request.
pub const PAGE_BYTES: usize = 4096;

/// What the requests of a measurement do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// They read.
    Read,
    /// They write zeroes.
    Write,
}

/// Decides when the next request may be sent.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The time between requests.
    pub interval: Nanos,
    /// When the next one may be sent.
    pub next: Nanos,
}

impl Pace {
    /// No limit: as fast as requests complete.
    pub const UNLIMITED: Self = Self { interval: Nanos::ZERO, next: Nanos::ZERO };

    /// Whether a request may be sent now. Missed slots are not made up for.
    pub fn may(&mut self, now: Nanos) -> bool {
        if now < self.next {
            return false;
        }
        self.next = (self.next + self.interval).max(now.since(self.interval));
        true
    }

    /// Waits until a request may be sent.
    pub fn wait(&self) {
        let wait = self.next.since(monotonic());
        if wait > Nanos::ZERO {
            std::thread::sleep(Duration::from_nanos(wait.0));
        }
    }
}

/// Offset and latency of each request.
pub type Timings = Vec<(u64, Nanos)>;

/// Memory for a request.
#[repr(align(4096))]
#[derive(Clone, Debug)]
struct Aligned([u8; PAGE_BYTES]);

/// Opens a device or file for requests past the page cache.
///
/// # Errors
/// It cannot be opened.
pub fn open(device: &Path, transfer: Transfer) -> io::Result<File> {
    const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
    let is_write = transfer == Transfer::Write;
    OpenOptions::new().read(true).write(is_write).custom_flags(O_DIRECT).open(device)
}

/// Sets this thread's timer slack to 1 ns. By default the kernel may wake it up to 50 µs late,
/// together with others.
pub fn set_timer_slack() {
    // If this fails, waits are longer, no more.
    _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Reads or writes these pages, one after the other, until a time.
///
/// # Errors
/// A request fails.
pub fn transfer_serially(
    file: &File,
    transfer: Transfer,
    pages: impl IntoIterator<Item = u64>,
    until: Nanos,
    mut pace: Pace,
) -> io::Result<Timings> {
    set_timer_slack();
    let mut buffer = Aligned([0; PAGE_BYTES]);
    let mut seen = Vec::new();
    for page in pages {
        let offset = page * PAGE_BYTES as u64;
        while !pace.may(monotonic()) {
            pace.wait();
        }
        let before = monotonic();
        match transfer {
            Transfer::Read => file.read_exact_at(&mut buffer.0, offset)?,
            Transfer::Write => file.write_all_at(&buffer.0, offset)?,
        }
        let now = monotonic();
        seen.push((offset, now.since(before)));
        if now >= until {
            break;
        }
    }
    Ok(seen)
}

/// The same with up to `depth` of them in flight.
///
/// # Errors
/// A request fails, or the kernel gives no io_uring.
pub fn transfer_concurrently(
    file: &File,
    transfer: Transfer,
    pages: impl IntoIterator<Item = u64>,
    until: Nanos,
    depth: u32,
    mut pace: Pace,
) -> io::Result<Timings> {
    set_timer_slack();
    let mut ring = IoUring::new(depth)?;
    let mut buffers = vec![Aligned([0; PAGE_BYTES]); depth as usize];
    let mut sent = vec![(0, Nanos::ZERO); depth as usize];
    let mut offsets = pages.into_iter().map(|page| page * PAGE_BYTES as u64).peekable();
    let mut seen = Vec::new();
    let mut free: Vec<usize> = (0..depth as usize).collect();
    let mut failed = None;
    loop {
        let over = failed.is_some() || monotonic() >= until;
        while !over
            && let Some(&slot) = free.last()
            && pace.may(monotonic())
            && let Some(offset) = offsets.next()
        {
            free.pop();
            let file = types::Fd(file.as_raw_fd());
            let (buffer, bytes) = (buffers[slot].0.as_mut_ptr(), PAGE_BYTES as u32);
            let request = match transfer {
                Transfer::Read => opcode::Read::new(file, buffer, bytes).offset(offset).build(),
                Transfer::Write => opcode::Write::new(file, buffer, bytes).offset(offset).build(),
            };
            sent[slot] = (offset, monotonic());
            // SAFETY: the buffer outlives the request: this loop runs until the ring has no request
            // left. There are as many entries as buffers.
            unsafe { ring.submission().push(&request.user_data(slot as u64)) }
                .expect("room for each buffer");
        }
        if free.len() == buffers.len() {
            if over || offsets.peek().is_none() {
                return failed.map_or(Ok(seen), Err);
            }
            pace.wait();
            continue;
        }
        match send_and_wait(&ring, (!over && !free.is_empty()).then_some(&pace)) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => {
                // The kernel may still write into the buffers.
                std::mem::forget(buffers);
                return Err(e);
            }
        }
        let now = monotonic();
        for done in ring.completion() {
            let slot = done.user_data() as usize;
            let (offset, at) = sent[slot];
            free.push(slot);
            if done.result() == PAGE_BYTES as i32 {
                seen.push((offset, now.since(at)));
            } else {
                failed = Some(io::Error::from_raw_os_error(-done.result().min(-1)));
            }
        }
    }
}

/// Submits what is queued, and waits for a completion or until the next request may be sent.
fn send_and_wait(ring: &IoUring, pace: Option<&Pace>) -> io::Result<()> {
    let Some(pace) = pace.filter(|pace| pace.interval > Nanos::ZERO) else {
        return ring.submitter().submit_and_wait(1).map(drop);
    };
    let left = pace.next.since(monotonic()).0.min(999_999_999) as u32;
    let wait = types::Timespec::new().nsec(left);
    match ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&wait)) {
        // The next request is due.
        Err(e) if e.raw_os_error() == Some(Errno::TIME.raw_os_error()) => Ok(()),
        result => result.map(drop),
    }
}
