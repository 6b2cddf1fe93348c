//! What the kernel keeps of a drive is what our watch keeps that is told the same.

use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trimtab_io::{DeviceId, Flags, Nanos, Op, Request, RequestId};
use trimtab_live::record::{Arrival, BlockDevice};
use trimtab_live::state::{self, Act, Extent, Keeper, LiveDrive, Look, Options, Pretended, Step};
use trimtab_predict::units::UnitFunction;
use trimtab_predict::{Ticket, Unit, Watch};
use trimtab_testdisk::{self as disk, LoopDisk};

/// One at a time: each test is to see its own load only.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Skips a test, saying so, where the machine lacks something.
macro_rules! needs_real_disks {
    () => {
        if let Some(why) = disk::missing() {
            disk::say(&format!("skipped a test of the drives' state: {why}"));
            return;
        }
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    };
}

/// One of each kind.
fn functions() -> Vec<UnitFunction> {
    vec![
        UnitFunction::Page { shift: 13 },
        UnitFunction::Stripe { shift: 12, units: 60 },
        UnitFunction::Parity { masks: vec![0b1001 << 12, 0b10 << 12, 0x3_0000, 1 << 20] },
    ]
}

fn keep(disk: &LoopDisk, options: Options) -> Keeper {
    Keeper::load(&[BlockDevice::find(&disk.path).unwrap()], &options).unwrap()
}

fn logged() -> Options {
    Options { functions: vec![functions()], log_bits: 20, ..Options::default() }
}

fn request(extent: &Extent) -> Request {
    Request {
        id: RequestId(0),
        device: DeviceId(0),
        arrival: Nanos::ZERO,
        op: extent.op,
        offset: extent.offset,
        length: extent.length,
        flags: Flags::empty(),
        deadline: None,
    }
}

/// Our watch, told of the kernel's steps one by one.
struct Told {
    watch: Watch,
    tickets: HashMap<u32, Ticket>,
}

impl Told {
    fn new() -> Self {
        Self { watch: Watch::new(&functions()), tickets: HashMap::new() }
    }

    fn tell(&mut self, step: &Step) {
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

    /// The units that an offset lies in.
    fn units(&self, offset: u64) -> Vec<Unit> {
        let functions = self.watch.functions().iter().enumerate();
        functions.map(|(i, f)| self.watch.units(i)[usize::from(f.unit(offset))]).collect()
    }
}

/// Waits until nothing is in flight: what has ended unseen is given up after a
/// while.
fn wait_until_idle(drive: &LiveDrive) {
    let until = Instant::now() + Duration::from_secs(60);
    while drive.look(0).drive.requests > 0 {
        assert!(Instant::now() < until, "never idle: {:?}", drive.look(0).drive);
        thread::sleep(Duration::from_millis(5));
    }
}

/// All steps, and what is known after them: nothing happens meanwhile.
fn settled(keeper: &Keeper, drive: &LiveDrive) -> (Vec<Step>, Look) {
    loop {
        wait_until_idle(drive);
        let before = drive.look(0);
        let steps = keeper.steps(0).expect("the log holds all");
        let after = drive.look(0);
        if before.is_whole && before.changed == after.changed && before.drive == after.drive {
            return (steps, after);
        }
    }
}

/// What the kernel has is what our watch has.
fn assert_equal(keeper: &Keeper, drive: &LiveDrive) -> Vec<Step> {
    let (steps, look) = settled(keeper, drive);
    let mut told = Told::new();
    steps.iter().for_each(|step| told.tell(step));
    assert_eq!(&look.drive, told.watch.state());
    for i in 0..functions().len() {
        assert!(drive.units(i) == told.watch.units(i), "units of function {i}");
    }
    steps
}

/// Nothing is in flight, in no unit.
fn assert_empty(drive: &LiveDrive) {
    let state = drive.look(0).drive;
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
fn load(disk: &LoopDisk) {
    let file = format!("--filename={}", disk.path);
    let what = ["--rw=randrw", "--rwmixread=65", "--bsrange=4k-32k", "--direct=1", "--fsync=50"];
    let how = ["--ioengine=libaio", "--iodepth=16", "--time_based", "--runtime=2"];
    let more = ["--name=load", "--numjobs=3", "--rate_iops=6000,3000", "--output=/dev/null"];
    disk::run("fio", &[&[file.as_str()], &what[..], &how, &more].concat());
    disk::run("blkdiscard", &["--offset", "1048576", "--length", "8388608", &disk.path]);
}

/// Neighbours that merge in the scheduler.
fn mergeable_load(disk: &LoopDisk) {
    let file = format!("--filename={}", disk.path);
    let what = ["--name=load", "--rw=rw", "--bs=4k", "--direct=1", "--size=8m"];
    let how = ["--ioengine=libaio", "--iodepth=32", "--iodepth_batch=16", "--output=/dev/null"];
    disk::run("fio", &[&[file.as_str()], &what[..], &how].concat());
}

#[test]
fn what_the_kernel_keeps_is_what_our_watch_keeps() {
    needs_real_disks!();
    let disk = LoopDisk::new(64);
    let keeper = keep(&disk, logged());
    let drive = keeper.drive(0).unwrap();
    load(&disk);
    let steps = assert_equal(&keeper, &drive);
    assert_empty(&drive);
    let counters = drive.counters();
    assert_eq!((counters.missed, counters.table_full), (0, 0), "{counters:?}");
    let sent = |op| {
        let is = |step: &&Step| matches!(step.act, Act::Sent(extent) if extent.op == op);
        steps.iter().filter(is).count()
    };
    for (op, least) in [(Op::Read, 1000), (Op::Write, 500), (Op::Flush, 10), (Op::Discard, 1)] {
        assert!(sent(op) >= least, "{} {}", sent(op), op.plural());
    }
    assert_eq!(drive.sent(), Op::ALL.map(sent).into_iter().sum::<usize>() as u64);
}

/// Also of what is seen in the middle of it: each look is at what our watch had
/// after some step.
#[test]
fn what_is_seen_while_it_is_kept_was_so() {
    needs_real_disks!();
    let disk = LoopDisk::new(64);
    let keeper = keep(&disk, logged());
    let drive = keeper.drive(0).unwrap();
    let over = AtomicBool::new(false);
    let looks = thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut looks = Vec::new();
            let mut offset = 0_u64;
            while !over.load(Ordering::Relaxed) {
                offset = (offset + 4096 * 7919) % (64 << 20);
                looks.push((offset, drive.look(offset)));
                thread::sleep(Duration::from_micros(500));
            }
            looks
        });
        load(&disk);
        over.store(true, Ordering::Relaxed);
        looking.join().unwrap()
    });
    let (steps, _) = settled(&keeper, &drive);
    let whole: Vec<_> = looks.iter().filter(|(_, look)| look.is_whole).collect();
    let busy = whole.iter().filter(|(_, look)| look.drive.requests > 1).count();
    disk::say(&format!("{} looks, {} whole, {busy} while busy", looks.len(), whole.len()));
    assert!(busy > 0);

    let mut told = Told::new();
    let (mut next, mut candidates) = (0, Vec::new());
    // Nothing is known before the first step.
    let mut confirm = |told: &Told, until: Nanos| {
        while next < whole.len() && whole[next].1.changed <= until {
            candidates.push(next);
            next += 1;
        }
        candidates.retain(|&i: &usize| {
            let (offset, look) = whole[i];
            look.drive != *told.watch.state() || look.units() != told.units(*offset)
        });
        // A look is confirmed by a step not later than itself.
        if let Some(&i) = candidates.iter().find(|&&i| whole[i].1.changed < until) {
            panic!("never was so: {:?}", whole[i]);
        }
    };
    let first = steps[0].now;
    confirm(&told, first);
    for (i, step) in steps.iter().enumerate() {
        told.tell(step);
        confirm(&told, steps.get(i + 1).map_or(Nanos::MAX, |next| next.now));
    }
}

