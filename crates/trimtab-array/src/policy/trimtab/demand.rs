//! What turns would change: the extra reads that they take, and the requests that they delay.

mod clients;
mod cycle;
mod recent;
mod stalls;

use trimtab_io::Nanos;

use crate::members::Member;
use cycle::Cycle;
use recent::{OfCycles, Recent, RequestWidth};
use stalls::Stalls;

/// Requests of the user over which a mean is taken: those of several bursts.
const REMEMBERED: f64 = 50_000.0;
/// A mean over whole cycles is taken over so many, at least.
const CYCLES: f64 = 8.0;
/// A member's cycle is as long as the longest time between two of its bursts, which is forgotten by this
/// factor with each burst: one that seems to be two makes no short cycle.
const FORGET: f64 = 7.0 / 8.0;
/// A share of late requests that p99 does not show, ...
const BELOW_P99: f64 = 0.01;
/// ... one at whose edge it is: bursts decide whether it does, ...
const NEAR_P99: f64 = 0.0075;
/// ... one that it shows, even though some of those that are gone around would not have been late, ...
const AT_P99: f64 = 0.0125;
/// ... and one of which p99 is not among the shortest, so that more of them hardly move it.
const ABOVE_P99: f64 = 0.02;
/// Requests of so many members in the mean are hardly late more often with turns than without.
const OF_ONE: f64 = 1.02;
/// Where so many times as many requests are late by time as by number, or less, nobody waits for others.
const LIKE_LATE: f64 = 1.25;
/// The share of their time that turns may take from clients that wait for their requests.
const MOST_LOST: f64 = 0.02;
/// What that was is forgotten by this factor with each cycle.
const LOST_KEPT: f64 = 0.5;
/// Of a request that was late: one that had begun after this would not have been.
pub(super) type Late = Option<Nanos>;

/// Late requests of one kind, and how many members they go to.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    late: Recent,
    late_of_cycles: OfCycles,
    width: Recent,
    request_width: RequestWidth,
    /// When the newest request began.
    newest: Nanos,
    /// Requests since the last cycle ended, and in the longest one lately.
    requests: f64,
    cycle: f64,
    stalls: Stalls,
}

impl Kind {
    /// Over how many requests the mean over whole cycles is taken: in the first one over all.
    fn of_cycles(&self) -> f64 {
        match self.cycle > 0.0 {
            true => REMEMBERED.max(CYCLES * self.requests_of_cycle()),
            false => f64::INFINITY,
        }
    }

    /// A stripe's part of a request has ended. Returns whether it is the request's first one.
    fn add(&mut self, begun: Nanos, stripe: u64, late: Late, members: u32) -> bool {
        let is_first = begun > self.newest;
        self.newest = self.newest.max(begun);
        if is_first {
            self.requests += 1.0;
            self.late.forget(REMEMBERED);
            self.late_of_cycles.mean.forget(self.of_cycles());
            self.width.forget(REMEMBERED);
            self.request_width.mean.forget(REMEMBERED);
        }
        self.request_width.add(begun, stripe, members);
        match late {
            None => self.stalls.on_time(begun),
            Some(until) => self.stalls.late(begun, until),
        }
        let late = f64::from(u8::from(late.is_some()));
        self.late.add(late);
        self.late_of_cycles.mean.add(late);
        self.width.add(f64::from(members));
        is_first
    }

    fn end_cycle(&mut self, now: Nanos) {
        self.stalls.end_cycle(now);
        self.cycle = (self.cycle * FORGET).max(self.requests);
        self.requests = 0.0;
        self.late_of_cycles.note();
    }

    fn requests_of_cycle(&self) -> f64 {
        self.cycle.max(self.requests)
    }

    /// How many times as many requests may be late with turns.
    fn spread(&self) -> f64 {
        self.width.mean().max(1.0)
    }

    /// The share of late requests lately, at most, and what turns may raise it to. With turns those are sent
    /// that are held back in `stalled`, the share of time in which all members are busy.
    fn late(&self, stalled: f64) -> [f64; 2] {
        [self.late.peak, (self.late.peak.max(stalled) * self.spread()).min(1.0)]
    }

