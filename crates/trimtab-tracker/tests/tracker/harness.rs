//! A drive's state in the kernel, compared with the user-space tracker after the same steps.

use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use trimtab_block::BlockDevice;
use trimtab_io::{DeviceId, Flags, Issuer, Nanos, Request, RequestId};
use trimtab_predict::units::UnitFunction;
use trimtab_predict::{DriveState, DriveTracker, Ticket, Unit};
use trimtab_state::{LiveDrive, StateSnapshot};
use trimtab_testdisk::{self as disk, LoopDisk};
use trimtab_tracker::{Act, Extent, StateTracker, Step, TrackerOptions};

/// One at a time: each test must see only its own load.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Serialises tests that use real disks. `None`, with a note, if the machine lacks something.
pub(crate) fn real_disks() -> Option<MutexGuard<'static, ()>> {
    if !disk::requires(disk::REAL_DISKS) {
        return None;
    }
    Some(ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner()))
}

/// One of each kind.
pub(crate) fn functions() -> Vec<UnitFunction> {
    vec![
        UnitFunction::Page { shift: 13 },
        UnitFunction::Stripe { shift: 12, units: 60 },
        UnitFunction::Parity { masks: vec![0b1001 << 12, 0b10 << 12, 0x3_0000, 1 << 20] },
    ]
}

pub(crate) fn keep(disk: &LoopDisk, options: TrackerOptions) -> StateTracker {
    StateTracker::load(&[BlockDevice::find(&disk.path).unwrap()], &options).unwrap()
}

pub(crate) fn logged() -> TrackerOptions {
    TrackerOptions { functions: vec![functions()], log_bits: 20, ..TrackerOptions::default() }
}

pub(crate) fn request(extent: &Extent) -> Request {
    Request {
        id: RequestId(0),
        device: DeviceId(0),
        arrival: Nanos::ZERO,
        op: extent.op,
        offset: extent.offset,
        length: extent.length,
        flags: Flags::empty(),
        deadline: None,
        issuer: Issuer::default(),
    }
}

/// The user-space tracker, replaying the kernel's steps.
pub(crate) struct Told {
    pub(crate) watch: DriveTracker,
    tickets: HashMap<u32, Ticket>,
}

impl Told {
    pub(crate) fn new() -> Self {
        Self { watch: DriveTracker::new(&functions()), tickets: HashMap::new() }
    }

    pub(crate) fn tell(&mut self, step: &Step) {
        match step.act {
            Act::Sent(extent) => {
                let ticket = self.watch.sent(step.now, &request(&extent));
                assert!(self.tickets.insert(step.slot, ticket).is_none(), "a slot used twice");
            }
            Act::Grown(extent) => {
                self.watch.grown(step.now, self.tickets[&step.slot], &request(&extent));
            }
            Act::Completed(data) => {
                let ticket = self.tickets.remove(&step.slot).expect("it was sent");
                self.watch.completed(step.now, ticket, data);
            }
        }
    }

    /// The busiest of a request's units, by each function.
    pub(crate) fn units(&self, offset: u64, length: u64) -> Vec<Unit> {
        let functions = self.watch.functions().iter().enumerate();
        let busiest = |(i, f): (usize, &UnitFunction)| {
            let pieces = f.pieces(offset, length);
            let units = pieces.map(|unit| &self.watch.units(i)[usize::from(unit)]);
            *Unit::busiest(units).expect("every request has a piece")
        };
        functions.map(busiest).collect()
    }
}

/// A consistent copy of a drive's state: on a busy machine a program may lose its processor
/// while it writes.
pub(crate) fn state_of(drive: &LiveDrive) -> DriveState {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(state) = drive.state() {
            return state;
        }
        assert!(Instant::now() < until, "the state is always being written");
    }
}

/// Waits until nothing is in flight: requests that completed unseen are given up after a
/// while.
pub(crate) fn wait_until_idle(drive: &LiveDrive) {
    let until = Instant::now() + Duration::from_secs(60);
    while state_of(drive).requests > 0 {
        assert!(Instant::now() < until, "never idle: {:?}", state_of(drive));
        thread::sleep(Duration::from_millis(5));
    }
}

