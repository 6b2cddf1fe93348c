//! Dies and channels: operations and their queues.

use trimtab_io::Nanos;

use super::Ssd;
use super::ops::{Op, OpKind, Queue};
use crate::profile::Scope;
use crate::slab::NONE;
use crate::timer_queue::NEVER;

/// A resource that works on one operation at a time and moves its data over its channel: a die,
/// and, where cleaning is by plane, each plane's cleaning.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lane {
    pub(super) phase: Phase,
    /// Current work: one operation, or several on different planes.
    pub(super) group: Queue,
    /// The plane it is cleaning.
    pub(super) plane: u32,
    /// Its channel time, and the next lane in the channel's queue.
    transfer: Nanos,
    next: u32,
    /// The channel that it uses.
    channel: u32,
}

impl Lane {
    pub(super) fn new(channel: u32) -> Self {
        Self { channel, ..Self::default() }
    }

    /// The channel that it uses.
    pub(super) const fn channel(&self) -> u32 {
        self.channel
    }
}

/// Progress of a lane's operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Idle,
    /// Reading, cells to register.
    Reading,
    /// On the channel, or waiting for it.
    DataOut,
    /// On the channel, or waiting for it.
    DataIn,
    /// Programming, register to cells.
    Programming,
    /// The same three for cleaning; out and in may be combined.
    CleanReading,
    CleanOut,
    CleanIn,
    CleanProgramming,
    Erasing,
}

/// A die's queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Die {
    queue: Queue,
    /// Reads, if they are scheduled first.
    reads: Queue,
    /// Programs queued or under way.
    pub(super) programs: u32,
    suspended: Option<Suspended>,
    /// Bit mask of planes whose cleaning is preempted.
    pub(super) paused: u32,
    pub(super) cleaning: Clock,
    /// What a cleaning has held up is not all done.
    pub(super) backlog: bool,
}

/// A suspended operation.
#[derive(Clone, Copy, Debug)]
struct Suspended {
    phase: Phase,
    group: Queue,
    /// When it was suspended, and its remaining time.
    since: Nanos,
    left: Nanos,
}

/// A channel's queue.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    /// The lane whose data is being moved.
    busy: u32,
    first: u32,
    last: u32,
    /// Cleanings that block the channel's dies.
    pub(super) holders: u32,
    /// Cleanings in progress on its dies.
    pub(super) cleanings: u32,
}

impl Default for Channel {
    fn default() -> Self {
        Self { busy: NONE, first: NONE, last: NONE, holders: 0, cleanings: 0 }
    }
}

/// Accumulates the time during which at least one of several activities runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    depth: u32,
    since: Nanos,
    total: Nanos,
}

impl Clock {
    pub(super) fn start(&mut self, now: Nanos) {
        if self.depth == 0 {
            self.since = now;
        }
        self.depth += 1;
    }

    pub(super) fn stop(&mut self, now: Nanos) {
        self.depth -= 1;
        if self.depth == 0 {
            self.total += now.since(self.since);
        }
    }

    pub(super) const fn is_running(&self) -> bool {
        self.depth > 0
    }

    pub(super) fn read(&self, now: Nanos) -> Nanos {
        if self.depth == 0 { self.total } else { self.total + now.since(self.since) }
    }
}

impl Ssd {
    /// Puts an operation into its die's queue.
    // Inlined, so that the operation is constructed in place: it is too large to pass and copy.
    #[inline(always)]
    pub(super) fn enqueue(&mut self, op: Op) {
        let (die, kind) = (self.layout.die_of_plane(op.plane), op.kind);
        let cleaning_then = self.dies[die as usize].cleaning.read(self.now);
        let index = self.ops.insert(Op { queued: self.now, cleaning_then, ..op });
        self.queue_up(die, index, kind);
    }

