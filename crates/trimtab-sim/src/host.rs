//! The host's side of a device: submission queues, and the number of requests that the device
//! takes at a time.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use trimtab_io::{Nanos, Op};
use trimtab_steer::InFlightTable;
use trimtab_trace::synth::GeneratedRequest;

/// The host interface of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostInterface {
    /// Requests that the device takes at a time; the others wait in their
    /// submission queues.
    pub queue_depth: u32,
    /// The number of submission queues.
    pub submission_queues: u32,
    /// How the next queue is selected.
    pub arbitration: Arbitration,
}

/// How the next submission queue is selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// The one whose first request has waited longest.
    #[default]
    FirstCome,
    /// Each non-empty one in turn (NVMe's round robin, with bursts of one).
    RoundRobin,
}

impl HostInterface {
    /// The most that `queue_depth` can be: NVMe's limit.
    pub const MOST_DEPTH: u32 = 1 << 16;
    /// The most that `submission_queues` can be: NVMe's limit.
    pub const MOST_QUEUES: u32 = u16::MAX as u32;
}

impl Default for HostInterface {
    fn default() -> Self {
        Self { queue_depth: 1024, submission_queues: 1, arbitration: Arbitration::FirstCome }
    }
}

/// A request that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) at: Nanos,
    /// Its number, from 0.
    pub(crate) number: u64,
    pub(crate) drawn: GeneratedRequest,
    pub(crate) flags: trimtab_io::Flags,
    /// The workload that it belongs to.
    pub(crate) workload: u32,
    /// Whether its latency counts: it arrived after the warm-up.
    pub(crate) measured: bool,
}

/// The data kept for a request that the device has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) arrived: Nanos,
    pub(crate) length: u64,
    pub(crate) workload: u32,
    pub(crate) op: Op,
    pub(crate) measured: bool,
}

/// The queues and the device's slots.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    queues: Box<[VecDeque<Arrived>]>,
    /// Requests in all the queues.
    waiting: usize,
    arbitration: Arbitration,
    /// The queue whose turn is next.
    turn: usize,
    sent: InFlightTable<Sent>,
    /// Requests that the device takes at a time.
    slots: usize,
}

/// Bits of a request's name that hold its slot; the others are its number.
const SLOT_BITS: u32 = HostInterface::MOST_DEPTH.trailing_zeros();

impl Host {
    pub(crate) fn new(interface: HostInterface) -> Self {
        let slots = interface.queue_depth.clamp(1, HostInterface::MOST_DEPTH);
        let queues = match interface.arbitration {
            // First come, first served over several queues equals one queue.
            Arbitration::FirstCome => 1,
            Arbitration::RoundRobin => {
                interface.submission_queues.clamp(1, HostInterface::MOST_QUEUES)
            }
        };
        Self {
            queues: vec![VecDeque::new(); queues as usize].into(),
            waiting: 0,
            arbitration: interface.arbitration,
            turn: 0,
            sent: InFlightTable::with_capacity(slots as usize),
            slots: slots as usize,
        }
    }

    /// Requests that the device has.
    #[inline]
    pub(crate) const fn in_flight(&self) -> usize {
        self.sent.len()
    }

    /// Requests that wait for the device to take them.
    #[inline]
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether no request is anywhere.
    #[inline]
    pub(crate) const fn is_idle(&self) -> bool {
        self.waiting == 0 && self.in_flight() == 0
    }

    /// Whether a request that arrives now can go to the device at once.
    #[inline]
    pub(crate) const fn is_open(&self) -> bool {
        self.waiting == 0 && self.in_flight() < self.slots
    }

    /// Puts a request into a submission queue (its number modulo the number of queues).
    pub(crate) fn push(&mut self, queue: u64, arrived: Arrived) {
        let queue = queue % self.queues.len() as u64;
        self.queues[queue as usize].push_back(arrived);
        self.waiting += 1;
    }

    /// The next request for the device, if the device takes one and there is one.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Arrived> {
        if self.waiting == 0 || self.in_flight() >= self.slots {
            return None;
        }
        let queue = match self.arbitration {
            Arbitration::FirstCome => 0,
            Arbitration::RoundRobin => {
                let all = self.queues.len();
                let in_turn = (self.turn..all).chain(0..self.turn);
                let queue = in_turn.into_iter().find(|&i| !self.queues[i].is_empty())?;
                self.turn = (queue + 1) % all;
                queue
            }
        };
        self.waiting -= 1;
        self.queues[queue].pop_front()
    }

    /// Takes a slot for a request, and returns the request's name while it is in flight. A
    /// slot must be free: check [`is_open`](Self::is_open).
    #[inline]
    pub(crate) fn send(&mut self, arrived: &Arrived) -> u64 {
        debug_assert!(self.in_flight() < self.slots, "is_open was asked");
        let slot = self.sent.insert(Sent {
            arrived: arrived.at,
            length: arrived.drawn.length,
            workload: arrived.workload,
            op: arrived.drawn.op,
            measured: arrived.measured,
        });
        arrived.number << SLOT_BITS | u64::from(slot)
    }

    /// A request has completed: its slot is free again.
    #[inline]
    pub(crate) fn done(&mut self, name: u64) -> Sent {
        let slot = (name & ((1 << SLOT_BITS) - 1)) as u32;
        self.sent.remove(slot);
        self.sent[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(number: u64) -> Arrived {
        Arrived {
            at: Nanos(number),
            number,
            drawn: GeneratedRequest { op: Op::Read, offset: 0, length: 4096 },
            flags: trimtab_io::Flags::empty(),
            workload: 0,
            measured: true,
        }
    }

    fn order(arbitration: Arbitration) -> Vec<u64> {
        let interface = HostInterface { queue_depth: 1, submission_queues: 3, arbitration };
        let mut host = Host::new(interface);
        for (number, queue) in [(0, 1), (1, 1), (2, 1), (3, 0), (4, 2), (5, 0)] {
            host.push(queue, arrived(number));
        }
        let mut order = Vec::new();
        while let Some(next) = host.pop() {
            let name = host.send(&next);
            assert!(host.pop().is_none(), "the device takes one at a time");
            order.push(next.number);
            host.done(name);
        }
        order
    }

    #[test]
    fn first_come_follows_arrival_order() {
        assert_eq!(order(Arbitration::FirstCome), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn round_robin_takes_one_of_each() {
        assert_eq!(order(Arbitration::RoundRobin), [3, 0, 4, 5, 1, 2]);
    }
}
