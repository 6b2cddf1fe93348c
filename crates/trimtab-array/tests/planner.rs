//! What holds for the planner under any policy, on members that hold bytes: reads return what was
//! written last, parity fits when nothing is in flight, and each request is answered once.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use trimtab_array::planner::{Action, MemberIo, PartTimer, Planner};
use trimtab_array::policy::{
    Asks, BusyTime, Flagged, Plain, Proactive, ReadPolicy, StripeRead, Tolerance, Tolerant,
    Trimtab, TrimtabOptions, Turns, Windows,
};
use trimtab_array::{Content, Layout, Level, Member, Parity, Role, Rotation};
use trimtab_io::{DeviceId, Flags, Nanos, Op, Outcome, Request, RequestId, SplitMix64};

const CHUNK: u64 = 4096;
const STRIPES: u64 = 3;

/// A request to a member that has not been answered.
struct InFlight {
    io: MemberIo,
    request: Request,
    sent: Nanos,
    /// What is written.
    data: Vec<u8>,
    is_cancelled: bool,
}

/// An array of members in memory, which answer in random order.
struct Array {
    planner: Planner,
    content: Content,
    members: Vec<Vec<u8>>,
    in_flight: Vec<InFlight>,
    timers: Vec<(Nanos, PartTimer)>,
    now: Nanos,
    random: SplitMix64,
    /// Data of the user's requests.
    user: BTreeMap<u64, (Request, Vec<u8>)>,
    completed: BTreeMap<u64, Outcome>,
    /// Members whose requests fail.
    broken: BTreeSet<u8>,
    /// Of flagged reads this share is refused, and of all reads this share fails, percent.
    refused: u64,
    failed: u64,
}

impl Array {
    fn new(layout: Layout, policy: Box<dyn ReadPolicy>, seed: u64) -> Self {
        let bytes = layout.member_bytes() as usize;
        Self {
            planner: Planner::new(layout, policy),
            content: Content::new(layout),
            members: vec![vec![0; bytes]; layout.members()],
            in_flight: Vec::new(),
            timers: Vec::new(),
            now: Nanos(1),
            random: SplitMix64::new(seed),
            user: BTreeMap::new(),
            completed: BTreeMap::new(),
            broken: BTreeSet::new(),
            refused: 30,
            failed: 0,
        }
    }

    fn percent(&mut self, share: u64) -> bool {
        self.random.next() % 100 < share
    }

    fn submit(&mut self, id: u64, op: Op, offset: u64, data: Vec<u8>) {
        let length = data.len() as u64;
        let request = Request::new(RequestId(id), DeviceId(0), self.now, op, offset, length);
        self.user.insert(id, (request, data));
        self.planner.submit(self.now, &request);
        self.act();
    }

    fn act(&mut self) {
        while let Some(action) = self.planner.next_action() {
            match action {
                Action::Send(io, request) => self.send(io, request),
                Action::Cancel(part) => self.cancel(part),
                Action::Compute(part, _) => {
                    let view = self.planner.part(part);
                    let user = self.user.get(&view.request.0).map_or(&[][..], |user| &user.1);
                    self.content.compute(part, &view, user).expect("it can be computed");
                    self.planner.computed(self.now, part);
                }
                Action::Timer(at, timer) => self.timers.push((at, timer)),
                Action::PartDone(part) => {
                    let view = self.planner.part(part);
                    let (request, data) = self.user.get_mut(&view.request.0).unwrap();
                    if request.op == Op::Read {
                        self.content.deliver(part, &view, data);
                    }
                }
                Action::Complete(id, outcome) => {
                    let before = self.completed.insert(id.0, outcome);
                    assert_eq!(before, None, "{id:?} is complete twice");
                }
                Action::Lost(_) => {}
            }
        }
    }

    fn send(&mut self, io: MemberIo, request: Request) {
        let mut data = Vec::new();
        if request.op == Op::Write {
            let view = self.planner.part(io.part);
            let user = self.user.get(&view.request.0).map_or(&[][..], |user| &user.1);
            data = self.content.write_from(&view, &io, user).to_vec();
            assert_eq!(data.len() as u64, request.length);
        }
        let sent = self.now;
        self.in_flight.push(InFlight { io, request, sent, data, is_cancelled: false });
    }

