//! From recordings to what is learnt from.

use trimtab_io::Nanos;

use crate::digits::{DIGITS, Watched};
use crate::history::{Event, Recorded, Watcher, events, replay};
use crate::in_flight::pages_of;
use crate::units::UnitFunction;
use crate::watch::{FEATURES, Watch};

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
