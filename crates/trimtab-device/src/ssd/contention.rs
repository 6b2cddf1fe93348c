//! How long cleanings take, and who waits for them: what the firmware is told.

use trimtab_io::{Flags, Nanos};

use super::Ssd;
use super::clean::Stage;
use super::die::Phase;
use crate::blocks::WriteStream;
use crate::firmware::{PlannedCleaning, ReadContention};
use crate::profile::{CopyMode, Scope};
use crate::timer_queue::NEVER;

/// A read that waits for longer than so many programs take is delayed by what was held up.
const LONG_BACKLOG: u64 = 2;

/// Progress of a cleaning at the start of one of its steps, to be followed to its end.
#[derive(Clone, Copy)]
struct Progress {
    /// Next unit to read, and the end of the block.
    next: u32,
    end: u32,
    /// Units read and not programmed.
    staged: u32,
    /// Number of the page in its block that is programmed next.
    to: u32,
    /// Time so far, and the channel's time in that.
    time: Nanos,
    channel: Nanos,
}

/// What a cleaning is followed to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The block is erased.
    Erased,
    /// A page is programmed, or the block is erased: then a preemptive cleaning lets users go.
    Yields,
}

impl Ssd {
    /// Whether cleaning blocks a read of this plane that arrives now, and for how long.
    pub(super) fn contention(&self, plane: u32, flags: Flags) -> Option<ReadContention> {
        let die = self.layout.die_of_plane(plane);
        let running = self.running_left(plane);
        let queued = self.queued_ahead(plane);
        if running.is_none() && queued.is_none() {
            return self.behind_backlog(plane, flags);
        }
        let busy_for = running.unwrap_or_default() + queued.unwrap_or_default();
        // The current work of the die is the cleaning, unless that has lanes of its own or has not
        // begun.
        let current = match running {
            Some(_) => Nanos::ZERO,
            None => self.current_ends(die).since(self.now),
        };
        let wait = busy_for + current + self.time_before_read(die);
        let siblings =
            if self.rules.concerns.siblings { self.siblings_left(plane) } else { Nanos::ZERO };
        Some(ReadContention { now: self.now, flags, plane, busy_for, wait, siblings })
    }

    /// Whether a read of this plane waits long for programs that a cleaning has held up. They are
    /// done before it, if reads are not scheduled first.
    fn behind_backlog(&self, plane: u32, flags: Flags) -> Option<ReadContention> {
        let die = self.layout.die_of_plane(plane);
        let overtakes = self.rules.reads_first || self.rules.suspend;
        if overtakes || !self.dies[die as usize].backlog {
            return None;
        }
        let wait = self.current_ends(die).since(self.now) + self.time_before_read(die);
        let programs = self.times.program(0) + self.times.transfer(self.page_bytes());
        let long = wait.0 > programs.0 * LONG_BACKLOG;
        let busy_for = Nanos::ZERO;
        let siblings = Nanos::ZERO;
        long.then_some(ReadContention { now: self.now, flags, plane, busy_for, wait, siblings })
    }

    /// How long cleanings in progress will still block the planes of this one's group.
    fn siblings_left(&self, plane: u32) -> Nanos {
        let per_channel = self.layout.planes / self.layout.channels;
        let others = (1..self.layout.channels)
            .map(|k| (plane + k * per_channel) % self.layout.planes)
            .filter_map(|plane| self.running_left(plane));
        others.max().unwrap_or_default()
    }

    /// How long the cleanings in progress that block this plane still take.
    fn running_left(&self, plane: u32) -> Option<Nanos> {
        if self.cleaning.running == 0 {
            return None;
        }
        if self.rules.scope == Scope::Plane {
            return self.plane_left(plane, self.until());
        }
        let own = self.layout.die_of_plane(plane);
        let left = |plane| {
            let is_own = self.layout.die_of_plane(plane) == own;
            self.plane_left(plane, if is_own { self.until() } else { Until::Erased })
        };
        self.planes_of(self.blocked_dies(plane)).filter_map(left).max()
    }

    /// When a cleaning lets the reads of its die go.
    const fn until(&self) -> Until {
        match !self.cleaning.forced && (self.rules.preemptive || self.rules.suspend) {
            true => Until::Yields,
            false => Until::Erased,
        }
    }

    const fn planes_of(&self, dies: std::ops::Range<u32>) -> std::ops::Range<u32> {
        let per_die = self.layout.planes_per_die;
        dies.start * per_die..dies.end * per_die
    }

