//! The clients of the replicated store, and their four ways to read.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use trimtab_io::{LatencyHistogram, Nanos};
use trimtab_read::Urgency;

use crate::failover;
use crate::load::{Op, Operations, Workload};
use crate::store::{GetError, Got, Store};
use crate::value::{Book, mix};

/// How a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// From its home, however long that takes.
    Base,
    /// From its home, and from the next replica too if that has not answered after so
    /// long.
    Hedging(Duration),
    /// From its home, unless it is expected to take longer than this.
    Failover(Duration),
    /// Both: from its home, unless it is expected to take longer than this; and from the
    /// next replica too if it does all the same.
    Both(Duration),
}

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) workload: Workload,
    pub(crate) clients: u64,
    pub(crate) records: u64,
    pub(crate) seed: u64,
    pub(crate) time: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) took: Duration,
    pub(crate) reads: LatencyHistogram,
    pub(crate) writes: LatencyHistogram,
    /// Reads that were sent to a second replica while the first was still at it.
    pub(crate) extra: u64,
    /// Stores that refused.
    pub(crate) refusals: u64,
    /// Reads that were refused by one store and answered by another.
    pub(crate) failovers: u64,
    /// Values that were not what had been written, or not there.
    pub(crate) wrong: u64,
    /// Operations that failed.
    pub(crate) failed: u64,
}

impl Outcome {
    pub(crate) fn operations(&self) -> u64 {
        self.reads.count() + self.writes.count()
    }

    /// Adds what another client, or another round, has done in the same time or after.
    pub(crate) fn add(&mut self, other: &Self) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.extra += other.extra;
        self.refusals += other.refusals;
        self.failovers += other.failovers;
        self.wrong += other.wrong;
        self.failed += other.failed;
    }
}

/// Has all clients do their operations, until their time is over.
///
/// # Errors
/// A client panicked.
pub(crate) fn run(
    stores: &[Store; 3],
    book: &Book,
    strategy: Strategy,
    plan: &Plan,
    end: &AtomicBool,
) -> Result<Outcome> {
    let began = Instant::now();
    let outcomes = std::thread::scope(|scope| {
        let client = |number| move || client(stores, book, strategy, plan, number, end);
        let clients: Vec<_> = (0..plan.clients).map(|n| scope.spawn(client(n))).collect();
        clients.into_iter().map(|client| client.join()).collect::<Vec<_>>()
    });
    let mut all = Outcome { took: began.elapsed(), ..Outcome::default() };
    for outcome in outcomes {
        all.add(&outcome.map_err(|_| anyhow!("a client panicked"))?);
    }
    Ok(all)
}

fn client(
    stores: &[Store; 3],
    book: &Book,
    strategy: Strategy,
    plan: &Plan,
    number: u64,
    end: &AtomicBool,
) -> Outcome {
    let until = Instant::now() + plan.time;
    let mut outcome = Outcome::default();
    let who = (number, plan.clients);
    for op in Operations::new(plan.workload, plan.records, plan.seed, who) {
        let began = Instant::now();
        if began >= until || end.load(Relaxed) {
            break;
        }
        match op {
            Op::Get(key) => {
                let least = book.least(key);
                let got = get(stores, strategy, key, &mut outcome);
                outcome.reads.record(since(began));
                match got {
                    Ok(found) => {
                        let is_right = book.is_right(key, least, found.as_deref());
                        outcome.wrong += u64::from(!is_right);
                    }
                    Err(_) => outcome.failed += 1,
                }
            }
            Op::Put(key) => {
                let done = put(stores, book, key);
                outcome.writes.record(since(began));
                outcome.failed += u64::from(!done);
            }
        }
    }
    outcome
}

fn since(began: Instant) -> Nanos {
    Nanos(began.elapsed().as_nanos() as u64)
}

fn get(stores: &[Store; 3], strategy: Strategy, key: u64, outcome: &mut Outcome) -> Got {
    let home = (mix(key) % 3) as usize;
    match strategy {
        Strategy::Base => stores[home].get(key, Urgency::None),
        Strategy::Hedging(after) => hedge(stores, home, key, (Urgency::None, after), outcome),
        Strategy::Failover(within) => {
            let (refused, got) = failover::get(stores, home, key, Urgency::Deadline(within));
            outcome.refusals += refused;
            outcome.failovers += u64::from(refused > 0);
            got
        }
        Strategy::Both(within) => {
            hedge(stores, home, key, (Urgency::Deadline(within), within), outcome)
        }
    }
}

/// One replica after the other is asked: at once if the one before has refused or failed,
/// otherwise after a while, and not more than two at a time. Who answers first has it.
fn hedge(
    stores: &[Store; 3],
    home: usize,
    key: u64,
    (urgency, after): (Urgency, Duration),
    outcome: &mut Outcome,
) -> Got {
    let (answer, answers) = mpsc::channel();
    let (mut refused, mut last) = (Vec::new(), Err(GetError::Refused(Duration::MAX)));
    let mut out = 0;
    for replica in [home, (home + 1) % 3, (home + 2) % 3] {
        stores[replica].begin_get(key, urgency, answer.clone());
        out += 1;
        let wait = if out < 2 { after } else { Duration::MAX };
        match answers.recv_timeout(wait) {
            Err(_) => outcome.extra += 1,
            Ok(Err(GetError::Refused(wait))) => {
                refused.push((wait, replica));
                outcome.refusals += 1;
                out -= 1;
            }
            Ok(Err(failed)) => (last, out) = (Err(failed), out - 1),
            Ok(value) => {
                outcome.failovers += u64::from(!refused.is_empty());
                return value;
            }
        }
    }
    drop(answer);
    outcome.failovers += u64::from(!refused.is_empty());
    let first = answers.iter().take(out).find(Result::is_ok);
    first.unwrap_or_else(|| failover::anyway(stores, key, refused, last))
}

/// Writes the next version of a value to all replicas.
fn put(stores: &[Store; 3], book: &Book, key: u64) -> bool {
    let version = book.begin(key);
    let (answer, answered) = mpsc::channel();
    for store in stores {
        store.begin_put(key, version, answer.clone());
    }
    drop(answer);
    let written = answered.iter().filter(Result::is_ok).count();
    if written == stores.len() {
        book.done(key, version);
    }
    written == stores.len()
}
