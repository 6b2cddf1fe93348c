//! A driver for strategies, with drives whose times a test controls.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use trimtab_io::{DeviceId, Flags, Issuer, Nanos, Op, Outcome, Request, RequestId, SplitMix64};
use trimtab_predict::{Forecast, Predictor, Ticket, Verdict};
use trimtab_steer::strategies::{
    Adaptive, Base, C3, Clone, Failover, Hedge, Patience, Snitch, Tied, Timeout, Trimtab,
    TrimtabSettings,
};
use trimtab_steer::{
    Action, Actions, Attempt, Costs, MOST_DRIVES, Order, PredictorSet, Reason, Replica, Steering,
    Strategy, Timer,
};

/// How a drive treats one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Treatment {
    /// Time in the host's queue, and in the drive.
    pub(crate) queued: Nanos,
    pub(crate) served: Nanos,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Read(u64),
    Timer(Timer),
    Send(Attempt, Reason),
    Begin(Attempt, u64),
    End(Attempt, u64, Outcome),
}

/// The position of an attempt. A generation distinguishes attempts at the same replica.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Waiting,
    Queued(u64),
    Begun(u64),
}

/// What has happened so far.
pub(crate) struct World<T> {
    pub(crate) steering: Steering,
    pub(crate) now: Nanos,
    replicas: usize,
    treat: T,
    events: BinaryHeap<Reverse<(Nanos, u64)>>,
    kinds: Vec<Event>,
    stages: BTreeMap<u64, Stage>,
    pub(crate) completions: BTreeMap<u64, (Nanos, Outcome)>,
    /// Requests sent: when, the request, the replica, and the reason.
    pub(crate) sent: Vec<(Nanos, Request, Replica, Reason)>,
}

impl<T: FnMut(Nanos, Replica, &Request) -> Treatment> World<T> {
    pub(crate) fn new(strategy: Box<dyn Strategy>, replicas: usize, treat: T) -> Self {
        Self {
            steering: Steering::new(strategy),
            now: Nanos::ZERO,
            replicas,
            treat,
            events: BinaryHeap::new(),
            kinds: Vec::new(),
            stages: BTreeMap::new(),
            completions: BTreeMap::new(),
            sent: Vec::new(),
        }
    }

    fn schedule(&mut self, at: Nanos, event: Event) {
        assert!(at >= self.now, "{event:?} in the past");
        self.events.push(Reverse((at, self.kinds.len() as u64)));
        self.kinds.push(event);
    }

    /// Runs reads that arrive at these times until there are no more events. The primary
    /// replica of each is its number modulo the replicas.
    pub(crate) fn run(&mut self, reads: impl IntoIterator<Item = Nanos>) {
        for (number, at) in (0..).zip(reads) {
            self.schedule(at, Event::Read(number));
        }
        let mut actions = Actions::new();
        while let Some(Reverse((at, event))) = self.events.pop() {
            self.now = at;
            self.happen(self.kinds[event as usize], &mut actions);
            // Actions cause further actions.
            let mut next = 0;
            while next < actions.len() {
                self.act(actions[next], &mut actions);
                next += 1;
            }
            actions.clear();
        }
    }

    fn happen(&mut self, event: Event, actions: &mut Actions) {
        let now = self.now;
        match event {
            Event::Read(number) => {
                let primary = Replica((number % self.replicas as u64) as u8);
                let count = self.replicas;
                let order = Order::shuffled(primary, count, count, SplitMix64::new(number).next());
                let read = read(number, now);
                self.steering.read(now, &read, order, actions);
            }
            Event::Timer(timer) => self.steering.timer(now, timer, actions),
            Event::Send(attempt, reason) => {
                if self.stages.get(&attempt.to_u64()) == Some(&Stage::Waiting) {
                    self.send(attempt, reason);
                }
            }
            Event::Begin(attempt, number) => {
                let stage = self.stages.get_mut(&attempt.to_u64());
                if let Some(stage) = stage.filter(|stage| **stage == Stage::Queued(number)) {
                    *stage = Stage::Begun(number);
                    self.steering.begun(now, attempt, actions);
                }
            }
            Event::End(attempt, number, outcome) => {
                let name = attempt.to_u64();
                if self.stages.get(&name) == Some(&Stage::Begun(number)) {
                    self.stages.remove(&name);
                    self.steering.completed(now, attempt, outcome, actions);
                }
            }
        }
    }

