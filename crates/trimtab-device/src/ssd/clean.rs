//! Garbage collection.
//!
//! A plane is cleaned when it has fewer free blocks than the high watermark. The cleaning queues at
//! its die like any operation; when its turn comes it chooses a block, moves the valid data page by
//! page, and erases the block. Unless it is preemptive, operations that share what it occupies wait
//! until it ends.
//!
//! When the whole drive has fewer free blocks than the low watermark, user requests stall until the
//! high watermark is reached again, and no operation is preempted or suspended (IODA, §6).

use trimtab_io::Nanos;

use super::die::Phase;
use super::ops::{Op, OpKind};
use super::view::CleaningInterval;
use super::{Ssd, Timer};
use crate::blocks::WriteStream;
use crate::layout::Layout;
use crate::map::Location;
use crate::profile::{CopyMode, Profile, Scope};

/// Drive-wide state of cleaning.
#[derive(Clone, Debug)]
pub(super) struct Cleaning {
    /// The high watermark: free blocks per plane at which a stall is over.
    pub(super) high: usize,
    /// Free blocks per plane at which cleaning stops: that, or more if the firmware says so.
    pub(super) target: usize,
    /// Free blocks of the drive below which user requests stall, and at which they resume.
    low_total: usize,
    high_total: usize,
    /// Start of the stall.
    stalled_since: Option<Nanos>,
    /// Whether cleaning must proceed without preemption.
    pub(super) forced: bool,
    /// Cleanings queued or under way.
    pub(super) queued: u32,
    /// Cleanings in progress, until they have released what they occupy.
    pub(super) running: u32,
    /// Cleanings that block the whole drive.
    pub(super) holders: u32,
}

impl Cleaning {
    pub(super) fn new(profile: &Profile, layout: &Layout) -> Self {
        let planes = layout.planes as usize;
        let high = profile.high_blocks() as usize;
        // The high watermark is whole blocks of a plane: rounded down, it may be below a low
        // watermark that is just under it.
        let low_total = (profile.low_blocks() * planes as f64).ceil() as usize;
        let low_total = low_total.min(high * planes);
        Self {
            high,
            target: high,
            low_total,
            high_total: high * planes,
            stalled_since: None,
            forced: false,
            queued: 0,
            running: 0,
            holders: 0,
        }
    }

    pub(super) const fn stalled(&self) -> bool {
        self.stalled_since.is_some()
    }

    /// Blocks to be cleaned until a stall is over, with `free` free blocks.
    pub(super) const fn missing(&self, free: usize) -> usize {
        self.high_total.saturating_sub(free)
    }

    /// Where `free` free blocks are between the watermarks: 0 at the low one, 1 at the high one.
    pub(super) fn reserve(&self, free: usize) -> f64 {
        let between = (self.high_total - self.low_total).max(1) as f64;
        (free as f64 - self.low_total as f64) / between
    }

    /// Takes another one's watermarks, and none of its state.
    pub(super) const fn take_marks(&mut self, other: &Self) {
        (self.high, self.target) = (other.high, other.high);
        (self.low_total, self.high_total) = (other.low_total, other.high_total);
    }
}

/// Cleaning of one plane.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaneWork {
    pub(super) stage: Stage,
    /// Whether it was queued again, after reads.
    pub(super) put_back: bool,
    pub(super) job: Job,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    None,
    /// In its die's queue.
    Queued,
    /// In progress.
    Running,
    /// Preempted.
    Paused,
}

/// A block being cleaned.
#[derive(Clone, Debug, Default)]
pub(super) struct Job {
    victim: u32,
    /// Next unit to read, and the end of the block.
    pub(super) next: u32,
    pub(super) end: u32,
    /// Units read and not yet programmed: owners, and source locations.
    pub(super) staged: Vec<(u32, u32)>,
    /// The page being programmed.
    to: u32,
    /// Whether it blocks more than its lane.
    holds: bool,
    pub(super) began: Nanos,
}

impl PlaneWork {
    /// Whether cleaning blocks users from this plane.
    pub(super) const fn is_held(&self) -> bool {
        matches!(self.stage, Stage::Running)
    }
}

impl Ssd {
    /// A block of this plane has been taken, or erased: starts cleaning, and stalls user requests,
    /// if necessary.
    pub(super) fn check_free_blocks(&mut self, plane: u32) {
        if self.blocks.free_in(plane) >= self.cleaning.target {
            return;
        }
        let is_low = self.is_low(plane);
        let cleaning = &mut self.cleaning;
        if cleaning.stalled_since.is_none() && is_low {
            cleaning.stalled_since = Some(self.now);
            cleaning.forced = true;
            self.stats.stalls += 1;
            for plane in 0..self.layout.planes {
                self.want_cleaning(plane);
            }
            self.tell_stall();
            self.end_stall();
            return;
        }
        self.want_cleaning(plane);
    }

