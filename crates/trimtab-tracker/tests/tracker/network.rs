//! The network in the kernel decides exactly as in user space.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::harness::state_of;
use rand::{RngExt as _, SeedableRng as _};
use trimtab_block::BlockDevice;
use trimtab_io::monotonic;
use trimtab_io::{DeviceId, Flags, Issuer, Nanos, Op, Request, RequestId};
use trimtab_learn::Simd;
use trimtab_learn::integer::LinnOs;
use trimtab_predict::{DIGITS, DriveState, HeuristicLimits, Trained, Verdict};
use trimtab_state::{LiveDrive, SizeClass};
use trimtab_testdisk::{self as disk, LoopDisk};
use trimtab_tracker::{StateTracker, TrackerOptions};

const GOLDEN: &str = include_str!("../../../trimtab-learn/golden/integer-network.json");

/// Skips a test, with a note, if the machine lacks something.
macro_rules! needs_real_disks {
    () => {
        if !disk::requires(disk::REAL_DISKS) {
            return;
        }
    };
}

fn keep(disk: &LoopDisk, network: &LinnOs) -> StateTracker {
    let options = TrackerOptions { in_kernel: true, log_bits: 10, ..TrackerOptions::default() };
    let tracker = StateTracker::load(&[BlockDevice::find(&disk.path).unwrap()], &options).unwrap();
    tracker.set_network(0, Some(&trained(network))).unwrap();
    tracker
}

fn trained(network: &LinnOs) -> Trained {
    Trained::Linnos(Arc::new(network.clone()))
}

/// A network of these weights and biases, one after the other: see docs/integer-network.md.
fn network(
    mut weight: impl FnMut() -> i16,
    mut bias: impl FnMut() -> i32,
    mut output: impl FnMut() -> i64,
) -> LinnOs {
    let first: Vec<i16> = (0..DIGITS * 256).map(|_| weight()).collect();
    let first_bias: Vec<i32> = (0..256).map(|_| bias()).collect();
    let second: Vec<i16> = (0..512).map(|_| weight()).collect();
    LinnOs::new(&first, &first_bias, &second, [output(), output()]).unwrap()
}

/// The first layer's sums without the queue's digits, computed directly.
fn sums(network: &LinnOs, digits: &[u8; DIGITS]) -> [i32; 256] {
    std::array::from_fn(|neuron| {
        let weighted = |i: usize| i32::from(digits[i]) * i32::from(network.first_weight(i, neuron));
        network.first_bias()[neuron] + (3..DIGITS).map(weighted).sum::<i32>()
    })
}

/// Asserts that the kernel's sums and margins equal those of user space, for these digits and
/// for the same with another queue.
fn assert_alike(tracker: &StateTracker, network: &LinnOs, digits: &[u8; DIGITS], other: [u8; 3]) {
    let until = Instant::now() + Duration::from_secs(10);
    let (margins, found) = loop {
        // It may be deciding at the moment.
        match tracker.query_network(0, digits, other) {
            Some(answer) => break answer,
            None => assert!(Instant::now() < until, "the network is always at work"),
        }
    };
    let mut others = *digits;
    others[..3].copy_from_slice(&other);
    let margin = |digits| network.margin(Simd::SCALAR, digits);
    assert_eq!(margins, [margin(digits), margin(&others)], "{digits:?}");
    assert_eq!(found, sums(network, digits), "{digits:?}");
}

