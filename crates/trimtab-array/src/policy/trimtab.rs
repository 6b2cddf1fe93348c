//! Ordinary drives that take turns without knowing it.

mod budget;
mod bursts;
mod demand;
mod forecast;
mod turns;
mod watch;

use trimtab_io::{Nanos, Op, Outcome, Request};

use super::{Asks, MemberEnded, ReadPolicy, Standing, StripeRead, TurnsStanding};
use crate::members::{Member, Members};
use budget::Budget;
use demand::Demand;
use forecast::Forecast;
use turns::{Burst, Turns};
use watch::{Ticket, Watch};

/// The parameters of [`Trimtab`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrimtabOptions {
    /// Extra reads, as a share of the stripes' reads, at most; of those of the user, and of those
    /// that parity needs.
    pub most_extra: f64,
    /// Writes for turns, as a share of a member's writes, at most. 0: drives are left as they are.
    pub most_refresh: f64,
}

impl Default for TrimtabOptions {
    fn default() -> Self {
        Self { most_extra: 0.1, most_refresh: 0.5 }
    }
}

/// A request that takes this many times the usual time is late.
const LATE: f64 = 6.0;
/// No request below this is late, ns.
const LEAST_LATE: f64 = 300_000.0;
/// Reads go around a member at once that is late with this probability, if the budget is full ...
const LIKELY: f64 = 0.6;
/// ... and with so much more if it is empty: then all of it is for reads that have been late.
const SCARCE: f64 = 0.9;
/// The longest that a read waits for a late member, as a share of the longest reads lately.
const MOST_PATIENCE: f64 = 0.5;
/// Reads go around a member that has answered nothing for so long, whatever the budget has: it is stuck,
/// perhaps for seconds.
const MOST_WAIT: Nanos = Nanos::from_millis(250);
/// After so many times that a read waits for no member, whatever that answers to others.
const WAITS: u8 = 4;
/// Turns are made if going around all that is late would cost at most so many times the budget, by the
/// most that it was lately.
const MOST_DEMAND: f64 = 1.6;
/// With a demand of so many times the budget, or less, it is not spared, and pays for all that is late.
const AMPLE_DEMAND: f64 = 0.7;
/// One of so many reads still asks a member that is gone around: to see when it is over.
const PROBES: u64 = 8;
/// Where fewer of the computed strips than this come before the member's own, nothing is computed ...
const LEAST_WINS: f64 = 0.4;
/// ... but in one of so many reads.
const TRIALS: u64 = 32;
/// What one read changes of the share of wins, and of the usual latency.
const NEW: f64 = 1.0 / 64.0;
const NEW_LATENCY: f64 = 1.0 / 256.0;

/// Goes around members that are busy, learns when they are, and makes them take turns.
///
/// A drive that fills its blocks in turn has to clean all of them at about the same time: in a burst,
/// each time when so many bytes have been written to it. The drives of an array are written to
/// alike, so their bursts fall together, and what one of them holds cannot be computed from the
/// others then (IODA, §4.2.2). Neither the drives' firmware nor a window is needed to change that.
/// The host sees the bursts and counts the bytes between them; if the bursts of two
/// members fall together, it writes some of what one of them holds again, so that the member's next
/// burst comes earlier. A few dozen MiB once make the drives take turns from then on: their distance
/// changes only by chance.
///
/// Then reads go around a member while it is busy, within a budget: at once where it is likely to be
/// late by what its reads show, otherwise when a read has been late itself. Computed strips that come
/// after the member's own are no gain; where they mostly do, all members are busy with other things,
/// and nothing is computed.
#[derive(Clone, Debug)]
pub struct Trimtab {
    options: TrimtabOptions,
    turns: Turns,
    watches: Vec<Watch>,
    forecast: Forecast,
    /// Usual latency of a member's read, ns.
    usual: f64,
    /// Usual latency of a write to a stripe, ns.
    usual_write: f64,
    /// Those of the user, and of parity.
    budgets: [Budget; 2],
    demand: Demand,
    /// Whether a member more could be gone around, by the last read of the user; none before there was one.
    can_compute: Option<bool>,
    /// Share of reads that were late at first and then had computed strips sooner.
    wins: f64,
    /// When the last one of them that counted began.
    counted: Option<Nanos>,
    reads: u64,
}

