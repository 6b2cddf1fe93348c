//! Sampling of refused reads.

/// Samples events evenly although their number is unknown in advance: every `stride`th is
/// taken, and when there are too many samples every second one is dropped and the stride
/// doubles.
#[derive(Debug)]
pub(crate) struct Sampler {
    most: usize,
    stride: u64,
    seen: u64,
    fast: Vec<bool>,
}

impl Sampler {
    /// At most `most` samples of at most `of` events.
    pub(crate) fn new(most: usize, of: usize) -> Self {
        // A copy of a drive takes milliseconds, so as few samples as possible are taken
        // and dropped. Few strategies refuse more than one request in thirty.
        let stride = (of / 32 / most.max(1)).max(1) as u64;
        Self { most, stride, seen: 0, fast: Vec::new() }
    }

    /// Counts an event. Returns whether it is to be sampled.
    pub(super) const fn is_due(&mut self) -> bool {
        self.seen += 1;
        self.most > 0 && self.seen.is_multiple_of(self.stride)
    }

    /// Adds a sample: whether the refused read would have been fast.
    pub(super) fn add(&mut self, fast: bool) {
        self.fast.push(fast);
        if self.fast.len() >= self.most {
            let mut number = 0;
            self.fast.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.stride *= 2;
        }
    }

    /// The number of samples.
    pub(super) const fn count(&self) -> u64 {
        self.fast.len() as u64
    }

    /// The number of those that were fast.
    pub(super) fn fast(&self) -> u64 {
        self.fast.iter().filter(|&&fast| fast).count() as u64
    }
}
