//! What the way to an emulated drive adds to the model's latency.
//!
//! The server notes what the model says for each read; the reader measures how long
//! it took. Offsets tell which belongs to which, and their order where they are the same
//! (in a measurement here no two are). The difference is everything that is not the drive: system calls,
//! the block layer, the loop device, FUSE, waking up, and being late.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};
use rand::RngExt as _;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64;
use trimtab_io::{LatencyHistogram, Nanos};

use super::clock;
use super::control::Drive;
use super::error::Error;
use super::figures::Sample;

/// Bytes of a read.
const READ: usize = 4096;
/// Of one measurement, at most: some seconds of them.
const MOST_READS: usize = 1 << 20;

/// How to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Reads in flight, at most. With 1 it is `pread`, with more `io_uring`.
    pub depth: u32,
    /// Reads that are sent in a second, at most, evenly; none for as many as can be.
    pub per_second: Option<u32>,
    /// For how long, at most.
    pub time: Nanos,
    /// Which places, in which order.
    pub seed: u64,
}

impl Load {
    fn pace(self) -> Pace {
        let interval = self.per_second.map(|rate| Nanos(1_000_000_000 / u64::from(rate.max(1))));
        Pace { interval: interval.unwrap_or_default(), next: clock::now() }
    }
}

/// When the next read may be sent.
pub(super) struct Pace {
    interval: Nanos,
    next: Nanos,
}

impl Pace {
    /// As fast as they are answered.
    pub(super) const UNLIMITED: Self = Self { interval: Nanos::ZERO, next: Nanos::ZERO };

    /// Whether one may be sent now. What could not be sent in its time is not made up for.
    fn may(&mut self, now: Nanos) -> bool {
        if now < self.next {
            return false;
        }
        self.next = (self.next + self.interval).max(now.since(self.interval));
        true
    }

    fn wait(&self) {
        let wait = self.next.since(clock::now());
        if wait > Nanos::ZERO {
            std::thread::sleep(Duration::from_nanos(wait.0));
        }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Reads done.
    pub reads: u64,
    /// In this time.
    pub time: Nanos,
    /// What programs see: from system call to data.
    pub seen: LatencyHistogram,
    /// What the model says.
    pub model: LatencyHistogram,
    /// What programs see beyond that.
    pub added: LatencyHistogram,
    /// The part of it that the server knows of: from when it had the request.
    pub server: LatencyHistogram,
}

/// Reads 4 KiB at random from a drive, directly, each place at most once.
///
/// # Errors
/// The drive cannot be read, or does not answer.
pub fn measure(drive: &Drive, load: Load) -> Result<Measured, Error> {
    let info = drive.info();
    let what = || format!("read {}", info.device.display());
    let file = open(&info.device).map_err(Error::system(what()))?;
    let places = places(info.capacity, MOST_READS, load.seed);
    drive.begin_log()?;
    let begun = clock::now();
    let until = begun + load.time;
    let read = match load.depth {
        0 | 1 => one_by_one(&file, &places, until, load.pace()),
        depth => together(&file, &places, until, depth, load.pace()),
    };
    let seen = read.map_err(Error::system(what()))?;
    let time = clock::now().since(begun);
    let said = drive.end_log()?;
    let mut measured = Measured {
        reads: seen.len() as u64,
        time,
        seen: LatencyHistogram::new(),
        model: LatencyHistogram::new(),
        added: LatencyHistogram::new(),
        server: LatencyHistogram::new(),
    };
    for (latency, sample) in paired(seen, said) {
        measured.seen.record(latency);
        if let Some(sample) = sample {
            measured.model.record(sample.model);
            measured.added.record(latency.since(sample.model));
            measured.server.record(sample.added);
        }
    }
    Ok(measured)
}

/// What the way to a drive added to reads that somebody made while it kept a log
/// ([`Drive::begin_log`]): `seen` is the first byte of each and how long it took, in the
/// order in which they were made; `said` is the log. A read that came earlier than its drive
/// says counts as 0. Of reads that were at one place at the same time, one may be taken for
/// the other, and so may what anybody else reads there meanwhile.
#[must_use]
pub fn added(seen: Vec<(u64, Nanos)>, said: Vec<Sample>) -> LatencyHistogram {
    let mut added = LatencyHistogram::new();
    let known = paired(seen, said).filter_map(|(latency, sample)| Some((latency, sample?)));
    added.extend(known.map(|(latency, sample)| latency.since(sample.model)));
    added
}

/// How long each read took, and what the server says of it. Reads of the same place are
/// told apart by their order.
fn paired(mut seen: Seen, mut said: Vec<Sample>) -> impl Iterator<Item = (Nanos, Option<Sample>)> {
    // These sorts keep the order of what is equal.
    seen.sort_by_key(|&(offset, _)| offset);
    said.sort_by_key(|sample| sample.offset);
    let mut said = said.into_iter().peekable();
    seen.into_iter().map(move |(offset, latency)| {
        while said.next_if(|sample| sample.offset < offset).is_some() {}
        (latency, said.next_if(|sample| sample.offset == offset))
    })
}

/// What was read, and how long that took.
type Seen = Vec<(u64, Nanos)>;

pub(super) fn open(device: &Path) -> io::Result<File> {
    const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
    OpenOptions::new().read(true).custom_flags(O_DIRECT).open(device)
}

/// So many places of a drive that can be read, or all if there are fewer, in some
/// order, none twice.
pub(super) fn places(capacity: u64, most: usize, seed: u64) -> Vec<u64> {
    let mut random = Pcg64::seed_from_u64(seed);
    let all = capacity / READ as u64;
    if all <= 2 * most as u64 {
        let mut places: Vec<u64> = (0..all).collect();
        places.shuffle(&mut random);
        places.truncate(most);
        return places;
    }
    // Of so many that most draws are new.
    let mut seen = HashSet::with_capacity(most);
    let draws = std::iter::repeat_with(|| random.random_range(0..all));
    draws.filter(|&place| seen.insert(place)).take(most).collect()
}

pub(super) fn one_by_one(
    file: &File,
    places: &[u64],
    until: Nanos,
    mut pace: Pace,
) -> io::Result<Seen> {
    clock::be_punctual();
    let mut buffer = Aligned([0; READ]);
    let mut seen = Vec::new();
    for &place in places {
        let offset = place * READ as u64;
        while !pace.may(clock::now()) {
            pace.wait();
        }
        let before = clock::now();
        file.read_exact_at(&mut buffer.0, offset)?;
        let now = clock::now();
        seen.push((offset, now.since(before)));
        if now >= until {
            break;
        }
    }
    Ok(seen)
}

/// Sends what there is, and waits for an answer, or until the next read may be sent.
fn send_and_wait(ring: &IoUring, pace: Option<&Pace>) -> io::Result<()> {
    let Some(pace) = pace.filter(|pace| pace.interval > Nanos::ZERO) else {
        return ring.submitter().submit_and_wait(1).map(drop);
    };
    let wait = types::Timespec::new().nsec(pace.next.since(clock::now()).0.min(999_999_999) as u32);
    match ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&wait)) {
        // Its time has come.
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::TIME.raw_os_error()) => Ok(()),
        result => result.map(drop),
    }
}