    /// Whether free blocks are below the low watermark: of the drive, or, where LBA ranges are kept
    /// apart, of this plane's range, which cannot use the others'.
    fn is_low(&self, plane: u32) -> bool {
        let ranges = self.layout.ranges;
        if ranges == 1 {
            return self.blocks.free() < self.cleaning.low_total;
        }
        let range = self.layout.range_of_plane(plane);
        let planes = (0..self.layout.planes).filter(|&p| self.layout.range_of_plane(p) == range);
        let free: usize = planes.map(|plane| self.blocks.free_in(plane)).sum();
        free * (ranges as usize) < self.cleaning.low_total
    }

    /// Queues a plane's cleaning, if needed and permitted by the firmware.
    pub(super) fn want_cleaning(&mut self, plane: u32) {
        if self.planes[plane as usize].stage != Stage::None
            || self.blocks.free_in(plane) >= self.cleaning.target
        {
            return;
        }
        if !self.cleaning.forced && !self.firmware.may_clean(self.now, plane) {
            self.ask_later();
            return;
        }
        if !self.firmware.cleaning_takes_time() {
            while self.blocks.free_in(plane) < self.cleaning.target && self.clean_at_once(plane) {}
            return;
        }
        if self.blocks.candidates(&self.layout, &self.map, plane).iter().next().is_none() {
            return;
        }
        self.planes[plane as usize].stage = Stage::Queued;
        self.cleaning.queued += 1;
        self.enqueue(Op::new(OpKind::Clean, plane));
    }

    fn choose(&mut self, plane: u32) -> Option<u32> {
        let candidates = self.blocks.candidates(&self.layout, &self.map, plane);
        let block = self.firmware.choose(self.now, &candidates, &mut self.random)?;
        let ours = self.layout.plane_of_block(block) == plane && self.blocks.is_full(block);
        assert!(
            ours,
            "the firmware chose block {block}, which is not a candidate of plane {plane}"
        );
        Some(block)
    }

    /// The cleaning's turn has come at its die.
    pub(super) fn begin_cleaning(&mut self, op: u32) {
        let plane = self.ops[op].plane;
        if self.rules.concerns.after_reads && !self.cleaning.forced && self.put_back(plane, op) {
            return;
        }
        self.ops.remove(op);
        self.planes[plane as usize].put_back = false;
        // It was permitted when it was queued, which may be long ago.
        let may = self.cleaning.forced || self.firmware.may_clean(self.now, plane);
        if !may {
            self.ask_later();
        }
        let victim = may.then(|| self.choose(plane)).flatten();
        let Some(victim) = victim.filter(|&victim| self.may_begin(plane, victim)) else {
            self.tell_none_to_clean(plane);
            self.planes[plane as usize].stage = Stage::None;
            self.cleaning.queued -= 1;
            self.cleaning_has_ended();
            self.end_stall();
            return;
        };
        self.blocks.take_victim(victim);
        if self.cleaning.forced && self.firmware.is_outside_window(self.now, plane) {
            self.stats.forced_outside_window += 1;
        }
        let units = self.layout.units_per_block;
        let holds = !self.rules.preemptive || self.cleaning.forced;
        let work = &mut self.planes[plane as usize];
        work.stage = Stage::Running;
        work.job.victim = victim;
        (work.job.next, work.job.end) = (victim * units, (victim + 1) * units);
        work.job.holds = holds;
        work.job.began = self.now;
        self.cleaning.running += 1;
        if holds {
            self.hold(plane, true);
        }
        let die = self.layout.die_of_plane(plane);
        self.dies[die as usize].cleaning.start(self.now);
        self.channels[self.layout.channel_of_die(die) as usize].cleanings += 1;
        self.lanes_for(plane);
        self.clean_step(plane);
        if self.firmware.began(self.now) {
            // After what happens now: the die is in the middle of its queue.
            self.set(Timer::Policy, self.now);
        }
    }

    /// Blocks what cleaning occupies beyond its die, or releases it.
    fn hold(&mut self, plane: u32, hold: bool) {
        let change = |holders: &mut u32| if hold { *holders += 1 } else { *holders -= 1 };
        let die = self.layout.die_of_plane(plane);
        let channel = self.layout.channel_of_die(die);
        let per_channel = self.layout.dies_per_channel;
        let dies = match self.rules.scope {
            Scope::Plane | Scope::Die => return,
            Scope::Channel => {
                change(&mut self.channels[channel as usize].holders);
                channel * per_channel..(channel + 1) * per_channel
            }
            Scope::Controller => {
                change(&mut self.cleaning.holders);
                0..self.layout.dies
            }
        };
        // Requests of the other dies wait for cleaning too.
        for other in dies.clone().filter(|&other| other != die) {
            let clock = &mut self.dies[other as usize].cleaning;
            if hold { clock.start(self.now) } else { clock.stop(self.now) }
        }
        if !hold {
            dies.for_each(|die| self.start(die));
        }
    }

