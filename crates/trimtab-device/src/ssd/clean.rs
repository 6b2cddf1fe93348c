//! Garbage collection: when, how, and who waits for it.
//!
//! A plane's cleaning begins when it has fewer free blocks than the high mark.
//! It queues at its die like everyone else, and when its turn comes chooses a
//! block, moves what is valid, page by page, and erases it. Unless it is
//! preemptive, whoever shares what it occupies waits until it is through.
//!
//! When the whole drive has fewer free blocks than the low mark, nobody is let
//! in until the high mark is reached again, and nothing is preempted or
//! interrupted (IODA, §6).

use trimtab_io::Nanos;

use super::die::Phase;
use super::ops::{Kind, Op};
use super::view::Interval;
use super::{Ssd, Timer};
use crate::agenda::NEVER;
use crate::blocks::Writer;
use crate::layout::Layout;
use crate::map::Place;
use crate::profile::{Copying, Profile, Scope};

/// Cleaning, over the whole drive.
#[derive(Clone, Debug)]
pub(super) struct Cleaning {
    /// Free blocks that each plane is cleaned up to.
    pub(super) high: usize,
    /// Free blocks of the drive below which nobody is let in, and from which on
    /// they are again.
    low_total: usize,
    high_total: usize,
    /// Since when nobody is let in.
    stalled_since: Option<Nanos>,
    /// Whether cleaning must go on, come what may.
    pub(super) forced: bool,
    /// Cleanings queued or under way.
    pub(super) queued: u32,
    /// Cleanings under way, up to when they have let everyone on again.
    pub(super) running: u32,
    /// Those that keep everyone else off the whole drive.
    pub(super) holders: u32,
}

impl Cleaning {
    pub(super) fn new(profile: &Profile, layout: &Layout) -> Self {
        let planes = layout.planes as usize;
        let high = profile.high_blocks() as usize;
        // The high mark is whole blocks of a plane: rounded down, it may lie below
        // a low mark that is just under it.
        let low_total = (profile.low_blocks() * planes as f64).ceil() as usize;
        let low_total = low_total.min(high * planes);
        Self {
            high,
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

    /// Takes over the marks of another one, and nothing of its state.
    pub(super) const fn take_marks(&mut self, other: &Self) {
        self.high = other.high;
        (self.low_total, self.high_total) = (other.low_total, other.high_total);
    }
}

/// The cleaning of one plane.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaneWork {
    stage: Stage,
    job: Job,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    None,
    /// In its die's queue.
    Queued,
    /// Under way.
    Running,
    /// Lets others go first.
    Paused,
}

/// A block being cleaned.
#[derive(Clone, Debug, Default)]
struct Job {
    victim: u32,
    /// Units before this one have been read; the block's end.
    next: u32,
    end: u32,
    /// Units that have been read and not yet programmed: whose, and from where.
    staged: Vec<(u32, u32)>,
    /// The page being programmed.
    to: u32,
    /// Whether it keeps others off more than its lane.
    holds: bool,
    began: Nanos,
}

impl PlaneWork {
    /// Whether cleaning keeps users off this plane.
    pub(super) const fn is_held(&self) -> bool {
        matches!(self.stage, Stage::Running)
    }
}

impl Ssd {
    /// A block of this plane has been taken, or erased: begins to clean, and
    /// lets nobody in any more, where it has come to that.
    pub(super) fn mind_free_blocks(&mut self, plane: u32) {
        if self.blocks.free_in(plane) >= self.cleaning.high {
            return;
        }
        let cleaning = &mut self.cleaning;
        if cleaning.stalled_since.is_none() && self.blocks.free() < cleaning.low_total {
            cleaning.stalled_since = Some(self.now);
            cleaning.forced = true;
            self.study.stalls += 1;
            for plane in 0..self.layout.planes {
                self.want_cleaning(plane);
            }
            self.end_stall();
            return;
        }
        self.want_cleaning(plane);
    }

    /// Queues a plane's cleaning, if there is need and the firmware lets it.
    pub(super) fn want_cleaning(&mut self, plane: u32) {
        if self.planes[plane as usize].stage != Stage::None
            || self.blocks.free_in(plane) >= self.cleaning.high
        {
            return;
        }
        if !self.cleaning.forced && !self.firmware.may_clean(self.now, plane) {
            let next = self.firmware.next_change(self.now).unwrap_or(NEVER);
            self.set(Timer::Policy, next);
            return;
        }
        if !self.firmware.cleaning_takes_time() {
            while self.blocks.free_in(plane) < self.cleaning.high && self.clean_at_once(plane) {}
            return;
        }
        if self.blocks.candidates(&self.layout, &self.map, plane).iter().next().is_none() {
            return;
        }
        self.planes[plane as usize].stage = Stage::Queued;
        self.cleaning.queued += 1;
        self.enqueue(Op::new(Kind::Clean, plane));
    }