    fn cancel(&mut self, part: u32) {
        // Those that still wait: some of them.
        for place in 0..self.in_flight.len() {
            let fits = self.in_flight[place].io.part == part;
            if fits && self.in_flight[place].request.op == Op::Read && self.percent(50) {
                self.in_flight[place].is_cancelled = true;
            }
        }
    }

    /// Handles a random event; false if there is none.
    fn step(&mut self) -> bool {
        self.now += Nanos(1 + self.random.next() % 1000);
        if !self.timers.is_empty() && self.percent(20) {
            let place = self.random.next() as usize % self.timers.len();
            let (at, timer) = self.timers.swap_remove(place);
            self.now = self.now.max(at);
            if !self.planner.is_over(timer) {
                self.planner.timer(self.now, timer);
            }
            self.act();
            return true;
        }
        if self.in_flight.is_empty() {
            return !std::mem::take(&mut self.timers).is_empty();
        }
        let place = self.random.next() as usize % self.in_flight.len();
        let InFlight { io, request, sent, data, is_cancelled } = self.in_flight.swap_remove(place);
        let outcome = (!is_cancelled).then(|| self.answer(io, &request, &data));
        self.planner.ended(self.now, io, sent, outcome);
        self.act();
        true
    }

    fn answer(&mut self, io: MemberIo, request: &Request, data: &[u8]) -> Outcome {
        let is_read = request.op == Op::Read;
        let flagged = request.flags.contains(Flags::LATENCY_CRITICAL);
        if self.broken.contains(&io.member.0) {
            return Outcome::Error;
        }
        if is_read && flagged && self.percent(self.refused) {
            return Outcome::Refused { expected_wait: Nanos(self.random.next() % 100_000) };
        }
        if is_read && self.percent(self.failed) {
            return Outcome::Error;
        }
        let range = request.offset as usize..(request.offset + request.length) as usize;
        let member = &mut self.members[io.member.index()];
        if is_read {
            let view = self.planner.part(io.part);
            self.content.read_into(&view, &io).copy_from_slice(&member[range]);
        } else if request.op == Op::Write {
            member[range].copy_from_slice(data);
        }
        Outcome::Done
    }

    fn run(&mut self) {
        for _ in 0..100_000 {
            if !self.step() {
                assert!(self.planner.is_idle(), "requests are stuck");
                return;
            }
        }
        panic!("it does not come to an end");
    }

    /// Parity fits the data, as far as members are not lost.
    fn check_parity(&self) {
        let layout = *self.planner.layout();
        let intact = |member: usize| !self.planner.lost().has(Member(member as u8));
        for stripe in 0..layout.stripes() {
            let range = (stripe * CHUNK) as usize..((stripe + 1) * CHUNK) as usize;
            let strip = |member: usize| &self.members[member][range.clone()];
            if layout.level() == Level::Raid1 {
                let copies: Vec<_> = (0..layout.members()).filter(|&m| intact(m)).collect();
                assert!(copies.iter().all(|&m| strip(m) == strip(copies[0])), "copies differ");
                continue;
            }
            let members: Vec<_> =
                (0..layout.data_chunks()).map(|i| layout.data_member(stripe, i)).collect();
            if !members.iter().all(|&member| intact(member)) {
                continue;
            }
            let data: Vec<_> = members.iter().map(|&member| strip(member)).collect();
            let (mut p, mut q) = (vec![0; CHUNK as usize], vec![0; CHUNK as usize]);
            Parity::PORTABLE.p_and_q(&data, &mut p, &mut q);
            for member in (0..layout.members()).filter(|&member| intact(member)) {
                match layout.role(stripe, member) {
                    Role::P => assert!(strip(member) == p, "P of stripe {stripe}"),
                    Role::Q => assert!(strip(member) == q, "Q of stripe {stripe}"),
                    _ => {}
                }
            }
        }
    }
}

/// Has one member after the other written again.
#[derive(Debug)]
struct Refreshing(u8, u8);

impl ReadPolicy for Refreshing {
    fn begin(&mut self, _: Nanos, read: &StripeRead<'_>, asks: &mut Asks) {
        asks.flagged(read.wanted());
    }

    fn refresh(&mut self, _: Nanos, _: u64) -> Option<Member> {
        self.0 = (self.0 + 1) % self.1;
        Some(Member(self.0))
    }
}