    fn queue_up(&mut self, die: u32, op: u32, kind: OpKind) {
        if kind == OpKind::Read {
            self.audit_sent(op);
        }
        self.tell_queued(die, op);
        let queues = &mut self.dies[die as usize];
        queues.programs += u32::from(kind == OpKind::Program);
        let queue = match self.rules.reads_first && kind.is_read() {
            true => &mut queues.reads,
            false => &mut queues.queue,
        };
        queue.push(&mut self.ops, op);
        if self.rules.suspend && kind.is_read() {
            self.suspend(die);
        }
        self.start(die);
    }

    /// Suspends a program or erase of the die, so that a read can go first. Not when free blocks
    /// have run out.
    fn suspend(&mut self, die: u32) {
        let lane = &mut self.lanes[die as usize];
        let slow =
            matches!(lane.phase, Phase::Programming | Phase::CleanProgramming | Phase::Erasing);
        if !slow || self.cleaning.forced || self.dies[die as usize].suspended.is_some() {
            return;
        }
        let left = self.timer_queue.at(die as usize).since(self.now);
        let (phase, group) = (lane.phase, lane.group);
        lane.phase = Phase::Idle;
        self.dies[die as usize].suspended = Some(Suspended { phase, group, since: self.now, left });
        self.timer_queue.set(die as usize, NEVER);
        self.stats.suspended += 1;
    }

    /// Resumes a suspended operation.
    fn resume(&mut self, die: u32, suspended: Suspended) {
        let Suspended { phase, group, since, left } = suspended;
        let lane = &mut self.lanes[die as usize];
        (lane.phase, lane.group) = (phase, group);
        self.timer_queue.set(die as usize, self.now + left + self.times.resume);
        let mut op = group.head();
        while op != NONE {
            self.ops[op].waited += self.now.since(since) + self.times.resume;
            op = self.ops[op].next;
        }
    }

    /// Starts the next operation of an idle die.
    pub(super) fn start(&mut self, die: u32) {
        while self.lanes[die as usize].phase == Phase::Idle {
            if let Some(op) = self.take_ready(die) {
                match self.ops[op].kind {
                    OpKind::Clean => self.begin_cleaning(op),
                    kind => self.begin(die, op, kind),
                }
            } else if !self.resume_any(die) {
                return;
            }
        }
    }

    /// Resumes a suspended operation or a preempted cleaning, if there is one.
    fn resume_any(&mut self, die: u32) -> bool {
        let queues = &mut self.dies[die as usize];
        if let Some(suspended) = queues.suspended.take() {
            self.resume(die, suspended);
            return true;
        }
        if queues.paused == 0 {
            return false;
        }
        let plane = queues.paused.trailing_zeros();
        queues.paused &= !(1 << plane);
        self.resume_cleaning(die * self.layout.planes_per_die + plane);
        true
    }

    /// Takes the next operation that can start.
    #[inline]
    fn take_ready(&mut self, die: u32) -> Option<u32> {
        let queues = &mut self.dies[die as usize];
        let queue = if queues.reads.is_empty() { &mut queues.queue } else { &mut queues.reads };
        if queue.is_empty() {
            queues.backlog = false;
            return None;
        }
        // The common case: nothing is blocked.
        if self.cleaning.running > 0 || queues.suspended.is_some() {
            return self.take_unblocked(die);
        }
        queue.pop(&mut self.ops)
    }

    /// The same if some cannot start, because of cleaning or a suspended operation.
    fn take_unblocked(&mut self, die: u32) -> Option<u32> {
        let queues = &mut self.dies[die as usize];
        let only_reads = queues.suspended.is_some();
        let held = match self.rules.scope {
            Scope::Plane | Scope::Die => false,
            Scope::Channel => self.channels[self.layout.channel_of_die(die) as usize].holders > 0,
            Scope::Controller => self.cleaning.holders > 0,
        };
        let by_plane = self.rules.scope == Scope::Plane;
        // A die that cleans one plane does not start on another.
        let paused = queues.paused != 0 && !by_plane;
        let planes = &self.planes;
        let fits = |op: &Op| match op.kind {
            OpKind::Clean => !only_reads && !paused,
            _ if held || only_reads && !op.kind.is_read() => false,
            _ => !by_plane || !planes[op.plane as usize].is_held(),
        };
        let op = queues.reads.take(&mut self.ops, fits);
        op.or_else(|| queues.queue.take(&mut self.ops, fits))
    }

