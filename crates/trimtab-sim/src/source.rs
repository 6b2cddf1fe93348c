//! Where requests come from.

mod replay;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trimtab_io::{Flags, Nanos};
use trimtab_trace::synth::{Arrivals, Drawn, Requests, Think, Timing, Workload};

use crate::error::Error;

pub use replay::{Offsets, Replay, ReplayOptions};

/// A time that never comes.
pub(crate) const NEVER: Nanos = Nanos::MAX;

/// Where requests come from: a synthetic workload or a trace.
pub struct Source {
    kind: Kind,
    /// When the next request comes.
    next: Nanos,
    /// Requests that it may still give.
    left: u64,
    /// From then on it gives none.
    end: Nanos,
    /// How much faster synthetic arrivals come than drawn, in millionths.
    rate_millionths: u64,
}

/// In millionths: as it is.
const AS_IT_IS: u64 = 1_000_000;

enum Kind {
    Open(Arrivals, Ahead),
    Closed(Clients, Ahead),
    Replay(Box<Replay>),
}

/// Requests drawn before they are due, so that the device can be told of them.
struct Ahead {
    requests: Requests,
    drawn: [Drawn; AHEAD],
    next: usize,
}

/// A few: looking up one takes as long as serving two or three.
const AHEAD: usize = 4;

impl Ahead {
    fn new(mut requests: Requests) -> Self {
        let drawn = std::array::from_fn(|_| requests.draw());
        Self { requests, drawn, next: 0 }
    }

    /// Takes the next, and draws another.
    fn take(&mut self) -> Drawn {
        let drawn = std::mem::replace(&mut self.drawn[self.next], self.requests.draw());
        self.next = (self.next + 1) % AHEAD;
        drawn
    }

    /// The one that was drawn last.
    const fn newest(&self) -> &Drawn {
        &self.drawn[(self.next + AHEAD - 1) % AHEAD]
    }
}

/// The clients of a closed loop.
struct Clients {
    think: Think,
    /// Clients that send a request at time `ready_at`.
    ready: u32,
    ready_at: Nanos,
    /// When those that think send their next.
    thinking: BinaryHeap<Reverse<Nanos>>,
}

impl Clients {
    fn new(clients: u32, mut think: Think) -> Self {
        let mut thinking = BinaryHeap::with_capacity(clients as usize);
        let mut ready = clients;
        if !think.is_none() {
            // As if they had been at it for long, rather than all at once.
            thinking.extend((0..clients).map(|_| Reverse(think.draw())));
            ready = 0;
        }
        Self { think, ready, ready_at: Nanos::ZERO, thinking }
    }

    fn next(&self) -> Nanos {
        if self.ready > 0 {
            return self.ready_at;
        }
        self.thinking.peek().map_or(NEVER, |&Reverse(at)| at)
    }

    fn send(&mut self) {
        if self.ready > 0 {
            self.ready -= 1;
        } else {
            self.thinking.pop();
        }
    }

    fn answered(&mut self, at: Nanos) {
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
    /// A synthetic workload that ends after so many requests, or at a time.
    #[must_use]
    pub fn synthetic(workload: Workload, requests: Option<u64>, end: Option<Nanos>) -> Self {
        let kind = match workload.timing {
            Timing::Open(arrivals) => Kind::Open(arrivals, Ahead::new(workload.requests)),
            Timing::Closed { clients, think } => {
                Kind::Closed(Clients::new(clients, think), Ahead::new(workload.requests))
            }
        };
        let mut source = Self {
            kind,
            next: NEVER,
            left: requests.unwrap_or(u64::MAX),
            end: end.unwrap_or(NEVER),
            rate_millionths: AS_IT_IS,
        };
        source.find_next();
        source
    }

    /// The same, faster: times are divided by so many millionths, lengths of
    /// bursts included. To be called before anything is taken from it; a closed
    /// loop and a trace stay as they are.
    #[must_use]
    pub fn at_rate(mut self, millionths: u64) -> Self {
        if matches!(self.kind, Kind::Open(..)) {
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
        let kind = Kind::Replay(Box::new(replay));
        Ok(Self { kind, next, left: u64::MAX, end: NEVER, rate_millionths: AS_IT_IS })
    }

    /// When the next request comes; [`NEVER`] if none does, or none is known to.
    #[inline]
    pub(crate) const fn next(&self) -> Nanos {
        self.next
    }

    /// Whether it waits for answers before it sends more.
    pub(crate) const fn is_closed(&self) -> bool {
        matches!(self.kind, Kind::Closed(..))
    }

    /// Takes the request that comes at [`next`](Self::next).
    #[inline]
    pub(crate) fn take(&mut self) -> Result<(Drawn, Flags), Error> {
        self.left -= 1;
        let taken = match &mut self.kind {
            Kind::Open(_, ahead) => (ahead.take(), Flags::empty()),
            Kind::Closed(clients, ahead) => {
                clients.send();
                (ahead.take(), Flags::empty())
            }
            Kind::Replay(replay) => {
                let taken = replay.take()?;
                self.next = replay.next_arrival()?;
                return Ok(taken);
            }
        };
        self.find_next();
        Ok(taken)
    }

    /// The first byte of a request that will come soon, if one is known.
    #[inline]
    pub(crate) const fn coming(&self) -> Option<u64> {
        match &self.kind {
            Kind::Open(_, ahead) | Kind::Closed(_, ahead) => Some(ahead.newest().offset),
            Kind::Replay(_) => None,
        }
    }

    /// One of its requests has been answered.
    #[inline]
    pub(crate) fn answered(&mut self, at: Nanos) {
        if let Kind::Closed(clients, _) = &mut self.kind {
            clients.answered(at);
            self.find_next();
        }
    }

    #[inline]
    fn find_next(&mut self) {
        let next = match &mut self.kind {
            _ if self.left == 0 => NEVER,
            Kind::Open(arrivals, _) => arrivals.next(),
            Kind::Closed(clients, _) => clients.next(),
            Kind::Replay(_) => return,
        };
        self.next = self.within_end(next);
    }

    /// At the wanted rate, and never after the end.
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
