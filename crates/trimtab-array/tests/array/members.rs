//! Arrays of members in memory, under a planner, with a write buffer or without.

use std::collections::{BTreeMap, BTreeSet};

use crate::nvram::Nvram;
use trimtab_array::planner::{Action, MemberIo, PartTimer, Planner};
use trimtab_array::policy::ReadPolicy;
use trimtab_array::staging::StagingOptions;
use trimtab_array::{Content, Layout, Level, Member, Parity, Role};
use trimtab_io::{DeviceId, Flags, Nanos, Op, Outcome, Request, RequestId, SplitMix64};

pub(crate) const CHUNK: u64 = 4096;
pub(crate) const STRIPES: u64 = 3;

/// A request to a member that has not been answered.
pub(crate) struct InFlight {
    io: MemberIo,
    request: Request,
    sent: Nanos,
    /// What is written.
    data: Vec<u8>,
    is_cancelled: bool,
}

/// An array of members in memory, which answer in random order.
pub(crate) struct Array {
    pub(crate) planner: Planner,
    content: Content,
    pub(crate) members: Vec<Vec<u8>>,
    in_flight: Vec<InFlight>,
    timers: Vec<(Nanos, PartTimer)>,
    pub(crate) now: Nanos,
    random: SplitMix64,
    /// Data of the user's requests.
    pub(crate) user: BTreeMap<u64, (Request, Vec<u8>)>,
    pub(crate) completed: BTreeMap<u64, Outcome>,
    /// Members whose requests fail.
    pub(crate) broken: BTreeSet<u8>,
    /// Of flagged reads this share is refused, and of all reads this share fails, percent.
    refused: u64,
    pub(crate) failed: u64,
    /// A write buffer before the members, and the requests that it has.
    pub(crate) nvram: Option<Nvram>,
    buffered: BTreeMap<u32, InFlight>,
}

impl Array {
    pub(crate) fn new(layout: Layout, policy: Box<dyn ReadPolicy>, seed: u64) -> Self {
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
            nvram: None,
            buffered: BTreeMap::new(),
        }
    }

    /// The same with a write buffer before the members.
    pub(crate) fn with_nvram(self, options: StagingOptions) -> Self {
        let nvram = Some(Nvram::new(self.members.len(), options));
        Self { nvram, ..self }
    }

    fn percent(&mut self, share: u64) -> bool {
        self.random.next() % 100 < share
    }

    pub(crate) fn submit(&mut self, id: u64, op: Op, offset: u64, data: Vec<u8>) {
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
    pub(crate) fn step(&mut self) -> bool {
        self.now += Nanos(1 + self.random.next() % 1000);
        if !self.timers.is_empty() && self.percent(20) {
            let place = self.random.next() as usize % self.timers.len();
            let (at, timer) = self.timers[place];
            // Later ones would let time, and what policies derive from it, grow without end.
            if at <= self.now + Nanos::from_millis(1000) {
                self.timers.swap_remove(place);
                self.now = self.now.max(at);
                if !self.planner.is_over(timer) {
                    self.planner.timer(self.now, timer);
                }
                self.act();
                return true;
            }
        }
        if self.nvram.is_some()
            && (self.in_flight.is_empty() || self.percent(50))
            && self.step_nvram()
        {
            return true;
        }
        if self.in_flight.is_empty() {
            return !std::mem::take(&mut self.timers).is_empty();
        }
        let place = self.random.next() as usize % self.in_flight.len();
        let in_flight = self.in_flight.swap_remove(place);
        match &mut self.nvram {
            Some(nvram) if !in_flight.is_cancelled => {
                let (member, request) = (in_flight.io.member, in_flight.request);
                let slot = nvram.submit(self.now, member, request, in_flight.data.clone());
                self.buffered.insert(slot, in_flight);
                self.take_from_nvram();
            }
            _ => {
                let InFlight { io, request, sent, data, is_cancelled } = in_flight;
                let outcome = (!is_cancelled).then(|| self.answer(io, &request, &data));
                self.planner.ended(self.now, io, sent, outcome);
                self.act();
            }
        }
        true
    }

    /// Handles an event of the write buffer; false if there is none.
    fn step_nvram(&mut self) -> bool {
        let Some(nvram) = &mut self.nvram else { return false };
        let broken = &self.broken;
        let is_broken = |member: Member| broken.contains(&member.0);
        let now = nvram.step(self.now, &mut self.random, &mut self.members, is_broken);
        let Some(now) = now else { return false };
        self.now = now;
        self.take_from_nvram();
        true
    }

    fn take_from_nvram(&mut self) {
        while let Some((slot, outcome, data)) =
            self.nvram.as_mut().and_then(|nvram| nvram.answered())
        {
            let InFlight { io, request, sent, .. } = self.buffered.remove(&slot).unwrap();
            let is_read = request.op == Op::Read && outcome == Outcome::Done;
            if is_read && self.planner.awaits(io) {
                let view = self.planner.part(io.part);
                self.content.read_into(&view, &io).copy_from_slice(&data);
            }
            self.planner.ended(self.now, io, sent, Some(outcome));
            self.act();
        }
    }

    /// Brings all to the members.
    pub(crate) fn shut_down(&mut self) {
        let Some(nvram) = &mut self.nvram else { return };
        nvram.shut_down();
        while self.step_nvram() {}
        let nvram = self.nvram.as_ref().expect("it is there");
        nvram.check_empty();
        // The planner learns of these with the next write.
        let failed: Vec<_> = nvram.failed().collect();
        failed.into_iter().for_each(|member| self.planner.lose(member));
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
        } else if request.op == Op::Discard {
            member[range].fill(0);
        }
        Outcome::Done
    }

    pub(crate) fn run(&mut self) {
        for _ in 0..100_000 {
            if !self.step() {
                assert!(self.planner.is_idle(), "requests are stuck");
                return;
            }
        }
        panic!("it does not come to an end");
    }

    /// Parity fits the data, as far as members are not lost.
    pub(crate) fn check_parity(&self) {
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
