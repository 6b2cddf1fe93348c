//! The clients of the store.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use trimtab_io::{LatencyHistogram, Nanos};

use crate::load::{Op, Operations, Workload};
use crate::store::{Client, Store};
use crate::value::Book;

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
        self.wrong += other.wrong;
        self.failed += other.failed;
    }
}

/// Has all clients do their operations, until their time is over.
///
/// # Errors
/// A client could not begin, or panicked.
pub(crate) fn run(store: &Store, book: &Book, plan: &Plan, end: &AtomicBool) -> Result<Outcome> {
    let began = Instant::now();
    let outcomes = std::thread::scope(|scope| {
        let client = |number| move || client(store, book, plan, number, end);
        let clients: Vec<_> = (0..plan.clients).map(|n| scope.spawn(client(n))).collect();
        clients.into_iter().map(|client| client.join()).collect::<Vec<_>>()
    });
    let mut all = Outcome { took: began.elapsed(), ..Outcome::default() };
    for outcome in outcomes {
        all.add(&outcome.map_err(|_| anyhow!("a client panicked"))??);
    }
    Ok(all)
}

fn client(
    store: &Store,
    book: &Book,
    plan: &Plan,
    number: u64,
    end: &AtomicBool,
) -> Result<Outcome> {
    let client: Client = store.client()?;
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
                let got = client.get(key);
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
                let done = put(store, book, key);
                outcome.writes.record(since(began));
                outcome.failed += u64::from(!done);
            }
        }
    }
    Ok(outcome)
}

fn since(began: Instant) -> Nanos {
    Nanos(began.elapsed().as_nanos() as u64)
}

/// Writes the next version of a value, to all copies.
fn put(store: &Store, book: &Book, key: u64) -> bool {
    let version = book.begin(key);
    let (answer, answered) = mpsc::channel();
    store.begin_put(key, version, answer);
    let is_written = matches!(answered.recv(), Ok(Ok(())));
    if is_written {
        book.done(key, version);
    }
    is_written
}