fn policy(number: usize, layout: &Layout) -> Box<dyn ReadPolicy> {
    let turns = Turns { start: Nanos(0), length: Nanos(3000), members: layout.members() as u8 };
    match number {
        0 => Box::new(Plain),
        1 => Box::new(Flagged::new(BusyTime::Ignored)),
        2 => Box::new(Flagged::new(BusyTime::Shortest)),
        3 => Box::new(Windows::new(turns)),
        4 => Box::new(Proactive::FULL_STRIPE),
        5 => Box::new(Proactive::with_extra(1)),
        6 => Box::new(Tolerant::new(Tolerance::REACTIVE)),
        7 => Box::new(Refreshing(0, layout.members() as u8)),
        8 => Box::new(Trimtab::new(layout.members(), TrimtabOptions::default())),
        _ => Box::new(Tolerant::new(Tolerance::ADAPTIVE)),
    }
}

fn layouts() -> impl Strategy<Value = Layout> {
    let level = prop_oneof![
        Just((Level::Raid0, 2)),
        Just((Level::Raid1, 2)),
        Just((Level::Raid4, 3)),
        Just((Level::Raid5, 3)),
        Just((Level::Raid6, 4)),
    ];
    (level, 0_usize..5, any::<bool>()).prop_map(|((level, least), more, last)| {
        let rotation = if last { Rotation::ParityLast } else { Rotation::LeftSymmetric };
        Layout::new(level, rotation, least + more, CHUNK, STRIPES * CHUNK).unwrap()
    })
}

/// A request: whether it writes, and its range as fractions of the array.
type Wanted = (bool, f64, f64, usize);

fn requests() -> impl Strategy<Value = Vec<Wanted>> {
    let length = prop_oneof![3 => 0.0..0.1_f64, 1 => 0.0..1.0_f64];
    prop::collection::vec((any::<bool>(), 0.0..1.0_f64, length, 0_usize..12), 1..40)
}

fn range(layout: &Layout, offset: f64, length: f64) -> (u64, u64) {
    let capacity = layout.capacity();
    let offset = (capacity as f64 * offset) as u64 & !511;
    let length = 512 + ((capacity as f64 * length) as u64 & !511);
    (offset, length.clamp(512, capacity - offset))
}

/// How many members can be lost.
fn redundancy(layout: &Layout) -> usize {
    match layout.level() {
        Level::Raid1 => layout.members() - 1,
        level => level.parities(),
    }
}

/// Requests of which those at a time that are given overlap in time. Checks each read against what
/// was or was being written.
fn check(
    layout: Layout,
    policy_number: usize,
    requests: &[Wanted],
    seed: u64,
    lost: usize,
    failed: u64,
) -> Result<(), TestCaseError> {
    let mut array = Array::new(layout, policy(policy_number, &layout), seed);
    array.failed = failed;
    // What each byte may be: the last complete write, and all since that had begun.
    let mut current = vec![0_u8; layout.capacity() as usize];
    let mut open: Vec<(u64, bool, u64, u64, u8)> = Vec::new();
    for (number, &(write, offset, length, steps)) in requests.iter().enumerate() {
        let (offset, length) = range(&layout, offset, length);
        let id = number as u64;
        let value = 1 + (number % 250) as u8;
        // Two that overlap and of which one writes may give either; that is tested by parity
        // alone. Here they come one after the other.
        let overlaps = |&(_, writes, from, bytes, _): &(u64, bool, u64, u64, u8)| {
            (writes || write) && from < offset + length && offset < from + bytes
        };
        while open.iter().any(overlaps) {
            prop_assert!(array.step(), "stuck");
            settle(&mut array, &mut open, &mut current)?;
        }
        if number == requests.len() / 2 {
            for member in 0..lost.min(redundancy(&layout)) {
                // Without an announcement, or with one.
                array.broken.insert(member as u8);
                if seed.is_multiple_of(2) {
                    array.planner.lose(Member(member as u8));
                }
            }
        }
        let data = vec![if write { value } else { 0 }; length as usize];
        let op = if write { Op::Write } else { Op::Read };
        open.push((id, write, offset, length, value));
        array.submit(id, op, offset, data);
        for _ in 0..steps {
            array.step();
        }
        settle(&mut array, &mut open, &mut current)?;
    }
    array.run();
    settle(&mut array, &mut open, &mut current)?;
    prop_assert!(open.is_empty());
    prop_assert_eq!(array.completed.len(), requests.len());
    array.check_parity();
    Ok(())
}