#[test]
fn output_equals_golden_vectors() {
    needs_real_disks!();
    let golden: serde_json::Value = serde_json::from_str(GOLDEN).unwrap();
    let state = std::cell::Cell::new(golden["seed"].as_u64().unwrap());
    let signed = |limit: i64| {
        let next = state.get().wrapping_mul(6_364_136_223_846_793_005);
        state.set(next.wrapping_add(1_442_695_040_888_963_407));
        ((state.get() >> 33) % (2 * limit as u64 + 1)) as i64 - limit
    };
    let network = network(
        || signed(32_767) as i16,
        || signed(1_000_000) as i32,
        || signed(1_000_000_000_000),
    );
    let disk = LoopDisk::new(16);
    let tracker = keep(&disk, &network);
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 64);
    for case in cases {
        let text = case["inputs"].as_str().unwrap().as_bytes();
        let digits: [u8; DIGITS] = std::array::from_fn(|i| text[i] - b'0');
        assert_alike(&tracker, &network, &digits, [9, 0, 1]);
        // User space gives the same.
        let logit = |i: usize| case["logits"][i].as_i64().unwrap();
        assert_eq!(network.margin(Simd::SCALAR, &digits), logit(1) - logit(0), "{digits:?}");
    }
}

/// Weights and biases as large as a model may have, and random ones; digits that change one by
/// one, and all at once.
#[test]
fn output_equals_user_space_at_extreme_weights() {
    needs_real_disks!();
    let disk = LoopDisk::new(16);
    const ALL: i32 = i32::MAX - 255 * 31 * 32_767;
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(5);
    let mut flip = rand_pcg::Pcg64Mcg::seed_from_u64(6);
    let networks = [
        network(|| i16::MAX, || ALL, || 1 << 61),
        network(|| -i16::MAX, || -ALL, || -(1 << 61)),
        network(
            || if flip.random() { i16::MAX } else { -i16::MAX },
            || if random.random() { ALL } else { -ALL },
            || 0,
        ),
        network(
            || flip.random_range(-i16::MAX..=i16::MAX),
            || random.random_range(-ALL..=ALL),
            || 7,
        ),
        network(|| flip.random_range(-900..900), || random.random_range(-90_000..90_000), || 0),
    ];
    let tracker = keep(&disk, &networks[0]);
    for network in &networks {
        tracker.set_network(0, Some(&trained(network))).unwrap();
        assert_alike(&tracker, network, &[0; DIGITS], [9; 3]);
        assert_alike(&tracker, network, &[9; DIGITS], [0; 3]);
        let mut digits = [0; DIGITS];
        for turn in 0..400 {
            if turn % 2 == 0 {
                digits = random.random();
                digits.iter_mut().for_each(|digit| *digit %= 10);
            } else {
                digits[random.random_range(0..DIGITS)] = random.random_range(0..10);
            }
            let other: [u8; 3] = random.random();
            assert_alike(&tracker, network, &digits, other.map(|digit| digit % 10));
        }
    }
}

fn read(length: u64) -> Request {
    Request {
        id: RequestId(0),
        device: DeviceId(0),
        arrival: Nanos::ZERO,
        op: Op::Read,
        offset: 0,
        length,
        flags: Flags::empty(),
        deadline: None,
        issuer: Issuer::default(),
    }
}

/// User space's margins at this state, for both classes.
fn margins(network: &LinnOs, drive: &DriveState) -> [i64; 2] {
    SizeClass::ALL.map(|class| network.margin(Simd::SCALAR, &drive.digits(&read(class.length()))))
}

/// A network that predicts about half of the reads of this drive late.
fn balanced(disk: &LoopDisk) -> LinnOs {
    let build = |bias: [i64; 2]| {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(7);
        let mut biases = rand_pcg::Pcg64Mcg::seed_from_u64(8);
        let mut bias = bias.into_iter();
        network(
            || random.random_range(-900..900),
            || biases.random_range(-9_000..9_000),
            || bias.next().unwrap(),
        )
    };
    let first = build([0; 2]);
    let tracker = keep(disk, &first);
    let drive = tracker.drive(0).unwrap();
    let mut seen: Vec<i64> = Vec::new();
    thread::scope(|scope| {
        let load = scope.spawn(|| load(disk));
        while !load.is_finished() {
            seen.push(margins(&first, &state_of(&drive))[0]);
            thread::sleep(Duration::from_millis(1));
        }
    });
    seen.sort_unstable();
    build([seen[seen.len() / 2], 0])
}

