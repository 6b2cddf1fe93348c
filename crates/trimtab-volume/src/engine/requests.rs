//! Requests of the kernel, and their answers.

use rustix::io::Errno;
use trimtab_io::{DeviceId, Op, Outcome, Request, RequestId, monotonic};
use trimtab_serve::{FileRequest, Handled, Message, wrote};

use super::{Engine, Fatal, Held, User};

/// Requests that are taken at once, at most, before completions are looked at.
const BATCH: usize = 32;

impl Engine {
    /// Takes the requests that have arrived.
    pub(super) fn take_messages(&mut self) -> Result<(), Fatal> {
        let mut message = std::mem::take(&mut self.message);
        for _ in 0..BATCH {
            let length = match self.connection.receive(&mut message) {
                Ok(length) => length,
                Err(Errno::AGAIN) => break,
                // The request was dropped meanwhile, or a signal arrived.
                Err(Errno::NOENT | Errno::INTR) => continue,
                // Unmounted or aborted.
                Err(_) => {
                    self.is_open = false;
                    break;
                }
            };
            let Some(message) = Message::parse(&message[..length]) else { continue };
            let unique = message.unique;
            match self.served.handle(&message) {
                Handled::Request(request) => self.arrived(unique, request)?,
                Handled::Answer(bytes) => self.connection.reply(unique, Ok(&bytes)),
                Handled::Refusal(errno) => self.connection.reply(unique, Err(errno)),
                Handled::Silence => {}
            }
        }
        self.message = message;
        Ok(())
    }

    fn arrived(&mut self, unique: u64, request: FileRequest<'_>) -> Result<(), Fatal> {
        if !self.is_aligned(&request) {
            self.connection.reply(unique, Err(Errno::INVAL));
            return Ok(());
        }
        let begun = monotonic();
        self.tasks.pace.used(begun);
        let empty = User { unique, begun, ..User::default() };
        let user = match request {
            FileRequest::Read { length: 0, .. } | FileRequest::Write { data: [], .. } => {
                let is_read = matches!(request, FileRequest::Read { .. });
                let answer: &[u8] = if is_read { &[] } else { &wrote(0) };
                self.connection.reply(unique, Ok(answer));
                return Ok(());
            }
            FileRequest::Read { offset, length } => {
                let data = vec![0; length as usize];
                User { op: Some(Op::Read), offset, length, data, ..empty }
            }
            FileRequest::Write { offset, data } => {
                let length = data.len() as u64;
                let first = self.layout.locate(offset).stripe;
                let last = self.layout.locate(offset + length - 1).stripe;
                let (data, stripes) = (data.to_vec(), first..last + 1);
                User { op: Some(Op::Write), offset, length, data, stripes, ..empty }
            }
            FileRequest::Flush => User { op: Some(Op::Flush), ..empty },
            // Not offered: parity would have to fit what members return afterwards.
            FileRequest::Zero { .. } => {
                self.connection.reply(unique, Err(Errno::OPNOTSUPP));
                return Ok(());
            }
        };
        let is_write = user.op == Some(Op::Write);
        let number = self.users.insert(user);
        if is_write && !self.may_begin(number) {
            self.waiting.push_back(number);
            return Ok(());
        }
        self.begin(number)
    }

    /// Whether members take the request: the block device sends no others, but the file could be
    /// opened by others. A member that refuses a write would be failed.
    fn is_aligned(&self, request: &FileRequest<'_>) -> bool {
        let (offset, length) = match *request {
            FileRequest::Read { offset, length } | FileRequest::Zero { offset, length } => {
                (offset, length)
            }
            FileRequest::Write { offset, data } => (offset, data.len() as u64),
            FileRequest::Flush => (0, 0),
        };
        (offset | length).is_multiple_of(self.block_bytes.into())
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
        let op = user.op.unwrap_or(Op::Flush);
        if op == Op::Write {
            user.has_begun = true;
            let chunk = self.layout.chunk();
            let range = user.stripes.start * chunk..user.stripes.end * chunk;
            self.shared.regions().begin(&range);
            self.tasks.begin_write(number, user.stripes.clone());
        }
        let id = RequestId(number.into());
        let request = Request::new(id, DeviceId(0), user.begun, op, user.offset, user.length);
        self.planner.submit(self.now, &request);
        self.act()
    }

    /// A request is complete.
    pub(super) fn completed(&mut self, number: u32, outcome: Outcome) {
        let user = &mut self.users[number];
        if user.has_begun {
            let chunk = self.layout.chunk();
            let range = user.stripes.start * chunk..user.stripes.end * chunk;
            self.shared.regions().end(&range);
            self.tasks.end_write(number);
        }
        let is_done = outcome == Outcome::Done;
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
        let User { unique, length, begun, .. } = *user;
        let op = user.op.unwrap_or(Op::Flush);
        let data = std::mem::take(&mut user.data);
        match (is_done, op) {
            (false, _) => self.connection.reply(unique, Err(Errno::IO)),
            (true, Op::Read) => self.connection.reply(unique, Ok(&data)),
            (true, Op::Write) => self.connection.reply(unique, Ok(&wrote(length as u32))),
            (true, _) => self.connection.reply(unique, Ok(&[])),
        }
        let now = monotonic();
        self.figures.completed(op, length, now.since(begun), is_done);
        self.tasks.completed(op, begun..now);
        *user = User::default();
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