#[repr(align(4096))]
#[derive(Clone)]
struct Aligned([u8; READ]);

fn together(
    file: &File,
    places: &[u64],
    until: Nanos,
    depth: u32,
    mut pace: Pace,
) -> io::Result<Seen> {
    clock::be_punctual();
    let mut ring = IoUring::new(depth)?;
    let mut buffers = vec![Aligned([0; READ]); depth as usize];
    let mut sent = vec![(0, Nanos::ZERO); depth as usize];
    let mut places = places.iter().map(|&place| place * READ as u64);
    let mut seen = Vec::new();
    let mut free: Vec<usize> = (0..depth as usize).collect();
    let mut failed = None;
    loop {
        let over = failed.is_some() || clock::now() >= until;
        while !over
            && let Some(&slot) = free.last()
            && pace.may(clock::now())
            && let Some(offset) = places.next()
        {
            free.pop();
            let buffer = buffers[slot].0.as_mut_ptr();
            let read = opcode::Read::new(types::Fd(file.as_raw_fd()), buffer, READ as u32);
            let read = read.offset(offset).build().user_data(slot as u64);
            sent[slot] = (offset, clock::now());
            // SAFETY: the buffer lives until the ring has no request of it any more:
            // this loop goes on until then. There are as many entries as buffers.
            unsafe { ring.submission().push(&read) }.expect("room for each buffer");
        }
        if free.len() == buffers.len() {
            if over || places.len() == 0 {
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
        let now = clock::now();
        for done in ring.completion() {
            let slot = done.user_data() as usize;
            let (offset, at) = sent[slot];
            free.push(slot);
            if done.result() == READ as i32 {
                seen.push((offset, now.since(at)));
            } else {
                failed = Some(io::Error::from_raw_os_error(-done.result().min(-1)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_paired_with_what_the_server_says_of_them() {
        let us = Nanos::from_micros;
        let said = |offset, model| Sample { offset, model: us(model), added: Nanos::ZERO };
        // Of 4096 the second answer is the second read's; nothing is known of 0.
        let log = vec![said(4096, 100), said(12288, 50), said(4096, 300), said(8192, 10)];
        let seen = vec![(4096, us(107)), (8192, us(12)), (0, us(70)), (4096, us(350))];
        let mut all: Vec<_> =
            paired(seen.clone(), log.clone()).map(|(t, s)| (t, s.map(|s| s.model))).collect();
        all.sort_unstable();
        let expected = [(12, Some(10)), (70, None), (107, Some(100)), (350, Some(300))]
            .map(|(t, model)| (us(t), model.map(us)));
        assert_eq!(all, expected);
        let added = added(seen, log);
        assert_eq!((added.count(), added.max()), (3, Some(us(50))));
    }
}
