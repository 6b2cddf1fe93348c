//! Sources of requests.

mod replay;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trimtab_io::{Flags, Nanos};
use trimtab_trace::synth::{Arrivals, GeneratedRequest, Requests, ThinkTime, Timing, Workload};

use crate::error::Error;

pub use replay::{Offsets, Replay, ReplayOptions};

/// Never.
pub const NEVER: Nanos = Nanos::MAX;

/// A source of requests: a synthetic workload or a trace.
pub struct Source {
    kind: SourceKind,
    /// The time of the next request.
    next: Nanos,
    /// The number of requests left.
    left: u64,
    /// No requests at or after this time.
    end: Nanos,
    /// The speed-up of synthetic arrivals, in millionths.
    rate_millionths: u64,
}

/// In millionths: unchanged.
const AS_IT_IS: u64 = 1_000_000;

enum SourceKind {
    Synthetic(Pace, Ahead),
    Replay(Replay),
}

/// The arrival times of synthetic requests.
enum Pace {
    Open(Arrivals),
    Closed(Clients),
}

/// Requests drawn before they are due, so that the device can prefetch its tables. They are
/// drawn and announced in batches: a look-up in large tables takes long, but several at once
/// take no longer.
struct Ahead {
    requests: Requests,
    /// Two batches: one in use, and one being prefetched.
    drawn: Box<[GeneratedRequest; 2 * BATCH]>,
    next: usize,
}

/// A small batch: a look-up takes as long as serving two or three requests.
const BATCH: usize = 8;

impl Ahead {
    fn new(mut requests: Requests) -> Self {
        let drawn = Box::new(std::array::from_fn(|_| requests.draw()));
        Self { requests, drawn, next: 0 }
    }

    /// Takes the next one, copied field by field: a copy of the whole would read wider words
    /// than were written, and the processor would have to wait for the store buffer.
    #[inline]
    fn take(&mut self) -> GeneratedRequest {
        let GeneratedRequest { op, offset, length } = self.drawn[self.next];
        self.next = (self.next + 1) % (2 * BATCH);
        if self.next.is_multiple_of(BATCH) {
            self.draw();
        }
        GeneratedRequest { op, offset, length }
    }

    /// Replaces the used batch.
    fn draw(&mut self) {
        let used = (self.next + BATCH) % (2 * BATCH);
        for drawn in &mut self.drawn[used..used + BATCH] {
            *drawn = self.requests.draw();
        }
    }

    /// The batch drawn by the last [`take`](Self::take), if any.
    #[inline]
    fn fresh(&self) -> &[GeneratedRequest] {
        match self.next {
            0 => &self.drawn[BATCH..],
            BATCH => &self.drawn[..BATCH],
            _ => &[],
        }
    }
}

/// The clients of a closed loop.
struct Clients {
    think: ThinkTime,
    /// Clients that send a request at time `ready_at`.
    ready: u32,
    ready_at: Nanos,
    /// When the thinking clients send their next request.
    thinking: BinaryHeap<Reverse<Nanos>>,
}

impl Clients {
    fn new(clients: u32, mut think: ThinkTime) -> Self {
        let mut thinking = BinaryHeap::with_capacity(clients as usize);
        let mut ready = clients;
        if !think.is_none() {
            // As in the steady state, rather than all at once.
            thinking.extend((0..clients).map(|_| Reverse(think.draw())));
            ready = 0;
        }
        Self { think, ready, ready_at: Nanos::ZERO, thinking }
    }

    #[inline]
    fn next(&self) -> Nanos {
        if self.ready > 0 {
            return self.ready_at;
        }
        self.thinking.peek().map_or(NEVER, |&Reverse(at)| at)
    }

    #[inline]
    fn send(&mut self) {
        if self.ready > 0 {
            self.ready -= 1;
        } else {
            self.thinking.pop();
        }
    }

    #[inline]
    fn completed(&mut self, at: Nanos) {
        if self.think.is_none() {
            self.ready += 1;
            self.ready_at = at;
        } else {
            let think = self.think.draw();
            self.thinking.push(Reverse(at + think));
        }
    }
}