    /// Starts an operation, together with others of its kind on other planes.
    fn begin(&mut self, die: u32, op: u32, kind: OpKind) {
        if self.is_stale(op) {
            self.note_wait(die, op);
            self.tell_begun(die, op);
            self.tell_ended(die);
            self.read_again(op);
            return;
        }
        let mut group = Queue::default();
        group.push(&mut self.ops, op);
        if self.rules.multi_plane {
            self.join(die, &mut group, kind);
        }
        let transfer = if kind.is_read() { Nanos::ZERO } else { self.transfer_of(group) };
        let mut longest = Nanos::ZERO;
        let mut member = group.head();
        while member != NONE {
            let retries = if kind.is_read() { self.noise.retries(&mut self.random) } else { 0 };
            let retries = Nanos(self.times.read.0 * retries);
            longest = longest.max(retries);
            self.note_wait(die, member);
            self.tell_begun(die, member);
            let op = &mut self.ops[member];
            op.ready = self.now + transfer;
            op.retries += retries;
            member = op.next;
        }
        if self.audit.is_some() {
            self.audit_group(group);
        }
        self.lanes[die as usize].group = group;
        if kind.is_read() {
            self.lanes[die as usize].phase = Phase::Reading;
            self.timer_queue.set(die as usize, self.now + self.times.read + longest);
        } else {
            self.lanes[die as usize].phase = Phase::DataIn;
            self.want_channel(die, transfer);
        }
    }

    /// Adds the time in its die's queue to an operation.
    pub(super) fn note_wait(&mut self, die: u32, op: u32) {
        let clock = self.dies[die as usize].cleaning.read(self.now);
        let op = &mut self.ops[op];
        let wait = self.now.since(op.queued);
        let cleaned = wait.min(clock.since(op.cleaning_then));
        op.cleaned += cleaned;
        op.waited += wait.since(cleaned);
    }

    /// Adds operations of the same kind on free planes to a group.
    fn join(&mut self, die: u32, group: &mut Queue, kind: OpKind) {
        let mut planes = 1_u32 << (self.ops[group.head()].plane % self.layout.planes_per_die);
        loop {
            let (layout, work, blocks) = (&self.layout, &self.planes, &self.blocks);
            let by_plane = self.rules.scope == Scope::Plane;
            let fits = |op: &Op| {
                op.kind.is_read() == kind.is_read()
                    && op.kind != OpKind::Clean
                    && planes >> (op.plane % layout.planes_per_die) & 1 == 0
                    && !(by_plane && work[op.plane as usize].is_held())
                    && (op.kind != OpKind::Read
                        || !blocks.erased_since(op.erasures, layout.block_of_page(op.page)))
            };
            let queues = &mut self.dies[die as usize];
            let queue = if self.rules.reads_first && kind.is_read() {
                &mut queues.reads
            } else {
                &mut queues.queue
            };
            let Some(op) = queue.take(&mut self.ops, fits) else { return };
            planes |= 1 << (self.ops[op].plane % self.layout.planes_per_die);
            group.push(&mut self.ops, op);
        }
    }

    /// Whether the block of a read was erased while it waited: its data has moved.
    fn is_stale(&self, op: u32) -> bool {
        let op = &self.ops[op];
        op.kind == OpKind::Read
            && self.blocks.erased_since(op.erasures, self.layout.block_of_page(op.page))
    }