/// All steps, and the state after them, with no events in between.
pub(crate) fn settled(tracker: &StateTracker, drive: &LiveDrive) -> (Vec<Step>, StateSnapshot) {
    settled_of(tracker, 0, drive)
}

fn settled_of(
    tracker: &StateTracker,
    index: usize,
    drive: &LiveDrive,
) -> (Vec<Step>, StateSnapshot) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < until, "never settled: {:?}", drive.counters());
        wait_until_idle(drive);
        let before = drive.snapshot(0, 0);
        let steps = tracker.steps(index).expect("the log holds all");
        let after = drive.snapshot(0, 0);
        if before.is_consistent && before.changed == after.changed && before.drive == after.drive {
            return (steps, after);
        }
    }
}

/// Asserts that the kernel's state equals that of the user-space tracker.
pub(crate) fn assert_equal(tracker: &StateTracker, drive: &LiveDrive) -> Vec<Step> {
    assert_equal_of(tracker, 0, drive)
}

/// The same for the drive with this index.
pub(crate) fn assert_equal_of(
    tracker: &StateTracker,
    index: usize,
    drive: &LiveDrive,
) -> Vec<Step> {
    let (steps, look) = settled_of(tracker, index, drive);
    let mut told = Told::new();
    steps.iter().for_each(|step| told.tell(step));
    assert_eq!(&look.drive, told.watch.state());
    for i in 0..functions().len() {
        assert!(drive.units(i) == told.watch.units(i), "units of function {i}");
    }
    steps
}

/// Asserts that nothing is in flight, in any unit.
pub(crate) fn assert_empty(drive: &LiveDrive) {
    let state = state_of(drive);
    let whole = state.whole;
    let numbers = [state.requests, state.pages, whole.reads, whole.read_pages];
    assert_eq!(numbers, [0; 4]);
    assert_eq!((whole.writes, whole.write_pages, whole.sent), (0, 0, 0));
    assert_eq!((state.read_bytes, state.write_bytes), (0, 0));
    assert_eq!((state.oldest_read, state.oldest_other), (Nanos::ZERO, Nanos::ZERO));
    for unit in (0..functions().len()).flat_map(|i| drive.units(i)) {
        let numbers = [unit.reads, unit.read_pages, unit.writes, unit.write_pages];
        assert_eq!((numbers, unit.sent), ([0; 4], 0));
    }
}

/// Reads, writes, flushes and discards of several sizes, by several processes.
pub(crate) fn load(disk: &LoopDisk) {
    let file = format!("--filename={}", disk.path);
    let what = ["--rw=randrw", "--rwmixread=65", "--bsrange=4k-96k", "--direct=1", "--fsync=50"];
    let how = ["--ioengine=libaio", "--iodepth=16", "--time_based", "--runtime=2"];
    let more = ["--name=load", "--numjobs=3", "--rate_iops=6000,3000", "--output=/dev/null"];
    disk::run("fio", &[&[file.as_str()], &what[..], &how, &more].concat());
    disk::run("blkdiscard", &["--offset", "1048576", "--length", "8388608", &disk.path]);
}

/// Neighbours that merge in the scheduler.
pub(crate) fn mergeable_load(disk: &LoopDisk) {
    let file = format!("--filename={}", disk.path);
    let what = ["--name=load", "--rw=rw", "--bsrange=4k-16k", "--direct=1", "--size=8m"];
    let how = ["--ioengine=libaio", "--iodepth=32", "--iodepth_batch=16", "--output=/dev/null"];
    disk::run("fio", &[&[file.as_str()], &what[..], &how].concat());
}

/// Reads pages one after the other.
pub(crate) fn read(disk: &LoopDisk, pages: u64) {
    let file = disk.open_direct();
    let mut buffer = disk::aligned(4096);
    for i in 0..pages {
        file.read_exact_at(disk::window(&mut buffer, 4096), i * 4096).unwrap();
    }
}