impl Source {
    /// A synthetic workload that ends after a number of requests, or at a time.
    #[must_use]
    pub fn synthetic(workload: Workload, requests: Option<u64>, end: Option<Nanos>) -> Self {
        let pace = match workload.timing {
            Timing::Open(arrivals) => Pace::Open(arrivals),
            Timing::Closed { clients, think } => Pace::Closed(Clients::new(clients, think)),
        };
        let mut source = Self {
            kind: SourceKind::Synthetic(pace, Ahead::new(workload.requests)),
            next: NEVER,
            left: requests.unwrap_or(u64::MAX),
            end: end.unwrap_or(NEVER),
            rate_millionths: AS_IT_IS,
        };
        source.find_next();
        source
    }

    /// The same, accelerated: times are divided by `millionths` / 10⁶, including lengths of
    /// bursts. Call it before anything is taken; it has no effect on a closed loop and a
    /// trace.
    #[must_use]
    pub fn at_rate(mut self, millionths: u64) -> Self {
        if matches!(self.kind, SourceKind::Synthetic(Pace::Open(_), _)) {
            self.rate_millionths = millionths.max(1);
            self.next = self.within_end(self.next);
        }
        self
    }

    /// A trace.
    ///
    /// # Errors
    /// The trace cannot be read, or holds nothing.
    pub fn replay(mut replay: Replay) -> Result<Self, Error> {
        let next = replay.next_arrival()?;
        let kind = SourceKind::Replay(replay);
        Ok(Self { kind, next, left: u64::MAX, end: NEVER, rate_millionths: AS_IT_IS })
    }

    /// The time of the next request; [`NEVER`] if there is none, or it is not known yet.
    #[must_use]
    #[inline]
    pub const fn next(&self) -> Nanos {
        self.next
    }

    /// Whether it waits for completions before it sends more.
    pub(crate) const fn is_closed(&self) -> bool {
        matches!(self.kind, SourceKind::Synthetic(Pace::Closed(_), _))
    }

    /// Takes the request due at [`next`](Self::next).
    ///
    /// # Errors
    /// The trace cannot be read on, or does not fit.
    #[inline]
    pub fn take(&mut self) -> Result<(GeneratedRequest, Flags), Error> {
        self.left -= 1;
        match &mut self.kind {
            SourceKind::Synthetic(pace, ahead) => {
                let drawn = ahead.take();
                if let Pace::Closed(clients) = pace {
                    clients.send();
                }
                self.find_next();
                Ok((drawn, Flags::empty()))
            }
            SourceKind::Replay(replay) => {
                // Field by field, see `Ahead::take`.
                let (GeneratedRequest { op, offset, length }, flags) = replay.take()?;
                self.next = replay.next_arrival()?;
                Ok((GeneratedRequest { op, offset, length }, flags))
            }
        }
    }

    /// Upcoming requests that became known with the last take.
    #[inline]
    pub(crate) fn coming(&self) -> &[GeneratedRequest] {
        match &self.kind {
            SourceKind::Synthetic(_, ahead) => ahead.fresh(),
            SourceKind::Replay(_) => &[],
        }
    }

    /// One of its requests has completed.
    #[inline]
    pub(crate) fn completed(&mut self, at: Nanos) {
        if let SourceKind::Synthetic(Pace::Closed(clients), _) = &mut self.kind {
            clients.completed(at);
            self.find_next();
        }
    }

    #[inline]
    fn find_next(&mut self) {
        let next = match &mut self.kind {
            _ if self.left == 0 => NEVER,
            SourceKind::Synthetic(Pace::Open(arrivals), _) => arrivals.next(),
            SourceKind::Synthetic(Pace::Closed(clients), _) => clients.next(),
            SourceKind::Replay(_) => return,
        };
        self.next = self.within_end(next);
    }

    /// Applies the rate and the end.
    #[inline]
    fn within_end(&self, drawn: Nanos) -> Nanos {
        let at = if self.rate_millionths == AS_IT_IS || drawn == NEVER {
            drawn
        } else {
            let at = u128::from(drawn.0) * u128::from(AS_IT_IS) / u128::from(self.rate_millionths);
            Nanos(u64::try_from(at).unwrap_or(NEVER.0))
        };
        if at < self.end { at } else { NEVER }
    }
}
