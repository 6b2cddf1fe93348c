//! The choice among the replicas: trimtab's strategy with forecasts, one for all threads of a
//! set.
//!
//! What the strategy learns (the price of a hedge, the control group, the budget) belongs to the
//! set, so threads may come and go. They share it under a lock that is held for the time of a
//! decision, some hundred nanoseconds; each thread has its own reads in flight.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use trimtab_io::{LatencyHistogram, Nanos, Request};
use trimtab_predict::{Forecast, Predictor, Ticket, Verdict};
use trimtab_read::Reader;
use trimtab_steer::{
    ControlFigures, Costs, Ended, PredictorSet, Reason, Replica, ReplicaHistory, Strategy,
    StrategyInputs, StrategyKind, Timer, Tuning, Turn,
};

use crate::figures::{Counters, count};
use crate::health::Health;
use crate::options::{SetOptions, SetStrategy};
use crate::seen::Seen;

/// What all threads of a set share.
pub(crate) struct Shared {
    pub(crate) readers: Box<[Arc<Reader>]>,
    pub(crate) known: Arc<Known>,
    pub(crate) counters: Counters,
    choice: Mutex<Choice>,
}

/// What is known of the replicas beside their models.
pub(crate) struct Known {
    pub(crate) seen: Box<[Seen]>,
    pub(crate) health: Box<[Health]>,
    /// Whether a forecast of the current decision was made without a model.
    without_model: AtomicBool,
}

/// The strategy.
struct Choice {
    strategy: Box<dyn Strategy>,
}

/// A latency that almost all reads stay below, as long as nothing is known.
const STALL: Nanos = Nanos::from_millis(100);

impl Known {
    /// The typical latency of the fastest replica.
    fn least_typical(&self) -> Nanos {
        self.seen.iter().map(Seen::typical).min().unwrap_or_default()
    }
}

impl Shared {
    /// The strategy over these replicas, most of whose reads take less than `usual`.
    pub(crate) fn new(readers: Box<[Arc<Reader>]>, usual: Nanos, options: &SetOptions) -> Self {
        let known = Arc::new(Known {
            seen: readers.iter().map(|_| Seen::new(usual)).collect(),
            health: readers.iter().map(|_| Health::default()).collect(),
            without_model: AtomicBool::new(false),
        });
        let strategy = strategy(&readers, &known, usual, options);
        let counters = Counters::default();
        Self { readers, known, counters, choice: Mutex::new(Choice { strategy }) }
    }

    /// What the strategy's control group has measured.
    pub(crate) fn gain(&self) -> ControlFigures {
        self.choice().strategy.control_figures().unwrap_or_default()
    }

    fn choice(&self) -> MutexGuard<'_, Choice> {
        self.choice.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The strategy of a set.
fn strategy(
    readers: &[Arc<Reader>],
    known: &Arc<Known>,
    usual: Nanos,
    options: &SetOptions,
) -> Box<dyn Strategy> {
    let (kind, usual, limit) = match options.strategy {
        SetStrategy::Trimtab => (StrategyKind::Trimtab, usual, None),
        SetStrategy::Base => (StrategyKind::Base, usual, None),
        // All reads so far took that long, so their p95 is the delay.
        SetStrategy::Hedge { after } => (StrategyKind::Hedge, nanos(after), None),
        SetStrategy::Mitt { deadline } => (StrategyKind::Mitt, usual, Some(nanos(deadline))),
    };
    let predictor = |(number, reader): (usize, &Arc<Reader>)| -> Box<dyn Predictor> {
        let (reader, known) = (Arc::clone(reader), Arc::clone(known));
        match limit {
            Some(limit) => Box::new(Refusing { reader, known, limit }),
            None => Box::new(ReplicaPredictor { reader, known, number }),
        }
    };
    let predictors = PredictorSet::new(readers.iter().enumerate().map(predictor));
    let inputs = StrategyInputs {
        predictors: Some(predictors),
        // A decision takes the time it takes; none is added.
        costs: Costs::default(),
        tuning: Tuning { most_extra: options.most_extra, control: true, ..Tuning::default() },
        seed: options.seed,
    };
    // Before anything has been seen: most reads are usual, and one in a hundred stalls.
    let mut reads = LatencyHistogram::new();
    reads.extend((0..100).map(|read| if read == 0 { STALL.max(usual) } else { usual }));
    let history = ReplicaHistory { reads, inflection: usual, false_submit_rate: 0.0 };
    kind.build(&vec![history; readers.len()], inputs)
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// For MittOS's strategy: refuses what the model expects to take longer than a limit.
#[derive(Clone)]
struct Refusing {
    reader: Arc<Reader>,
    known: Arc<Known>,
    limit: Nanos,
}

impl Predictor for Refusing {
    fn name(&self) -> &'static str {
        "refusing"
    }

    fn predict(&self, now: Nanos, request: &Request) -> Forecast {
        let forecast = self.reader.forecast(now, request.length, request.offset);
        let wait = forecast.and_then(|forecast| forecast.wait);
        if wait.is_none() {
            self.known.without_model.store(true, Relaxed);
        }
        let is_late = wait.is_some_and(|wait| wait > self.limit);
        let verdict = if is_late { Verdict::Late } else { Verdict::Fast };
        Forecast { wait, ..Forecast::bare(verdict) }
    }

    fn sent(&mut self, _: Nanos, _: &Request) -> Ticket {
        Ticket(0)
    }

    fn completed(&mut self, _: Nanos, _: Ticket, _: bool) {}

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}

/// The forecast for a replica: that of the drive's model and state, or of what the set has seen.
struct ReplicaPredictor {
    reader: Arc<Reader>,
    known: Arc<Known>,
    number: usize,
}

/// A model's forecast does not count if the replica has been silent for longer: it was not
/// trained on such a stall, or on another drive.
const LONGEST_STALL: Nanos = Nanos::from_millis(20);

impl Predictor for ReplicaPredictor {
    fn name(&self) -> &'static str {
        "replica"
    }

