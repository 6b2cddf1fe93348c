//! Work beside the events: heartbeats, and drives without events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trimtab_block::BlockDevice;
use trimtab_io::{Nanos, monotonic};
use trimtab_state::StateMemory;

use crate::abi::SLOTS;
use crate::calls::Calls;

/// The interval of heartbeats.
const INTERVAL: Duration = Duration::from_millis(50);

/// How long a drive must have had no event before requests are reaped that are in flight by
/// our count but not by the kernel's. (Between the driver's completion and the tracepoint
/// there is one soft interrupt.)
const QUIET: Nanos = Nanos::from_millis(100);

/// A thread that does the housekeeping of some drives.
pub(crate) struct Housekeeper {
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Housekeeper {
    pub(crate) fn start(
        memory: Arc<StateMemory>,
        devices: Vec<BlockDevice>,
        calls: Arc<Calls>,
    ) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stopped);
        // The first heartbeat precedes any reader's check.
        heartbeat(&calls, &devices, true);
        let thread = thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                heartbeat(&calls, &devices, true);
                for (i, device) in devices.iter().enumerate() {
                    housekeep(&memory, i, device, &calls);
                }
                thread::park_timeout(INTERVAL);
            }
            heartbeat(&calls, &devices, false);
        });
        Self { stopped, thread: Some(thread) }
    }

    /// Reports that the state is no longer current.
    pub(crate) fn stop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            _ = thread.join();
        }
    }
}

impl Drop for Housekeeper {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reports whether the programs are attached. A device that was replaced by another one of the
/// same name is not tracked: the old one's state must not decide about the new one.
fn heartbeat(calls: &Calls, devices: &[BlockDevice], attached: bool) {
    for (i, device) in devices.iter().enumerate() {
        calls.heartbeat(i, attached && !device.is_replaced(), device.kernel_number());
    }
}

/// Drains the queue, and reaps requests whose completion was not seen, except those that wait
/// to be issued to the driver again. While a drive has events, its handlers do both.
fn housekeep(memory: &StateMemory, index: usize, device: &BlockDevice, calls: &Calls) {
    let changed = memory.changed(index);
    if monotonic().since(changed) < QUIET {
        return;
    }
    let forget = memory.in_flight(index) > 0 && device.is_idle();
    // A call reaps at most 32.
    for _ in 0..SLOTS / 32 {
        if calls.housekeep(index, forget, changed.0) <= 0 {
            return;
        }
    }
}