fn load(disk: &LoopDisk) {
    let file = format!("--filename={}", disk.path);
    let what = ["--name=load", &file, "--rw=randrw", "--bsrange=4k-128k", "--direct=1"];
    let how = ["--ioengine=libaio", "--iodepth=16", "--rate_iops=3000,1000", "--time_based"];
    disk::run("fio", &[&what[..], &how, &["--runtime=2", "--output=/dev/null"]].concat());
}

/// The present verdicts and their state; there must be some soon.
fn decided(drive: &LiveDrive) -> (DriveState, [Verdict; 2]) {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(decided) = drive.decided() {
            return decided;
        }
        assert!(Instant::now() < until, "never decided");
    }
}

#[test]
fn published_verdicts_equal_user_space() {
    needs_real_disks!();
    let disk = LoopDisk::new(64);
    let network = balanced(&disk);
    let tracker = keep(&disk, &network);
    let drive = tracker.drive(0).unwrap();
    let over = AtomicBool::new(false);
    let mut kinds = [0; 2];
    let mut busy = 0;
    let mut compare = || {
        let (state, verdicts) = decided(&drive);
        let expected = margins(&network, &state);
        let late = verdicts.map(|verdict| verdict == Verdict::Late);
        assert_eq!(late, expected.map(|margin| margin > 0), "{state:?}");
        late.into_iter().for_each(|late| kinds[usize::from(late)] += 1);
        busy += u32::from(state.requests > 0);
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            load(&disk);
            over.store(true, Ordering::Relaxed);
        });
        while !over.load(Ordering::Relaxed) {
            compare();
            thread::sleep(Duration::from_micros(200));
        }
    });
    // At rest the verdicts are of the last state.
    compare();
    disk::note(&format!("{kinds:?} verdicts fast and late, {busy} states while busy"));
    assert!(kinds[0] > 10 && kinds[1] > 10 && busy > 10, "{kinds:?} {busy}");
    assert!(drive.is_fresh(monotonic()));
    for class in SizeClass::ALL {
        assert_eq!(drive.verdict(class), Some(decided(&drive).1[class as usize]));
    }
}

#[test]
fn verdict_needs_a_network() {
    needs_real_disks!();
    let disk = LoopDisk::new(16);
    let network = network(|| 1, || 1, || 1);
    let tracker = keep(&disk, &network);
    let drive = tracker.drive(0).unwrap();
    assert!(drive.verdict(SizeClass::Small).is_some());
    tracker.set_network(0, None).unwrap();
    assert_eq!(drive.verdict(SizeClass::Small), None);
    tracker.set_network(0, Some(&trained(&network))).unwrap();
    assert!(drive.verdict(SizeClass::Large).is_some());
    drop(tracker);
    assert_eq!(SizeClass::ALL.map(|class| drive.verdict(class)), [None; 2]);
}

#[test]
fn unsupported_models_are_refused() {
    needs_real_disks!();
    let disk = LoopDisk::new(16);
    let network = network(|| 1, || 1, || 1);
    let device = BlockDevice::find(&disk.path).unwrap();
    let tracker =
        StateTracker::load(std::slice::from_ref(&device), &TrackerOptions::default()).unwrap();
    let said = tracker.set_network(0, Some(&trained(&network))).unwrap_err();
    assert!(said.to_string().contains("was not asked for"), "{said}");
    assert_eq!(tracker.drive(0).unwrap().verdict(SizeClass::Small), None);

    let other = Trained::HeurSim(HeuristicLimits { slow: Nanos(1), high: 3, median: 2, low: 1 });
    let said = tracker.set_network(0, Some(&other)).unwrap_err();
    assert!(said.is_bad_input());
    assert!(said.to_string().contains("this is of `heur-sim`"), "{said}");
}
