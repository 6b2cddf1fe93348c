//! An emulated drive below one of the kernel's schedulers.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use trimtab_block::BlockDevice;
use trimtab_io::{IoClass, Nanos, Op};
use trimtab_record::{Recorder, RecorderOptions, Recording};
use trimtab_testdisk::{Feature, note, skip};
use trimtab_trace::Record;

use crate::burst::{Burst, BurstRequest, PLUG_BYTES, Process};
use crate::drive_process::{DriveProcess, LONGEST_STALL};

/// Places in the drive: the least that Linux permits.
const TAGS: usize = 4;
/// Requests that leave the scheduler while the drive is stalled: one more waits for a place.
pub(crate) const DEPTH: usize = TAGS + 1;

/// How a burst was served.
pub(crate) struct Served {
    /// When the plug's requests arrived, and the burst's.
    pub(crate) plug: Vec<Nanos>,
    pub(crate) arrivals: Vec<Nanos>,
    /// The first completion: the drive goes on.
    pub(crate) goes_on: Nanos,
    /// The burst's requests, by number, in the order in which they reached the drive.
    pub(crate) order: Vec<usize>,
}

pub(crate) struct ScheduledDrive {
    recording: Option<Recording>,
    drive: DriveProcess,
}

impl ScheduledDrive {
    /// `None`, with a note, if the kernel lacks the scheduler.
    pub(crate) fn new(scheduler: &str, settings: &[(&str, &str)]) -> Option<Self> {
        let mut drive = DriveProcess::start();
        // Without a scheduler this sets the places in the drive, and they stay.
        drive.set("scheduler", "none").unwrap();
        drive.set("nr_requests", &TAGS.to_string()).unwrap();
        if let Err(e) = drive.set("scheduler", scheduler) {
            skip(Feature::Kernel, &format!("needs the scheduler {scheduler}: {e}"));
            return None;
        }
        // BFQ gives each process a share of the scheduler's places by its weight; none may have to
        // wait for one.
        drive.set("nr_requests", "2048").unwrap();
        // Each request of the burst stays one, and writes are not throttled.
        drive.set("nomerges", "2").unwrap();
        _ = drive.set("wbt_lat_usec", "0");
        for (name, value) in settings {
            drive.set(name, value).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        let name = drive.path.rsplit('/').next().expect("a path");
        let device = BlockDevice::find(name).expect("the drive is there");
        let recorder = Recorder::load(&[device], &RecorderOptions::default()).expect("it loads");
        Some(Self { recording: Some(recorder.start()), drive })
    }

    /// Sends a burst while the drive is stalled. `None` if a request was not observed.
    pub(crate) fn serve(&mut self, burst: &Burst) -> Option<Served> {
        // Later than the kernel takes two bursts of new processes for one.
        thread::sleep(Duration::from_millis(200));
        self.drive.stall();
        let stalled = Instant::now();
        let plug = Submitter::start(&self.drive.path, default_process());
        let mut blocked = false;
        for i in 0..DEPTH as u64 {
            let request = BurstRequest { process: 0, op: Op::Read, offset: i * 8192, length: 4096 };
            blocked |= !plug.submit(request);
        }
        // The kernel gives them to the drive from another thread.
        thread::sleep(Duration::from_millis(5));
        let start = |&process: &Process| Submitter::start(&self.drive.path, process);
        let processes: Vec<_> = burst.processes.iter().map(start).collect();
        for request in &burst.requests {
            blocked = blocked || !processes[request.process].submit(*request);
        }
        // Once the stall has ended by itself, the order shows something else.
        let too_late = stalled.elapsed() >= LONGEST_STALL;
        self.drive.heal();
        processes.into_iter().for_each(Submitter::finish);
        plug.finish();
        let observed = self.observed(burst);
        if blocked {
            note("the kernel made a process wait");
        }
        if too_late {
            note("the burst took longer than the stall");
        }
        observed.filter(|_| !blocked && !too_late)
    }

    fn observed(&mut self, burst: &Burst) -> Option<Served> {
        let recording = self.recording.as_mut().expect("it records");
        let expected = DEPTH + burst.requests.len();
        let mut records = Vec::new();
        for _ in 0..100 {
            thread::sleep(Duration::from_millis(5));
            recording.poll(&mut records).expect("the recorder works");
            if records.len() >= expected {
                break;
            }
        }
        let (plug, rest): (Vec<_>, Vec<_>) =
            records.iter().partition(|record: &&Record| record.offset < PLUG_BYTES);
        if plug.len() != DEPTH || rest.len() != burst.requests.len() {
            note(&format!("{} and {} requests were observed", plug.len(), rest.len()));
            return None;
        }
        let number = |record: &Record| {
            burst.requests.iter().position(|request| request.offset == record.offset)
        };
        let mut issued: Vec<_> = rest
            .iter()
            .map(|r: &&Record| Some((r.issue?, r.arrival, number(r)?)))
            .collect::<Option<_>>()?;
        issued.sort_unstable();
        let mut arrivals = vec![Nanos::ZERO; burst.requests.len()];
        issued.iter().for_each(|&(_, arrival, i)| arrivals[i] = arrival);
        Some(Served {
            plug: plug.iter().map(|record| record.arrival).collect(),
            arrivals,
            goes_on: plug.iter().filter_map(|record| record.complete).min()?,
            order: issued.into_iter().map(|(_, _, i)| i).collect(),
        })
    }
}

const fn default_process() -> Process {
    Process { class: IoClass::BestEffort, level: 4 }
}

/// A thread with an I/O context and a priority of its own, which submits requests without waiting
/// for them.
struct Submitter {
    requests: Sender<BurstRequest>,
    submitted: Receiver<()>,
    thread: thread::JoinHandle<()>,
}

impl Submitter {
    fn start(path: &str, process: Process) -> Self {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(path)
            .expect("the drive opens");
        let (requests, to_submit) = channel();
        let (tell, submitted) = channel();
        let thread = thread::spawn(move || run(&file, process, &to_submit, &tell));
        submitted.recv().expect("the thread has its priority");
        Self { requests, submitted, thread }
    }

