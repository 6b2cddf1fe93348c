//! The driver of a planner under a block device, in real time.
//!
//! ```text
//!   kernel ─> requests ─> (bit of the bitmap, window) ─> Planner ─> ring ─> members
//!     ▲                                                   │        │
//!     └───────────── answer <── (superblocks) ────────────┴────────┘
//! ```
//!
//! One thread does everything that requests need: it waits in an io_uring for the kernel's requests,
//! the members' completions and messages of other threads. Those write metadata (keeper.rs) and
//! resynchronise, rebuild and check (windows.rs), and may block.
//!
//! - **No answer before the members have it.** A write waits until the write-intent bitmap says that
//!   its region may differ. If a member fails, answers wait until the superblocks of the others say
//!   so: otherwise it could be taken for a current one after a crash.
//! - **A read's data are its own.** Each request to a member has a buffer of its own, which is copied
//!   when it is complete, and if the planner still [awaits](Planner::awaits) it.

mod commands;
mod mailbox;
mod members;
mod ppl;
mod replace;
mod requests;
mod spares;
mod upkeep;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};

use trimtab_array::planner::{Action, MemberIo, PartTimer, Planner};
use trimtab_array::{Content, Layout, Member};
use trimtab_io::{Nanos, Op, monotonic};
use trimtab_serve::{Backend, Error, Requests, Ticket};
use trimtab_steer::InFlightTable;
use trimtab_uring::{DataRing, Finished, Io, Watched};

use crate::buffers::Buffers;
use crate::examine::PAGE;
use crate::figures::Figures;
use crate::guard::{Guarded, Shared};
use crate::keeper::Keeper;
use crate::logs::Logs;
use crate::member::MemberDevice;
use crate::metadata::{Metadata, Version};
use crate::pace::Rates;
use crate::predictable::{FlaggedRead, Predictable};
use crate::slots::{Slot, SlotState};
use crate::spec::PolicyKind;
use crate::tasks::{Rebuild, Replace, Tasks};
use crate::windows::Windows;
pub(crate) use mailbox::{Fatal, Inbox, Mailbox};
use mailbox::{Task, Wake};
use ppl::LogRequest;

/// Numbers of the ring's requests that are no requests to members.
const TAG_KERNEL: u64 = u64::MAX;
const TAG_WAKE: u64 = u64::MAX - 1;
/// Added to the number of a request to a member, for the same to what replaces it.
const TAG_TWIN: u64 = 1 << 32;
/// Added to the number of a request of a partial parity log.
const TAG_LOG: u64 = 1 << 33;

/// An array that is ready to run.
pub(crate) struct Assembled {
    pub(crate) layout: Layout,
    /// By place: the members, and behind them spares and what replaces a member.
    pub(crate) slots: Vec<Slot>,
    pub(crate) metadata: Metadata,
    pub(crate) shared: Arc<Shared>,
    /// A member to rebuild.
    pub(crate) rebuild: Option<Rebuild>,
    /// A member to replace.
    pub(crate) replace: Option<Replace>,
    /// Partial parity logs.
    pub(crate) logs: Option<Logs>,
    /// Bytes of missing members of which some may be computed wrongly.
    pub(crate) in_doubt: u64,
}

impl Assembled {
    /// What offsets and lengths of requests are multiples of. Logs are in pages.
    pub(crate) fn block_bytes(&self) -> u32 {
        let devices = self.slots.iter().filter_map(|slot| slot.device.as_ref());
        let pages = self.logs.as_ref().map(|_| PAGE as u32);
        devices.map(|device| device.block_bytes).chain(pages).max().unwrap_or(512)
    }

    /// Whether it makes zeroes without data: if all members do. Not with partial parity logs, which do
    /// not have it: after a crash nothing would make the parity fit.
    pub(crate) fn makes_zeroes(&self) -> bool {
        let mut devices = self.slots.iter().filter_map(|slot| slot.device.as_ref());
        self.logs.is_none() && devices.all(|device| device.makes_zeroes)
    }
}

/// A request to a member.
struct MemberRequest {
    io: MemberIo,
    own: Recipient,
    /// What replaces the member, if it gets the request too.
    twin: Recipient,
    /// How many of them have not answered.
    unanswered: u8,
    sent: Nanos,
    op: Op,
    /// Offset from where data begin.
    offset: u64,
    length: u64,
    flag: Option<FlaggedRead>,
}

