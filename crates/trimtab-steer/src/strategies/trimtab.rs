//! trimtab's strategy: the least expected latency, and a second replica only if it pays.

use trimtab_io::{HostEvent, Nanos, Op, Request, RequestId};
use trimtab_predict::{Forecast, Ticket, Verdict};

use crate::action::Reason;
use crate::calibration::Calibration;
use crate::control::ControlGroup;
use crate::control_figures::ControlFigures;
use crate::costs::Costs;
use crate::externality::Externality;
use crate::median::RunningMedian;
use crate::pair::{Choice, Pair};
use crate::predictors::PredictorSet;
use crate::probing::Probing;
use crate::question::Question;
use crate::queue::QueueState;
use crate::replica::{MOST_DRIVES, Replica, Replicas};
use crate::strategy::{Ended, Strategy};
use crate::turn::Turn;

mod hedging;
mod others;

use hedging::{HEDGE, Hedging};

/// The parameters of [`Trimtab`].
#[derive(Clone, Copy, Debug)]
pub struct TrimtabSettings {
    /// The cost of decisions.
    pub costs: Costs,
    /// By which share another replica's expected wait must be below the primary's for the
    /// read to go there.
    pub margin: f64,
    /// The greatest share of reads that are sent twice, in the long run.
    pub most_extra: f64,
    /// Whether a move to another replica is charged a failover even if the primary was not
    /// refused but only ranks behind.
    pub charge_moves: bool,
    /// Whether a control group decides if moves gain anything, and an unspent budget lowers the
    /// delay.
    pub control: bool,
    /// A latency that most reads stay below: the initial delay by which a read may exceed
    /// its expected latency before it is hedged.
    pub usual: Nanos,
    /// The median of each replica's latency so far.
    pub medians: [Nanos; MOST_DRIVES],
    /// A latency that almost all reads stay below.
    pub longest: Nanos,
    /// The seed of the control group.
    pub seed: u64,
}

/// Predicts all replicas and reads from the one with the least expected wait: the
/// primary, unless another is ahead by a margin. Among replicas that would be fast this
/// is ranking, as C3 and the snitch do it, and costs the inferences; a primary that is
/// refused costs a failover as well. Where all would be late the least late is asked.
///
/// Where no predictor ever refuses, nothing is predicted before a read is sent: it goes to its
/// primary, and takes no longer than without a strategy. With a control group that is so only
/// while the primary is idle and usually as fast as the others.
///
/// A read that takes longer than expected is hedged with a replica that will be sooner.
/// Hedges have a budget, and are worth most for reads that have waited longest. So the delay
/// before a hedge is the same for all reads: the price at which the budget is just spent
/// (`Delay`). The delay also bounds the cost of a replica that is fast except for a small risk
/// of being late: the risk ends at the hedge.
///
/// With a control group forecasts are checked in three ways. They are multiplied by what came of
/// them lately at queues of that length (`Calibration`); they are followed while pairs of reads do
/// not show a loss (`ControlGroup`), otherwise C3's ranking is, or none; and where the primary is
/// forecast to be as fast as the others usually are, these are not forecast at all. How many reads
/// are moved to a slower replica at once grows only while they are as fast as forecast. A hedge
/// must gain more than it costs the reads beside it.
///
/// What is in flight on the replicas, writes as well, is known and needs no forecast. So with a
/// control group a read goes only to a replica with fewer requests in flight than its primary, or
/// with few (`QueueState`), and is expected to wait for what is there as others did (`Drains`).
/// Where all drives are overloaded, and nothing can be won, reads stay.
pub struct Trimtab {
    name: &'static str,
    predictors: PredictorSet,
    settings: TrimtabSettings,
    hedging: Hedging,
    /// Each replica's expected wait at its last forecast, and as it counted in the choice: with a hedge, if one
    /// was to be sent. What comes of it is compared with that.
    expected: [Nanos; MOST_DRIVES],
    counted: [Nanos; MOST_DRIVES],
    /// Reads in flight on each replica.
    out: [u32; MOST_DRIVES],
    /// Replicas with a probe in flight.
    probed: Replicas,
    /// Measures whether moving reads gains anything; `None`: reads are moved on the forecast alone.
    control: Option<ControlGroup>,
    /// Each replica's median latency.
    typical: [RunningMedian; MOST_DRIVES],
    /// What came of each replica's forecasts.
    calibrations: Vec<Calibration>,
    /// The mean length of reads, bytes.
    length: f64,
    /// Each replica's queue.
    queues: [QueueState; MOST_DRIVES],
    /// What moved reads cost others.
    externality: Externality,
}

