//! Executes power-cut faults: cuts a drive's power, and restores it.
//!
//! A cut has three steps, in this order: content loses what was not flushed, and from then on
//! refuses all requests (store.rs); requests in flight fail (state.rs); and what is left is made
//! durable, if flushes are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::clock;
use super::engine::Engine;
use super::store::Store;
use trimtab_serve::Error;

/// The switch, and its thread. Ended when dropped.
pub(super) struct PowerSwitch<T: Send + 'static> {
    parts: Arc<Parts<T>>,
    thread: Option<JoinHandle<()>>,
}

struct Parts<T> {
    engine: Arc<Engine<T>>,
    store: Arc<Store>,
    /// For cuts without a seed.
    seed: u64,
    ended: AtomicBool,
    /// Serialises cuts.
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

    /// To be called when faults have changed: executes what is due, and returns when that is done.
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

    /// Executes what is due, and returns when the next action is.
    fn turn(&self) -> Option<trimtab_io::Nanos> {
        let _turning = self.turning.lock().unwrap_or_else(PoisonError::into_inner);
        let step = {
            let mut state = self.engine.state();
            let step = state.faults.power(clock::now());
            for seed in &step.cuts {
                let cuts = self.store.cuts().count;
                self.store.cut_power(seed.unwrap_or(self.seed.wrapping_add(cuts)));
                // After the content is cut: requests that changed content have arrived before.
                state.lose_power(clock::now());
            }
            step
        };
        if !step.cuts.is_empty() {
            self.engine.call();
            // What programs read from now on must survive another power cut. The next flush reports
            // an error.
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