    /// How many times as many requests would be sent in stalls if nobody waited. 1 if that hardly differs.
    fn held(&self) -> f64 {
        let late = self.late_of_cycles.most().unwrap_or_else(|| self.late_of_cycles.mean.mean());
        let held = self.stalls.most().unwrap_or_default() / late.max(f64::EPSILON);
        if held > LIKE_LATE { held } else { 1.0 }
    }

    /// Whether turns leave p99 as it is, if it shows late requests from this share on. `pays`: all that are
    /// late with turns are gone around.
    fn is_safe(&self, above: f64, stalled: f64, pays: bool) -> bool {
        if !self.late.is_enough() {
            return false;
        }
        let [_, at_most] = self.late(stalled);
        let width = &self.request_width.mean;
        let of_cycles = &self.late_of_cycles;
        let are_held_back = self.stalls.most() >= Some(BELOW_P99) && self.held() > 1.0;
        let is_below = at_most < BELOW_P99;
        let is_as_before = width.is_enough() && width.mean() <= OF_ONE && (pays || !are_held_back);
        let is_late_by_time =
            self.stalls.left > 0 && of_cycles.most().is_some_and(|most| most >= NEAR_P99);
        is_below
            || is_as_before
            || is_late_by_time
            || of_cycles.least().is_some_and(|least| least >= above)
    }
}

/// What turns would change.
#[derive(Clone, Debug, Default)]
pub(super) struct Demand {
    /// Extra reads for each read, if all that is late were gone around.
    extra: Recent,
    extra_of_cycles: OfCycles,
    reads: Kind,
    writes: Kind,
    cycle: Cycle,
    /// The share of their time that turns would take from clients, lately and at most.
    lost: Option<f64>,
}

impl Demand {
    /// A stripe's read of so many members has ended. Going around one of them takes so many extra reads.
    pub(super) fn read(&mut self, begun: Nanos, stripe: u64, late: Late, members: u32, extra: u32) {
        if self.reads.add(begun, stripe, late, members) {
            self.extra.forget(REMEMBERED);
            self.extra_of_cycles.mean.forget(self.reads.of_cycles());
            self.cycle.now += 1.0;
        }
        let extra = if late.is_some() { f64::from(extra) } else { 0.0 };
        self.extra.add(extra);
        self.extra_of_cycles.mean.add(extra);
    }

    /// A stripe's write of so many members has ended.
    pub(super) fn write(&mut self, begun: Nanos, late: Late, members: u32) {
        // Which stripe it was does not matter: hardly any write is of one member.
        if self.writes.add(begun, 0, late, members) {
            self.cycle.now += 1.0;
        }
    }

    /// A member's burst begins.
    pub(super) fn burst_begins(&mut self, now: Nanos, member: Member, members: usize) {
        if self.cycle.burst_begins(member) {
            self.reads.end_cycle(now);
            self.writes.end_cycle(now);
            self.extra_of_cycles.note();
            // One quiet cycle says little, and turns stay once they are made. Few requests say nothing.
            if self.reads.late.is_enough()
                && let Some(lost) = self.lost_now(members)
            {
                let kept = self.lost.unwrap_or_default() * LOST_KEPT;
                self.lost = Some(kept.max(lost));
            }
        }
    }

    /// The most extra reads that are to be expected, for each read; none before enough is known.
    pub(super) fn extra(&self) -> Option<f64> {
        self.extra.is_enough().then_some(self.extra.peak)
    }

    /// The same with turns, where clients wait for each other no longer.
    pub(super) fn extra_with_turns(&self) -> Option<f64> {
        self.extra().map(|extra| extra.max(self.extra_by_time()))
    }

    /// The extra reads for each read if nobody waited for others.
    fn extra_by_time(&self) -> f64 {
        let of_cycles = &self.extra_of_cycles;
        of_cycles.most().unwrap_or_else(|| of_cycles.mean.mean()) * self.reads.held()
    }

    /// Whether the extra reads for each read are at most so many by their peak, or so many in the mean of
    /// whole cycles; and by their peak if nobody waited for others.
    pub(super) fn is_affordable(&self, peak: f64, of_cycles: f64) -> bool {
        let is_by_number = self.extra().is_some_and(|extra| extra <= peak)
            || self.extra_of_cycles.most().is_some_and(|extra| extra <= of_cycles);
        is_by_number && self.extra_by_time() <= peak
    }

