//! The recorder against real block devices: its records must match the kernel's counters.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use libbpf_rs::btf::{Btf, types::Typedef};
use trimtab_block::{BlockDevice, DeviceStat, OpStat};
use trimtab_bpf::Arrival;
use trimtab_io::{Flags, Op};
use trimtab_record::{Error, Outcome, Recorder, RecorderOptions, Recording};
use trimtab_testdisk::{self as disk, Feature, LoopDisk};
use trimtab_trace::Record;

/// One recording at a time: each test must see only its own load.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Skips a test, with a note, if the machine lacks something.
macro_rules! needs_real_disks {
    () => {
        if !disk::requires(disk::REAL_DISKS) {
            return;
        }
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    };
}

struct Recorded {
    records: Vec<Record>,
    outcome: Outcome,
    /// The kernel's counts during the load, per device.
    counted: Vec<DeviceStat>,
}

/// Records these disks while `load` runs, with nothing lost.
///
/// Some hosts' kernels run no BPF program while one of their own agents is the current task
/// (docs/measurements/recording.md, "Blind spots"), so that a completion whose interrupt
/// occurs then is unseen. The recorder rightly counts it as lost, and still has the request;
/// the load is then repeated.
fn record_all(disks: &[&LoopDisk], options: &RecorderOptions, load: impl Fn() + Sync) -> Recorded {
    const ROUNDS: u32 = 30;
    for round in 1..=ROUNDS {
        let recorded = record_while(disks, options, &load);
        recorded.assert_accounted_for();
        let losses = recorded.outcome.losses;
        if losses.total() == 0 {
            assert!(recorded.records.iter().all(|r| r.complete.is_some()));
            return recorded;
        }
        assert_eq!(losses.total(), losses.never_completed, "{losses:?}");
        disk::note(&format!("round {round}: {} completions went unseen", losses.never_completed));
    }
    panic!("completions went unseen in each of {ROUNDS} rounds");
}

fn stop(recording: Recording, records: &mut Vec<Record>) -> Outcome {
    let stopped = recording.stop(Duration::from_secs(5), |rest, _| {
        records.extend_from_slice(rest);
        Ok::<_, Error>(())
    });
    stopped.unwrap()
}

/// Records these disks while `load` runs.
fn record_while(
    disks: &[&LoopDisk],
    options: &RecorderOptions,
    load: impl FnOnce() + Send,
) -> Recorded {
    let devices: Vec<_> = disks.iter().map(|d| BlockDevice::find(&d.path).unwrap()).collect();
    let before: Vec<_> = devices.iter().map(|d| d.stat().unwrap()).collect();
    let mut recording = Recorder::load(&devices, options).unwrap().start();
    let mut records = Vec::new();
    thread::scope(|scope| {
        let load = scope.spawn(load);
        while !load.is_finished() {
            recording.poll(&mut records).unwrap();
            thread::sleep(Duration::from_millis(10));
        }
        load.join().unwrap();
    });
    let outcome = stop(recording, &mut records);
    let counted = devices.iter().zip(&before).map(|(d, b)| d.stat().unwrap().since(b)).collect();
    Recorded { records, outcome, counted }
}

impl Recorded {
    /// Requests and bytes of one op on one device, according to the trace.
    fn total(&self, device: u32, op: Op) -> OpStat {
        let mut total = OpStat::default();
        for r in self.records.iter().filter(|r| r.device.0 == device && r.op == op) {
            total.requests += 1;
            total.bytes += r.length;
        }
        total
    }

    /// Every request is recorded, in order, as the kernel counted it.
    fn assert_accounted_for(&self) {
        assert_eq!(self.outcome.records, self.records.len() as u64);
        assert!(self.records.is_sorted_by_key(|r| r.arrival));
        let unanswered = self.records.iter().filter(|r| r.complete.is_none()).count();
        assert_eq!(unanswered as u64, self.outcome.losses.never_completed);
        for r in &self.records {
            assert!(r.issue.is_some_and(|issue| r.arrival <= issue), "{r:?}");
            assert!(r.complete.is_none_or(|complete| r.issue.unwrap() <= complete), "{r:?}");
        }
        // The kernel counts flush requests without data as writes of no bytes.
        let mut empty_flushes = 0;
        for (device, counted) in (0..).zip(&self.counted) {
            let writes = self.total(device, Op::Write);
            assert_eq!(self.total(device, Op::Read), counted.reads);
            assert_eq!(writes.bytes, counted.writes.bytes);
            assert_eq!(self.total(device, Op::Discard), counted.discards);
            assert_eq!(self.total(device, Op::Flush).requests, counted.flushes);
            empty_flushes += counted.writes.requests - writes.requests;
        }
        // A flush request whose completion was unseen is not counted.
        assert!(self.outcome.empty_flushes <= empty_flushes);
    }

    fn with(&self, flag: Flags) -> Vec<&Record> {
        self.records.iter().filter(|r| r.flags.contains(flag)).collect()
    }
}

