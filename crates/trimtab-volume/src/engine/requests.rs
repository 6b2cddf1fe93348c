//! Requests of the kernel, and their answers.

use rustix::io::Errno;
use trimtab_array::Layout;
use trimtab_io::{DeviceId, Op, Outcome, Request, RequestId, monotonic};
use trimtab_serve::{DiskRequest, Taken, Ticket};

use super::{Engine, Fatal, Held, User};
use crate::zeroes;

/// Requests that are taken at once, at most, before completions are looked at.
const BATCH: usize = 32;

impl Engine {
    /// Takes the requests that have arrived.
    pub(super) fn take_messages(&mut self) -> Result<(), Fatal> {
        for _ in 0..BATCH {
            let (ticket, user) = match self.kernel_requests.take() {
                Taken::Request(ticket, request) => {
                    let user = match request {
                        DiskRequest::Zero { .. } if !self.makes_zeroes => {
                            Err(Err(Errno::OPNOTSUPP))
                        }
                        _ => user_of(&self.layout, self.block_bytes, ticket, &request),
                    };
                    (ticket, user)
                }
                Taken::Nothing => break,
                Taken::Ended => {
                    self.is_open = false;
                    break;
                }
            };
            match user {
                Ok(user) => self.arrived(user)?,
                Err(outcome) => self.kernel_requests.answer(ticket, outcome.map(|()| &[][..])),
            }
        }
        Ok(())
    }

    fn arrived(&mut self, user: User) -> Result<(), Fatal> {
        self.tasks.pace.used(user.begun);
        let is_write = matches!(user.op, Some(Op::Write | Op::Discard));
        let number = self.users.insert(user);
        if is_write && !self.may_begin(number) {
            self.waiting.push_back(number);
            return Ok(());
        }
        self.begin(number)
    }

    /// Whether a write may begin now. Notes what has to be written before.
    fn may_begin(&mut self, number: u32) -> bool {
        let stripes = &self.users[number].stripes;
        if self.tasks.is_in_window(stripes) {
            return false;
        }
        if self.redundancy() == 0 {
            return true;
        }
        // After a crash the superblocks must tell which members have what is written from now on.
        if self.failure.is_some() {
            return false;
        }
        let chunk = self.layout.chunk();
        let range = stripes.start * chunk..stripes.end * chunk;
        self.shared.regions().mark(&range);
        let needed = self.metadata.intend(range);
        self.metadata.is_written(needed)
    }

    /// Begins the writes that waited and may begin now.
    pub(super) fn begin_waiting(&mut self) -> Result<(), Fatal> {
        for _ in 0..self.waiting.len() {
            let Some(number) = self.waiting.pop_front() else { break };
            if self.may_begin(number) {
                self.begin(number)?;
            } else {
                self.waiting.push_back(number);
            }
        }
        Ok(())
    }

    fn begin(&mut self, number: u32) -> Result<(), Fatal> {
        let user = &mut self.users[number];
        if matches!(user.op, Some(Op::Write | Op::Discard)) {
            user.has_begun = true;
            let chunk = self.layout.chunk();
            let range = user.stripes.start * chunk..user.stripes.end * chunk;
            self.shared.regions().begin(&range);
            self.tasks.begin_write(number, user.stripes.clone());
        }
        self.submit(number);
        self.act()
    }

    /// Gives a request to the planner: of a discard the next step.
    fn submit(&mut self, number: u32) {
        let user = &mut self.users[number];
        let (op, offset, length) = match user.op {
            Some(Op::Discard) => {
                let (at, left) = (user.offset + user.zeroed, user.length - user.zeroed);
                let (op, length) = zeroes::step(&self.layout, at, left);
                user.zeroed += length;
                user.data = if op == Op::Write { vec![0; length as usize] } else { Vec::new() };
                (op, at, length)
            }
            op => (op.unwrap_or(Op::Flush), user.offset, user.length),
        };
        let id = RequestId(number.into());
        let request = Request::new(id, DeviceId(0), user.begun, op, offset, length);
        self.planner.submit(self.now, &request);
    }

