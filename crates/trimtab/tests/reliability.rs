//! A combined stress test: three drives under reads and writes, of which every byte is
//! verified, while drives stall, fail, slow down and are killed, and the state tracker is
//! killed too. No data may be lost or wrong, and nothing may be left behind.
//!
//! It takes half a minute. For the long form:
//!
//! ```text
//! TRIMTAB_RELIABILITY_S=600 cargo test --release --test reliability -- --nocapture
//! ```

#[path = "reliability/chaos.rs"]
mod chaos;
mod emulated;
#[path = "../../trimtab-read/tests/models/mod.rs"]
mod reading;
#[path = "reliability/store.rs"]
mod store;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use chaos::{EVENTS, World};
use emulated::{Bench, wait_until};
use libbpf_rs::query::ProgInfoIter;
use store::{DRIVES, Store};
use trimtab_predict::card_path;
use trimtab_testdisk as testdisk;

const WORKERS: u64 = 6;
/// Of one process, from its third second to its last sample.
const MOST_GROWTH: u64 = 48 << 20;

#[test]
fn no_data_is_lost_and_nothing_left_behind() {
    if !testdisk::requires(testdisk::REAL_DISKS) {
        return;
    }
    testdisk::with_bpf_files(0o755, run);
}

/// The test; `files` is a BPF file system.
fn run(files: &Path) {
    let Some(bench) = Bench::new(&[]) else { return };
    let seconds = std::env::var("TRIMTAB_RELIABILITY_S").ok();
    let seconds: u64 = seconds.map_or(25, |text| text.parse().expect("a number of seconds"));
    let programs_before = programs();
    let path = bench.path("model.safetensors");
    let model = reading::patient_model();
    let (tensors, card) = model.to_files().unwrap();
    fs::write(&path, tensors).unwrap();
    fs::write(card_path(&path), card).unwrap();
    let mut world = World::new(&bench, files, model, path);
    let store = Store::new([0, 1, 2].map(|drive| world.open(drive)));
    let (grown, events) = torment(&mut world, &store, Duration::from_secs(seconds));
    store.repair_and_verify();
    // All drives have recovered: none is refused permanently.
    for drive in 0..DRIVES {
        let reads = store.urgent_reads(drive, 400);
        assert!(reads > 200, "drive {drive} served {reads} of 400");
    }
    let done = &store.done;
    let most = grown.iter().max_by_key(|(_, bytes)| *bytes);
    testdisk::note(&format!("{events} events in {seconds} s, {done:?}, most growth {most:?}"));
    let figures = store.figures();
    assert!(done.refused.load(Relaxed) > 0, "nothing was ever refused: {figures:#?}");
    assert!(done.errors.load(Relaxed) > 0, "nothing ever failed: {done:?}");
    assert!(done.repaired.load(Relaxed) > 0, "nothing was ever stale: {done:?}");
    for (pid, bytes) in grown {
        assert!(bytes < MOST_GROWTH, "process {pid} has grown by {bytes} bytes");
    }
    drop(store);
    assert!(world.errors() > 0, "no fault ever gave an error");
    world.end();
    // Other tests may run at the same time.
    wait_until("programs are unloaded", || {
        programs().iter().all(|program| programs_before.contains(program))
    });
}

/// Runs the load and the events. Returns the growth of each process, and the number of events.
fn torment(world: &mut World<'_>, store: &Store, time: Duration) -> (Vec<(u32, u64)>, usize) {
    let begun = Instant::now();
    let mut memory = Memory::default();
    let mut events = 0;
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..WORKERS).map(|seed| scope.spawn(move || store.work(seed, begun + time))).collect();
        // Each event at least once.
        while begun.elapsed() < time || events < EVENTS.len() {
            // Each round starts with another drive.
            let drive = (events + events / EVENTS.len()) % DRIVES;
            world.happen(EVENTS[events % EVENTS.len()], drive, store);
            events += 1;
            memory.look(&world.memory());
            assert!(workers.iter().all(|worker| !worker.is_finished()) || begun.elapsed() >= time);
        }
    });
    (memory.grown(), events)
}

/// Memory growth of processes, some of which are soon killed.
#[derive(Default)]
struct Memory {
    /// By process: number of samples, memory when warm, and now.
    seen: BTreeMap<u32, (u32, u64, u64)>,
}

impl Memory {
    /// Samples until a process has allocated its working memory.
    const WARM: u32 = 3;

    fn look(&mut self, processes: &[(u32, u64)]) {
        for &(pid, bytes) in processes {
            let (looks, warm, now) = self.seen.entry(pid).or_default();
            *looks += 1;
            if *looks <= Self::WARM {
                *warm = bytes;
            }
            *now = bytes;
        }
    }

    fn grown(&self) -> Vec<(u32, u64)> {
        let grown =
            |(&pid, &(_, warm, now)): (&u32, &(u32, u64, u64))| (pid, now.saturating_sub(warm));
        self.seen.iter().map(grown).collect()
    }
}

/// Identities of all BPF programs of the machine.
fn programs() -> Vec<u32> {
    ProgInfoIter::default().map(|program| program.id).collect()
}
