//! A write buffer between a planner and members in memory, which begin, carry out and answer
//! requests in random order.

use std::collections::BTreeMap;

use trimtab_array::Member;
use trimtab_array::staging::{Destaging, StagedContent, Staging, StagingAction, StagingOptions};
use trimtab_io::{Nanos, Op, Outcome, Request, SplitMix64};

/// The buffer, what it has been asked, and what it has asked drives.
pub(crate) struct Nvram {
    staging: Staging,
    content: StagedContent,
    /// By number, requests that have not been answered, and what they write.
    above: BTreeMap<u32, (Request, Vec<u8>)>,
    next_slot: u32,
    below: Vec<Below>,
    /// Data that drives have returned, by ticket.
    returned: BTreeMap<u32, Vec<u8>>,
    answered: Vec<(u32, Outcome, Vec<u8>)>,
}

/// A request that a drive has.
struct Below {
    member: Member,
    ticket: u32,
    request: Request,
    data: Vec<u8>,
    /// A drive may have carried it out long before it answers.
    carried_out: Option<Outcome>,
}

impl Nvram {
    pub(crate) fn new(members: usize, options: StagingOptions) -> Self {
        Self {
            staging: Staging::new(members, options),
            content: StagedContent::default(),
            above: BTreeMap::new(),
            next_slot: 0,
            below: Vec::new(),
            returned: BTreeMap::new(),
            answered: Vec::new(),
        }
    }

    pub(crate) fn failed(&self) -> impl Iterator<Item = Member> {
        self.staging.failed().iter()
    }

    /// Returns the request's number.
    pub(crate) fn submit(
        &mut self,
        now: Nanos,
        member: Member,
        request: Request,
        data: Vec<u8>,
    ) -> u32 {
        let slot = self.next_slot;
        self.next_slot += 1;
        self.above.insert(slot, (request, data));
        self.staging.submit(now, member, slot, &request);
        self.act();
        slot
    }

    /// A request that has been answered: its number, and what it has read.
    pub(crate) fn answered(&mut self) -> Option<(u32, Outcome, Vec<u8>)> {
        (!self.answered.is_empty()).then(|| self.answered.remove(0))
    }

    /// Handles a random event, on these members, of which some are broken; returns the time, or
    /// none if there is nothing to do.
    pub(crate) fn step(
        &mut self,
        now: Nanos,
        random: &mut SplitMix64,
        members: &mut [Vec<u8>],
        is_broken: impl Fn(Member) -> bool,
    ) -> Option<Nanos> {
        let member = Member((random.next() % members.len() as u64) as u8);
        if self.below.len() < 40 && self.staging.destage(now, member) {
            self.act();
            return Some(now);
        }
        if self.staging.next_event() <= now || self.below.is_empty() {
            let event = self.staging.next_event();
            if event == Nanos::MAX && self.below.is_empty() {
                let idle = self.staging.is_empty();
                return (!idle).then_some(now);
            }
            let now = if event == Nanos::MAX { now } else { now.max(event) };
            self.staging.advance(now);
            self.act();
            return Some(now);
        }
        let place = random.next() as usize % self.below.len();
        if self.below[place].carried_out.is_none() {
            self.below[place].carry_out(members, is_broken);
        } else {
            let Below { ticket, request, data, carried_out, .. } = self.below.swap_remove(place);
            if request.op == Op::Read {
                self.returned.insert(ticket, data);
            }
            self.staging.ended(now, ticket, carried_out.expect("it was carried out"));
            self.act();
        }
        Some(now)
    }

    /// What is left is written, whatever turn it is.
    pub(crate) fn shut_down(&mut self) {
        self.staging.set_destaging(Destaging::AtOnce);
    }

    /// All is on the drives, and no memory is kept.
    pub(crate) fn check_empty(&self) {
        assert!(self.staging.is_empty() && self.above.is_empty() && self.below.is_empty());
        assert_eq!(self.staging.used(), 0);
    }

    fn act(&mut self) {
        while let Some(action) = self.staging.next_action() {
            match action {
                StagingAction::Send(member, ticket, request) => {
                    let mut data = vec![0; request.length as usize];
                    let is_destage = self.staging.pieces(ticket).iter().map(|piece| piece.length);
                    if request.op == Op::Write {
                        assert_eq!(is_destage.sum::<u64>(), request.length);
                        self.content.copy(self.staging.pieces(ticket), request.offset, &mut data);
                        self.check_order(member, &request);
                    }
                    let carried_out = None;
                    self.below.push(Below { member, ticket, request, data, carried_out });
                }
                StagingAction::Store { record, slot } => {
                    self.content.store(record, &self.above[&slot].1);
                }
                StagingAction::Answer { slot, ticket, outcome, .. } => {
                    let (request, _) = self.above.remove(&slot).expect("it is answered once");
                    let nothing = || vec![0; request.length as usize];
                    let mut data = self.returned.remove(&ticket).unwrap_or_else(nothing);
                    if request.op == Op::Read && outcome == Outcome::Done {
                        self.content.copy(self.staging.pieces(ticket), request.offset, &mut data);
                    }
                    self.answered.push((slot, outcome, data));
                }
                StagingAction::Free(record) => self.content.free(record),
            }
        }
    }

    /// No write to a drive may overtake another one of the same bytes.
    fn check_order(&self, member: Member, request: &Request) {
        let overlaps = |below: &&Below| {
            below.member == member
                && below.request.op != Op::Read
                && below.request.offset < request.end()
                && request.offset < below.request.end()
        };
        assert_eq!(self.below.iter().filter(overlaps).count(), 0, "{request:?} overtakes");
    }
}

impl Below {
    fn carry_out(&mut self, members: &mut [Vec<u8>], is_broken: impl Fn(Member) -> bool) {
        let range = self.request.offset as usize..self.request.end() as usize;
        let bytes = &mut members[self.member.index()][range];
        match self.request.op {
            _ if is_broken(self.member) => {
                self.carried_out = Some(Outcome::Error);
                return;
            }
            Op::Read => self.data.copy_from_slice(bytes),
            Op::Write => bytes.copy_from_slice(&self.data),
            // What was discarded may be anything.
            Op::Discard => bytes.fill(0xdd),
            Op::Flush => {}
        }
        self.carried_out = Some(Outcome::Done);
    }
}