/// The replica that a read should go to.
struct Best {
    replica: Replica,
    forecast: Forecast,
    /// Its expected wait, with the failover to it.
    wait: Option<Nanos>,
    /// The replicas that would be late.
    late: Replicas,
    /// The number of forecasts that this took.
    forecasts: u64,
    /// By how much its wait is less than the primary's, ns.
    gain: f64,
}

/// How long a replica is avoided before it is probed.
const PROBE: Nanos = Nanos::from_millis(75);
/// A probe that completes this many times as fast as expected is followed by another one
/// soon: the replica may have recovered.
const SURPRISE: u64 = 4;

/// This many reads in flight on a late replica double its expected latency, which grows with
/// their square. A predictor was trained on a drive that served its own reads, and its
/// forecast for a stalled drive does not depend on the queue. Without this all reads would go
/// to the one of several stalled replicas that is expected to recover first.
const CROWD: f64 = 24.0;

/// The weight that the mean length of reads keeps with each read.
const LENGTH_KEPT: f64 = 0.998;

/// What a pair of a short read costs at most, in usual reads, where it delays others. Without pairs it
/// would not be known whether moves are the reason; and where they are rarer, a contest that was
/// lost by chance is won again late.
const MOST_BURDEN: f64 = 4.0;

/// The longest difference of a pair that counts, and the longest latency beside a forecast, as a multiple of what a
/// hedged read takes. Hedges come late where drives are busy, or not at all where they do not pay: what moves lose is
/// in the tail, and does not count if this is small.
const CLIPPED: u64 = 8;

impl Trimtab {
    /// The strategy with these predictors.
    #[must_use]
    pub fn new(
        name: &'static str,
        mut predictors: PredictorSet,
        settings: TrimtabSettings,
    ) -> Self {
        predictors.probing = Probing::new(PROBE);
        let expected = [Nanos::ZERO; MOST_DRIVES];
        let calibrated = if settings.control { predictors.replicas() } else { 0 };
        Self {
            name,
            predictors,
            settings,
            hedging: Hedging::new(&settings),
            expected,
            counted: expected,
            out: [0; MOST_DRIVES],
            probed: Replicas::NONE,
            control: settings.control.then(|| ControlGroup::new(settings.longest, settings.seed)),
            typical: settings.medians.map(|median| RunningMedian::new(TYPICAL_STEP, median)),
            calibrations: vec![Calibration::new(); calibrated],
            length: 0.0,
            queues: settings.medians.map(QueueState::expecting),
            externality: Externality::new(),
        }
    }

    /// Sends the read and sets its hedging timer.
    fn send(&self, turn: &mut Turn<'_>, replica: Replica, forecast: &Forecast, at: Nanos) {
        let late = forecast.verdict == Verdict::Late;
        turn.send(replica, at, if late { Reason::LeastBad } else { Reason::Fast });
        let expected = forecast.fast.or(forecast.wait).unwrap_or_default();
        // A hedge takes as long as the read was expected to take: before that it gains
        // nothing.
        turn.timer(at + expected + self.hedging.delay().max(expected), HEDGE);
    }

    /// Sends the read to a replica that has no forecast.
    fn send_without_forecast(&self, turn: &mut Turn<'_>, replica: Replica, at: Nanos) {
        turn.send(replica, at, Reason::Chosen);
        let typical = self.typical[replica.index()].get();
        turn.timer(at + typical + self.hedging.delay().max(typical), HEDGE);
    }

