//! What CFQ and BFQ remember of a process: how long it thinks between requests, and how far it
//! seeks. Both decide whether the device is kept idle for its next request.

use trimtab_io::Nanos;

/// Mean time from the completion of a process's last request to its next one, with weights that
/// fall by an eighth for each request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThinkTime {
    last_completion: Nanos,
    /// Weight of the samples, in 256ths.
    samples: u64,
    /// Sum of weighted samples, 256 ns.
    total: u64,
}

/// Fewer samples support no decision.
const LEAST_SAMPLES: u64 = 80;

impl ThinkTime {
    pub(super) const fn completed(&mut self, now: Nanos) {
        self.last_completion = now;
    }

    pub(super) const fn last_completion(&self) -> Nanos {
        self.last_completion
    }

    /// A request has arrived. A longer pause than twice `idle` counts as that: it says only that
    /// waiting does not help.
    pub(super) fn arrived(&mut self, now: Nanos, idle: Nanos) {
        let pause = now.since(self.last_completion).0.min(2 * idle.0);
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * pause) / 8;
    }

    /// Whether the process is known to think for longer than `idle`.
    pub(super) fn is_longer_than(&self, idle: Nanos) -> bool {
        self.samples > LEAST_SAMPLES && (self.total + 128) / self.samples > idle.0
    }
}

/// Which of the last 32 requests were seeks.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeekHistory {
    history: u32,
    /// End of the last request, bytes.
    last: Option<u64>,
}

/// A jump of more bytes is a seek.
const SEEK_BYTES: u64 = 800 * 512;
/// On a device without a head only short requests are seeks, however far they jump.
const SHORT_BYTES: u64 = 64 * 512;

impl SeekHistory {
    pub(super) const fn new() -> Self {
        Self { history: 0, last: None }
    }

    pub(super) const fn arrived(&mut self, offset: u64, length: u64, rotational: bool) {
        let jump = match self.last {
            Some(last) => last.abs_diff(offset),
            None => 0,
        };
        let is_seek = jump > SEEK_BYTES && (rotational || length < SHORT_BYTES);
        self.history = self.history << 1 | is_seek as u32;
        self.last = Some(offset.saturating_add(length));
    }

    /// Of the last 32 requests, how many were seeks.
    pub(super) const fn seeks(&self) -> u32 {
        self.history.count_ones()
    }
}
