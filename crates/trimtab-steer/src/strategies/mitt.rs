//! Reads with a deadline that the system refuses at once: MittOS.

use trimtab_io::{HostEvent, Nanos, Request};
use trimtab_predict::{Ticket, Verdict};

use crate::action::Reason;
use crate::costs::Costs;
use crate::predictors::PredictorSet;
use crate::replica::Replica;
use crate::strategy::{Ended, Strategy};
use crate::turn::Turn;

/// The primary is asked with a deadline; if it refuses, the read goes to the next replica after a
/// hop, and the last one is asked without a deadline (MittOS, §4.1.2).
///
/// With [`by_wait`](Self::by_wait) the last one may refuse, too. Each refusal states the expected
/// wait, so that the read then goes to the replica that is expected to return the data first: the
/// extension that the paper proposes for the case that all are busy.
///
/// Nothing is probed: the predictors know each replica's queue, and not only its completions.
pub struct Mitt {
    name: &'static str,
    predictors: PredictorSet,
    costs: Costs,
    by_wait: bool,
}

impl Mitt {
    /// The strategy under this name, with these predictors.
    #[must_use]
    pub const fn new(name: &'static str, predictors: PredictorSet, costs: Costs) -> Self {
        Self { name, predictors, costs, by_wait: false }
    }

    /// The same strategy, which goes by the expected waits if all replicas refuse.
    #[must_use]
    pub fn by_wait(self) -> Self {
        Self { by_wait: true, ..self }
    }

    /// Asks the replica that is next in order, which may refuse.
    fn next(&self, turn: &mut Turn<'_>) {
        let now = turn.now();
        let Memo { step, best, .. } = Memo::from(turn.memo());
        let Some(&replica) = turn.order().get(usize::from(step)) else {
            // All have refused, and the hop is over.
            let best = turn.order()[usize::from(best)];
            turn.send(best, now, Reason::LeastBad);
            return;
        };
        let last = usize::from(step) + 1 == turn.order().len();
        if last && !self.by_wait {
            turn.send(replica, now, Reason::LeastBad);
            return;
        }
        let forecast = self.predictors.forecast(now, replica, turn.request());
        if forecast.verdict == Verdict::Fast {
            turn.send(replica, now + self.costs.inference, Reason::Fast);
            return;
        }
        turn.refuse(replica);
        self.go_on(turn, forecast.wait.unwrap_or(Nanos::MAX));
    }

    /// The replica that was asked has refused, with this expected wait: the read goes on to the next
    /// after a hop.
    fn go_on(&self, turn: &mut Turn<'_>, wait: Nanos) {
        let now = turn.now();
        let Memo { step, best, end } = Memo::from(turn.memo());
        let last = usize::from(step) + 1 == turn.order().len();
        // When the data would be here, counted from the read's arrival.
        let since = now.since(turn.request().arrival);
        let here = Memo::grain(Nanos(since.0.saturating_add(wait.0)));
        // From the last replica a read has to go back, unless that is the best.
        let (best, end) = if step == 0 || here < end { (step, here) } else { (best, end) };
        turn.set_memo(Memo { step: step + 1, best, end }.into());
        let hop = if last && best == step { Nanos::ZERO } else { self.costs.failover };
        turn.timer(now + self.costs.inference + hop, 0);
    }
}

/// What a read remembers: the replica to be asked next, and the one of those that refused which is
/// expected to have the data first, and when. Packed into 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memo {
    step: u8,
    best: u8,
    /// In grains of 128 ns, up to 4.29 s.
    end: u32,
}

impl Memo {
    /// Bits of a time.
    const BITS: u32 = 25;

    fn grain(time: Nanos) -> u32 {
        (time.0 / 128).min((1 << Self::BITS) - 1) as u32
    }
}

impl From<u32> for Memo {
    fn from(memo: u32) -> Self {
        let end = memo & ((1 << Self::BITS) - 1);
        Self { step: (memo >> 28) as u8, best: (memo >> Self::BITS & 7) as u8, end }
    }
}

impl From<Memo> for u32 {
    fn from(memo: Memo) -> Self {
        Self::from(memo.step) << 28 | Self::from(memo.best) << Memo::BITS | memo.end
    }
}

