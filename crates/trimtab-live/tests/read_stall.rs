//! A drive that stalls is refused, and one that has recovered is read from again.

use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use trimtab_device::Profile;
use trimtab_io::Nanos;
use trimtab_live::drive::{
    Data, Drive, Effect, Error, Fault, Fill, Home, RUN_VARIABLE, Server, Spec,
};
use trimtab_live::read::{Options, ReadError, Reader, Source, Urgency};
use trimtab_live::record::BlockDevice;
use trimtab_live::state::{self, Keeper, Options as Keeping};
use trimtab_predict::Recorded;
use trimtab_testdisk as disk;

mod reading;
use reading::{learnt_from, recorded};

/// A small drive.
const PROFILE: &str = r#"
name = "small"
[geometry]
channels = 2
chips_per_channel = 2
blocks_per_plane = 256
pages_per_block = 32
page_bytes = 4096
over_provisioning = 0.15
[timing]
read_us = 40
program_us = 60
erase_us = 200
channel_mb_s = 800
"#;

const MIB: u64 = 1 << 20;
/// So many, because those that read when a stall begins are stuck until it ends.
const THREADS: u64 = 96;
/// Between two reads of a thread: longer than it takes to notice a stall, so that most
/// of them are not reading then.
const PAUSE: Duration = Duration::from_millis(150);
/// Later than this is late. What is late must not be confused with what a busy machine
/// does to any read.
const LATE: Nanos = Nanos::from_millis(100);
/// What the drive holds.
const PAGES: u64 = 8 * MIB / 4096;
/// From the end of the stall on reads are to be back within this.
const BACK: Duration = Duration::from_millis(100);
/// The machine may be busy with other things just then: the best of so many rounds
/// counts.
const ROUNDS: usize = 10;

/// An emulated drive, gone when dropped.
struct Emulated {
    drive: Drive,
    path: String,
    server: Option<thread::JoinHandle<Result<(), Error>>>,
    _run: tempfile::TempDir,
}

impl Emulated {
    fn new() -> Self {
        let run = tempfile::tempdir().unwrap();
        // SAFETY: the only test of this file has begun no other thread yet.
        unsafe { std::env::set_var(RUN_VARIABLE, run.path()) };
        let home = Home::from_environment();
        let spec = Spec {
            fill: Fill { share: 0.0, overwrites: 0.0 },
            data: Data::Memory { cap_bytes: 64 * MIB },
            block_bytes: 4096,
            ..Spec::new("stalls", Profile::parse(PROFILE).unwrap().with_capacity(64 * MIB).unwrap())
        };
        let server = Server::start(&home, spec, &mut |_| ControlFlow::Continue(())).unwrap();
        let path = server.device().to_str().unwrap().to_owned();
        let server = Some(thread::spawn(|| server.serve(&AtomicBool::new(false))));
        Self { drive: Drive::find(&home, "stalls").unwrap(), path, server, _run: run }
    }

    fn stall(&self) {
        let fault = Fault { effect: Effect::Stall, at_s: 0.0, for_s: 3600.0 };
        self.drive.fault(fault).unwrap();
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        // Who waits for the drive goes on, also where a test has failed.
        _ = self.drive.clear_faults();
        _ = self.drive.remove(true);
        _ = self.server.take().map(thread::JoinHandle::join);
    }
}

/// A recording of such a drive that never was: so many reads as the test makes, fast ones
/// among which a busy machine makes some slower, and every two seconds a stall of half a
/// second, after which all are answered that came in it.
fn invented() -> Vec<Recorded> {
    const MS: u64 = 1_000_000;
    let gap = u64::try_from(PAUSE.as_nanos()).unwrap() / THREADS;
    let read = |i: u64| {
        let random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let arrival = gap * i + random % gap;
        let into = arrival % (2000 * MS);
        let stalled = if into > 1500 * MS { 2000 * MS - into } else { 0 };
        let busy = if random.is_multiple_of(8) { random % (40 * MS) } else { 0 };
        let complete = arrival + stalled + busy + MS / 10;
        recorded(Nanos(arrival), page_of(i % THREADS, i / THREADS) << 12, Nanos(complete))
    };
    (0..16_000).map(read).collect()
}

/// Which page a thread reads, one after the other.
const fn page_of(thread: u64, i: u64) -> u64 {
    (i * THREADS + thread) * 7919 % PAGES
}

/// Threads that read, and check what they read.
#[derive(Default)]
struct Load {
    over: AtomicBool,
    /// When the drive was healed last.
    healed: AtomicU64,
    /// Reads that brought their data, of all threads: those that were begun after that,
    /// not those that were stuck until then.
    read: AtomicU64,
    refused: AtomicU64,
}