    fn predict(&self, now: Nanos, request: &Request) -> Forecast {
        let seen = &self.known.seen[self.number];
        let modelled = self.reader.forecast(now, request.length, request.offset);
        let Some(forecast) = modelled.filter(|forecast| forecast.wait.is_some()) else {
            self.known.without_model.store(true, Relaxed);
            return seen.forecast(now, self.known.least_typical());
        };
        match seen.stall(now).filter(|stall| *stall > LONGEST_STALL) {
            Some(stall) if forecast.wait < Some(stall) => {
                Forecast { verdict: Verdict::Late, probability: 1.0, wait: Some(stall), ..forecast }
            }
            _ => forecast,
        }
    }

    // What is sent and completed is observed by the threads (`ThreadChoice`).
    fn sent(&mut self, _: Nanos, _: &Request) -> Ticket {
        Ticket(0)
    }

    fn completed(&mut self, _: Nanos, _: Ticket, _: bool) {}

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        let (reader, known) = (Arc::clone(&self.reader), Arc::clone(&self.known));
        Box::new(Self { reader, known, number: self.number })
    }
}

/// The set's strategy for the reads of one thread.
pub(crate) struct ThreadChoice {
    shared: Arc<Shared>,
    thread: Arc<ThreadState>,
}

/// What a thread shares with its strategy.
///
/// What completes while a thread is away is found at its return: it was completed at some time
/// in between, so its latency is known only if that time is short.
#[derive(Debug, Default)]
pub(crate) struct ThreadState {
    /// The time of the return while what has been missed is being handled, ns; else 0.
    back: AtomicU64,
    in_flight: Mutex<Vec<Sent>>,
}

impl ThreadState {
    /// The thread is back, and handles what it has missed until [`has_caught_up`].
    ///
    /// [`has_caught_up`]: Self::has_caught_up
    pub(crate) fn is_back(&self, now: Nanos) {
        self.back.store(now.0, Relaxed);
    }

    pub(crate) fn has_caught_up(&self) {
        self.back.store(0, Relaxed);
    }

    /// Whether the latency of a request that was sent then and has ended by `now` is known.
    pub(crate) fn knows_latency(&self, now: Nanos, sent: Nanos) -> bool {
        let back = Nanos(self.back.load(Relaxed));
        let (least, most) = (now.since(sent).0, back.since(sent).0);
        back == Nanos::ZERO || most <= least + least / 4
    }

    /// The thread leaves, or is back: whether the end of its requests is observed.
    pub(crate) fn observe(&self, known: &Known, is_observed: bool) {
        for sent in &*self.in_flight() {
            known.seen[sent.replica.index()].is_unobserved(sent.at, !is_observed);
        }
    }