impl Strategy for Mitt {
    fn name(&self) -> &'static str {
        self.name
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        self.next(turn);
    }

    fn timer(&mut self, turn: &mut Turn<'_>, _: u8) {
        self.next(turn);
    }

    fn sent(&mut self, now: Nanos, replica: Replica, request: &Request) -> Ticket {
        self.predictors.sent(now, replica, request)
    }

    fn completed(&mut self, now: Nanos, ended: &Ended) {
        self.predictors.completed(now, ended);
    }

    fn dispatched(&mut self, now: Nanos, replica: Replica, ticket: Ticket) {
        self.predictors.dispatched(now, replica, ticket);
    }

    fn next_bumped(&mut self, replica: Replica) -> Option<Ticket> {
        self.predictors.next_bumped(replica)
    }

    /// As if the replica had refused at once, but for the time that has passed.
    fn bumped(&mut self, turn: &mut Turn<'_>, replica: Replica) {
        turn.refuse(replica);
        self.go_on(turn, Nanos::MAX);
    }

    fn observe(&mut self, replica: Replica, event: &HostEvent) {
        self.predictors.observe(replica, event);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trimtab_io::{DeviceId, Op, RequestId};
    use trimtab_predict::{Forecast, Predictor};

    use super::*;
    use crate::action::{Action, Actions, Attempt, Timer};
    use crate::replica::{MOST_REPLICAS, Order};
    use crate::steering::Steering;

    /// Always expects this.
    #[derive(Clone)]
    struct Expects(u64);

    impl Predictor for Expects {
        fn name(&self) -> &'static str {
            "expects"
        }

        fn predict(&self, _: Nanos, _: &Request) -> Forecast {
            let verdict = if self.0 > 1000 { Verdict::Late } else { Verdict::Fast };
            Forecast { wait: Some(Nanos(self.0)), ..Forecast::bare(verdict) }
        }

        fn sent(&mut self, _: Nanos, _: &Request) -> Ticket {
            Ticket(0)
        }

        fn completed(&mut self, _: Nanos, _: Ticket, _: bool) {}

        fn boxed_clone(&self) -> Box<dyn Predictor> {
            Box::new(self.clone())
        }
    }

    /// The replica that a read is sent to, when, and whether with a deadline; its replicas expect
    /// these waits. A decision takes 10 ns, a hop 100.
    fn goes(waits: [u64; 3], by_wait: bool) -> (Replica, Nanos, Reason) {
        let boxed = |wait| Box::new(Expects(wait)) as Box<dyn Predictor>;
        let costs = Costs { inference: Nanos(10), failover: Nanos(100) };
        let mitt = Mitt::new("mitt", PredictorSet::new(waits.map(boxed)), costs);
        let mitt = if by_wait { mitt.by_wait() } else { mitt };
        let mut steering = Steering::new(Box::new(mitt));
        let read = Request::new(RequestId(1), DeviceId(0), Nanos(5000), Op::Read, 0, 4096);
        let order = Order::new(&[Replica(0), Replica(1), Replica(2)]);
        let mut actions = Actions::new();
        steering.read(Nanos(5000), &read, order, &mut actions);
        loop {
            let mut next: Option<(Nanos, Timer)> = None;
            for action in std::mem::take(&mut actions) {
                match action {
                    Action::Send { attempt: Attempt { replica, .. }, at, reason } => {
                        return (replica, at.since(Nanos(5000)), reason);
                    }
                    Action::Timer { at, timer } => next = Some((at, timer)),
                    _ => {}
                }
            }
            let (at, timer) = next.expect("a read that is not sent waits for a hop");
            steering.timer(at, timer, &mut actions);
        }
    }

    #[test]
    fn refusals_go_on_and_the_last_is_not_asked() {
        assert_eq!(goes([1, 1, 1], false), (Replica(0), Nanos(10), Reason::Fast));
        assert_eq!(goes([2000, 1, 1], false), (Replica(1), Nanos(120), Reason::Fast));
        assert_eq!(goes([2000, 3000, 4000], false), (Replica(2), Nanos(220), Reason::LeastBad));
    }

    #[test]
    fn if_all_refuse_the_shortest_wait_decides() {
        assert_eq!(goes([2000, 3000, 1], true), (Replica(2), Nanos(230), Reason::Fast));
        // Back to the first, one hop more; or at once to the last.
        assert_eq!(goes([2000, 3000, 9000], true), (Replica(0), Nanos(330), Reason::LeastBad));
        assert_eq!(goes([9000, 3000, 2000], true), (Replica(2), Nanos(230), Reason::LeastBad));
        // A refusal that is older has waited for longer: 2400 from the start against 110 + 2350.
        assert_eq!(goes([2400, 2350, 9000], true).0, Replica(0));
    }

    proptest! {
        #[test]
        fn memos_survive_packing(
            step in 0..=MOST_REPLICAS as u8,
            best in 0..MOST_REPLICAS as u8,
            ns in 0..=u64::MAX,
        ) {
            let memo = Memo { step, best, end: Memo::grain(Nanos(ns)) };
            prop_assert_eq!(Memo::from(u32::from(memo)), memo);
        }
    }

    #[test]
    fn a_new_read_asks_the_first() {
        assert_eq!(Memo::from(0), Memo { step: 0, best: 0, end: 0 });
    }
}