    /// The lane that cleans a plane.
    pub(super) fn lane_of(&self, plane: u32) -> u32 {
        match self.rules.scope {
            Scope::Plane => self.layout.dies + plane,
            _ => self.layout.die_of_plane(plane),
        }
    }

    /// All lanes that clean a die's planes.
    pub(super) fn cleaning_lanes(&self, die: u32) -> std::ops::Range<u32> {
        let per_die = self.layout.planes_per_die;
        match self.rules.scope {
            Scope::Plane => {
                self.layout.dies + die * per_die..self.layout.dies + (die + 1) * per_die
            }
            _ => die..die + 1,
        }
    }

    fn lanes_for(&mut self, plane: u32) {
        let lane = self.lane_of(plane);
        self.lanes[lane as usize].plane = plane;
    }

    /// Resumes after preemption.
    pub(super) fn resume_cleaning(&mut self, plane: u32) {
        self.planes[plane as usize].stage = Stage::Running;
        let die = self.layout.die_of_plane(plane);
        self.dies[die as usize].cleaning.start(self.now);
        self.lanes_for(plane);
        self.clean_step(plane);
    }

    /// The next step: read a page, program one, or erase.
    fn clean_step(&mut self, plane: u32) {
        self.tell_cleaning(plane);
        let lane = self.lane_of(plane);
        let job = &mut self.planes[plane as usize].job;
        let next = match job.staged.len() >= self.layout.units_per_page as usize {
            true => None,
            false => self.map.next_valid(job.next, job.end),
        };
        if let Some(unit) = next {
            job.next = unit;
            // Prefetches one cache line ahead.
            self.map.prefetch_owners(unit + 16);
            self.lanes[lane as usize].phase = Phase::CleanReading;
            self.timer_queue.set(lane as usize, self.now + self.times.read);
        } else if job.staged.is_empty() {
            self.lanes[lane as usize].phase = Phase::Erasing;
            self.timer_queue.set(lane as usize, self.now + self.times.erase);
        } else if self.rules.copying == CopyMode::Copyback {
            self.program_moved(plane);
        } else {
            self.lanes[lane as usize].phase = Phase::CleanIn;
            let transfer = self.times.transfer(self.page_bytes());
            self.want_channel(lane, transfer);
        }
    }

    pub(super) const fn page_bytes(&self) -> u64 {
        self.layout.bytes(self.layout.units_per_page)
    }

    /// Data is in the page register of the cleaned plane: programs it.
    fn program_moved(&mut self, plane: u32) {
        let lane = self.lane_of(plane);
        let page = self.blocks.take_page(&self.layout, plane, WriteStream::Cleaning);
        self.planes[plane as usize].job.to = page;
        self.lanes[lane as usize].phase = Phase::CleanProgramming;
        let time = self.times.program(self.layout.page_in_block(page));
        self.timer_queue.set(lane as usize, self.now + time);
    }

    /// A lane that cleans has finished a step.
    pub(super) fn cleaning_is_done(&mut self, lane: u32) {
        let plane = self.lanes[lane as usize].plane;
        match self.lanes[lane as usize].phase {
            Phase::CleanReading => self.moved_page_is_read(lane, plane),
            Phase::CleanOut => self.clean_step(plane),
            Phase::CleanIn => self.program_moved(plane),
            Phase::CleanProgramming => self.moved_page_is_programmed(plane),
            Phase::Erasing => self.victim_is_erased(plane),
            phase => unreachable!("a timer in {phase:?}"),
        }
    }

    fn moved_page_is_read(&mut self, lane: u32, plane: u32) {
        let per_page = self.layout.units_per_page;
        let job = &mut self.planes[plane as usize].job;
        let end = (job.next / per_page + 1) * per_page;
        let mut read = 0;
        // Units overwritten meanwhile need not be moved.
        while let Some(unit) = self.map.next_valid(job.next, end) {
            let user = self.map.owner(unit);
            self.map.prefetch(user);
            job.staged.push((user, unit));
            job.next = unit + 1;
            read += 1;
        }
        job.next = end;
        if read == 0 || self.rules.copying == CopyMode::Copyback {
            self.clean_step(plane);
            return;
        }
        let mut transfer = self.times.transfer(self.layout.bytes(read));
        self.lanes[lane as usize].phase = Phase::CleanOut;
        if job.staged.len() >= per_page as usize {
            // Out and in again without releasing the channel.
            transfer += self.times.transfer(self.page_bytes());
            self.lanes[lane as usize].phase = Phase::CleanIn;
        }
        self.want_channel(lane, transfer);
    }