    /// The replica with the shortest queue, by C3's score: the primary, unless another is ahead
    /// by the margin.
    fn shortest_queue(&self, turn: &Turn<'_>) -> Replica {
        let score = |replica: &Replica| {
            let share = if *replica == turn.primary() { 1.0 - self.settings.margin } else { 1.0 };
            share * self.queues[replica.index()].score()
        };
        let by_score = |a: &Replica, b: &Replica| score(a).total_cmp(&score(b));
        let admits = self.admitting(turn);
        let candidates = turn.order().iter().copied();
        let candidates = candidates.filter(|&at| at == turn.primary() || admits.has(at));
        candidates.min_by(by_score).unwrap_or(turn.primary())
    }

    /// The other replicas that reads may be moved to. The window is for drives that are slower than
    /// the primary: few of its reads are more than they can take, and their queue tells too late.
    fn admitting(&self, turn: &Turn<'_>) -> Replicas {
        let primary = &self.queues[turn.primary().index()];
        let has_room = |replica: Replica| {
            let queue = &self.queues[replica.index()];
            self.calibrations.get(replica.index()).is_none_or(|calibration| {
                let is_open = queue.is_as_fast_as(primary) || calibration.admits();
                is_open && queue.takes_read_from(primary) && !queue.fails()
            })
        };
        let others = |&replica: &Replica| replica != turn.primary() && has_room(replica);
        turn.order().iter().copied().filter(others).collect()
    }

    /// Whether the queues alone say that the read should leave its primary.
    fn is_moved_by_queue(&self, turn: &Turn<'_>) -> bool {
        self.control.is_some() && self.shortest_queue(turn) != turn.primary()
    }

    /// The replica's forecast. With a control group it always has a wait: a model that never
    /// refuses may have none.
    fn forecast(&self, turn: &Turn<'_>, replica: Replica) -> Forecast {
        let mut forecast = self.predictors.forecast(turn.now(), replica, turn.request());
        if self.control.is_some() {
            let typical = self.typical[replica.index()].get();
            let known = |wait: &Nanos| *wait > Nanos::ZERO;
            forecast.wait = forecast.wait.filter(known).or(Some(typical));
            forecast.fast = forecast.fast.filter(known);
        }
        forecast
    }

    /// The expected wait of a read that is hedged if it turns out to be late.
    fn wait(&self, forecast: &Forecast) -> Option<Nanos> {
        let (Some(wait), Some(fast)) = (forecast.wait, forecast.fast) else { return forecast.wait };
        if !self.hedging.has_budget() {
            return Some(wait);
        }
        // The delay, and then about as long again.
        let late = (self.hedging.delay() + fast).0 as f64;
        Some(wait.min(fast + Nanos((f64::from(forecast.probability) * late) as u64)))
    }

    /// What a read takes that is hedged: until its timer, and then as usual.
    fn hedged(&self, replica: Replica) -> Nanos {
        let typical = self.typical[replica.index()].get();
        typical + self.hedging.delay().max(typical) + typical
    }

    /// The replica with the least expected wait among `best` and those that `which` admits, with
    /// the failover to it.
    fn least_wait(
        &mut self,
        turn: &Turn<'_>,
        mut best: Option<Best>,
        which: impl Fn(Replica) -> bool,
    ) -> Option<Best> {
        let (primary, TrimtabSettings { costs, margin, charge_moves, .. }) =
            (turn.primary(), self.settings);
        let mut late = best.as_ref().map_or(Replicas::NONE, |best| best.late);
        let mut forecasts = best.as_ref().map_or(0, |best| best.forecasts);
        for replica in turn.order().iter().copied().filter(|&replica| which(replica)) {
            let forecast = self.forecast(turn, replica);
            forecasts += 1;
            if forecast.verdict == Verdict::Late {
                late.add(replica);
            }
            let mut wait = self.wait(&forecast);
            self.expected[replica.index()] = forecast.wait.unwrap_or(Nanos::MAX);
            self.counted[replica.index()] = wait.unwrap_or_default();
            let out = self.out[replica.index()];
            let factor = if let Some(calibration) = self.calibrations.get(replica.index()) {
                calibration.factor(out)
            } else if forecast.verdict == Verdict::Late {
                let crowd = f64::from(out) / CROWD;
                1.0 + crowd * crowd
            } else {
                1.0
            };
            wait = wait.map(|wait| Nanos((wait.0 as f64 * factor) as u64));
            if let Some(calibration) = self.calibrations.get(replica.index()) {
                let drain = calibration.drain(&self.ahead(turn.now(), replica));
                wait = wait.map(|wait| wait.max(Nanos(drain as u64)));
            }
            if replica == primary {
                wait = wait.map(|wait| Nanos((wait.0 as f64 * (1.0 - margin)) as u64));
            } else if charge_moves || late.has(primary) && !self.is_moved_by_queue(turn) {
                // The primary refuses; the failover from there takes its time. A read that the
                // queues move does not go to its primary, which cannot refuse it then.
                wait = wait.map(|wait| wait + costs.failover);
            }
            if replica != primary {
                let toll = self.toll(primary, turn.request().length);
                wait = wait.map(|wait| wait + Nanos(toll as u64));
            }
            // Among equals the first in order wins.
            let is_less = best.as_ref().is_none_or(|best| match (wait, best.wait) {
                (Some(wait), Some(least)) => wait < least,
                _ => forecast.probability < best.forecast.probability,
            });
            if is_less {
                best = Some(Best { replica, forecast, wait, late, forecasts, gain: 0.0 });
            }
        }
        best.map(|best| Best { late, forecasts, ..best })
    }