    fn in_flight(&self) -> MutexGuard<'_, Vec<Sent>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request of this thread.
#[derive(Clone, Copy, Debug)]
struct Sent {
    replica: Replica,
    at: Nanos,
    request: Request,
    ticket: Ticket,
}

impl ThreadChoice {
    pub(crate) const fn new(shared: Arc<Shared>, thread: Arc<ThreadState>) -> Self {
        Self { shared, thread }
    }
}

impl Strategy for ThreadChoice {
    fn name(&self) -> &'static str {
        "trimtab"
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        let Shared { known, counters, .. } = &*self.shared;
        let mut choice = self.shared.choice();
        known.without_model.store(false, Relaxed);
        choice.strategy.read(turn);
        let without_model = known.without_model.load(Relaxed);
        drop(choice);
        if without_model {
            count(&counters.without_model);
        }
        let now = turn.now();
        for (number, health) in known.health.iter().enumerate() {
            if health.is_due(now) {
                turn.send(Replica(number as u8), now, Reason::Probe);
            }
        }
        let asked = asked(turn, known);
        if asked > 1 {
            counters.probes.fetch_add(asked - 1, Relaxed);
        }
    }

    fn timer(&mut self, turn: &mut Turn<'_>, purpose: u8) {
        let Shared { known, counters, .. } = &*self.shared;
        let before = asked(turn, known);
        if purpose == Timer::EXTERNAL {
            rescue(known, turn);
        } else {
            self.shared.choice().strategy.timer(turn, purpose);
        }
        // A read that was refused is sent for the first time.
        if before > 0 && asked(turn, known) > before {
            let Counters { hedges, rescues, .. } = counters;
            count(if purpose == Timer::EXTERNAL { rescues } else { hedges });
        }
    }

    fn read_completed(&mut self, turn: &mut Turn<'_>, replica: Replica) {
        self.shared.choice().strategy.read_completed(turn, replica);
    }

    fn sent(&mut self, now: Nanos, replica: Replica, request: &Request) -> Ticket {
        let Shared { known, counters, .. } = &*self.shared;
        count(&counters.of(replica).sent);
        if known.seen[replica.index()].sent(now) {
            known.health[replica.index()].is_unresponsive(now);
        }
        let ticket = self.shared.choice().strategy.sent(now, replica, request);
        self.thread.in_flight().push(Sent { replica, at: now, request: *request, ticket });
        ticket
    }

    fn completed(&mut self, now: Nanos, ended: &Ended) {
        let is_it = |sent: &Sent| sent.replica == ended.replica && sent.request.id == ended.request;
        let mut in_flight = self.thread.in_flight();
        if let Some(at) = in_flight.iter().position(is_it) {
            in_flight.swap_remove(at);
        }
        drop(in_flight);
        let is_known = self.thread.knows_latency(now, ended.sent);
        let seen = &self.shared.known.seen[ended.replica.index()];
        seen.ended(now, ended.sent, ended.data(), is_known);
        let mut choice = self.shared.choice();
        if !is_known {
            choice.strategy.unobserved(ended.request);
        }
        choice.strategy.completed(now, ended);
    }
}

/// How many replicas have been asked.
fn asked(turn: &Turn<'_>, known: &Known) -> u64 {
    let all = (0..known.seen.len() as u8).map(Replica);
    all.filter(|&replica| turn.has_asked(replica)).count() as u64
}

/// Asks the replica that is most likely to answer, of those that have not been asked; also one
/// that is down, as the last. The read has waited for too long to look at the price.
fn rescue(known: &Known, turn: &mut Turn<'_>) {
    let now = turn.now();
    let least = known.least_typical();
    let badness = |replica: &Replica| {
        let number = replica.index();
        let forecast = known.seen[number].forecast(now, least);
        (known.health[number].is_down(), forecast.wait)
    };
    let all = (0..known.seen.len() as u8).map(Replica);
    if let Some(best) = all.filter(|&replica| !turn.has_asked(replica)).min_by_key(badness) {
        turn.send(best, now, Reason::Duplicate);
    }
}

impl Drop for ThreadChoice {
    /// The thread ends: nobody will see its requests end.
    fn drop(&mut self) {
        for sent in std::mem::take(&mut *self.thread.in_flight()) {
            let Sent { replica, at, request, ticket } = sent;
            let (id, op) = (request.id, request.op);
            let ended = Ended { request: id, replica, ticket, op, sent: at, outcome: None };
            self.shared.known.seen[replica.index()].ended(at, at, false, false);
            let mut choice = self.shared.choice();
            choice.strategy.unobserved(id);
            choice.strategy.completed(at, &ended);
        }
    }
}
