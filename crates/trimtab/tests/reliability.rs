//! Everything at once, for a while: three drives under reads and writes, of which every
//! byte is verified, while drives stall, fail, slow down and are killed, and whoever
//! keeps their state is killed too. Nothing may be lost, nothing wrong may be returned,
//! and nothing may be left behind.
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
/// Of one process, from its third second to when it was last seen.
const MOST_GROWTH: u64 = 48 << 20;

#[test]
fn nothing_is_lost_and_nothing_is_left_behind() {
    if let Some(why) = testdisk::missing() {
        testdisk::note(&format!("skipped the test of reliability: {why}"));
        return;
    }
    testdisk::with_bpf_files(0o755, run);
}

/// The test, where `files` is a BPF file system.
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
    // All have recovered: none is refused for good.
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
    // Other tests may run beside this one.
    wait_until("programs are unloaded", || {
        programs().iter().all(|program| programs_before.contains(program))
    });
}

/// Works, and lets things happen meanwhile; how much each process has grown, and how
/// many things have happened.
fn torment(world: &mut World<'_>, store: &Store, time: Duration) -> (Vec<(u32, u64)>, usize) {
    let begun = Instant::now();
    let mut memory = Memory::default();
    let mut events = 0;
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..WORKERS).map(|seed| scope.spawn(move || store.work(seed, begun + time))).collect();
        // At least each of them once.
        while begun.elapsed() < time || events < EVENTS.len() {
            // After each round another drive is first.
            let drive = (events + events / EVENTS.len()) % DRIVES;
            world.happen(EVENTS[events % EVENTS.len()], drive, store);
            events += 1;
            memory.look(&world.memory());
            assert!(workers.iter().all(|worker| !worker.is_finished()) || begun.elapsed() >= time);
        }
    });
    (memory.grown(), events)
}

/// How processes grow: some live long, some are soon killed.
#[derive(Default)]
struct Memory {
    /// By process: looks at it, its memory when it was warm, and now.
    seen: BTreeMap<u32, (u32, u64, u64)>,
}

impl Memory {
    /// Looks until a process has all that it needs.
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