    /// Whether the read may be served sooner elsewhere, as far as is known without a forecast. A
    /// replica that never refuses, and has nothing else to do, is as fast as it usually is.
    fn may_gain(&self, turn: &Turn<'_>) -> bool {
        let typical = |replica: &Replica| self.typical[replica.index()].get();
        let primary = turn.primary();
        let most = typical(&primary).0 as f64 * (1.0 - self.settings.margin);
        self.predictors.refuses()
            || self.out[primary.index()] > 0
            || turn.order().iter().any(|replica| (typical(replica).0 as f64) < most)
    }

    /// Whether the primary would be as fast as any other replica usually is: then these need no
    /// forecasts.
    fn is_fast_enough(&self, turn: &Turn<'_>, primary: &Best) -> bool {
        let others = turn.order().iter().filter(|&&replica| replica != primary.replica);
        let least = others.map(|replica| self.typical[replica.index()].get()).min();
        let is_least = primary.wait.zip(least).is_some_and(|(wait, least)| wait <= least);
        is_least && primary.forecast.verdict == Verdict::Fast
    }

    /// The replica with the least expected wait. What comes of the forecasts will be seen.
    fn calibrated_wait(&mut self, turn: &Turn<'_>) -> Option<Best> {
        let primary = turn.primary();
        let mut best = self.least_wait(turn, None, |replica| replica == primary)?;
        let stayed = best.wait.unwrap_or_default();
        let mut forecast: &[Replica] = &[primary];
        if !self.is_fast_enough(turn, &best) {
            let admits = self.admitting(turn);
            best = self.least_wait(turn, Some(best), |replica| admits.has(replica))?;
            best.gain = stayed.since(best.wait.unwrap_or_default()).0 as f64;
            forecast = turn.order();
        }
        for at in forecast.iter().map(|replica| replica.index()) {
            self.calibrations[at].forecast(turn.now(), turn.id(), self.counted[at]);
        }
        Some(best)
    }