/// From when on a request is late that usually takes this time, ns.
fn late(usual: f64) -> f64 {
    (usual * LATE).max(LEAST_LATE)
}

impl Trimtab {
    /// The policy for an array of so many members.
    #[must_use]
    pub fn new(members: usize, options: TrimtabOptions) -> Self {
        Self {
            options,
            turns: Turns::new(members),
            watches: vec![Watch::default(); members],
            forecast: Forecast::default(),
            usual: 0.0,
            usual_write: 0.0,
            budgets: [Budget::default(); 2],
            demand: Demand::default(),
            can_compute: None,
            wins: 1.0,
            counted: None,
            reads: 0,
        }
    }

    /// From when on a read of a member is late, ns.
    fn late(&self) -> f64 {
        late(self.usual)
    }

    const fn budget(&mut self, read: &StripeRead<'_>) -> &mut Budget {
        &mut self.budgets[if read.of_user { 0 } else { 1 }]
    }

    /// How long a read waits for a late member: the less the more the budget has. With nearly nothing
    /// left it is spent where it saves most.
    fn patience(&mut self, read: &StripeRead<'_>) -> Nanos {
        let least = self.late();
        let longest = self.turns.longest().min(MOST_WAIT.0 as f64 / MOST_PATIENCE);
        let most = (longest * MOST_PATIENCE).max(least);
        // Where the budget can pay for all that is late, none is spared.
        let pays = |peak: f64| peak <= AMPLE_DEMAND * self.options.most_extra;
        let is_ample = self.demand.extra().is_some_and(pays);
        let plenty = if is_ample { 1.0 } else { self.budget(read).plenty() };
        // Geometric between the two.
        Nanos((most * libm::pow(least / most, plenty)) as u64)
    }

    /// Turns are wanted if the budget can pay for what they take, and p99 does not rise by them.
    fn standing(&self) -> Standing {
        let most_extra = self.options.most_extra;
        let [most, ample] = [MOST_DEMAND * most_extra, AMPLE_DEMAND * most_extra];
        if self.can_compute == Some(false) {
            Standing::NoSpare
        } else if self.can_compute.is_none() {
            Standing::Unknown
        } else if !self.demand.is_affordable(most, ample) {
            if self.demand.extra().is_some() { Standing::Costly } else { Standing::Unknown }
        } else if !self.demand.keeps_reads(ample, budget::MOST, self.watches.len()) {
            Standing::DelaysReads
        } else if !self.demand.keeps_writes() {
            if self.demand.knows_writes() { Standing::DelaysWrites } else { Standing::Unknown }
        } else {
            match self.demand.keeps_clients() {
                None => Standing::Unknown,
                Some(true) => Standing::Wanted,
                Some(false) => Standing::DelaysClients,
            }
        }
    }

    /// How likely a read of a member is late.
    fn forecast(&mut self, now: Nanos, member: Member) -> f64 {
        let late = Nanos(self.late() as u64);
        let watch = &mut self.watches[member.index()];
        watch.pass(now, late);
        self.forecast.late(watch.state())
    }

    /// Those that are late at least as likely as this.
    fn likely_late(&mut self, now: Nanos, of: Members, likely: f64) -> Members {
        of.iter().filter(|&member| self.forecast(now, member) >= likely).collect()
    }

    /// Those that are stuck.
    fn stuck(&self, now: Nanos, of: Members) -> Members {
        let is_stuck = |member: &Member| self.watches[member.index()].silent(now) >= MOST_WAIT;
        of.iter().filter(is_stuck).collect()
    }

    /// Goes around members, if that is worth it and the budget has what it takes. It need not have it for
    /// a read that has waited for very long; and around one that is stuck reads go in any case.
    fn around(
        &mut self,
        now: Nanos,
        read: &StripeRead<'_>,
        late: Members,
        has_waited: bool,
        asks: &mut Asks,
    ) -> bool {
        if late.is_empty() || late.count() > read.spare() {
            return false;
        }
        let is_stuck = !self.stuck(now, late).is_empty();
        if !is_stuck && self.wins < LEAST_WINS && !self.reads.is_multiple_of(TRIALS) {
            return false;
        }
        let others = read.members.without(read.failed).without(late);
        let avoid = self.likely_late(now, others, 0.5);
        let present = read.wanted().without(late).count();
        let cost = read.needed.saturating_sub(present);
        if others.without(avoid).count() < cost {
            return false;
        }
        if !self.budget(read).spend(f64::from(cost), has_waited || is_stuck) {
            return false;
        }
        asks.around(late, avoid, Members::NONE);
        true
    }
}

