//! Measures what the path to an emulated drive adds to the model's latency.
//!
//! The server logs the model's latency of each read; the reader measures how long the read took.
//! Both are matched by offset, and reads of one offset by their order (a measurement here reads
//! each offset once). The difference is what is not the drive: system calls, the block layer, the
//! loop device, FUSE, wake-ups, and lateness.

use std::collections::HashSet;

use rand::RngExt as _;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64;
use trimtab_io::{LatencyHistogram, Nanos};
use trimtab_serve::{
    Error, PAGE_BYTES, Pace, Timings, Transfer, open, transfer_concurrently, transfer_serially,
};

use super::clock;
use super::control::Drive;
use super::figures::Sample;

/// Reads of one measurement, at most: some seconds of them.
const MAX_READS: usize = 1 << 20;

/// How to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Reads in flight, at most. With 1 it is `pread`, with more `io_uring`.
    pub depth: u32,
    /// Reads per second, at most, evenly spaced; `None` for no limit.
    pub per_second: Option<u32>,
    /// Duration, at most.
    pub time: Nanos,
    /// Seed of the offsets and their order.
    pub seed: u64,
}

impl Load {
    fn pace(self) -> Pace {
        let interval = self.per_second.map(|rate| Nanos(1_000_000_000 / u64::from(rate.max(1))));
        Pace { interval: interval.unwrap_or_default(), next: clock::now() }
    }
}

/// Result of a measurement.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Reads done.
    pub reads: u64,
    /// Duration.
    pub time: Nanos,
    /// Latency as programs see it: from system call to data.
    pub seen: LatencyHistogram,
    /// Latency according to the model.
    pub model: LatencyHistogram,
    /// Latency that programs see beyond the model's.
    pub added: LatencyHistogram,
    /// The part of `added` inside the server: from its receipt of the request on.
    pub server: LatencyHistogram,
}

/// Reads 4 KiB at random from a drive with direct I/O, each offset at most once.
///
/// # Errors
/// The drive cannot be read, or does not answer.
pub fn measure(drive: &Drive, load: Load) -> Result<Measurement, Error> {
    let info = drive.info();
    let what = || format!("read {}", info.device.display());
    let file = open(&info.device, Transfer::Read).map_err(Error::system(what()))?;
    let pages = offsets(info.capacity, MAX_READS, load.seed);
    drive.begin_log()?;
    let begun = clock::now();
    let until = begun + load.time;
    let read = match load.depth {
        0 | 1 => transfer_serially(&file, Transfer::Read, pages, until, load.pace()),
        depth => transfer_concurrently(&file, Transfer::Read, pages, until, depth, load.pace()),
    };
    let seen = read.map_err(Error::system(what()))?;
    let time = clock::now().since(begun);
    let log = drive.end_log()?;
    let mut measured = Measurement {
        reads: seen.len() as u64,
        time,
        seen: LatencyHistogram::new(),
        model: LatencyHistogram::new(),
        added: LatencyHistogram::new(),
        server: LatencyHistogram::new(),
    };
    for (latency, sample) in matched(seen, log) {
        measured.seen.record(latency);
        if let Some(sample) = sample {
            measured.model.record(sample.model);
            measured.added.record(latency.since(sample.model));
            measured.server.record(sample.added);
        }
    }
    Ok(measured)
}

/// What the path to a drive added to reads made while it kept a log ([`Drive::begin_log`]). `seen`
/// holds the first byte of each read and its latency, in the order sent; `log` is the log. A read
/// that was faster than the model counts as 0. Concurrent reads of one offset, also by other
/// programs, may be mistaken for each other.
#[must_use]
pub fn added_latency(seen: Vec<(u64, Nanos)>, log: Vec<Sample>) -> LatencyHistogram {
    let mut added = LatencyHistogram::new();
    let known = matched(seen, log).filter_map(|(latency, sample)| Some((latency, sample?)));
    added.extend(known.map(|(latency, sample)| latency.since(sample.model)));
    added
}

/// The latency of each read, with the server's sample of it. Reads of one offset are matched by
/// their order.
fn matched(
    mut seen: Timings,
    mut log: Vec<Sample>,
) -> impl Iterator<Item = (Nanos, Option<Sample>)> {
    // These sorts are stable: reads of one offset keep their order.
    seen.sort_by_key(|&(offset, _)| offset);
    log.sort_by_key(|sample| sample.offset);
    let mut log = log.into_iter().peekable();
    seen.into_iter().map(move |(offset, latency)| {
        while log.next_if(|sample| sample.offset < offset).is_some() {}
        (latency, log.next_if(|sample| sample.offset == offset))
    })
}

/// Up to `most` distinct offsets of a drive, in random order; all of them if there are fewer.
pub(super) fn offsets(capacity: u64, most: usize, seed: u64) -> Vec<u64> {
    let mut random = Pcg64::seed_from_u64(seed);
    let all = capacity / PAGE_BYTES as u64;
    if all <= 2 * most as u64 {
        let mut offsets: Vec<u64> = (0..all).collect();
        offsets.shuffle(&mut random);
        offsets.truncate(most);
        return offsets;
    }
    // From a range so large that most draws are new.
    let mut seen = HashSet::with_capacity(most);
    let draws = std::iter::repeat_with(|| random.random_range(0..all));
    draws.filter(|&place| seen.insert(place)).take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_match_the_servers_samples_by_offset_and_order() {
        let us = Nanos::from_micros;
        let log = |offset, model| Sample { offset, model: us(model), added: Nanos::ZERO };
        // The second sample of offset 4096 is the second read's; 0 has no sample.
        let log = vec![log(4096, 100), log(12288, 50), log(4096, 300), log(8192, 10)];
        let seen = vec![(4096, us(107)), (8192, us(12)), (0, us(70)), (4096, us(350))];
        let mut all: Vec<_> =
            matched(seen.clone(), log.clone()).map(|(t, s)| (t, s.map(|s| s.model))).collect();
        all.sort_unstable();
        let expected = [(12, Some(10)), (70, None), (107, Some(100)), (350, Some(300))]
            .map(|(t, model)| (us(t), model.map(us)));
        assert_eq!(all, expected);
        let added = added_latency(seen, log);
        assert_eq!((added.count(), added.max()), (3, Some(us(50))));
    }
}