    /// The firmware may answer otherwise now.
    pub(super) fn policy_has_changed(&mut self) {
        self.set(Timer::Policy, NEVER);
        for plane in 0..self.layout.planes {
            self.want_cleaning(plane);
        }
    }

    fn choose(&mut self, plane: u32) -> Option<u32> {
        let candidates = self.blocks.candidates(&self.layout, &self.map, plane);
        let block = self.firmware.choose(self.now, &candidates, &mut self.random)?;
        let ours = self.layout.plane_of_block(block) == plane && self.blocks.is_full(block);
        assert!(ours, "the firmware chose block {block}, which is no candidate of plane {plane}");
        self.blocks.take_victim(block);
        Some(block)
    }

    /// Its turn has come at its die.
    pub(super) fn begin_cleaning(&mut self, op: u32) {
        let plane = self.ops[op].plane;
        self.ops.remove(op);
        // It was allowed when it was queued, but that may have been long ago.
        let may = self.cleaning.forced || self.firmware.may_clean(self.now, plane);
        let Some(victim) = may.then(|| self.choose(plane)).flatten() else {
            self.planes[plane as usize].stage = Stage::None;
            self.cleaning.queued -= 1;
            self.end_stall();
            return;
        };
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
        self.lanes_for(plane);
        self.clean_on(plane);
    }

    /// Keeps everyone else off what cleaning occupies beyond its die, or lets
    /// them on again.
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
        // The others' requests wait for cleaning too.
        for other in dies.clone().filter(|&other| other != die) {
            let clock = &mut self.dies[other as usize].cleaning;
            if hold { clock.start(self.now) } else { clock.stop(self.now) }
        }
        if !hold {
            dies.for_each(|die| self.start(die));
        }
    }