    /// When a die will have finished its current work and what it suspended for that; the channel's
    /// queue is not counted.
    pub(super) fn current_ends(&self, die: u32) -> Nanos {
        let lane = &self.lanes[die as usize];
        let mut end = match (self.timer_queue.at(die as usize), lane.phase) {
            (NEVER, Phase::Idle) => self.now,
            // It waits for the channel.
            (NEVER, _) => self.now + lane.transfer,
            (at, _) => at,
        };
        match lane.phase {
            Phase::Reading => end += self.transfer_of(lane.group),
            Phase::DataIn => end += self.longest_program(lane.group),
            _ => {}
        }
        let suspended = self.dies[die as usize].suspended;
        end + suspended.map_or(Nanos::ZERO, |it| it.left + self.times.resume)
    }

    fn longest_program(&self, group: Queue) -> Nanos {
        let mut longest = Nanos::ZERO;
        let mut op = group.head();
        while op != NONE {
            let page = self.layout.page_in_block(self.ops[op].page);
            longest = longest.max(self.times.program(page));
            op = self.ops[op].next;
        }
        longest
    }

    /// Duration of a die's queue, the channel's queue not counted.
    pub(super) fn queued_time(&self, die: u32) -> Nanos {
        let queues = &self.dies[die as usize];
        self.time_of([queues.reads, queues.queue])
    }

    /// Duration of the part of a die's queue that a read that arrives now follows.
    pub(super) fn time_before_read(&self, die: u32) -> Nanos {
        let queues = &self.dies[die as usize];
        self.time_of([
            queues.reads,
            if self.rules.reads_first { Queue::default() } else { queues.queue },
        ])
    }

    fn time_of(&self, queues: [Queue; 2]) -> Nanos {
        let mut time = Nanos::ZERO;
        for queue in queues {
            let mut op = queue.head();
            while op != NONE {
                let Op { kind, page, units, next, .. } = self.ops[op];
                let bytes = self.layout.bytes(units);
                time += match kind {
                    OpKind::Clean => Nanos::ZERO,
                    OpKind::Program => self.times.program(self.layout.page_in_block(page)),
                    _ => self.times.read,
                };
                if kind != OpKind::Clean {
                    time += self.times.transfer(bytes);
                }
                op = next;
            }
        }
        time
    }

    /// When a channel will have moved all data ready for it.
    pub(super) fn channel_queue_ends(&self, channel: u32) -> Nanos {
        let channel = &self.channels[channel as usize];
        if channel.busy == NONE {
            return self.now;
        }
        let mut end = self.timer_queue.at(channel.busy as usize);
        let mut lane = channel.first;
        while lane != NONE {
            end += self.lanes[lane as usize].transfer;
            lane = self.lanes[lane as usize].next;
        }
        end
    }

    /// Channel time of a group's data.
    pub(super) fn transfer_of(&self, group: Queue) -> Nanos {
        let mut time = Nanos::ZERO;
        let mut op = group.head();
        while op != NONE {
            let bytes = self.layout.bytes(self.ops[op].units);
            time += self.times.transfer(bytes);
            op = self.ops[op].next;
        }
        time
    }

    /// Queues a lane's data for its channel.
    pub(super) fn want_channel(&mut self, lane: u32, transfer: Nanos) {
        let channel = &mut self.channels[self.lanes[lane as usize].channel as usize];
        if channel.busy == NONE {
            channel.busy = lane;
            self.timer_queue.set(lane as usize, self.now + transfer);
            return;
        }
        self.timer_queue.set(lane as usize, NEVER);
        self.lanes[lane as usize].transfer = transfer;
        self.lanes[lane as usize].next = NONE;
        if channel.first == NONE {
            channel.first = lane;
        } else {
            self.lanes[channel.last as usize].next = lane;
        }
        channel.last = lane;
    }

    /// A lane's transfer is over: the next one gets the channel.
    fn leave_channel(&mut self, lane: u32) {
        let channel = &mut self.channels[self.lanes[lane as usize].channel as usize];
        let next = channel.first;
        channel.busy = next;
        if next != NONE {
            channel.first = self.lanes[next as usize].next;
            let transfer = self.lanes[next as usize].transfer;
            self.timer_queue.set(next as usize, self.now + transfer);
        }
    }