/// Both sources of arrivals, or the only one of older kernels.
fn both_arrivals() -> impl Iterator<Item = RecorderOptions> {
    let btf = Btf::from_vmlinux().unwrap();
    let has_io_start = btf.type_by_name::<Typedef<'_>>("btf_trace_block_io_start").is_some();
    [Arrival::IoStart, Arrival::GetRq]
        .into_iter()
        .filter(move |&arrival| has_io_start || arrival != Arrival::IoStart)
        .map(|arrival| RecorderOptions {
            arrival,
            measure_overhead: true,
            ..RecorderOptions::default()
        })
}

#[test]
fn sixty_thousand_requests_per_second_without_loss() {
    needs_real_disks!();
    let disk = LoopDisk::new(64);
    for options in both_arrivals() {
        let recorded = record_all(&[&disk], &options, || {
            disk::run(
                "fio",
                &[
                    "--name=load",
                    &format!("--filename={}", disk.path),
                    "--rw=randrw",
                    "--rwmixread=70",
                    "--bs=4k",
                    "--direct=1",
                    "--ioengine=libaio",
                    "--iodepth=32",
                    "--rate_iops=42000,18000",
                    "--time_based",
                    "--runtime=1",
                    "--output=/dev/null",
                ],
            );
        });
        let requests = recorded.records.len();
        if requests < 10_000 {
            disk::note(&format!("only {requests} requests in 1 s: this machine makes no load"));
        }
        let fio = recorded.records.iter().filter(|r| r.pid.is_some() && r.command.is_some());
        assert!(fio.count() > requests * 99 / 100);
    }
}

#[test]
fn merged_requests_are_one_record() {
    needs_real_disks!();
    let disk = LoopDisk::new(64);
    disk.set_queue("scheduler", "mq-deadline");
    for options in both_arrivals() {
        let recorded = record_all(&[&disk], &options, || {
            // Buffered: the kernel writes back page by page, and merges.
            let mut file = OpenOptions::new().write(true).open(&disk.path).unwrap();
            file.write_all(&vec![1; 16 << 20]).unwrap();
            file.sync_all().unwrap();
        });
        assert_eq!(recorded.total(0, Op::Write).bytes, 16 << 20);
        let merged = recorded.with(Flags::MERGED);
        assert!(!merged.is_empty());
        assert!(merged.iter().all(|r| r.length > 4096));
    }
}

/// A request that was merged at both ends has the bio that it was made for neither as its
/// first nor as its last; older kernels key it by that bio.
#[test]
fn requests_merged_at_both_ends_keep_their_arrival() {
    needs_real_disks!();
    let disk = LoopDisk::new(64);
    disk.set_queue("scheduler", "mq-deadline");
    let log = disk.file.with_file_name("order.log");
    let mut text = format!("fio version 2 iolog\n{0} add\n{0} open\n", disk.path);
    for base in (0..32).map(|i| i << 20) {
        for offset in [8192, 4096, 12288, 65536] {
            text += &format!("{} write {} 4096\n", disk.path, base + offset);
        }
    }
    text += &format!("{} close\n", disk.path);
    fs::write(&log, text).unwrap();
    for options in both_arrivals() {
        let recorded = record_all(&[&disk], &options, || {
            let log = format!("--read_iolog={}", log.display());
            let batches = ["--iodepth=16", "--iodepth_batch=4", "--output=/dev/null"];
            let args = ["--name=load", &log, "--replay_no_stall=1", "--direct=1"];
            disk::run("fio", &[&args[..], &["--ioengine=libaio"], &batches].concat());
        });
        let merged = recorded.with(Flags::MERGED);
        assert!(merged.iter().any(|r| r.length == 12288), "no merge at both ends: {merged:?}");
        assert!(merged.iter().all(|r| !r.flags.contains(Flags::ARRIVAL_IS_ISSUE)), "{merged:?}");
        assert_eq!(recorded.outcome.abandoned, 0);
    }
}

#[test]
fn flushes_are_counted_as_drive_commands() {
    needs_real_disks!();
    let disk = LoopDisk::new(16);
    for options in both_arrivals() {
        let recorded = record_all(&[&disk], &options, || {
            let file = disk.open_direct();
            let mut buffer = disk::aligned(4096);
            for i in 0..20 {
                file.write_all_at(disk::window(&mut buffer, 4096), i * 4096).unwrap();
                file.sync_all().unwrap();
            }
        });
        assert_eq!(recorded.total(0, Op::Flush), OpStat { requests: 20, bytes: 0 });
        assert_eq!(recorded.total(0, Op::Write), OpStat { requests: 20, bytes: 20 * 4096 });
        assert_eq!(recorded.outcome.empty_flushes, 20);
    }
}

#[test]
fn discards_are_recorded() {
    needs_real_disks!();
    let disk = LoopDisk::new(64);
    let recorded = record_all(&[&disk], &RecorderOptions::default(), || {
        disk::run("blkdiscard", &["--offset", "1048576", "--length", "8388608", &disk.path]);
    });
    let discards = recorded.total(0, Op::Discard);
    assert_eq!(discards.bytes, 8 << 20);
    assert!(recorded.records.iter().any(|r| r.op == Op::Discard && r.offset == 1 << 20));
}

