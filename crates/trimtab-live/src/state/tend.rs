//! What is done beside the events: saying that the keeper lives, and looking after
//! drives on which nothing happens.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trimtab_io::Nanos;

use super::abi;
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
    pub(super) fn start(memory: Arc<Memory>, devices: Vec<BlockDevice>, tend: OwnedFd) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stopped);
        // The first beat comes before anyone can ask.
        say(&memory, true);
        let thread = thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                say(&memory, true);
                for (i, device) in devices.iter().enumerate() {
                    look_after(&memory, i, device, &tend);
                }
                thread::park_timeout(BEAT);
            }
            say(&memory, false);
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

/// Says whether the programs are attached, and that we live.
fn say(memory: &Memory, attached: bool) {
    let control = memory.control.at(0);
    // SAFETY: within the mapping, which is writable; only we write these fields.
    unsafe {
        (&raw mut (*control).attached).write_volatile(attached.into());
        (&raw mut (*control).beat).write_volatile(now().0);
    }
}

/// Events that wait are taken in, and requests whose end went unseen are given
/// up. While anything happens to the drive, its handlers do both.
fn look_after(memory: &Memory, index: usize, device: &BlockDevice, tend: &OwnedFd) {
    let read = |of: fn(*mut abi::Device) -> *mut u64| memory.devices.part(index, of);
    // SAFETY: only the address of a field is taken.
    let changed = read(|device| unsafe { &raw mut (*device).now });
    if now().since(Nanos(changed)) < QUIET {
        return;
    }
    // SAFETY: as above.
    let taken = read(|device| unsafe { &raw mut (*device).queue_taken });
    // SAFETY: as above.
    let waiting = taken != read(|device| unsafe { &raw mut (*device).queue_read });
    // SAFETY: as above.
    let drive = memory.devices.part(index, |device| unsafe { &raw mut (*device).drive });
    let forget = drive.requests > 0 && device.is_idle();
    let mut left = i32::from(waiting || forget);
    // A few dozen at a time.
    for _ in 0..abi::BUCKETS {
        if left <= 0 {
            return;
        }
        left = run(tend, abi::tend(index as u32, forget, changed));
    }
}

/// Runs the program `tend` of bpf/state.bpf.c: what it answers, or less than 0.
fn run(program: &OwnedFd, mut what: [u8; 16]) -> i32 {
    let mut options = libbpf_rs::libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_test_run_opts>() as _,
        ctx_in: what.as_mut_ptr().cast(),
        ctx_size_in: what.len() as u32,
        ..Default::default()
    };
    // SAFETY: the options and what they point to live as long as the call.
    let result = unsafe {
        libbpf_rs::libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options)
    };
    if result < 0 { result } else { options.retval.cast_signed() }
}