    /// The lane that cleans a plane.
    fn lane_of(&self, plane: u32) -> u32 {
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

    /// Goes on after a pause.
    pub(super) fn go_on_cleaning(&mut self, plane: u32) {
        self.planes[plane as usize].stage = Stage::Running;
        let die = self.layout.die_of_plane(plane);
        self.dies[die as usize].cleaning.start(self.now);
        self.lanes_for(plane);
        self.clean_on(plane);
    }

    /// The next step: read a page, program one, or erase.
    fn clean_on(&mut self, plane: u32) {
        let lane = self.lane_of(plane);
        let job = &mut self.planes[plane as usize].job;
        let next = match job.staged.len() >= self.layout.units_per_page as usize {
            true => None,
            false => self.map.next_valid(job.next, job.end),
        };
        if let Some(unit) = next {
            job.next = unit;
            // A cache line ahead.
            self.map.expect_owners(unit + 16);
            self.lanes[lane as usize].phase = Phase::CleanReading;
            self.agenda.set(lane as usize, self.now + self.times.read);
        } else if job.staged.is_empty() {
            self.lanes[lane as usize].phase = Phase::Erasing;
            self.agenda.set(lane as usize, self.now + self.times.erase);
        } else if self.rules.copying == Copying::Copyback {
            self.program_moved(plane);
        } else {
            self.lanes[lane as usize].phase = Phase::CleanIn;
            let transfer = self.times.transfer(self.page_bytes());
            self.want_channel(lane, transfer);
        }
    }

    const fn page_bytes(&self) -> u64 {
        self.layout.bytes(self.layout.units_per_page)
    }

    /// Data is in the page register of the cleaned plane: into the cells.
    fn program_moved(&mut self, plane: u32) {
        let lane = self.lane_of(plane);
        let page = self.blocks.take_page(&self.layout, plane, Writer::Cleaning);
        self.planes[plane as usize].job.to = page;
        self.lanes[lane as usize].phase = Phase::CleanProgramming;
        let time = self.times.program(self.layout.page_in_block(page));
        self.agenda.set(lane as usize, self.now + time);
    }

    /// A lane that cleans has got something done.
    pub(super) fn cleaning_is_done(&mut self, lane: u32) {
        let plane = self.lanes[lane as usize].plane;
        match self.lanes[lane as usize].phase {
            Phase::CleanReading => self.moved_page_is_read(lane, plane),
            Phase::CleanOut => self.clean_on(plane),
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
        // What has been overwritten meanwhile need not be moved.
        while let Some(unit) = self.map.next_valid(job.next, end) {
            let user = self.map.owner(unit);
            self.map.expect(user);
            job.staged.push((user, unit));
            job.next = unit + 1;
            read += 1;
        }
        job.next = end;
        if read == 0 || self.rules.copying == Copying::Copyback {
            self.clean_on(plane);
            return;
        }
        let mut transfer = self.times.transfer(self.layout.bytes(read));
        self.lanes[lane as usize].phase = Phase::CleanOut;
        if job.staged.len() >= per_page as usize {
            // Out and in again without giving up the channel.
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
            && (self.rules.preemptive && self.someone_waits(die, false)
                || self.rules.suspend && self.someone_waits(die, true));
        if !yields {
            self.clean_on(plane);
            return;
        }
        self.planes[plane as usize].stage = Stage::Paused;
        self.dies[die as usize].cleaning.stop(self.now);
        self.dies[die as usize].paused |= 1 << (plane % self.layout.planes_per_die);
        self.lanes[lane as usize].phase = Phase::Idle;
        self.start(die);
    }

    /// Makes the page that has just been programmed its units' place.
    fn settle(&mut self, plane: u32) {
        let per_page = self.layout.units_per_page;
        let job = &mut self.planes[plane as usize].job;
        let count = job.staged.len().min(per_page as usize);
        let to = job.to;
        let mut staged = std::mem::take(&mut job.staged);
        for (unit, (user, from)) in (to * per_page..).zip(staged.drain(..count)) {
            self.audit_move(from, unit);
            self.map.programmed(&self.layout, user, Place::Flash(from), unit);
        }
        self.planes[plane as usize].job.staged = staged;
        self.blocks.programmed(&self.layout, to);
        self.study.units_moved += u64::from(per_page);
    }

    fn victim_is_erased(&mut self, plane: u32) {
        let work = &mut self.planes[plane as usize];
        let Job { victim, holds, began, .. } = work.job;
        work.stage = Stage::None;
        self.erase(victim);
        self.cleaning.queued -= 1;
        let die = self.layout.die_of_plane(plane);
        if let Some(cleanings) = &mut self.cleanings {
            cleanings.push(Interval { die, from: began, until: self.now });
        }
        self.dies[die as usize].cleaning.stop(self.now);
        let lane = self.lane_of(plane);
        self.lanes[lane as usize].phase = Phase::Idle;
        self.want_cleaning(plane);
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
        self.study.erases += 1;
    }

    /// Lets users in again when there is room, or when nothing more can be done
    /// about it.
    fn end_stall(&mut self) {
        let Some(since) = self.cleaning.stalled_since else { return };
        if self.blocks.free() < self.cleaning.high_total && self.cleaning.queued > 0 {
            return;
        }
        self.study.stalled += self.now.since(since);
        self.cleaning.stalled_since = None;
        self.cleaning.forced = false;
        self.let_in();
    }

    /// Cleans a block in no time: for a firmware that charges none.
    pub(super) fn clean_at_once(&mut self, plane: u32) -> bool {
        let Some(victim) = self.choose(plane) else { return false };
        let units = self.layout.units_per_block;
        let job = &mut self.planes[plane as usize].job;
        (job.victim, job.next, job.end) = (victim, victim * units, (victim + 1) * units);
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
                    job.to = self.blocks.take_page(&self.layout, plane, Writer::Cleaning);
                    self.settle(plane);
                }
            }
        }
        self.erase(victim);
        true
    }

    /// How long the cleaning that is in the way of this plane still takes; none
    /// if there is none.
    pub(super) fn cleaning_left(&self, plane: u32) -> Option<Nanos> {
        let die = self.layout.die_of_plane(plane);
        let dies = match self.rules.scope {
            Scope::Plane => return self.plane_left(plane),
            Scope::Die => die..die + 1,
            Scope::Channel => {
                let first = self.layout.channel_of_die(die) * self.layout.dies_per_channel;
                first..first + self.layout.dies_per_channel
            }
            Scope::Controller => 0..self.layout.dies,
        };
        let per_die = self.layout.planes_per_die;
        (dies.start * per_die..dies.end * per_die).filter_map(|plane| self.plane_left(plane)).max()
    }

    fn plane_left(&self, plane: u32) -> Option<Nanos> {
        let work = &self.planes[plane as usize];
        if work.stage != Stage::Running {
            return None;
        }
        let lane = self.lane_of(plane);
        let phase = self.lanes[lane as usize].phase;
        let step = match self.agenda.at(lane as usize) {
            NEVER => Nanos::ZERO,
            at => at.since(self.now),
        };
        if phase == Phase::Erasing {
            return Some(step);
        }
        let page = self.page_bytes();
        let per_page = match self.rules.copying {
            Copying::Serial => 2 * self.times.transfer(page).0,
            Copying::Copyback => 0,
        } + self.times.read.0
            + self.times.program(0).0;
        let left = u64::from(self.map.valid_in(work.job.victim));
        let pages = left.div_ceil(u64::from(self.layout.units_per_page));
        Some(step + Nanos(pages * per_page) + self.times.erase)
    }
}