impl MemberRequest {
    const fn is_awaited(&self) -> bool {
        self.own.is_awaited || self.twin.is_awaited
    }

    /// Who has answered, by the ring's number of the request.
    const fn recipient(&mut self, tag: u64) -> &mut Recipient {
        if tag & TAG_TWIN == 0 { &mut self.own } else { &mut self.twin }
    }
}

/// A device that gets a request, and what came of it.
#[derive(Default)]
struct Recipient {
    /// None of a request that is complete: a member that is let go of must be closed.
    device: Option<Arc<MemberDevice>>,
    /// It is waited for: it has not answered, and has not been given up.
    is_awaited: bool,
    is_done: bool,
}

impl Recipient {
    fn of(device: &Arc<MemberDevice>) -> Self {
        Self { device: Some(Arc::clone(device)), is_awaited: true, is_done: false }
    }

    fn is(&self, device: &Arc<MemberDevice>) -> bool {
        self.device.as_ref().is_some_and(|own| Arc::ptr_eq(own, device))
    }
}

/// A request of the user.
#[derive(Default)]
struct User {
    ticket: Ticket,
    op: Option<Op>,
    offset: u64,
    length: u64,
    data: Vec<u8>,
    begun: Nanos,
    /// Of a discard: the bytes that are done, or under way.
    zeroed: u64,
    /// Of a write or discard: the stripes, and whether it has begun.
    stripes: Range<u64>,
    has_begun: bool,
}

/// An answer that waits for the superblocks.
struct Held {
    until: Version,
    number: u32,
    is_done: bool,
}

/// The driver.
pub(crate) struct Engine {
    pub(crate) layout: Layout,
    pub(crate) slots: Vec<Slot>,
    pub(crate) metadata: Metadata,
    pub(crate) logs: Option<Logs>,
    /// By role: the device that got the last log. That does not keep open what has been let go of.
    logged_on: Vec<Option<Weak<MemberDevice>>>,
    log_requests: InFlightTable<LogRequest>,
    /// Members whose logs wait for the superblocks, and with what they go on.
    logs_waiting: VecDeque<(usize, ppl::Kind)>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) planner: Planner,
    pub(crate) figures: Figures,
    pub(crate) tasks: Tasks,
    pub(crate) policy: PolicyKind,
    pub(crate) predictable: Predictable,
    pub(crate) in_doubt: u64,
    /// Since it was assembled a member was lost while members may have differed. Who assembles it next
    /// without all members is asked.
    doubts: bool,
    content: Content,
    makes_zeroes: bool,
    kernel_requests: Requests,
    backend: Backend,
    /// What offsets and lengths of requests are multiples of.
    pub(crate) block_bytes: u32,
    ring: DataRing,
    kernel: Watched,
    wake: Watched,
    inbox: Receiver<Task>,
    buffers: Buffers,
    users: InFlightTable<User>,
    /// Writes that wait for metadata or a window, in order.
    waiting: VecDeque<u32>,
    held: VecDeque<Held>,
    /// A failure that the superblocks do not have yet, or a replacement that is the member now.
    failure: Option<Version>,
    requests: InFlightTable<MemberRequest>,
    /// Requests to files in memory, which are complete at once.
    at_once: VecDeque<Finished>,
    /// Devices that have failed, and may have requests that are waited for.
    given_up: VecDeque<Arc<MemberDevice>>,
    timers: BinaryHeap<Reverse<(Nanos, u64)>>,
    timers_of: BTreeMap<u64, PartTimer>,
    next_timer: u64,
    keeper: Keeper,
    windows: Windows,
    next_round: Nanos,
    /// Writes that were complete in the last round.
    written_before: u64,
    /// A rebuild that has ended, when this has been written.
    rebuild_ends: Option<(usize, Version)>,
    /// The same of a replacement.
    replace_ends: Option<Version>,
    is_open: bool,
    now: Nanos,
}