    /// Whether so many extra reads for each read, of which the budget saves up `saved`, pay for all
    /// late reads that so many members have with turns.
    fn pays(&self, most: f64, saved: f64, members: usize) -> bool {
        let Some(extra) = self.extra_of_cycles.most() else { return false };
        let extra = extra * self.reads.held();
        let of_burst = extra * self.reads.cycle / members as f64;
        extra * self.reads.spread() <= most && of_burst <= saved
    }

    /// The shares of time, at most, in which all reads are late, and all writes. Writes would be if reads are:
    /// those cannot be gone around. Clients that wait for a read send none that would show it.
    fn all_busy(&self) -> [f64; 2] {
        let [reads, writes] =
            [&self.reads, &self.writes].map(|of| of.stalls.most().unwrap_or_default());
        [reads, writes.max(reads)]
    }

    /// The shares of late reads and writes lately, at most, and what turns may raise them to.
    pub(super) fn late(&self) -> [[f64; 2]; 2] {
        let [reads, writes] = self.all_busy();
        [self.reads.late(reads), self.writes.late(writes)]
    }

    /// Whether turns leave p99 of reads as it is.
    ///
    /// While all members are busy at the same time, a request of several is late as often as that
    /// of one. With turns each of its members delays it at another time. So a share of late
    /// requests that p99 does not show may rise to one that it does.
    ///
    /// Where `most` extra reads for each read, of which so many are saved up, pay for all of them,
    /// the reads that are late with turns wait for a computation instead of for a member. Where a stripe's
    /// reads are of one member hardly more of them are late.
    pub(super) fn keeps_reads(&self, most: f64, saved: f64, members: usize) -> bool {
        let hardly_more = self.reads.spread() <= OF_ONE;
        let pays = self.pays(most, saved, members);
        let above = if hardly_more || pays { AT_P99 } else { ABOVE_P99 };
        self.reads.is_safe(above, self.all_busy()[0], pays)
    }

    /// The share of their time that turns take from clients of which each waits for every request, reads and
    /// writes drawn at random: below 0 if they gain. None before it is known.
    ///
    /// While all members are busy all clients wait, at most once for each burst of all members. With
    /// turns those wait that write to the busy member, in the burst of each member. Those that send later what
    /// was held back have a rate of their own, and lose nothing.
    fn lost_now(&self, members: usize) -> Option<f64> {
        let stalled = self.reads.stalls.most()?;
        let sent = clients::sent_in_stall(1.0 / self.reads.held());
        let [reads, writes] = [&self.reads, &self.writes].map(Kind::requests_of_cycle);
        let share = writes / (reads + writes).max(1.0);
        let hit = (self.writes.request_width.mean.mean() / members as f64).min(1.0);
        let waits = clients::waiting(sent * share * hit) * members as f64;
        let wait = 1.0 - self.reads.stalls.caught_up();
        Some(wait * stalled * (waits - clients::waiting(sent)))
    }

    /// The share of their time that turns would take from clients that wait; none before it is known.
    pub(super) const fn lost(&self) -> Option<f64> {
        self.lost
    }

    /// Whether clients that wait for their requests get as much done with turns; none before it is known.
    pub(super) fn keeps_clients(&self) -> Option<bool> {
        self.lost().map(|lost| lost <= MOST_LOST)
    }

    /// Whether there were enough writes to know what turns would change for them.
    pub(super) fn knows_writes(&self) -> bool {
        self.writes.late.is_enough()
    }

    /// The shares of time in which all reads, or all writes, were late, in each of the last cycles.
    pub(super) fn stalled(&self) -> [Option<f64>; 2] {
        [self.reads.stalls.share(), self.writes.stalls.share()]
    }

