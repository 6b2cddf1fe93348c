//! Requests that were not sent, because their senders waited.

use trimtab_io::Nanos;

use super::ABOVE_P99;

/// So many cycles in a row must have stalls, so that one long stall is none of cleaning ...
const STALLED: usize = 2;
/// ... and this is remembered for so many: with turns there are no stalls any more.
const REMEMBERED_STALLS: u32 = 32;
/// What came after stalls is forgotten by this factor with each cycle.
const KEPT: f64 = 0.75;

/// The time in which all requests of a kind are late: from when the first of those began that were late, or
/// the last one that was not, until none is late any more.
///
/// Programs that wait send nothing, so while all members are busy hardly a request begins, and of all
/// requests few are late. Those that would have begun are late as well: p99 is late then, by when programs
/// wanted them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stalls {
    /// Until when it is known whether requests were late.
    known: Nanos,
    /// When the last cycle ended.
    since: Option<Nanos>,
    /// Such time since then, ns.
    stalled: f64,
    /// Its share of each of the last cycles.
    cycles: [Option<f64>; STALLED],
    /// Cycles until what they were is forgotten.
    pub(super) left: u32,
    /// The latest stall.
    from: Nanos,
    to: Nanos,
    /// Requests of this cycle, those among them that began after a stall, within as long a time as it took,
    /// and that time, ns.
    requests: f64,
    after: f64,
    after_time: f64,
    /// Those of recent cycles, and as many as usually begin in that time.
    recent: f64,
    usual: f64,
}

impl Stalls {
    /// A request has ended that began then and was not late.
    pub(super) fn on_time(&mut self, begun: Nanos) {
        self.began(begun);
        self.known = self.known.max(begun);
    }

    fn began(&mut self, at: Nanos) {
        self.requests += 1.0;
        if at > self.to && at.since(self.to) <= self.to.since(self.from) {
            self.after += 1.0;
        }
    }

    /// A late one has ended. One that had begun after `until` would not have been late.
    pub(super) fn late(&mut self, begun: Nanos, until: Nanos) {
        self.began(begun);
        let from = begun.max(self.known);
        self.stalled += until.since(from).0 as f64;
        self.known = self.known.max(until);
        if until > from {
            if from > self.to {
                self.end_after(from);
                self.from = from;
            }
            self.to = until;
        }
    }

    /// The time after a stall has ended, at the latest now.
    fn end_after(&mut self, now: Nanos) {
        self.after_time += now.since(self.to).min(self.to.since(self.from)).0 as f64;
    }

    pub(super) fn end_cycle(&mut self, now: Nanos) {
        // The first one began somewhere in a cycle.
        if let Some(since) = self.since {
            let share = self.stalled / (now.since(since).0 as f64).max(1.0);
            self.cycles.rotate_right(1);
            self.cycles[0] = Some(share.min(1.0));
            self.end_after(now);
            let others = self.requests - self.after;
            let time = now.since(since).0 as f64 - self.stalled - self.after_time;
            self.recent = self.recent * KEPT + self.after;
            self.usual = self.usual * KEPT + others / time.max(1.0) * self.after_time;
            self.left = self.left.saturating_sub(1);
            if self.share() >= Some(ABOVE_P99) {
                self.left = REMEMBERED_STALLS;
            }
        }
        self.stalled = 0.0;
        self.since = Some(now);
        // A stall is of one cycle.
        self.from = self.to;
        (self.requests, self.after, self.after_time) = (0.0, 0.0, 0.0);
    }

    /// The share of the requests held back in stalls that are sent after them, beside the usual ones: senders
    /// have a rate of their own then, and lose nothing.
    pub(super) fn caught_up(&self) -> f64 {
        if self.usual > 0.0 { (self.recent / self.usual - 1.0).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The largest share of the last cycles; none before there were enough.
    pub(super) fn most(&self) -> Option<f64> {
        self.cycles.iter().copied().try_fold(0.0, |most, share| share.map(|it| it.max(most)))
    }

    /// The least share of the last cycles.
    pub(super) fn share(&self) -> Option<f64> {
        self.cycles.iter().copied().try_fold(1.0, |least, share| share.map(|it| it.min(least)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_count_in_two_cycles_in_a_row_and_for_a_while() {
        let mut stalls = Stalls::default();
        let mut at = Nanos::ZERO;
        let mut cycle = |stalls: &mut Stalls, stalled: u64| {
            stalls.late(at, at + Nanos(stalled));
            at += Nanos(1_000);
            stalls.end_cycle(at);
            stalls.left > 0
        };
        assert!(!cycle(&mut stalls, 900), "of the first one the begin is not known");
        assert!(!cycle(&mut stalls, 900), "one long stall");
        assert!((0..8).all(|_| !cycle(&mut stalls, 0)));
        assert!(!cycle(&mut stalls, 21));
        assert!(cycle(&mut stalls, 21));
        assert!((1..REMEMBERED_STALLS).all(|_| cycle(&mut stalls, 0)));
        assert!(!cycle(&mut stalls, 0));
    }

    #[test]
    fn stalled_time_is_counted_once() {
        let mut stalls = Stalls::default();
        stalls.end_cycle(Nanos(100));
        for (begun, until) in [(110, 120), (112, 120), (115, 130), (150, 140)] {
            stalls.late(Nanos(begun), Nanos(until));
        }
        assert_eq!(stalls.stalled, 20.0);
        stalls.on_time(Nanos(160));
        stalls.late(Nanos(155), Nanos(170));
        assert_eq!(stalls.stalled, 30.0, "one that began at 160 was not late");
    }

    /// Ten cycles of 1,000, each with a stall of 100, after which so many of the 20 requests come that it
    /// held back, beside one each 5.
    fn caught_up(held_back: u64) -> f64 {
        let mut stalls = Stalls::default();
        for cycle in 0..10 {
            let begin = Nanos(cycle * 1_000 + 1);
            stalls.end_cycle(begin);
            stalls.late(begin, begin + Nanos(100));
            let end = begin + Nanos(100);
            (0..held_back).for_each(|number| stalls.on_time(end + Nanos(1 + number)));
            (1..180).for_each(|number| stalls.on_time(end + Nanos(5 * number)));
        }
        stalls.caught_up()
    }

    #[test]
    fn what_is_sent_after_a_stall_is_caught_up_with() {
        let [none, half, all] = [0, 10, 20].map(caught_up);
        assert!(none < 0.02 && (0.45..0.55).contains(&half) && all > 0.95, "{none} {half} {all}");
    }
}