#[test]
fn short_read_is_one_partial_and_requeued_request() {
    needs_real_disks!();
    let disk = LoopDisk::new(16);
    if !disk.is_direct() {
        return disk::skip(Feature::DirectIo, "needs direct I/O below loop devices");
    }
    // The loop driver completes a read that the file cannot fill in part, and
    // requeues the rest; recent kernels then fail it, older ones give zeros.
    OpenOptions::new().write(true).open(&disk.file).unwrap().set_len((8 << 20) + 4096).unwrap();
    for options in both_arrivals() {
        let failed = AtomicBool::new(false);
        let recorded = record_all(&[&disk], &options, || {
            let file = disk.open_direct();
            let mut buffer = disk::aligned(16384);
            let read = file.read_exact_at(disk::window(&mut buffer, 16384), 8 << 20);
            failed.store(read.is_err(), Ordering::Relaxed);
        });
        let parts = recorded.with(Flags::PARTIAL);
        assert_eq!(parts.len(), 1, "{:?}", recorded.records);
        assert_eq!((parts[0].offset, parts[0].length), (8 << 20, 16384));
        assert!(parts[0].flags.contains(Flags::REQUEUED));
        assert_eq!(parts[0].flags.contains(Flags::ERROR), failed.into_inner());
    }
}

#[test]
fn several_disks_are_distinguished() {
    needs_real_disks!();
    let (a, b) = (LoopDisk::new(16), LoopDisk::new(16));
    let unrecorded = LoopDisk::new(16);
    let recorded = record_all(&[&a, &b], &RecorderOptions::default(), || {
        let mut buffer = disk::aligned(8192);
        for (disk, bytes) in [(&a, 4096), (&b, 8192), (&unrecorded, 4096)] {
            disk.open_direct().write_all_at(disk::window(&mut buffer, bytes), 4096).unwrap();
        }
    });
    assert_eq!(recorded.total(0, Op::Write), OpStat { requests: 1, bytes: 4096 });
    assert_eq!(recorded.total(1, Op::Write), OpStat { requests: 1, bytes: 8192 });
}

/// A loop device that is attached again has the number of the previous one, but is another
/// device.
#[test]
fn new_device_with_the_same_number_is_not_recorded() {
    needs_real_disks!();
    for options in both_arrivals() {
        let mut disk = LoopDisk::new(16);
        let device = BlockDevice::find(&disk.path).unwrap();
        let mut recording = Recorder::load(&[device], &options).unwrap().start();
        let write = |disk: &LoopDisk, place| {
            let mut buffer = disk::aligned(4096);
            disk.open_direct().write_all_at(disk::window(&mut buffer, 4096), place).unwrap();
        };
        write(&disk, 4096);
        let mut records = Vec::new();
        recording.poll(&mut records).unwrap();
        if !disk.attach_anew() {
            return disk::skip(Feature::Quiet, "another process has taken the loop device");
        }
        write(&disk, 8192);
        let outcome = stop(recording, &mut records);
        let places: Vec<_> =
            records.iter().filter(|r| r.op == Op::Write).map(|r| r.offset).collect();
        assert_eq!(places, [4096], "{:?}", outcome.losses);
    }
}

#[test]
fn ring_overflow_is_counted() {
    needs_real_disks!();
    let disk = LoopDisk::new(16);
    let device = BlockDevice::find(&disk.path).unwrap();
    let options = RecorderOptions { ring_bytes: 4096, ..RecorderOptions::default() };
    let recording = Recorder::load(&[device], &options).unwrap().start();
    let file = disk.open_direct();
    let mut buffer = disk::aligned(4096);
    // Without polling: the ring holds 64 events, less a few kept free.
    for i in 0..500 {
        file.read_exact_at(disk::window(&mut buffer, 4096), i * 4096).unwrap();
    }
    let mut records = Vec::new();
    let outcome = stop(recording, &mut records);
    let losses = outcome.losses;
    assert_eq!(losses.ring_full + records.len() as u64, 500);
    assert!(losses.ring_full > 400);
}

#[test]
fn programs_are_unloaded() {
    needs_real_disks!();
    let disk = LoopDisk::new(16);
    let before = programs();
    let device = BlockDevice::find(&disk.path).unwrap();
    let recording = Recorder::load(&[device], &RecorderOptions::default()).unwrap().start();
    let ours: Vec<_> = programs().into_iter().filter(|id| !before.contains(id)).collect();
    assert!(ours.len() >= 5);
    drop(recording);
    // The kernel frees programs a little after the last reference is gone.
    for _ in 0..500 {
        let all = programs();
        if !ours.iter().any(|id| all.contains(id)) {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("the recorder's programs are still loaded");
}

/// The numbers of the recorder's programs in the kernel, of this process and of
/// others.
fn programs() -> Vec<u32> {
    libbpf_rs::query::ProgInfoIter::default()
        .filter(|p| p.name.to_str().is_some_and(|name| name.starts_with("on_")))
        .map(|p| p.id)
        .collect()
}
