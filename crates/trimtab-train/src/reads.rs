//! The reads of a recording, which predictors are trained and evaluated on.

use trimtab_io::Nanos;
use trimtab_predict::{Label, Recorded, pages_of};

use crate::replay::{Event, events};

/// A read of a recording and the load that it met, which do not depend on a predictor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Its index in the recording.
    pub index: usize,
    /// Its latency.
    pub latency: Nanos,
    /// Its 4 KiB pages.
    pub pages: u32,
    /// Pages in flight when it was sent.
    pub load: u32,
    /// Requests in flight when it was sent.
    pub queue: u32,
}

impl Read {
    /// Whether it was slow.
    #[must_use]
    pub fn is_slow(&self, label: &Label) -> bool {
        label.is_slow(self.latency, self.pages, self.load)
    }
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

/// The latencies of reads, ascending.
#[must_use]
pub fn latencies(reads: &[Read]) -> Vec<Nanos> {
    let mut latencies: Vec<Nanos> = reads.iter().map(|read| read.latency).collect();
    latencies.sort_unstable();
    latencies
}

/// A mask over a recording's requests that selects these reads.
pub(crate) fn mask(recorded: &[Recorded], reads: &[Read]) -> Vec<bool> {
    let mut mask = vec![false; recorded.len()];
    reads.iter().for_each(|read| mask[read.index] = true);
    mask
}