    fn act(&mut self, action: Action, actions: &mut Actions) {
        match action {
            Action::Send { attempt, at, reason } => {
                let before = self.stages.insert(attempt.to_u64(), Stage::Waiting);
                assert_eq!(before, None, "asked twice: {attempt:?}");
                self.schedule(at, Event::Send(attempt, reason));
            }
            Action::Cancel(attempt) => {
                let name = attempt.to_u64();
                if matches!(self.stages.get(&name), Some(Stage::Waiting | Stage::Queued(_))) {
                    self.stages.remove(&name);
                    self.steering.cancelled(self.now, attempt, actions);
                }
            }
            Action::Timer { at, timer } => self.schedule(at, Event::Timer(timer)),
            Action::Complete { read, outcome } => {
                let before = self.completions.insert(read.0, (self.now, outcome));
                assert_eq!(before, None, "completed twice: {read:?}");
            }
            Action::Refused { .. } => {}
        }
    }

    fn send(&mut self, attempt: Attempt, reason: Reason) {
        let name = attempt.to_u64();
        let Some(request) = self.steering.send(self.now, attempt, reason) else {
            self.stages.remove(&name);
            return;
        };
        self.sent.push((self.now, request, attempt.replica, reason));
        let number = self.sent.len() as u64;
        self.stages.insert(name, Stage::Queued(number));
        let treatment = (self.treat)(self.now, attempt.replica, &request);
        let begin = self.now + treatment.queued;
        self.schedule(begin, Event::Begin(attempt, number));
        self.schedule(begin + treatment.served, Event::End(attempt, number, treatment.outcome));
    }
}

fn read(number: u64, arrival: Nanos) -> Request {
    Request {
        id: RequestId(number),
        device: DeviceId(0),
        arrival,
        op: Op::Read,
        offset: 4096 * number,
        length: 4096,
        flags: Flags::empty(),
        deadline: None,
        issuer: Issuer::default(),
    }
}

/// Predicts a replica slow as long as one of its last four completions was.
#[derive(Clone, Default)]
pub(crate) struct Suspicious {
    sent: Vec<Nanos>,
    last: [Nanos; 4],
    completions: usize,
}

/// The threshold of `Suspicious`.
pub(crate) const SLOW: Nanos = Nanos::from_millis(1);

impl Predictor for Suspicious {
    fn name(&self) -> &'static str {
        "suspicious"
    }

    fn predict(&self, _: Nanos, _: &Request) -> Forecast {
        let slow = self.last.iter().filter(|&&latency| latency > SLOW).count() as f32;
        let verdict = if slow > 0.0 { Verdict::Late } else { Verdict::Fast };
        let wait = self.last.iter().max().copied();
        Forecast { probability: slow / 4.0, wait, ..Forecast::bare(verdict) }
    }

    fn sent(&mut self, now: Nanos, _: &Request) -> Ticket {
        self.sent.push(now);
        Ticket(self.sent.len() as u32 - 1)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        if data {
            self.last[self.completions % 4] = now.since(self.sent[ticket.0 as usize]);
            self.completions += 1;
        }
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new((*self).clone())
    }
}

/// Each strategy over `replicas` replicas; those that predict first.
pub(crate) fn all(replicas: usize) -> Vec<Box<dyn Strategy>> {
    let predictors = || {
        PredictorSet::new(
            (0..replicas).map(|_| Box::new(Suspicious::default()) as Box<dyn Predictor>),
        )
    };
    let patience = |us| Patience::new(&vec![Nanos::from_micros(us); replicas]);
    let costs = Costs::new(Nanos::from_micros(6));
    let settings = TrimtabSettings {
        seed: 1,
        costs,
        margin: 0.2,
        most_extra: 0.5,
        usual: Nanos::from_micros(500),
        medians: [Nanos::from_micros(100); MOST_DRIVES],
        longest: Nanos::from_millis(2),
        charge_moves: false,
        control: true,
    };
    vec![
        Box::new(Failover::new("linnos", predictors(), costs)),
        Box::new(Failover::new("linnos+hl", predictors(), costs).hedged(patience(900))),
        Box::new(Trimtab::new("trimtab", predictors(), settings)),
        Box::new(Base::new("base")),
        Box::new(Clone),
        Box::new(Hedge::new("hedge", patience(900))),
        Box::new(Tied::new(Nanos::ZERO)),
        Box::new(Tied::new(Nanos::from_micros(10))),
        Box::new(Timeout::new(patience(900))),
        Box::new(Snitch::new(replicas, 1)),
        Box::new(C3::new(replicas)),
        Box::new(Adaptive::new(replicas)),
    ]
}

/// How many of them use predictors.
pub(crate) const PREDICTING: usize = 3;