impl Engine {
    /// An engine for the calling thread.
    pub(crate) fn new(
        array: Assembled,
        policy: PolicyKind,
        rates: Rates,
        backend: Backend,
        kernel_requests: Requests,
        inbox: Inbox,
    ) -> Result<Self, Error> {
        let (block_bytes, makes_zeroes) = (array.block_bytes(), array.makes_zeroes());
        let Assembled { layout, slots, metadata, shared, rebuild, replace, logs, in_doubt } = array;
        let ring = DataRing::new().map_err(|e| Error::Failed(e.to_string()))?;
        let inner = policy.policy(layout.members());
        let guarded = Guarded::new(inner, layout, Arc::clone(&shared));
        let mut planner = Planner::new(layout, Box::new(guarded));
        planner.discards_to_zeroes();
        for (role, slot) in slots.iter().enumerate().take(layout.members()) {
            if slot.state != SlotState::Active {
                planner.lose(Member(role as u8));
            }
        }
        let Inbox { mailbox, tasks: inbox, wake } = inbox;
        let mut engine = Self {
            layout,
            slots,
            metadata,
            logs,
            logged_on: vec![None; layout.members()],
            log_requests: InFlightTable::default(),
            logs_waiting: VecDeque::new(),
            shared,
            planner,
            figures: Figures::new(),
            tasks: Tasks::new(rates),
            policy,
            predictable: Predictable::default(),
            in_doubt,
            doubts: false,
            content: Content::new(layout),
            makes_zeroes,
            kernel: Arc::new(watched(&kernel_requests)?),
            kernel_requests,
            backend,
            block_bytes,
            ring,
            wake: Arc::new(Wake(wake)),
            keeper: Keeper::start(mailbox.clone())?,
            windows: Windows::start(mailbox)?,
            inbox,
            buffers: Buffers::default(),
            users: InFlightTable::default(),
            waiting: VecDeque::new(),
            held: VecDeque::new(),
            failure: None,
            requests: InFlightTable::default(),
            at_once: VecDeque::new(),
            given_up: VecDeque::new(),
            timers: BinaryHeap::new(),
            timers_of: BTreeMap::new(),
            next_timer: 0,
            next_round: Nanos::ZERO,
            written_before: 0,
            rebuild_ends: None,
            replace_ends: None,
            is_open: true,
            now: monotonic(),
        };
        if let Some(rebuild) = rebuild {
            engine.begin_rebuild(rebuild);
        }
        if let Some(replace) = replace {
            engine.begin_replace(replace);
        }
        Ok(engine)
    }

    /// Serves the device until it is taken down, and what is in flight is complete.
    ///
    /// # Errors
    /// It cannot go on. Nothing is noted on the members: they are as after a crash.
    pub(crate) fn run(mut self) -> Result<(), Fatal> {
        self.serve()?;
        self.close();
        Ok(())
    }

