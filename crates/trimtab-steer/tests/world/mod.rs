//! A driver for strategies, with drives that take whatever time a test says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use trimtab_io::{DeviceId, Flags, Nanos, Op, Outcome, Request, RequestId};
use trimtab_predict::{Forecast, Predictor, Ticket, Verdict};
use trimtab_steer::strategies::{
    Base, C3, Clone, Failover, Hedge, Ours, Patience, Settings, Snitch, Tied, Timeout,
};
use trimtab_steer::{
    Action, Actions, Attempt, Costs, Order, Panel, Random, Replica, Steering, Strategy, Timer, Why,
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
    Send(Attempt, Why),
    Begin(Attempt, u64),
    End(Attempt, u64, Outcome),
}

/// Where an attempt is. An attempt's number tells it from others of its name.
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
    pub(crate) answers: BTreeMap<u64, (Nanos, Outcome)>,
    /// When, on behalf of which drive's reads, where, and why requests were sent.
    pub(crate) sent: Vec<(Nanos, Request, Replica, Why)>,
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
            answers: BTreeMap::new(),
            sent: Vec::new(),
        }
    }

    fn schedule(&mut self, at: Nanos, event: Event) {
        assert!(at >= self.now, "{event:?} in the past");
        self.events.push(Reverse((at, self.kinds.len() as u64)));
        self.kinds.push(event);
    }

    /// Runs reads that come at these times, the home of each being its number
    /// modulo the drives, until nothing happens any more.
    pub(crate) fn run(&mut self, reads: impl IntoIterator<Item = Nanos>) {
        for (number, at) in (0..).zip(reads) {
            self.schedule(at, Event::Read(number));
        }
        let mut actions = Actions::new();
        while let Some(Reverse((at, event))) = self.events.pop() {
            self.now = at;
            self.happen(self.kinds[event as usize], &mut actions);
            // Actions bring more actions.
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
                let home = Replica((number % self.replicas as u64) as u8);
                let order = Order::shuffled(home, self.replicas, Random::new(number).next());
                let read = read(number, now);
                self.steering.read(now, &read, order, actions);
            }
            Event::Timer(timer) => self.steering.timer(now, timer, actions),
            Event::Send(attempt, why) => {
                if self.stages.get(&attempt.to_u64()) == Some(&Stage::Waiting) {
                    self.send(attempt, why);
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
            Action::Send { attempt, at, why } => {
                let before = self.stages.insert(attempt.to_u64(), Stage::Waiting);
                assert_eq!(before, None, "asked twice: {attempt:?}");
                self.schedule(at, Event::Send(attempt, why));
            }
            Action::Cancel(attempt) => {
                let name = attempt.to_u64();
                if matches!(self.stages.get(&name), Some(Stage::Waiting | Stage::Queued(_))) {
                    self.stages.remove(&name);
                    self.steering.cancelled(self.now, attempt, actions);
                }
            }
            Action::Timer { at, timer } => self.schedule(at, Event::Timer(timer)),
            Action::Answer { read, outcome } => {
                let before = self.answers.insert(read.0, (self.now, outcome));
                assert_eq!(before, None, "answered twice: {read:?}");
            }
            Action::Refused { .. } => {}
        }
    }

    fn send(&mut self, attempt: Attempt, why: Why) {
        let name = attempt.to_u64();
        let Some(request) = self.steering.send(self.now, attempt, why) else {
            self.stages.remove(&name);
            return;
        };
        self.sent.push((self.now, request, attempt.replica, why));
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
    }
}

/// Takes a drive for slow as long as one of the last four answers was.
#[derive(Clone, Default)]
pub(crate) struct Suspicious {
    sent: Vec<Nanos>,
    last: [Nanos; 4],
    answers: usize,
}

/// What `Suspicious` takes for slow.
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
            self.last[self.answers % 4] = now.since(self.sent[ticket.0 as usize]);
            self.answers += 1;
        }
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new((*self).clone())
    }
}

/// Each strategy, over so many drives; first those that predict.
pub(crate) fn all(replicas: usize) -> Vec<Box<dyn Strategy>> {
    let panel =
        || Panel::new((0..replicas).map(|_| Box::new(Suspicious::default()) as Box<dyn Predictor>));
    let patience = |us| Patience::new(&vec![Nanos::from_micros(us); replicas]);
    let costs = Costs::new(Nanos::from_micros(6));
    let settings = Settings {
        costs,
        margin: 0.2,
        most_extra: 0.5,
        usual: Nanos::from_micros(500),
        charge_moves: false,
    };
    vec![
        Box::new(Failover::new("linnos", panel(), costs)),
        Box::new(Failover::new("linnos+hl", panel(), costs).hedged(patience(900))),
        Box::new(Ours::new(panel(), settings)),
        Box::new(Base::new("base")),
        Box::new(Clone),
        Box::new(Hedge::new("hedge", patience(900))),
        Box::new(Tied::new(Nanos::ZERO)),
        Box::new(Tied::new(Nanos::from_micros(10))),
        Box::new(Timeout::new(patience(900))),
        Box::new(Snitch::new(replicas, 1)),
        Box::new(C3::new(replicas)),
    ]
}

/// How many of them predict.
pub(crate) const PREDICTING: usize = 3;