    /// The dies that cleaning of this plane blocks, and by whose cleaning it is blocked.
    fn blocked_dies(&self, plane: u32) -> std::ops::Range<u32> {
        let die = self.layout.die_of_plane(plane);
        match self.rules.scope {
            Scope::Plane | Scope::Die => die..die + 1,
            // A preemptive cleaning holds its die only.
            _ if self.rules.preemptive && !self.cleaning.forced => die..die + 1,
            Scope::Channel => {
                let first = self.layout.channel_of_die(die) * self.layout.dies_per_channel;
                first..first + self.layout.dies_per_channel
            }
            Scope::Controller => 0..self.layout.dies,
        }
    }

    /// How long the cleanings take that a read of this plane would queue behind.
    fn queued_ahead(&self, plane: u32) -> Option<Nanos> {
        if self.cleaning.queued <= self.cleaning.running {
            return None;
        }
        let die = self.layout.die_of_plane(plane);
        let own = self.planes_of(die..die + 1);
        let planes = match self.rules.scope {
            // Reads overtake the cleanings in the queue of their own die.
            _ if self.rules.reads_first => return None,
            Scope::Plane => plane..plane + 1,
            Scope::Die => own.clone(),
            // Those of other dies go first only if this one is busy.
            _ if self.lanes[die as usize].phase == Phase::Idle => own.clone(),
            _ => self.planes_of(self.blocked_dies(plane)),
        };
        let until = self.until();
        if until == Until::Yields && own.clone().any(|plane| self.is_in_progress(plane)) {
            // It lets the reads go before it and the next one continue.
            return None;
        }
        // Those that will let the read go first do not count.
        let lets_go = self.rules.concerns.after_reads && !self.cleaning.forced;
        let queued = planes.filter(|&plane| {
            let work = &self.planes[plane as usize];
            work.stage == Stage::Queued && (work.put_back || !lets_go)
        });
        // Those of one die follow each other.
        let (mut ours, mut others) = (None, None);
        for plane in queued {
            let candidates = self.blocks.candidates(&self.layout, &self.map, plane);
            let Some(block) = candidates.fewest_valid() else { continue };
            let Progress { time, channel, .. } = self.cleaning_of(plane, block, until);
            let time = time.max(self.on_shared_channel(plane, channel));
            if own.contains(&plane) && until == Until::Erased {
                ours = Some(ours.unwrap_or_default() + time);
            } else {
                others = others.max(Some(time));
            }
        }
        others.max(ours)
    }

    /// A cleaning of this block that begins now.
    fn cleaning_of(&self, plane: u32, block: u32, until: Until) -> Progress {
        let units = self.layout.units_per_block;
        self.follow(self.progress(plane, block * units, (block + 1) * units, 0), until)
    }

    /// What the firmware decides on before a cleaning begins.
    pub(super) fn planned(&self, plane: u32, block: u32) -> PlannedCleaning {
        let Progress { time, channel, .. } = self.cleaning_of(plane, block, Until::Erased);
        let die = self.layout.die_of_plane(plane);
        let per_channel = self.layout.dies_per_channel * self.layout.planes_per_die;
        let first = self.layout.channel_of_die(die) * per_channel;
        let on_channel = first..first + per_channel;
        let in_group = (0..self.layout.channels).map(|k| k * per_channel + plane % per_channel);
        PlannedCleaning {
            plane,
            block,
            valid: self.map.valid_in(block),
            time,
            channel_time: channel,
            on_channel: on_channel.filter(|&plane| self.is_in_progress(plane)).count() as u32,
            in_group: in_group.filter(|&plane| self.is_in_progress(plane)).count() as u32,
            reserve: self.cleaning.reserve(self.blocks.free()),
        }
    }

    fn is_in_progress(&self, plane: u32) -> bool {
        matches!(self.planes[plane as usize].stage, Stage::Running | Stage::Paused)
    }

    fn progress(&self, plane: u32, next: u32, end: u32, staged: u32) -> Progress {
        let page = self.blocks.open_page(plane, WriteStream::Cleaning);
        let to = page.map_or(0, |page| self.layout.page_in_block(page));
        Progress { next, end, staged, to, time: Nanos::ZERO, channel: Nanos::ZERO }
    }

