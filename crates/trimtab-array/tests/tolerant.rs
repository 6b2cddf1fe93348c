//! The strategies of ToleRAID on its array: RAID 6 of eight, P and Q at the end, full stripes
//! (Hao et al., "The tail at store"; dissertation, §3.3.1).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trimtab_array::planner::{Action, MemberIo, PartTimer, Planner};
use trimtab_array::policy::{Proactive, ReadPolicy, Tolerance, Tolerant};
use trimtab_array::{Layout, Level, Rotation};
use trimtab_io::{DeviceId, Nanos, Op, Outcome, Request, RequestId};

/// The time of a member that is not slow.
const ONE: u64 = 1_000;
const CHUNK: u64 = 4096;
const STRIPE: u64 = 6 * CHUNK;

enum Event {
    Ended(MemberIo, Nanos),
    Timer(PartTimer),
    Computed(u32),
}

/// An array under a policy, whose members are slowed down as a test says.
struct Array {
    planner: Planner,
    now: Nanos,
    reads: u64,
}

/// How a read went: its latency in times of a member that is not slow, and the requests sent to
/// members beside the six of the data.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    slowdown: u64,
    extra: u64,
}

impl Array {
    fn new(policy: impl ReadPolicy + 'static) -> Self {
        let rotation = Rotation::ParityLast;
        let layout = Layout::new(Level::Raid6, rotation, 8, CHUNK, 1 << 20).unwrap();
        Self { planner: Planner::new(layout, Box::new(policy)), now: Nanos(0), reads: 0 }
    }

    /// Reads a stripe while members answer this many times later than usual. Members that answer
    /// late do so before the next read.
    fn read(&mut self, slow: &[(u8, u64)]) -> Read {
        let sent_before = self.planner.counts().member_reads;
        let begun = self.now;
        let offset = self.reads % 8 * STRIPE;
        self.reads += 1;
        let id = RequestId(self.reads);
        self.planner.submit(begun, &Request::new(id, DeviceId(0), begun, Op::Read, offset, STRIPE));
        let (mut events, mut order) = (BinaryHeap::new(), Vec::new());
        let mut ended = None;
        loop {
            while let Some(action) = self.planner.next_action() {
                let (at, event) = match action {
                    Action::Send(io, _) => {
                        let factor = slow.iter().find(|(member, _)| *member == io.member.0);
                        let took = ONE * factor.map_or(1, |(_, factor)| *factor);
                        (self.now + Nanos(took), Event::Ended(io, self.now))
                    }
                    Action::Timer(at, timer) => (at, Event::Timer(timer)),
                    Action::Compute(part, _) => (self.now, Event::Computed(part)),
                    Action::Complete(_, outcome) => {
                        assert_eq!(outcome, Outcome::Done);
                        ended = Some(self.now.since(begun).0 / ONE);
                        continue;
                    }
                    Action::Cancel(_) | Action::PartDone(_) => continue,
                    Action::Lost(member) => panic!("{member:?} is lost"),
                };
                events.push(Reverse((at, order.len())));
                order.push(Some(event));
            }
            let Some(Reverse((at, number))) = events.pop() else { break };
            let event = order[number].take().unwrap();
            if let Event::Timer(timer) = event
                && self.planner.is_over(timer)
            {
                continue;
            }
            self.now = at;
            match event {
                Event::Ended(io, sent) => {
                    self.planner.ended(at, io, sent, Some(Outcome::Done));
                }
                Event::Timer(timer) => self.planner.timer(at, timer),
                Event::Computed(part) => self.planner.computed(at, part),
            }
        }
        let sent = self.planner.counts().member_reads - sent_before;
        Read { slowdown: ended.unwrap(), extra: sent - 6 }
    }
}

const fn read(slowdown: u64, extra: u64) -> Read {
    Read { slowdown, extra }
}

#[test]
fn reactive_reads_parity_after_twice_the_median() {
    let mut array = Array::new(Tolerant::new(Tolerance::REACTIVE));
    assert_eq!(array.read(&[]), read(1, 0));
    assert_eq!(array.read(&[(6, 50), (7, 50)]), read(1, 0), "parities are not read");
    assert_eq!(array.read(&[(2, 50)]), read(3, 1), "the wait, and a read");
    assert_eq!(array.read(&[(2, 50), (5, 50)]), read(3, 2));
    assert_eq!(array.read(&[(2, 2)]), read(2, 0), "not longer than the threshold");
    // With three late, two parities let it end with the first of them.
    assert_eq!(array.read(&[(0, 50), (2, 9), (5, 50)]), read(9, 2));
    // However often: it never becomes proactive.
    for _ in 0..10 {
        assert_eq!(array.read(&[(2, 50)]), read(3, 1));
    }
}

#[test]
fn proactive_reads_one_parity_or_two_at_once() {
    let mut one = Array::new(Proactive::with_extra(1));
    assert_eq!(one.read(&[]), read(1, 1));
    assert_eq!(one.read(&[(2, 50)]), read(1, 1));
    assert_eq!(one.read(&[(2, 50), (3, 9)]), read(9, 1), "the second is waited for");
    let mut two = Array::new(Proactive::with_extra(2));
    assert_eq!(two.read(&[(2, 50), (3, 9)]), read(1, 2));
    assert_eq!(two.read(&[(2, 50), (3, 9), (7, 5)]), read(5, 2));
    let mut all = Array::new(Proactive::FULL_STRIPE);
    assert_eq!(all.read(&[(2, 50), (3, 9)]), read(1, 2), "here the same as two");
}

#[test]
fn adaptive_is_proactive_while_a_member_is_late_again_and_again() {
    let mut array = Array::new(Tolerant::new(Tolerance::ADAPTIVE));
    array.read(&[]);
    for _ in 0..3 {
        assert_eq!(array.read(&[(2, 5)]), read(3, 1), "reactive");
    }
    for _ in 0..20 {
        assert_eq!(array.read(&[(2, 5)]), read(1, 1), "proactive");
    }
    assert_eq!(array.read(&[]), read(1, 1), "it has yet to see that the member is well");
    assert_eq!(array.read(&[]), read(1, 0));
    assert_eq!(array.read(&[(2, 5)]), read(3, 1), "it must be late three times again");
}

#[test]
fn adaptive_reads_both_parities_for_two_late_members() {
    let mut array = Array::new(Tolerant::new(Tolerance::ADAPTIVE));
    array.read(&[]);
    for _ in 0..3 {
        assert_eq!(array.read(&[(2, 5), (4, 9)]), read(3, 2));
    }
    assert_eq!(array.read(&[(2, 5), (4, 9)]), read(1, 2));
    // While it is proactive for one, another that is late is reacted to.
    array.read(&[(2, 5)]);
    assert_eq!(array.read(&[(2, 5)]), read(1, 1));
    assert_eq!(array.read(&[(2, 5), (0, 9)]), read(3, 2));
}

#[test]
fn adaptive_does_not_count_members_that_are_late_now_and_then() {
    let mut array = Array::new(Tolerant::new(Tolerance::ADAPTIVE));
    for _ in 0..20 {
        assert_eq!(array.read(&[(2, 50)]), read(3, 1));
        assert_eq!(array.read(&[(3, 50)]), read(3, 1));
        assert_eq!(array.read(&[]), read(1, 0));
    }
}