    /// Submits a request. False if the kernel makes the process wait: no place is left for it in
    /// the scheduler.
    fn submit(&self, request: BurstRequest) -> bool {
        self.requests.send(request).expect("the thread runs");
        self.submitted.recv_timeout(Duration::from_secs(1)).is_ok()
    }

    /// Waits for all completions.
    fn finish(self) {
        drop(self.requests);
        self.thread.join().expect("all requests complete");
    }
}

/// The most requests of one process.
const MOST: usize = 128;

/// The kernel's `struct iocb` on little-endian machines.
#[repr(C)]
#[derive(Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// The kernel's `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct IoEvent {
    data: u64,
    iocb: u64,
    result: i64,
    result2: i64,
}

fn run(file: &File, process: Process, requests: &Receiver<BurstRequest>, tell: &Sender<()>) {
    set_priority(process);
    let mut context: libc::c_ulong = 0;
    // SAFETY: the kernel writes the context's number.
    let made = unsafe { libc::syscall(libc::SYS_io_setup, MOST as libc::c_long, &raw mut context) };
    assert_eq!(made, 0, "io_setup: {}", std::io::Error::last_os_error());
    let _ = tell.send(());
    // They must live until the completions.
    let mut buffers = Vec::new();
    for BurstRequest { op, offset, length, .. } in requests {
        let mut buffer = trimtab_testdisk::aligned(length as usize);
        let aligned = trimtab_testdisk::window(&mut buffer, length as usize);
        let iocb = Iocb {
            opcode: u16::from(op == Op::Write),
            file: file.as_raw_fd() as u32,
            buffer: aligned.as_mut_ptr() as u64,
            bytes: length,
            offset: offset as i64,
            ..Iocb::default()
        };
        let list = [&raw const iocb];
        // SAFETY: the buffer outlives the request; the kernel copies the control block.
        let done = unsafe { libc::syscall(libc::SYS_io_submit, context, 1_i64, list.as_ptr()) };
        assert_eq!(done, 1, "io_submit: {}", std::io::Error::last_os_error());
        buffers.push(buffer);
        let _ = tell.send(());
    }
    let mut events = [IoEvent::default(); MOST];
    let mut left = buffers.len();
    while left > 0 {
        let most = events.len() as i64;
        let none = std::ptr::null::<libc::timespec>();
        // SAFETY: the kernel writes at most as many events as there is room for.
        let got = unsafe {
            libc::syscall(libc::SYS_io_getevents, context, 1_i64, most, events.as_mut_ptr(), none)
        };
        assert!(got > 0, "io_getevents: {}", std::io::Error::last_os_error());
        assert!(events[..got as usize].iter().all(|event| event.result > 0), "a request failed");
        left -= got as usize;
    }
    // SAFETY: no request is left in it.
    unsafe { libc::syscall(libc::SYS_io_destroy, context) };
}

/// Sets the I/O priority of this thread.
fn set_priority(process: Process) {
    const THIS_THREAD: (libc::c_long, libc::c_long) = (1, 0);
    let level = if process.class == IoClass::Idle { 0 } else { process.level };
    let priority = (process.class as libc::c_long) << 13 | libc::c_long::from(level);
    let (which, who) = THIS_THREAD;
    // SAFETY: it changes only this thread's priority.
    let set = unsafe { libc::syscall(libc::SYS_ioprio_set, which, who, priority) };
    assert_eq!(set, 0, "ioprio_set: {}", std::io::Error::last_os_error());
}