/// Compares complete reads, and enters complete writes.
fn settle(
    array: &mut Array,
    open: &mut Vec<(u64, bool, u64, u64, u8)>,
    current: &mut [u8],
) -> Result<(), TestCaseError> {
    let mut still = Vec::new();
    for (id, write, offset, length, value) in open.drain(..) {
        let Some(outcome) = array.completed.get(&id) else {
            still.push((id, write, offset, length, value));
            continue;
        };
        prop_assert_eq!(*outcome, Outcome::Done, "{}", id);
        let range = offset as usize..(offset + length) as usize;
        if write {
            current[range].fill(value);
        } else {
            prop_assert!(array.user[&id].1 == current[range], "read {} is wrong", id);
        }
    }
    *open = still;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn reads_return_what_was_written(
        layout in layouts(),
        policy in 0_usize..10,
        requests in requests(),
        seed: u64,
    ) {
        check(layout, policy, &requests, seed, 0, 0)?;
    }

    /// As many members fail as the level can lose.
    #[test]
    fn lost_members_are_gone_around(
        layout in layouts(),
        policy in 0_usize..10,
        requests in requests(),
        seed: u64,
        lost in 1_usize..3,
    ) {
        check(layout, policy, &requests, seed, lost, 0)?;
    }

    /// Requests overlap in time and place: a read returns, for each sector, what was written last
    /// before it began or something that was written meanwhile; and parity fits afterwards.
    #[test]
    fn concurrent_requests_do_not_mix_old_and_new(
        layout in layouts(),
        policy in 0_usize..10,
        requests in requests(),
        seed: u64,
    ) {
        let mut array = Array::new(layout, self::policy(policy, &layout), seed);
        let mut all: Vec<Lasting> = Vec::new();
        for (number, &(write, offset, length, steps)) in requests.iter().enumerate() {
            let (offset, length) = range(&layout, offset, length);
            let data = vec![if write { 1 + number as u8 } else { 0 }; length as usize];
            all.push(Lasting { write, offset, length, begun: array.now, ended: None });
            array.submit(number as u64, if write { Op::Write } else { Op::Read }, offset, data);
            note_ends(&mut all, &array);
            for _ in 0..steps / 3 {
                array.step();
                note_ends(&mut all, &array);
            }
        }
        while array.step() {
            note_ends(&mut all, &array);
        }
        prop_assert!(array.planner.is_idle());
        prop_assert!(array.completed.values().all(|outcome| *outcome == Outcome::Done));
        prop_assert_eq!(array.completed.len(), requests.len());
        array.check_parity();
        for (id, read) in all.iter().enumerate().filter(|(_, one)| !one.write) {
            let data = &array.user[&(id as u64)].1;
            for (sector, bytes) in data.chunks(512).enumerate() {
                let value = bytes[0];
                prop_assert!(bytes.iter().all(|&byte| byte == value), "torn");
                let at = read.offset + sector as u64 * 512;
                prop_assert!(may_return(&all, read, at, value), "read {} at {}: {}", id, at, value);
            }
        }
    }
}

/// A request and its time.
struct Lasting {
    write: bool,
    offset: u64,
    length: u64,
    begun: Nanos,
    ended: Option<Nanos>,
}

fn note_ends(all: &mut [Lasting], array: &Array) {
    for (id, one) in all.iter_mut().enumerate() {
        if one.ended.is_none() && array.completed.contains_key(&(id as u64)) {
            one.ended = Some(array.now);
        }
    }
}

/// Whether a read may return this value of a sector: that of a write, or what was there at first.
fn may_return(all: &[Lasting], read: &Lasting, at: u64, value: u8) -> bool {
    let covers = |one: &&Lasting| one.write && (one.offset..one.offset + one.length).contains(&at);
    // Whether a later write was over before the read began.
    let is_overwritten = |since: Nanos| {
        all.iter()
            .filter(covers)
            .any(|other| other.begun > since && other.ended.is_some_and(|ended| ended < read.begun))
    };
    match value.checked_sub(1) {
        None => !is_overwritten(Nanos(0)),
        Some(writer) => {
            let writer = &all[usize::from(writer)];
            covers(&writer)
                && writer.begun <= read.ended.unwrap()
                && writer.ended.is_none_or(|ended| !is_overwritten(ended))
        }
    }
}