    /// Follows a cleaning as `clean_step` takes it, on a channel without other work.
    fn follow(&self, mut at: Progress, until: Until) -> Progress {
        let per_page = self.layout.units_per_page;
        let serial = self.rules.copying == CopyMode::Serial;
        loop {
            let next =
                if at.staged >= per_page { None } else { self.map.next_valid(at.next, at.end) };
            if let Some(unit) = next {
                let end = (unit / per_page + 1) * per_page;
                let read = self.map.count_valid(unit, end);
                at.next = end;
                at.staged += read;
                at.time += self.times.read;
                if serial {
                    at.moves(self.times.transfer(self.layout.bytes(read)));
                }
            } else if at.staged == 0 {
                at.time += self.times.erase;
                return at;
            } else {
                if serial {
                    at.moves(self.times.transfer(self.page_bytes()));
                }
                at.time += self.times.program(at.to);
                at.programmed(self.layout.pages_per_block, per_page);
                if until == Until::Yields {
                    return at;
                }
            }
        }
    }

    /// How long cleaning of this plane still takes until then.
    fn plane_left(&self, plane: u32, until: Until) -> Option<Nanos> {
        let work = &self.planes[plane as usize];
        if work.stage != Stage::Running {
            return None;
        }
        let lane = self.lane_of(plane);
        let phase = self.lanes[lane as usize].phase;
        let yields = until == Until::Yields;
        let slow = matches!(phase, Phase::CleanProgramming | Phase::Erasing);
        if slow && yields && self.rules.suspend && self.rules.scope != Scope::Plane {
            // The read suspends it.
            return None;
        }
        let step = match self.timer_queue.at(lane as usize) {
            // It waits for the channel, the last in its queue at worst.
            NEVER => self.channel_queue_ends(self.lanes[lane as usize].channel()).since(self.now),
            at => at.since(self.now),
        };
        if phase == Phase::Erasing || yields && phase == Phase::CleanProgramming {
            return Some(step);
        }
        let job = &work.job;
        let mut at = self.progress(plane, job.next, job.end, job.staged.len() as u32);
        let (pages, per_page) = (self.layout.pages_per_block, self.layout.units_per_page);
        match phase {
            Phase::CleanIn => {
                at.time += self.times.program(at.to);
                at.programmed(pages, per_page);
                if yields {
                    return Some(step + at.time);
                }
            }
            // The page has been taken, so `to` is the one after it.
            Phase::CleanProgramming => at.staged -= at.staged.min(per_page),
            _ => {}
        }
        let end = self.follow(at, until);
        // Reading a page counts from its start.
        let begun = match phase {
            Phase::CleanReading => self.times.read,
            _ => Nanos::ZERO,
        };
        let time = end.time.max(self.on_shared_channel(plane, end.channel));
        Some((step + time).since(begun))
    }

    /// Channel time, if the other cleanings in progress on the channel move as much.
    fn on_shared_channel(&self, plane: u32, time: Nanos) -> Nanos {
        let channel = self.layout.channel_of_die(self.layout.die_of_plane(plane));
        Nanos(time.0 * u64::from(self.channels[channel as usize].cleanings))
    }

    /// How long a stall for free blocks will last.
    pub(super) fn stall_left(&self) -> Nanos {
        let missing = self.cleaning.missing(self.blocks.free()) as u64;
        let lefts =
            (0..self.layout.planes).filter_map(|plane| self.plane_left(plane, Until::Erased));
        let (count, longest) =
            lefts.fold((0_u64, Nanos::ZERO), |(n, most), left| (n + 1, left.max(most)));
        // Rounds of as many cleanings as are in progress; the later ones as long as the longest
        // would be from its start.
        let rounds = missing.div_ceil(count.max(1)).max(1) - 1;
        longest + Nanos(self.longest_cleaning().0 * rounds)
    }

    /// The longest of the cleanings in progress, from beginning to end.
    fn longest_cleaning(&self) -> Nanos {
        let planes = (0..self.layout.planes).filter(|&plane| self.is_in_progress(plane));
        let whole = planes.filter_map(|plane| {
            let began = self.planes[plane as usize].job.began;
            Some(self.now.since(began) + self.plane_left(plane, Until::Erased)?)
        });
        whole.max().unwrap_or(self.times.erase)
    }
}

impl Progress {
    fn moves(&mut self, transfer: Nanos) {
        self.time += transfer;
        self.channel += transfer;
    }

    fn programmed(&mut self, pages_per_block: u32, units_per_page: u32) {
        self.staged -= self.staged.min(units_per_page);
        self.to = (self.to + 1) % pages_per_block;
    }
}