    /// Sends the read where it gets its data soonest: by the forecast, if there is one, or by the
    /// queues, or to its primary, as the control group has found to be best.
    fn steer(&mut self, turn: &mut Turn<'_>, best: Option<Best>) {
        let (now, primary, costs) = (turn.now(), turn.primary(), self.settings.costs);
        let late = best.as_ref().map_or(Replicas::NONE, |best| best.late);
        let question = self.question(primary, best.as_ref());
        let wanted = best.as_ref().map(|best| (best.replica, question));
        let forecasts = best.as_ref().map_or(0, |best| best.forecasts);
        let inference = Nanos(costs.inference.0 * forecasts);
        if let (Some(control), Some(best)) = (&mut self.control, &best) {
            control.forecast(best.replica != primary, inference);
        }
        let mut weight = 1.0;
        let queue = self.control.is_some().then(|| self.shortest_queue(turn));
        let (to, by, rival) = if let Some(queue) = queue {
            let length = turn.request().length;
            // A pair is rarer where requests wait for each other: it delays others more.
            let usual = self.typical[primary.index()].get().0 as f64;
            let burden = self.price(primary, length) + self.toll(primary, length);
            weight = self.weight(length).max((burden / usual.max(1.0)).min(MOST_BURDEN));
            let rarity = self.rarity(primary, self.externality.toll(primary));
            let decide =
                |control: &mut ControlGroup| control.decide(primary, wanted, queue, weight, rarity);
            let decision = self.control.as_mut().map(decide);
            decision.map_or((primary, Choice::Stay, None), |d| {
                weight = d.weight;
                (d.to, d.by, d.rival)
            })
        } else {
            (wanted.map_or(primary, |(best, _)| best), Choice::Forecast, None)
        };
        let other = [wanted.map(|(wanted, _)| wanted), queue].into_iter().flatten();
        if let Some(other) = other.into_iter().find(|&other| other != primary)
            && self.control.is_some()
        {
            self.externality.follow(now, turn.id(), primary, other);
        }
        let decided = now + inference;
        // When a replica is asked that was chosen in this way.
        let is_moved_by_queue = queue.is_some_and(|queue| queue != primary);
        let is_refused = late.has(primary) && !is_moved_by_queue;
        let is_failover = self.settings.charge_moves || is_refused;
        let asked = |replica: Replica, by_forecast: bool| {
            let at = if by_forecast { decided } else { now };
            let pays =
                replica != primary && (self.settings.charge_moves || by_forecast && is_failover);
            if pays { at + costs.failover } else { at }
        };
        let by_forecast = by == Choice::Forecast;
        let at = match by {
            Choice::Stay => decided,
            Choice::Queue => asked(to, false),
            Choice::Forecast => asked(to, true),
        };
        if to != primary && by_forecast && late.has(primary) {
            turn.refuse(primary);
        }
        for replica in late.iter().filter(|&replica| replica != to) {
            self.predictors.probing.avoided(now, replica);
        }
        if let Some((sides, question)) = rival {
            let typical = self.typical[primary.index()].get().max(self.typical[to.index()].get());
            let clip = Nanos(CLIPPED.saturating_mul((self.hedging.delay() + typical).0));
            let clip = clip.min(self.settings.longest);
            let expected = self.typical[sides[0].index()].get();
            let other = if sides[0] == to { sides[1] } else { sides[0] };
            let is_of_forecast = question != Question::Queue && other == sides[0];
            let other_at = asked(other, is_of_forecast);
            let unsent = other_at.max(at).since(now) + expected;
            let toll = self.toll(primary, turn.request().length);
            if let Some(control) = &mut self.control {
                control.begin(
                    weight,
                    Pair {
                        read: turn.id(),
                        question,
                        arrival: turn.request().arrival,
                        primary,
                        sides,
                        clip,
                        unsent,
                        typical,
                        toll,
                        took: [None; 2],
                    },
                );
            }
            turn.send(other, other_at, Reason::Probe);
        }
        // A primary that only ranks behind must be probed as well, but within the budget: if
        // reads are rare, each of them would be sent twice.
        if to != primary
            && !late.has(primary)
            && self.hedging.has_budget()
            && !turn.has_asked(primary)
        {
            self.predictors.probing.avoided(now, primary);
        }
        if to != primary
            && let Some(calibration) = self.calibrations.get_mut(to.index())
        {
            calibration.moved_here(now, turn.id());
        }
        match &best {
            Some(best) if best.replica == to => self.send(turn, to, &best.forecast, at),
            _ => self.send_without_forecast(turn, to, at),
        }
        self.probe(turn);
    }
}