    /// The data is in the registers: programs it.
    fn program(&mut self, lane: u32) {
        let mut longest = Nanos::ZERO;
        let mut op = self.lanes[lane as usize].group.head();
        while op != NONE {
            let page = self.layout.page_in_block(self.ops[op].page);
            longest = longest.max(self.times.program(page));
            self.prefetch_slots(self.ops[op].slots);
            let program = &mut self.ops[op];
            program.channel = self.now.since(program.ready);
            op = program.next;
        }
        self.lanes[lane as usize].phase = Phase::Programming;
        self.timer_queue.set(lane as usize, self.now + longest);
    }

    /// A lane's phase is over.
    pub(super) fn lane_is_done(&mut self, lane: u32) {
        match self.lanes[lane as usize].phase {
            Phase::Reading => self.move_data_out(lane),
            Phase::DataOut => {
                self.leave_channel(lane);
                self.finish_group(lane, Self::finish_read);
            }
            Phase::DataIn => {
                self.leave_channel(lane);
                self.program(lane);
            }
            Phase::Programming => self.finish_group(lane, Self::finish_program),
            Phase::CleanOut | Phase::CleanIn => {
                self.leave_channel(lane);
                self.cleaning_is_done(lane);
            }
            _ => self.cleaning_is_done(lane),
        }
        if self.lanes[lane as usize].phase == Phase::Idle {
            self.timer_queue.set(lane as usize, NEVER);
        }
    }

    /// The data is in the registers: moves it out.
    fn move_data_out(&mut self, lane: u32) {
        let group = self.lanes[lane as usize].group;
        let transfer = self.transfer_of(group);
        let mut op = group.head();
        while op != NONE {
            // Its end if the channel is free; the difference is the wait for the channel.
            self.ops[op].ready = self.now + transfer;
            op = self.ops[op].next;
        }
        self.lanes[lane as usize].phase = Phase::DataOut;
        self.want_channel(lane, transfer);
    }

    /// Completes all operations of a group, and starts the next.
    fn finish_group(&mut self, die: u32, mut finish: impl FnMut(&mut Self, u32)) {
        let mut op = self.lanes[die as usize].group.head();
        // The die is released before the completions are handled, because these may queue more
        // operations for it.
        self.lanes[die as usize].phase = Phase::Idle;
        self.lanes[die as usize].group = Queue::default();
        self.tell_ended(die);
        while op != NONE {
            let next = self.ops[op].next;
            finish(self, op);
            op = next;
        }
        self.start(die);
    }

    fn finish_read(&mut self, index: u32) {
        let mut op = self.ops[index];
        op.channel += self.now.since(op.ready);
        self.ops.remove(index);
        let breakdown = op.breakdown();
        if op.kind == OpKind::Lookup {
            self.read_units(op.request, op.user, op.units, Some(&breakdown));
        }
        self.part_is_done(op.request, breakdown);
    }

    /// Whether such an operation waits.
    pub(super) fn has(&self, die: u32, fits: impl Fn(&Op) -> bool) -> bool {
        let queues = &self.dies[die as usize];
        queues.reads.any(&self.ops, &fits) || queues.queue.any(&self.ops, &fits)
    }

    /// Moves an operation that was taken to the end of its queue.
    pub(super) fn queue_again(&mut self, die: u32, op: u32) {
        self.dies[die as usize].queue.push(&mut self.ops, op);
    }

    /// Whether any operation, or any read, waits.
    pub(super) fn has_waiting(&self, die: u32, only_reads: bool) -> bool {
        let queues = &self.dies[die as usize];
        let fits = |op: &Op| op.kind != OpKind::Clean && (!only_reads || op.kind.is_read());
        !queues.reads.is_empty() || queues.queue.any(&self.ops, fits)
    }
}