impl ReadPolicy for Trimtab {
    fn begin(&mut self, now: Nanos, read: &StripeRead<'_>, asks: &mut Asks) {
        let wanted = read.wanted();
        self.reads += 1;
        let most_extra = self.options.most_extra;
        let budget = self.budget(read);
        // A read that begins again has earned its share before.
        if read.begun == now {
            budget.earn(most_extra);
        }
        let bar = LIKELY + SCARCE * (1.0 - budget.plenty());
        let is_probe = self.reads.is_multiple_of(PROBES);
        let stuck = self.stuck(now, wanted);
        if self.around(now, read, stuck, false, asks) {
            asks.directly(if is_probe { wanted } else { wanted.without(stuck) });
        } else {
            let late = self.likely_late(now, wanted, bar);
            let is_around = !is_probe && self.around(now, read, late, false, asks);
            asks.directly(if is_around { wanted.without(late) } else { wanted });
        }
        if self.usual > 0.0 {
            asks.timer(now + self.patience(read), 0);
        } else {
            asks.timer(now + MOST_WAIT, 1);
        }
    }

    /// `waits`: how many times `MOST_WAIT` it has waited.
    fn timer(&mut self, now: Nanos, read: &StripeRead<'_>, waits: u8, asks: &mut Asks) {
        let missing = read.missing().both(read.asked());
        if !self.around(now, read, missing, waits == WAITS, asks) && waits < WAITS {
            asks.timer(read.begun + Nanos(MOST_WAIT.0 * (u64::from(waits) + 1)), waits + 1);
        }
    }

    fn ended(&mut self, now: Nanos, read: &StripeRead<'_>) {
        if read.of_user {
            self.can_compute = Some(read.spare() > 0);
            // Failed members are gone around too.
            let around = read.around.without(read.failed);
            let late_from = Nanos(self.late() as u64);
            let is_late = now.since(read.begun) >= late_from || !around.is_empty();
            let late = is_late.then(|| now - late_from);
            let (members, needed) = (read.wanted().count(), read.needed);
            let extra = needed.saturating_sub(members - 1);
            self.demand.read(read.begun, read.stripe, late, members, extra);
        }
        // Of those that were asked as well it is known which came first.
        let (late, own) = (read.missing(), read.around);
        let is_known = late.is_empty() || !late.both(read.asked()).is_empty();
        // The stripes of one read of the user have one fate: hundreds of them say no more than one does.
        if own.is_empty() || !is_known || self.counted == Some(read.begun) {
            return;
        }
        self.counted = Some(read.begun);
        let won = if late.is_empty() { 0.0 } else { 1.0 };
        self.wins += (won - self.wins) * NEW;
    }

    fn wrote(&mut self, now: Nanos, begun: Nanos, members: u32) {
        let took = now.since(begun).0 as f64;
        let late_from = late(self.usual_write);
        let is_late = self.usual_write > 0.0 && took >= late_from;
        let late = is_late.then(|| now - Nanos(late_from as u64));
        self.demand.write(begun, late, members);
        if !is_late {
            let weight = if self.usual_write == 0.0 { 1.0 } else { NEW_LATENCY };
            self.usual_write += (took - self.usual_write) * weight;
        }
    }

    fn member_sent(&mut self, now: Nanos, member: Member, request: &Request) -> u32 {
        match request.op {
            Op::Read => {
                let late = Nanos(self.late() as u64);
                let watch = &mut self.watches[member.index()];
                watch.pass(now, late);
                watch.sent(now).0
            }
            _ => {
                let share = self.options.most_refresh;
                self.turns.written(member, request.length as f64, share);
                0
            }
        }
    }