    /// Whether turns leave p99 of writes as it is, by when programs want them.
    pub(super) fn keeps_writes(&self) -> bool {
        self.writes.is_safe(ABOVE_P99, self.all_busy()[1], false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Demand {
        fn is_safe(&self, most: f64, saved: f64, members: usize) -> bool {
            self.keeps_reads(most, saved, members) && self.keeps_writes()
        }
    }

    /// Of a request that no other one waits with.
    fn alone(is_late: bool, begun: Nanos) -> Late {
        is_late.then_some(begun)
    }

    fn demand(late_writes: usize, late_reads: usize, members: u32) -> Demand {
        let mut demand = Demand::default();
        for number in 0..10_000 {
            if number % 1_000 == 0 {
                (0..4).for_each(|member| {
                    demand.burst_begins(Nanos(number as u64), Member(member), 4)
                });
            }
            let begun = Nanos(number as u64 + 1);
            demand.read(begun, 0, alone(number % 1_000 < late_reads, begun), 2, 3);
            demand.write(begun, alone(number % 1_000 < late_writes, begun), members);
        }
        demand
    }

    #[test]
    fn long_reads_are_remembered_as_long_as_short_ones() {
        // 400 stripes each; one in five is late.
        let mut demand = Demand::default();
        for read in 0..2_000_u64 {
            let begun = Nanos(read + 1);
            (0..400).for_each(|_| demand.read(begun, 0, alone(read % 5 == 0, begun), 2, 1));
        }
        // Some dozens that are not.
        for read in 2_000..2_100_u64 {
            (0..400).for_each(|_| demand.read(Nanos(read + 1), 0, None, 2, 1));
        }
        let (extra, late) = (demand.extra().unwrap(), demand.reads.late.mean());
        assert!((0.18..0.25).contains(&extra) && (0.18..0.2).contains(&late), "{demand:?}");
    }

    #[test]
    fn turns_may_not_move_p99() {
        let is_safe = |late_writes, late_reads, members| {
            demand(late_writes, late_reads, members).is_safe(0.0, 6_000.0, 4)
        };
        assert!(!Demand::default().is_safe(1.0, 6_000.0, 4), "nothing is known");
        assert!(is_safe(1, 1, 2));
        assert!(!is_safe(7, 1, 2), "1.4% of the writes would be late");
        assert!(!is_safe(1, 7, 2), "1.4% of the reads would be late");
        assert!(!is_safe(3, 1, 8));
        assert!(is_safe(50, 50, 8), "p99 is late already");
    }

    #[test]
    fn late_reads_that_are_computed_do_not_move_p99() {
        // Those of two members, 3 extra reads each.
        assert!(!demand(1, 15, 2).is_safe(0.08, 6_000.0, 4));
        assert!(demand(1, 15, 2).is_safe(0.1, 6_000.0, 4));
        assert!(!demand(1, 7, 2).is_safe(0.1, 6_000.0, 4), "none is shown without turns");
        assert!(!demand(15, 15, 2).is_safe(0.1, 6_000.0, 4), "writes are not computed");
    }

    /// Eight writers of two members, each after 80 ms again, for ten cycles of 10 s at whose begin all
    /// members are busy for so long.
    fn writers_that_wait(busy: Nanos) -> Demand {
        let mut demand = Demand::default();
        let usual = Nanos::from_millis(1);
        for cycle in 0..10_u64 {
            let begin = Nanos::from_secs(10 * cycle);
            (0..4).for_each(|member| demand.burst_begins(begin, Member(member), 4));
            let late_until = begin + busy.since(usual);
            for writer in 0..8 {
                let mut at = begin + Nanos(writer + 1);
                while at < begin + Nanos::from_secs(10) {
                    let is_late = at < late_until;
                    demand.write(at, is_late.then_some(late_until), 2);
                    demand.read(at, 0, None, 1, 3);
                    if is_late {
                        at = late_until;
                    }
                    at += Nanos::from_millis(80);
                }
            }
        }
        (0..4).for_each(|member| demand.burst_begins(Nanos::from_secs(100), Member(member), 4));
        demand
    }

    #[test]
    fn writes_that_were_held_back_count() {
        let stalled = writers_that_wait(Nanos::from_millis(300));
        let late = stalled.writes.late.peak;
        assert!((0.006..0.009).contains(&late), "one of each writer: {late}");
        let share = stalled.writes.stalls.share().unwrap();
        assert!((0.029..0.031).contains(&share), "{share}");
        assert!(stalled.keeps_writes());
        let stalled = writers_that_wait(Nanos::from_millis(150));
        let share = stalled.writes.stalls.share().unwrap();
        assert!((0.014..0.016).contains(&share), "{share}");
        assert!(!stalled.keeps_writes(), "p99 of writes that are not held back may rise");
    }

    /// Eight clients with a request each 5 ms, of which one in `of` is a write to two members. All members are
    /// busy for the first tenth of each 3 s, as long as `is_busy` says.
    fn clients(wait_for_each: bool, of: u64, is_busy: impl Fn(u64) -> bool) -> Demand {
        const PERIOD: u64 = 3_000_000_000;
        let mut demand = Demand::default();
        // Never two at the same time.
        let mut next: Vec<_> = (1..9).map(Nanos::from_millis).collect();
        let mut sent = 0_u64;
        let mut cycle = u64::MAX;
        while sent < 120_000 {
            let client = (0..8).min_by_key(|&client| next[client]).unwrap();
            let at = next[client];
            if at.0 / PERIOD != cycle {
                cycle = at.0 / PERIOD;
                (0..4).for_each(|member| demand.burst_begins(at, Member(member), 4));
            }
            let until = Nanos(cycle * PERIOD + PERIOD / 10);
            let late = (at < until && is_busy(cycle)).then_some(until);
            if sent.is_multiple_of(of) {
                demand.write(at, late, 2);
            } else {
                demand.read(at, 0, late, 1, 2);
            }
            let goes_on = if wait_for_each { late.unwrap_or(at) } else { at };
            next[client] = goes_on + Nanos(5_000_000 + client as u64);
            sent += 1;
        }
        demand
    }

    #[test]
    fn clients_that_wait_lose_time_by_turns() {
        let lost = |of| {
            let demand = clients(true, of, |_| true);
            let [stalled, _] = demand.all_busy();
            assert!((0.09..0.11).contains(&stalled), "{stalled}");
            // One of each client in 3 s, of 540.
            assert!(demand.reads.late.peak < 0.02 && demand.reads.held() > 30.0, "{demand:?}");
            demand.lost().unwrap()
        };
        // A burst of 300 ms is one of 60 requests; 1 / of of them are writes, each to a member in two. Of four
        // bursts so much is waited for, and of the one before all but one request's time.
        for of in [3_u32, 60] {
            let hits = 60.0 / f64::from(of) / 2.0;
            let expected = 0.1 * (4.0 * clients::waiting(hits) - clients::waiting(60.0));
            let lost = lost(u64::from(of));
            assert!((lost - expected).abs() < 0.03, "{of} {lost} {expected}");
        }
        assert!(lost(3) > MOST_LOST && lost(60) < MOST_LOST);
        assert_eq!(Demand::default().keeps_clients(), None);
    }

    #[test]
    fn clients_that_do_not_wait_lose_nothing_by_turns() {
        let demand = clients(false, 3, |_| true);
        assert!((0.09..0.11).contains(&demand.all_busy()[0]), "{:?}", demand.all_busy());
        assert_eq!(demand.reads.held(), 1.0);
        assert_eq!((demand.lost(), demand.keeps_clients()), (Some(0.0), Some(true)));
    }

    #[test]
    fn a_quiet_cycle_makes_no_turns() {
        // There are 27 of them.
        let demand = clients(true, 3, |cycle| cycle < 24);
        assert_eq!(demand.all_busy(), [0.0, 0.0]);
        assert_eq!(demand.keeps_clients(), Some(false), "{:?}", demand.lost());
        let demand = clients(true, 3, |cycle| cycle < 3);
        assert_eq!(demand.keeps_clients(), Some(true), "{:?}", demand.lost());
    }

    #[test]
    fn what_is_held_back_has_to_be_paid_for() {
        let affordable = |wait: bool, peak| clients(wait, 10, |_| true).is_affordable(peak, 1.0);
        // One read in 540 is late and takes two more; by time it is one in ten.
        assert!(!affordable(true, 0.16) && affordable(true, 0.25));
        assert!(!affordable(false, 0.16) && affordable(false, 0.25));
        let demand = clients(true, 10, |_| true);
        assert!(demand.extra() < Some(0.05), "{:?}", demand.extra());
        assert!(demand.extra_with_turns() > Some(0.16), "{:?}", demand.extra_with_turns());
        assert!(!demand.pays(0.1, 6_000.0, 4) && demand.pays(0.25, 6_000.0, 4));
    }

    #[test]
    fn late_writes_among_others_are_no_stall() {
        // A thousand per second, of which one in 200 takes 50 ms, whenever it is.
        let mut demand = Demand::default();
        for number in 0..50_000_u64 {
            let begun = Nanos::from_millis(number);
            if number % 5_000 == 0 {
                (0..4).for_each(|member| demand.burst_begins(begun, Member(member), 4));
            }
            // In the order in which they end.
            match number % 200 {
                100 => {}
                150 => {
                    let begun = begun - Nanos::from_millis(50);
                    demand.write(begun, Some(Nanos::from_millis(number)), 4);
                }
                _ => demand.write(begun, None, 4),
            }
        }
        let share = demand.writes.stalls.share().unwrap();
        assert!(share < 0.01, "{share}");
        assert!(!demand.keeps_writes());
    }

    #[test]
    fn reads_of_one_member_meet_no_more_busy_ones() {
        let keeps = |parts: u64, wide: u64, stripe: &dyn Fn(u64) -> u64| {
            let mut demand = Demand::default();
            for number in 0..20_000_u64 {
                let width = if number % 1_000 < wide { 2 } else { 1 };
                let begun = Nanos(number + 1);
                for part in 0..parts {
                    demand.read(begun, stripe(part), alone(number % 1_000 < 15, begun), width, 3);
                }
            }
            demand.keeps_reads(0.0, 0.0, 4)
        };
        let in_a_row = |part| part;
        assert!(keeps(1, 0, &in_a_row) && keeps(1, 10, &in_a_row));
        assert!(!keeps(1, 40, &in_a_row));
        assert!(!keeps(2, 0, &in_a_row), "two stripes of each are on two members");
        assert!(keeps(2, 0, &|part| 100 * part), "two begin at the same time");
    }

    /// Reads of cycles of 100,000, one in ten of two members. Those are late that come in the burst of all
    /// members, at the cycle's begin. Returns what is known when the burst of the last cycle begins.
    fn rare_bursts(cycles: u64, late: u64, is_split: bool) -> Demand {
        let mut demand = Demand::default();
        for number in 0..cycles * 100_000 {
            let place = number % 100_000;
            if place == 0 || is_split && place == 2_000 {
                (0..4).for_each(|member| demand.burst_begins(Nanos(number), Member(member), 4));
            }
            let begun = Nanos(number + 1);
            demand.read(begun, 0, alone(place < late, begun), 1 + u32::from(number % 10 == 0), 3);
            demand.write(begun, alone(place < 5_000, begun), 2);
        }
        demand.burst_begins(Nanos(cycles * 100_000), Member(0), 4);
        demand
    }

    #[test]
    fn bursts_that_are_rare_do_not_move_the_mean() {
        for (cycles, is_split) in [(2, false), (3, false), (10, false), (10, true)] {
            let demand = rare_bursts(cycles, 1_400, is_split);
            let least = demand.reads.late_of_cycles.least().unwrap();
            assert!((0.0125..0.0145).contains(&least), "{cycles} {is_split} {least}");
            let extra = demand.extra_of_cycles.most().unwrap();
            assert!((0.038..0.044).contains(&extra), "{cycles} {is_split} {extra}");
            assert!(demand.is_safe(0.07, 6_000.0, 4), "{cycles} {is_split}");
            assert!(!demand.is_safe(0.0, 6_000.0, 4), "{cycles} {is_split}");
        }
        assert!(!rare_bursts(10, 1_400, false).is_safe(0.07, 900.0, 4), "each burst costs 1,050");
        assert!(!rare_bursts(10, 1_100, false).is_safe(0.07, 6_000.0, 4));
        assert!(!rare_bursts(10, 1_100, true).is_safe(0.07, 6_000.0, 4));
    }

    #[test]
    fn extra_reads_are_those_of_late_reads() {
        assert_eq!(Demand::default().extra(), None);
        let extra = demand(0, 100, 2).extra().unwrap();
        assert!((0.3..0.4).contains(&extra), "{extra}");
    }
}
