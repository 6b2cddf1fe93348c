//! Recordings of simulated drives with a known kind of tail.

#![allow(dead_code, reason = "tests and examples each use a part of it")]

use trimtab_device::{Buffer, Profile, Ssd};
use trimtab_io::{DeviceId, Nanos, Op, SplitMix64};
use trimtab_predict::Recorded;
use trimtab_sim::array::{ArrayDrive, ArrayIo, ArrayOptions, RunOptions, run};
use trimtab_steer::{Replica, strategies};
use trimtab_trace::Record;

/// Why some reads are slow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tail {
    /// The firmware pauses for 2 ms in the mean, for this share of the time.
    Stalls(f64),
    /// The write buffer is flushed every 20 ms.
    Flushes,
    /// One page in a hundred is read again, up to five times: without any warning.
    Retries,
    /// None: only reads, few at a time.
    Nothing,
}

/// Requests per second.
const IOPS: u64 = 5_000;

/// A recording of this many requests of 4 to 64 KiB, uniformly distributed.
pub(crate) fn recording(tail: Tail, requests: usize, seed: u64) -> Vec<Recorded> {
    let mut profile = Profile::builtin("reference").expect("it is built in");
    let geometry = &mut profile.geometry;
    (geometry.blocks_per_plane, geometry.pages_per_block) = (64, 64);
    let mut writes = 0;
    match tail {
        Tail::Stalls(share) => {
            (profile.noise.pause_ms, profile.noise.pause_every_ms) = (2.0, 2.0 / share);
        }
        Tail::Flushes => {
            writes = 3;
            profile.buffer = Buffer {
                size_mb: 8.0,
                flush_period_ms: 20.0,
                flush_watermark: 0.5,
                ..Buffer::default()
            };
        }
        Tail::Retries => {
            (profile.noise.retry_probability, profile.noise.retry_most) = (0.01, 5);
        }
        Tail::Nothing => {}
    }
    let profile = Profile::parse(&profile.to_toml()).expect("it is valid");
    let mut ssd = Ssd::new(&profile, DeviceId(0), seed);
    ssd.age(&profile, 1.0, 1.0);
    let (pages, mut random, mut at) =
        (profile.capacity_bytes() / 4096, SplitMix64::new(seed), Nanos::ZERO);
    let ios: Vec<ArrayIo> = (0..requests)
        .map(|_| {
            let uniform = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
            at += Nanos((-(1.0 - uniform).ln() * 1e9 / IOPS as f64) as u64);
            let op = if random.next() % 10 < writes { Op::Write } else { Op::Read };
            // Sizes vary, so that latencies without a tail vary by more than a failover takes.
            let length = 1 + random.next() % 16;
            let offset = random.next() % (pages - length) * 4096;
            ArrayIo::new(at, op, offset, length * 4096, Replica(0))
        })
        .collect();
    let options = ArrayOptions {
        run: RunOptions { log: true, ..RunOptions::default() },
        ..ArrayOptions::default()
    };
    let base = Box::new(strategies::Base::new("base"));
    let mut run = run(vec![ArrayDrive::new(ssd, 64)], base, &ios, &options).expect("it is served");
    let log = run.log.remove(0).into_iter().enumerate();
    let recorded = |(index, entry): (usize, trimtab_sim::array::LogEntry)| {
        let record =
            Record::arriving(entry.arrival, DeviceId(0), entry.op, entry.offset, entry.length);
        let record = Record { issue: entry.issue, complete: entry.complete, ..record };
        trimtab_train::recorded(&record, index).expect("it completed")
    };
    log.map(recorded).collect()
}