    fn member_ended(&mut self, now: Nanos, ended: &MemberEnded) {
        if !ended.is_read {
            return;
        }
        let late = Nanos(self.late() as u64);
        let watch = &mut self.watches[ended.member.index()];
        watch.pass(now, late);
        let ticket = Ticket(ended.ticket);
        let was_late = watch.ended(now, ticket);
        if ended.outcome != Some(Outcome::Done) {
            return;
        }
        self.forecast.learn(ticket.state(), was_late);
        if was_late && self.usual > 0.0 {
            match self.turns.took_long(ended.member, ended.sent, now) {
                // Before the first burst drives differ from what they are like later.
                Some(Burst::FirstOfAll) => {
                    self.demand = Demand::default();
                    self.demand.burst_begins(now, ended.member, self.watches.len());
                }
                Some(Burst::Another) => {
                    self.demand.burst_begins(now, ended.member, self.watches.len());
                    if self.standing() == Standing::Wanted {
                        self.turns.take_turns();
                    }
                }
                None => {}
            }
            return;
        }
        let weight = if self.usual == 0.0 { 1.0 } else { NEW_LATENCY };
        self.usual += (now.since(ended.sent).0 as f64 - self.usual) * weight;
    }

    fn refresh(&mut self, _: Nanos, bytes: u64) -> Option<Member> {
        self.turns.pay(bytes as f64)
    }

    fn turns(&self) -> Option<TurnsStanding> {
        let standing = match self.standing() {
            _ if self.options.most_refresh <= 0.0 => Standing::Off,
            Standing::Wanted if !self.turns.are_known() => Standing::Unknown,
            Standing::Wanted if self.turns.were_in_vain() => Standing::InVain,
            other => other,
        };
        let [late_reads, late_writes] = self.demand.late();
        let [stalled_reads, stalled_writes] = self.demand.stalled();
        Some(TurnsStanding {
            standing,
            extra_reads: self.demand.extra_with_turns(),
            late_reads,
            late_writes,
            stalled_reads,
            stalled_writes,
            lost: self.demand.lost(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::Row;

    /// Ends a stripe's read of four members that went around the first one, and asked it as well.
    fn end(policy: &mut Trimtab, begun: Nanos, own_came_first: bool) {
        let first: Members = [Member(0)].into_iter().collect();
        let all: Members = (0..4).map(Member).collect();
        let have = if own_came_first { all } else { all.without(first) };
        let row = Row { wanted: first, have, asked: all.without(have), ..Row::default() };
        let read = StripeRead {
            stripe: 0,
            begun,
            members: all,
            failed: Members::NONE,
            refused: Members::NONE,
            needed: 3,
            of_user: true,
            around: first,
            rows: &[row],
            busy: None,
        };
        policy.ended(begun + Nanos::from_millis(50), &read);
    }

    #[test]
    fn stripes_of_one_read_decide_as_one() {
        let mut policy = Trimtab::new(4, TrimtabOptions::default());
        (0..1_000).for_each(|_| end(&mut policy, Nanos(1), true));
        assert!(policy.wins > LEAST_WINS, "{}", policy.wins);
        (2..1_000).for_each(|begun| end(&mut policy, Nanos(begun), true));
        assert!(policy.wins < LEAST_WINS, "{}", policy.wins);
        (1_000..2_000).for_each(|begun| end(&mut policy, Nanos(begun), false));
        assert!(policy.wins > LEAST_WINS, "{}", policy.wins);
    }

    #[test]
    fn standing_of_turns_says_what_prevents_them() {
        let mut policy = Trimtab::new(4, TrimtabOptions::default());
        let standing = |policy: &Trimtab| policy.turns().unwrap().standing;
        assert_eq!(standing(&policy), Standing::Unknown);
        (1..1_000).for_each(|begun| end(&mut policy, Nanos(begun), true));
        assert_eq!(standing(&policy), Standing::Unknown);
        // All of them are gone around, for two extra reads each.
        (1_000..10_000).for_each(|begun| end(&mut policy, Nanos(begun), true));
        let turns = policy.turns().unwrap();
        assert_eq!(turns.standing, Standing::Costly);
        assert!(turns.extra_reads > Some(1.0) && turns.late_reads[0] > 0.99, "{turns:?}");
    }
}
