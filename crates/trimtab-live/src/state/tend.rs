//! What is done beside the events: saying that the keeper lives, and looking after
//! drives on which nothing happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trimtab_io::Nanos;

use super::abi;
use super::calls::Calls;
use super::drive::Memory;
use super::now;
use crate::record::BlockDevice;

/// How often.
const BEAT: Duration = Duration::from_millis(50);

/// How long nothing must have happened to a drive before what is in flight by our
/// count, and not by the kernel's, is given up. (From the driver's answer to the
/// completion's tracepoint it is one soft interrupt.)
const QUIET: Nanos = Nanos::from_millis(100);

/// A thread that tends some drives.
pub(super) struct Tender {
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tender {
    pub(super) fn start(memory: Arc<Memory>, devices: Vec<BlockDevice>, calls: Arc<Calls>) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stopped);
        // The first beat comes before anyone can ask.
        say(&calls, &devices, true);
        let thread = thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                say(&calls, &devices, true);
                for (i, device) in devices.iter().enumerate() {
                    look_after(&memory, i, device, &calls);
                }
                thread::park_timeout(BEAT);
            }
            say(&calls, &devices, false);
        });
        Self { stopped, thread: Some(thread) }
    }

    /// Says that what is kept is not current any more.
    pub(super) fn stop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            _ = thread.join();
        }
    }
}

impl Drop for Tender {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Says whether the programs are attached, and that we live. Of a device whose name another
/// has taken, nothing is kept: what was learnt of it must not decide about the other.
fn say(calls: &Calls, devices: &[BlockDevice], attached: bool) {
    for (i, device) in devices.iter().enumerate() {
        calls.say(i, attached && !device.is_replaced(), device.kernel_number());
    }
}

/// Events that wait are taken in, and requests whose end went unseen are given
/// up, but for what waits to be sent to the driver again. While anything happens to the
/// drive, its handlers do both.
fn look_after(memory: &Memory, index: usize, device: &BlockDevice, calls: &Calls) {
    let read = |of: fn(*mut abi::Device) -> *mut u64| memory.devices.part(index, of);
    // SAFETY: only the address of a field is taken.
    let changed = read(|device| unsafe { &raw mut (*device).now });
    if now().since(Nanos(changed)) < QUIET {
        return;
    }
    // SAFETY: as above.
    let drive = memory.devices.part(index, |device| unsafe { &raw mut (*device).drive });
    let forget = drive.requests > 0 && device.is_idle();
    // A few dozen at a time, of all that there can be.
    for _ in 0..abi::SLOTS / 32 {
        if calls.tend(index, forget, changed) <= 0 {
            return;
        }
    }
}