impl Load {
    fn run(&self, reader: &Reader, thread: u64) {
        let mut buffer = disk::aligned(4096);
        let page = disk::window(&mut buffer, 4096);
        // Not all at once.
        thread::sleep(PAUSE * thread as u32 / THREADS as u32);
        for i in 0.. {
            if self.over.load(Relaxed) {
                return;
            }
            let (number, begun) = (page_of(thread, i), state::now());
            match reader.read_exact_at(page, number << 12, Urgency::LatencyCritical) {
                Ok(()) => {
                    assert_eq!(page, [number as u8; 4096]);
                    let is_new = begun.0 >= self.healed.load(Relaxed);
                    self.read.fetch_add(is_new.into(), Relaxed);
                }
                Err(ReadError::Refused(_)) => _ = self.refused.fetch_add(1, Relaxed),
                Err(ReadError::Io(e)) => panic!("{e}"),
            }
            thread::sleep(PAUSE);
        }
    }

    /// How long it takes until, for twenty milliseconds, more is read than refused. None
    /// if that is not so within ten seconds.
    fn until_read_again(&self) -> Option<Duration> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            let before = [&self.read, &self.refused].map(|count| count.load(Relaxed));
            let at = begun.elapsed();
            thread::sleep(Duration::from_millis(20));
            let after = [&self.read, &self.refused].map(|count| count.load(Relaxed));
            if after[0] - before[0] > (after[1] - before[1]).max(3) {
                return Some(at);
            }
        }
        None
    }
}

/// Fills the part of the drive that is read.
fn fill(path: &str) {
    let mut content = disk::aligned(PAGES as usize * 4096);
    let content = disk::window(&mut content, PAGES as usize * 4096);
    for (number, page) in content.chunks_mut(4096).enumerate() {
        page.fill(number as u8);
    }
    let device = std::fs::File::options().write(true).open(path).unwrap();
    device.write_all_at(content, 0).unwrap();
    device.sync_all().unwrap();
}

#[test]
fn a_drive_that_stalls_is_refused_and_used_again_when_it_is_back() {
    let missing = disk::missing()
        .or_else(|| (!Path::new("/dev/fuse").exists()).then(|| "needs FUSE".to_owned()));
    if let Some(why) = missing {
        disk::say(&format!("skipped the test of a stalled drive: {why}"));
        return;
    }
    let emulated = Emulated::new();
    fill(&emulated.path);
    let model = learnt_from(&invented(), LATE);
    let functions = vec![model.trained.functions().to_vec()];
    let device = BlockDevice::find(&emulated.path).unwrap();
    let keeping = Keeping { functions, ..Keeping::default() };
    let keeper = Keeper::load(&[device], &keeping).unwrap();
    let options = Options {
        direct: true,
        source: Source::Given(keeper.drive(0).unwrap()),
        publish: None,
        ..Options::with_model(model)
    };
    let reader = Reader::open(&emulated.path, &options).unwrap();
    let load = Load::default();
    let rounds = thread::scope(|scope| {
        for thread in 0..THREADS {
            let (reader, load) = (&reader, &load);
            scope.spawn(move || load.run(reader, thread));
        }
        let rounds = stall_and_heal(&emulated, &load);
        load.over.store(true, Relaxed);
        // Whatever came of it, nobody is left waiting.
        _ = emulated.drive.clear_faults();
        rounds
    });
    let figures = reader.figures();
    disk::say(&format!("back after {rounds:?}; {figures:?}"));
    assert!(figures.probed > 0 && figures.refused > 100, "{figures:?}");
    let best = rounds.into_iter().flatten().min();
    assert!(best.is_some_and(|best| best <= BACK), "{best:?}");
}

/// Has the drive stall until most reads are refused, and heals it, until once it is back
/// in time. How long each round took.
fn stall_and_heal(emulated: &Emulated, load: &Load) -> Vec<Option<Duration>> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        thread::sleep(Duration::from_millis(200));
        let refused = load.refused.load(Relaxed);
        emulated.stall();
        let begun = Instant::now();
        while load.refused.load(Relaxed) < refused + 100 && begun.elapsed().as_secs() < 10 {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(300));
        emulated.drive.clear_faults().unwrap();
        load.healed.store(state::now().0, Relaxed);
        rounds.push(load.until_read_again());
        if rounds.last().is_some_and(|round| round.is_some_and(|round| round <= BACK)) {
            break;
        }
    }
    rounds
}