    fn moved_page_is_programmed(&mut self, plane: u32) {
        self.settle(plane);
        let lane = self.lane_of(plane);
        let die = self.layout.die_of_plane(plane);
        let yields = !self.cleaning.forced
            && (self.rules.preemptive && self.has_waiting(die, false)
                || self.rules.suspend && self.has_waiting(die, true));
        if !yields {
            self.clean_step(plane);
            return;
        }
        self.planes[plane as usize].stage = Stage::Paused;
        self.tell_ended(die);
        self.dies[die as usize].cleaning.stop(self.now);
        self.dies[die as usize].paused |= 1 << (plane % self.layout.planes_per_die);
        self.lanes[lane as usize].phase = Phase::Idle;
        self.start(die);
    }

    /// Maps the moved units to the page just programmed.
    fn settle(&mut self, plane: u32) {
        let per_page = self.layout.units_per_page;
        let job = &mut self.planes[plane as usize].job;
        let count = job.staged.len().min(per_page as usize);
        let to = job.to;
        let mut staged = std::mem::take(&mut job.staged);
        for (unit, (user, from)) in (to * per_page..).zip(staged.drain(..count)) {
            self.audit_move(from, unit);
            self.map.programmed(&self.layout, user, Location::Flash(from), unit);
            self.tell_location(user);
        }
        self.planes[plane as usize].job.staged = staged;
        self.blocks.programmed(&self.layout, to);
        self.stats.units_moved += u64::from(per_page);
    }

    fn victim_is_erased(&mut self, plane: u32) {
        let work = &mut self.planes[plane as usize];
        let Job { victim, holds, began, .. } = work.job;
        work.stage = Stage::None;
        self.erase(victim);
        self.cleaning.queued -= 1;
        if !self.cleaning.forced && self.firmware.is_outside_window(self.now, plane) {
            self.stats.window_overruns += 1;
        }
        let die = self.layout.die_of_plane(plane);
        if let Some(cleanings) = &mut self.cleanings {
            cleanings.push(CleaningInterval { die, from: began, until: self.now });
        }
        self.dies[die as usize].cleaning.stop(self.now);
        self.dies[die as usize].backlog = true;
        self.tell_ended(die);
        let lane = self.lane_of(plane);
        self.lanes[lane as usize].phase = Phase::Idle;
        self.channels[self.layout.channel_of_die(die) as usize].cleanings -= 1;
        match self.rules.concerns.beginnings {
            true => self.ask_neighbours(plane),
            false => self.want_cleaning(plane),
        }
        self.cleaning_has_ended();
        self.end_stall();
        self.pump();
        if holds {
            self.hold(plane, false);
        }
        self.cleaning.running -= 1;
        self.start(die);
    }

    fn erase(&mut self, block: u32) {
        assert_eq!(self.map.valid_in(block), 0, "a block with valid units was to be erased");
        self.audit_erase(block);
        self.blocks.erased(&self.layout, block);
        self.stats.erases += 1;
    }

    /// Ends the stall when there is space, or when no cleaning is possible.
    fn end_stall(&mut self) {
        let Some(since) = self.cleaning.stalled_since else { return };
        if self.blocks.free() < self.cleaning.high_total && self.cleaning.queued > 0 {
            self.tell_stall();
            return;
        }
        self.stats.stalled += self.now.since(since);
        self.cleaning.stalled_since = None;
        self.cleaning.forced = false;
        self.tell_stall();
        self.admit_stalled();
    }

    /// Prefetches the map entries of the users of valid units, so that their misses overlap.
    fn prefetch_users(&self, from: u32, end: u32) {
        let mut at = from;
        while let Some(unit) = self.map.next_valid(at, end) {
            self.map.prefetch(self.map.owner(unit));
            at = unit + 1;
        }
    }

    /// Cleans a block instantly: for a firmware without cleaning time.
    pub(super) fn clean_at_once(&mut self, plane: u32) -> bool {
        let Some(victim) = self.choose(plane) else { return false };
        self.blocks.take_victim(victim);
        let units = self.layout.units_per_block;
        let job = &mut self.planes[plane as usize].job;
        (job.victim, job.next, job.end) = (victim, victim * units, (victim + 1) * units);
        self.prefetch_users(victim * units, (victim + 1) * units);
        loop {
            let job = &mut self.planes[plane as usize].job;
            let full = job.staged.len() >= self.layout.units_per_page as usize;
            match if full { None } else { self.map.next_valid(job.next, job.end) } {
                Some(unit) => {
                    job.staged.push((self.map.owner(unit), unit));
                    job.next = unit + 1;
                }
                None if job.staged.is_empty() => break,
                None => {
                    job.to = self.blocks.take_page(&self.layout, plane, WriteStream::Cleaning);
                    self.settle(plane);
                }
            }
        }
        self.erase(victim);
        true
    }
}