impl Strategy for Trimtab {
    fn name(&self) -> &'static str {
        self.name
    }

    fn dispatched(&mut self, now: Nanos, replica: Replica, ticket: Ticket) {
        self.predictors.dispatched(now, replica, ticket);
    }

    fn next_bumped(&mut self, replica: Replica) -> Option<Ticket> {
        self.predictors.next_bumped(replica)
    }

    fn observe(&mut self, replica: Replica, event: &HostEvent) {
        self.predictors.observe(replica, event);
    }

    fn unobserved(&mut self, read: RequestId) {
        if let Some(control) = &mut self.control {
            control.forget(read);
        }
    }

    fn control_figures(&self) -> Option<ControlFigures> {
        self.control.as_ref().map(ControlGroup::figures)
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        self.hedging.read_arrived(turn.now(), &self.settings);
        let (now, primary) = (turn.now(), turn.primary());
        let length = turn.request().length as f64;
        let kept = if self.length == 0.0 { 0.0 } else { LENGTH_KEPT };
        self.length = kept * self.length + (1.0 - kept) * length;
        if self.leave_failed(turn) {
            return;
        }
        self.note_arrival(primary);
        let may_gain = self.may_gain(turn);
        let best = match &mut self.control {
            None if self.predictors.refuses() => self.least_wait(turn, None, |_| true),
            None => None,
            Some(control) => {
                control.expire(now);
                let forecasts = control.forecasts(primary) && may_gain;
                forecasts.then(|| self.calibrated_wait(turn)).flatten()
            }
        };
        self.steer(turn, best);
    }

    fn timer(&mut self, turn: &mut Turn<'_>, _: u8) {
        self.hedge(turn);
    }

    fn read_completed(&mut self, turn: &mut Turn<'_>, by: Replica) {
        self.externality.completed(turn.now(), turn.id());
        if let Some(control) = &mut self.control {
            let read = turn.id();
            control.read_completed(read, |replica| replica == by || turn.is_sent(replica));
            // The loser of a pair would have been hedged too, where that pays.
            let is_hedged = self.hedging.gain.read_completed(turn.now(), read, by);
            if is_hedged || self.hedging.pays() {
                let sent = turn.order().iter().copied().filter(|&it| turn.is_sent(it));
                for replica in sent {
                    let hedged = if is_hedged { Nanos::ZERO } else { self.hedged(replica) };
                    self.calibrations[replica.index()].was_overtaken(turn.now(), read, hedged);
                }
            }
        }
    }

    fn sent(&mut self, now: Nanos, replica: Replica, request: &Request) -> Ticket {
        let is_read = request.op == Op::Read;
        let ahead = self.ahead(now, replica);
        if let Some(calibration) = self.calibrations.get_mut(replica.index()).filter(|_| is_read) {
            calibration.sent(now, request.id, ahead);
        }
        self.out[replica.index()] += u32::from(is_read);
        if self.control.is_some() {
            self.queues[replica.index()].sent(now, request.op);
        }
        self.predictors.sent(now, replica, request)
    }

    fn completed(&mut self, now: Nanos, ended: &Ended) {
        self.predictors.completed(now, ended);
        if self.control.is_some() {
            self.queues[ended.replica.index()].completed(now, ended);
        }
        self.out[ended.replica.index()] -= u32::from(ended.op == Op::Read);
        if let Some(control) = self.control.as_mut().filter(|_| ended.op == Op::Read) {
            control.completed(now, ended.request, ended.replica, ended.data());
            self.hedging.gain.completed(now, ended.request, ended.replica);
            if ended.data() {
                let (latency, at) = (now.since(ended.sent), ended.replica.index());
                control.observed(ended.replica, latency, self.typical[at].get());
                self.typical[at].record(latency);
                if let Some(alone) = self.calibrations[at].alone() {
                    self.externality.served(now, ended.replica, ended.sent, alone);
                }
                let hedged = self.hedging.delay() + self.typical[at].get();
                let longest = Nanos(CLIPPED.saturating_mul(hedged.0));
                self.calibrations[at].completed(ended.request, latency, longest);
            } else {
                self.calibrations[ended.replica.index()].failed(ended.request);
            }
        }
        if ended.op != Op::Read || !self.probed.has(ended.replica) {
            return;
        }
        self.probed.remove(ended.replica);
        let at = ended.replica.index();
        let factor = self.calibrations.get(at).map_or(1.0, |it| it.factor(self.out[at]));
        let expected = (self.expected[at].0 as f64 * factor) as u64;
        let took = now.since(ended.sent).0.saturating_mul(SURPRISE);
        if ended.data() && took < expected {
            self.predictors.probing.faster_than_expected(ended.replica);
            if let Some(calibration) = self.calibrations.get_mut(at) {
                calibration.forget();
            }
        }
    }
}

/// The median latency is to follow a drive within some tens of reads.
const TYPICAL_STEP: f64 = 0.02;
