//! The switch for a drive's power: takes it when a fault says so, and gives it back.
//!
//! A cut has three parts, in this order: content loses what was not flushed, and from
//! then on refuses all requests (store.rs); requests in flight fail (state.rs); and what
//! the cut left is made durable, where flushes are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::clock;
use super::engine::Engine;
use super::error::Error;
use super::store::Store;

/// The switch, and the thread that turns it when it is time. Ended when dropped.
pub(super) struct PowerSwitch<T: Send + 'static> {
    parts: Arc<Parts<T>>,
    thread: Option<JoinHandle<()>>,
}

struct Parts<T> {
    engine: Arc<Engine<T>>,
    store: Arc<Store>,
    /// For cuts that have no seed of their own.
    seed: u64,
    ended: AtomicBool,
    /// One turns it at a time.
    turning: Mutex<()>,
}

impl<T: Send + 'static> PowerSwitch<T> {
    pub(super) fn start(
        engine: &Arc<Engine<T>>,
        store: &Arc<Store>,
        seed: u64,
    ) -> Result<Self, Error> {
        let parts = Arc::new(Parts {
            engine: Arc::clone(engine),
            store: Arc::clone(store),
            seed,
            ended: AtomicBool::new(false),
            turning: Mutex::new(()),
        });
        let watched = Arc::clone(&parts);
        let thread = thread::Builder::new().name("power".to_owned()).spawn(move || watched.watch());
        let thread = Some(thread.map_err(Error::system("start a thread"))?);
        Ok(Self { parts, thread })
    }

    /// Faults have changed: does what is due, and comes back when it is done.
    pub(super) fn turn(&self) {
        self.parts.turn();
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl<T: Send + 'static> Drop for PowerSwitch<T> {
    fn drop(&mut self) {
        self.parts.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            _ = thread.join();
        }
    }
}

impl<T: Send> Parts<T> {
    fn watch(&self) {
        while !self.ended.load(Ordering::Acquire) {
            match self.turn() {
                Some(at) => clock::sleep(clock::now(), at),
                None => thread::park(),
            }
        }
    }

    /// Does what is due, and says when there is more to do.
    fn turn(&self) -> Option<trimtab_io::Nanos> {
        let _turning = self.turning.lock().unwrap_or_else(PoisonError::into_inner);
        let step = {
            let mut state = self.engine.state();
            let step = state.faults.power(clock::now());
            for seed in &step.cuts {
                let cuts = self.store.cuts().count;
                self.store.cut_power(seed.unwrap_or(self.seed.wrapping_add(cuts)));
                // Not earlier: what has reached the content by now has arrived before.
                state.lose_power(clock::now());
            }
            step
        };
        if !step.cuts.is_empty() {
            self.engine.call();
            // What a program reads from now on must not change with another power cut. An
            // error shows at the next flush.
            if self.store.is_durable() {
                _ = self.store.sync();
            }
        }
        if step.is_on {
            self.store.restore_power();
        }
        step.next
    }
}