    /// A request is complete.
    pub(super) fn completed(&mut self, number: u32, outcome: Outcome) {
        let user = &mut self.users[number];
        let is_done = outcome == Outcome::Done;
        if is_done && user.op == Some(Op::Discard) && user.zeroed < user.length {
            return self.submit(number);
        }
        if user.has_begun {
            let chunk = self.layout.chunk();
            let range = user.stripes.start * chunk..user.stripes.end * chunk;
            self.shared.regions().end(&range);
            self.tasks.end_write(number);
        }
        // A member that failed must not be taken for a current one after a crash.
        match self.failure {
            Some(until) if user.op != Some(Op::Read) => {
                self.held.push_back(Held { until, number, is_done });
            }
            _ => self.answer(number, is_done),
        }
    }

    fn answer(&mut self, number: u32, is_done: bool) {
        let user = &mut self.users[number];
        let User { ticket, length, begun, .. } = *user;
        let op = user.op.unwrap_or(Op::Flush);
        let data = std::mem::take(&mut user.data);
        let answer = match (is_done, op) {
            (false, _) => Err(Errno::IO),
            (true, Op::Read) => Ok(&data[..]),
            (true, _) => Ok(&[][..]),
        };
        self.kernel_requests.answer(ticket, answer);
        let now = monotonic();
        self.figures.completed(op, length, now.since(begun), is_done);
        self.tasks.completed(op, begun..now);
        self.users[number] = User::default();
        self.users.remove(number);
    }

    /// Sends the answers that waited for the superblocks.
    pub(super) fn answer_held(&mut self) {
        self.failure = self.failure.filter(|&version| !self.metadata.is_written(version));
        while self.held.front().is_some_and(|held| self.metadata.is_written(held.until)) {
            let Some(Held { number, is_done, .. }) = self.held.pop_front() else { break };
            self.answer(number, is_done);
        }
    }
}

/// What a request asks for; or the answer to one that asks for nothing or cannot be done.
fn user_of(
    layout: &Layout,
    block_bytes: u32,
    ticket: Ticket,
    request: &DiskRequest<'_>,
) -> Result<User, Result<(), Errno>> {
    if !is_aligned(request, block_bytes) {
        return Err(Err(Errno::INVAL));
    }
    let empty = User { ticket, begun: monotonic(), ..User::default() };
    let stripes = |offset: u64, length: u64| {
        layout.locate(offset).stripe..layout.locate(offset + length - 1).stripe + 1
    };
    match *request {
        DiskRequest::Read { length: 0, .. }
        | DiskRequest::Write { data: [], .. }
        | DiskRequest::Zero { length: 0, .. } => Err(Ok(())),
        DiskRequest::Read { offset, length } => {
            let data = vec![0; length as usize];
            Ok(User { op: Some(Op::Read), offset, length, data, ..empty })
        }
        DiskRequest::Write { offset, data } => {
            let length = data.len() as u64;
            let (data, stripes) = (data.to_vec(), stripes(offset, length));
            Ok(User { op: Some(Op::Write), offset, length, data, stripes, ..empty })
        }
        DiskRequest::Flush => Ok(User { op: Some(Op::Flush), ..empty }),
        DiskRequest::Zero { offset, length } => {
            let stripes = stripes(offset, length);
            Ok(User { op: Some(Op::Discard), offset, length, stripes, ..empty })
        }
    }
}

/// Whether members take the request: the block device sends no others, but the file could be opened
/// by others. A member that refuses a write would be failed.
fn is_aligned(request: &DiskRequest<'_>, block_bytes: u32) -> bool {
    let (offset, length) = match *request {
        DiskRequest::Read { offset, length } | DiskRequest::Zero { offset, length } => {
            (offset, length)
        }
        DiskRequest::Write { offset, data } => (offset, data.len() as u64),
        DiskRequest::Flush => (0, 0),
    };
    (offset | length).is_multiple_of(block_bytes.into())
}