#[test]
fn merged_requests_grow() {
    needs_real_disks!();
    let disk = LoopDisk::new(64);
    disk.set_queue("scheduler", "mq-deadline");
    let keeper = keep(&disk, logged());
    let drive = keeper.drive(0).unwrap();
    mergeable_load(&disk);
    let steps = assert_equal(&keeper, &drive);
    assert_empty(&drive);
    assert!(steps.iter().any(|step| matches!(step.act, Act::Grown(_))), "nothing was merged");
}

/// Where there is no `block_io_start`.
#[test]
fn sent_may_mean_issued() {
    needs_real_disks!();
    let disk = LoopDisk::new(64);
    disk.set_queue("scheduler", "mq-deadline");
    let keeper = keep(&disk, Options { arrival: Arrival::GetRq, ..logged() });
    let drive = keeper.drive(0).unwrap();
    load(&disk);
    mergeable_load(&disk);
    let steps = assert_equal(&keeper, &drive);
    assert_empty(&drive);
    assert!(!steps.iter().any(|step| matches!(step.act, Act::Grown(_))));
}

fn read(disk: &LoopDisk, pages: u64) {
    let file = disk.open_direct();
    let mut buffer = disk::aligned(4096);
    for i in 0..pages {
        file.read_exact_at(disk::window(&mut buffer, 4096), i * 4096).unwrap();
    }
}

#[test]
fn counts_recover_from_answers_that_went_unseen() {
    needs_real_disks!();
    let disk = LoopDisk::new(64);
    let mut keeper = keep(&disk, logged());
    let drive = keeper.drive(0).unwrap();
    read(&disk, 10);
    keeper.without_completions(|| read(&disk, 1000)).unwrap();
    // The kernel has far fewer structures than that: most have been used again, which
    // is how it is noticed.
    let counters = drive.counters();
    assert!(counters.never_completed > 100, "{counters:?}");
    assert!(drive.look(0).drive.requests < 1000);
    // With the others a drive that rests is compared with the kernel's own count.
    assert_equal(&keeper, &drive);
    assert_empty(&drive);
    read(&disk, 10);
    assert_equal(&keeper, &drive);
}

