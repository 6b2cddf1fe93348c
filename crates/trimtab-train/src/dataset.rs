//! From recordings to what is learnt from.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_io::{Nanos, Op};

use crate::digits::{DIGITS, Watched};
use crate::history::{Event, Recorded, Watcher, events, replay, replay_part};
use crate::in_flight::pages_of;
use crate::state::FEATURES;
use crate::units::UnitFunction;
use crate::watch::Watch;

/// What every read of a recording met, whoever predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Its number in the recording.
    pub index: usize,
    /// How long it took.
    pub latency: Nanos,
    /// Its 4 KiB pages.
    pub pages: u32,
    /// Pages in flight when it was sent.
    pub load: u32,
    /// Requests in flight when it was sent.
    pub queue: u32,
}

/// The reads of a recording, in order of submission.
#[must_use]
pub fn reads(recorded: &[Recorded]) -> Vec<Read> {
    let (mut reads, mut load, mut queue) = (Vec::new(), 0, 0);
    for event in events(recorded) {
        match event {
            Event::Sent(index) => {
                let pages = pages_of(&recorded[index].request);
                if recorded[index].is_read() {
                    let latency = recorded[index].latency();
                    reads.push(Read { index, latency, pages, load, queue });
                }
                load += pages;
                queue += 1;
            }
            Event::Completed(index) => {
                load -= pages_of(&recorded[index].request);
                queue -= 1;
            }
        }
    }
    reads
}

/// LinnOS's digits of some of the reads.
pub(crate) fn digits(recorded: &[Recorded], wanted: &[bool]) -> Vec<[u8; DIGITS]> {
    watched(recorded, wanted, &mut Watched::default(), |watched, i| {
        watched.digits(&recorded[i].request)
    })
}

/// Our numbers of some of the reads.
pub(crate) fn features(
    recorded: &[Recorded],
    wanted: &[bool],
    functions: &[UnitFunction],
) -> Vec<[i32; FEATURES]> {
    watched(recorded, wanted, &mut Watch::new(functions), |watch, i| {
        let request = &recorded[i].request;
        watch.features(request.arrival, request)
    })
}

/// The same, if a share of the reads that changes all the time had gone to other
/// drives.
pub(crate) fn steered_features(
    recorded: &[Recorded],
    wanted: &[bool],
    functions: &[UnitFunction],
    seed: u64,
) -> Vec<[i32; FEATURES]> {
    let told = sent_here(recorded, seed);
    let mut all = Vec::with_capacity(wanted.iter().filter(|w| **w).count());
    replay_part(
        recorded,
        |i| told[i],
        &mut Watch::new(functions),
        |i, watch| {
            if wanted[i] {
                let request = &recorded[i].request;
                all.push(watch.features(request.arrival, request));
            }
        },
    );
    all
}

/// Reads for which a drive is liked as much as before.
const LIKED_FOR: std::ops::Range<u32> = 4..100;
/// How much that is: the share of the reads that it is sent.
const LIKED: [f64; 5] = [1.0, 0.5, 0.2, 0.05, 0.0];

/// Which requests come to this drive when reads are steered: all but some reads.
fn sent_here(recorded: &[Recorded], seed: u64) -> Vec<bool> {
    let mut random = Pcg64::seed_from_u64(seed);
    let (mut left, mut share) = (0, 1.0);
    let mut is_sent = |one: &Recorded| {
        if one.request.op != Op::Read {
            return true;
        }
        if left == 0 {
            left = random.random_range(LIKED_FOR);
            share = LIKED[random.random_range(..LIKED.len())];
        }
        left -= 1;
        random.random_bool(share)
    };
    recorded.iter().map(&mut is_sent).collect()
}

fn watched<W: Watcher, T>(
    recorded: &[Recorded],
    wanted: &[bool],
    watcher: &mut W,
    look: impl Fn(&W, usize) -> T,
) -> Vec<T> {
    let mut all = Vec::with_capacity(wanted.iter().filter(|w| **w).count());
    replay(recorded, watcher, |i, watcher| {
        if wanted[i] {
            all.push(look(watcher, i));
        }
    });
    all
}