    fn serve(&mut self) -> Result<(), Fatal> {
        self.ring.push(&self.kernel, Io::WaitReadable, TAG_KERNEL)?;
        self.ring.push(&self.wake, Io::WaitReadable, TAG_WAKE)?;
        while self.is_open || !self.is_idle() {
            let timer = self.timers.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at);
            let next_window = self.next_window();
            self.ring.wait(timer.min(self.next_round).min(next_window))?;
            self.turn()?;
        }
        Ok(())
    }

    /// When the next window may begin.
    fn next_window(&self) -> Nanos {
        let is_able = self.is_open && !self.has_failed() && self.redundancy() > 0;
        if is_able { self.tasks.next(&self.layout, &self.shared.regions()) } else { Nanos::MAX }
    }

    /// Handles all that has happened.
    fn turn(&mut self) -> Result<(), Fatal> {
        self.now = monotonic();
        while let Some(finished) = self.ring.take() {
            match finished.tag {
                TAG_KERNEL => {
                    self.take_messages()?;
                    if self.is_open {
                        self.ring.push(&self.kernel, Io::WaitReadable, TAG_KERNEL)?;
                    }
                }
                TAG_WAKE => {
                    _ = rustix::io::read(&self.wake, &mut [0; 8]);
                    while let Ok(task) = self.inbox.try_recv() {
                        task(self)?;
                    }
                    self.ring.push(&self.wake, Io::WaitReadable, TAG_WAKE)?;
                }
                _ => self.answered(finished)?,
            }
            self.act()?;
        }
        while let Some(&Reverse((at, number))) = self.timers.peek() {
            let timer = self.timers_of.get(&number).copied();
            let is_over = timer.is_none_or(|timer| self.planner.is_over(timer));
            if !is_over && at > self.now {
                break;
            }
            self.timers.pop();
            self.timers_of.remove(&number);
            if let Some(timer) = timer.filter(|_| !is_over) {
                self.planner.timer(self.now, timer);
                self.act()?;
            }
        }
        self.upkeep()?;
        self.act()?;
        self.ring.submit()?;
        // Answers go together, after what members have to do.
        self.kernel_requests.submit();
        Ok(())
    }

    fn answered(&mut self, finished: Finished) -> Result<(), Fatal> {
        if finished.tag & TAG_LOG == 0 {
            self.member_done(finished)
        } else {
            self.log_done(finished)
        }
    }

    /// Whether nothing is in flight and nothing has to be written. What has been given up does not
    /// count.
    fn is_idle(&self) -> bool {
        self.planner.is_idle()
            && self.requests.find(MemberRequest::is_awaited).is_none()
            && !self.logs_are_awaited()
            && self.logs.as_ref().is_none_or(Logs::is_idle)
            && self.users.is_empty()
            && self.metadata.is_settled()
            && !self.tasks.has_window()
    }

    /// Carries out the planner's actions, and those that they cause.
    fn act(&mut self) -> Result<(), Fatal> {
        self.carry_out()?;
        loop {
            if let Some(finished) = self.at_once.pop_front() {
                self.answered(finished)?;
            } else if let Some(device) = self.given_up.pop_front() {
                self.give_up(&device)?;
            } else {
                return Ok(());
            }
            self.carry_out()?;
        }
    }

    fn carry_out(&mut self) -> Result<(), Fatal> {
        while let Some(action) = self.planner.next_action() {
            match action {
                Action::Send(io, request) => self.send(io, &request)?,
                // Nothing waits: the ring has it already. The planner ignores the answer.
                Action::Cancel(_) => {}
                Action::Compute(part, _) => {
                    let view = self.planner.part(part);
                    let user = match view.is_refresh {
                        true => &[][..],
                        false => &self.users[view.request.0 as u32].data,
                    };
                    self.content.compute(part, &view, user).map_err(Fatal::Planner)?;
                    self.computed(part)?;
                }
                Action::Timer(at, timer) => {
                    self.next_timer += 1;
                    self.timers.push(Reverse((at, self.next_timer)));
                    self.timers_of.insert(self.next_timer, timer);
                }
                Action::PartDone(part) => {
                    let view = self.planner.part(part);
                    if view.op == Op::Read {
                        let user = &mut self.users[view.request.0 as u32];
                        self.content.deliver(part, &view, &mut user.data);
                    }
                    let is_write = view.op == Op::Write;
                    self.content.finished(part);
                    if is_write {
                        self.logged_part_done(part)?;
                    }
                }
                Action::Complete(id, outcome) => self.completed(id.0 as u32, outcome),
                Action::Lost(member) => self.fail(member.index(), "a write failed".to_owned()),
            }
        }
        Ok(())
    }

    /// The members, by their place in the layout.
    pub(crate) fn members(&self) -> &[Slot] {
        &self.slots[..self.layout.members()]
    }

    /// How many members can be lost.
    pub(crate) fn redundancy(&self) -> usize {
        self.layout.redundancy()
    }

    /// Members that are not there, or not complete.
    pub(crate) fn degraded(&self) -> usize {
        self.members().iter().filter(|slot| slot.state != SlotState::Active).count()
    }

    /// Whether more members are lost than can be.
    pub(crate) fn has_failed(&self) -> bool {
        self.degraded() > self.redundancy()
    }
}

/// The requests' file descriptor, for the ring.
fn watched(requests: &Requests) -> Result<OwnedFd, Error> {
    let duplicate = requests.as_fd().try_clone_to_owned();
    duplicate.map_err(Error::system("keep the file descriptor of requests"))
}

/// Writes a line to the server's log.
pub(crate) fn warn(what: std::fmt::Arguments<'_>) {
    // A failure of this cannot be reported anywhere.
    _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("trimtab: {what}\n"));
}