#[test]
fn what_is_too_old_is_given_up() {
    needs_real_disks!();
    let disk = LoopDisk::new(64);
    let mut keeper = keep(&disk, Options { age_limit: Duration::ZERO, ..logged() });
    let drive = keeper.drive(0).unwrap();
    keeper.without_completions(|| read(&disk, 10)).unwrap();
    assert!(drive.counters().expired > 0);
    assert_equal(&keeper, &drive);
}

/// What the driver has given back is not with it, and will be again: during the recovery
/// from an error seconds may pass in which nothing happens.
#[test]
fn what_is_requeued_stays_in_flight() {
    needs_real_disks!();
    let disk = LoopDisk::new(64);
    let age_limit = Duration::from_secs(2);
    let keeper = keep(&disk, Options { age_limit, ..logged() });
    let drive = keeper.drive(0).unwrap();
    // The kernel knows of no such read. So it is in flight for 100 ms as far as the
    // programs know; on a busy machine more of these may pass in between.
    let in_time = (0..10).any(|_| {
        let before = drive.counters();
        keeper.pretend(0, Pretended::Arrived, 1);
        keeper.pretend(0, Pretended::Requeued, 1);
        drive.counters() == before
    });
    assert!(in_time, "the read was given up before");
    let begun = Instant::now();
    wait_until_idle(&drive);
    assert!(begun.elapsed() > age_limit / 2, "{:?}", begun.elapsed());
    let counters = drive.counters();
    assert_eq!(counters.expired, 1, "{counters:?}");
    assert_equal(&keeper, &drive);
    assert_empty(&drive);

    // That was the only one: others that end unseen are given up when the drive rests.
    keeper.pretend(0, Pretended::Arrived, 1);
    let begun = Instant::now();
    wait_until_idle(&drive);
    assert!(begun.elapsed() < age_limit, "{:?}", begun.elapsed());
    assert_eq!(drive.counters().expired, 1);
    assert_equal(&keeper, &drive);
}

/// Requests that have the same place in the table.
#[test]
fn requests_may_live_elsewhere() {
    needs_real_disks!();
    let disk = LoopDisk::new(64);
    let keeper = keep(&disk, logged());
    let drive = keeper.drive(0).unwrap();
    let keys = 1000 * 256 + 1..1000 * 256 + 200;
    let count = keys.clone().count() as u64;
    // As above: they might be given up.
    let in_time = (0..10).any(|_| {
        let before = (drive.sent(), drive.counters());
        keys.clone().for_each(|key| keeper.pretend(0, Pretended::Arrived, key));
        let all = u64::from(drive.look(0).drive.requests);
        // The first are at home and leave it to the others.
        keys.clone().for_each(|key| keeper.pretend(0, Pretended::Answered, key));
        keys.clone().rev().for_each(|key| keeper.pretend(0, Pretended::Arrived, key));
        keys.clone().for_each(|key| keeper.pretend(0, Pretended::Answered, key));
        let none = drive.look(0).drive.requests;
        (all, none) == (count, 0)
            && (drive.sent(), drive.counters()) == (before.0 + 2 * count, before.1)
    });
    assert!(in_time, "{:?}", drive.counters());
    assert_equal(&keeper, &drive);
    assert_empty(&drive);
}

#[test]
fn functions_may_change_under_load() {
    needs_real_disks!();
    let disk = LoopDisk::new(64);
    let keeper = keep(&disk, Options::default());
    let mut drive = keeper.drive(0).unwrap();
    assert!(drive.is_fresh(state::now()));
    thread::scope(|scope| {
        let load = scope.spawn(|| load(&disk));
        while !load.is_finished() {
            keeper.set_functions(0, &functions()).unwrap();
            assert!(!drive.is_fresh(state::now()) || drive.functions() == functions());
            drive.refresh().unwrap();
            assert_eq!(drive.functions(), functions());
            thread::sleep(Duration::from_millis(20));
        }
    });
    wait_until_idle(&drive);
    assert_empty(&drive);
}

#[test]
fn nothing_is_fresh_without_its_keeper() {
    needs_real_disks!();
    let disk = LoopDisk::new(16);
    let keeper = keep(&disk, logged());
    let drive = keeper.drive(0).unwrap();
    read(&disk, 5);
    assert!(drive.is_fresh(state::now()));
    drop(keeper);
    assert!(!drive.is_fresh(state::now()));
    // What it knew stands still.
    let sent = drive.sent();
    read(&disk, 5);
    assert_eq!(drive.sent(), sent);
}

#[test]
fn several_drives_are_told_apart() {
    needs_real_disks!();
    let disks = [LoopDisk::new(16), LoopDisk::new(16)];
    let unwatched = LoopDisk::new(16);
    let devices: Vec<_> = disks.iter().map(|d| BlockDevice::find(&d.path).unwrap()).collect();
    let keeper = Keeper::load(&devices, &Options::default()).unwrap();
    let sent = |i| keeper.drive(i).unwrap().sent();
    let before = [sent(0), sent(1)];
    read(&disks[0], 30);
    read(&disks[1], 20);
    read(&unwatched, 10);
    assert_eq!([sent(0) - before[0], sent(1) - before[1]], [30, 20]);
}
