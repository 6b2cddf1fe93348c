//! The features and digits that models are trained on, pinned: a model that was trained before a
//! change must mean the same after it.

use trimtab_io::{Nanos, Op, Request};
use trimtab_predict::units::{MOST_PIECES, UnitFunction};
use trimtab_predict::{DriveTracker, FEATURE_NAMES, Recorded, Unit};
use trimtab_train::replay;

#[path = "../../trimtab-train/tests/recording/mod.rs"]
mod recording;
use recording::request;

/// Reads, writes, flushes and discards of all sizes, some without data, on a drive that stalls at
/// times.
fn mixed() -> Vec<Recorded> {
    let (mut now, mut stalled, mut state) = (0, 0, 11_u64);
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let one = |i: u64| {
        now += if random(500) == 0 { 9_000_000 } else { random(60_000) };
        if random(300) == 0 {
            stalled = now + 3_000_000;
        }
        let op = match random(20) {
            0..12 => Op::Read,
            12..18 => Op::Write,
            18 => Op::Discard,
            _ => Op::Flush,
        };
        let length = if op == Op::Flush { 0 } else { 512 * (1 + random(64)) };
        let request = Request { arrival: Nanos(now), ..request(op, random(1 << 24) << 9, length) };
        let complete = Nanos(stalled.max(now) + 30_000 + random(400_000));
        Recorded {
            request,
            complete,
            data: !i.is_multiple_of(37) && matches!(op, Op::Read | Op::Write),
        }
    };
    (0..30_000).map(one).collect()
}

#[test]
fn features_are_unchanged() {
    let functions = [
        UnitFunction::Page { shift: 13 },
        UnitFunction::Stripe { shift: 12, units: 6 },
        UnitFunction::Parity { masks: vec![0b101 << 12, 0b10 << 12, 1 << 14] },
    ];
    let recorded = mixed();
    // FNV-1a over all features.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    replay(&recorded, &mut DriveTracker::new(&functions), |i, tracker| {
        let request = &recorded[i].request;
        for feature in tracker.features(request.arrival, request) {
            for byte in feature.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    });
    assert_eq!(hash, 0x7a3e_5616_5657_f160, "{hash:#x}");
}

/// A request is in the units of all its pieces, and its features are of the busiest.
#[test]
fn request_is_in_the_units_of_all_its_pieces() {
    let functions =
        [UnitFunction::Stripe { shift: 12, units: 6 }, UnitFunction::Page { shift: 16 }];
    let mut tracker = DriveTracker::new(&functions);
    let reads =
        |tracker: &DriveTracker| tracker.units(0).iter().map(|unit| unit.reads).collect::<Vec<_>>();
    let long = tracker.sent(Nanos(1), &request(Op::Read, 4 << 12, 3 << 12));
    let short = tracker.sent(Nanos(2), &request(Op::Read, 5 << 12, 4096));
    assert_eq!(reads(&tracker), [1, 0, 0, 0, 1, 2]);
    assert_eq!(tracker.state().whole.reads, 2);
    let unit0 = |offset: u64, length: u64| {
        let features = tracker.features(Nanos(3), &request(Op::Read, offset, length));
        let of = |name| FEATURE_NAMES.iter().position(|&known| known == name).unwrap();
        features[of(("unit0.", "reads"))]
    };
    assert_eq!(
        [unit0(0, 4096), unit0(0, 8192), unit0(4 << 12, 8192), unit0(3 << 12, 1)],
        [1, 1, 2, 0]
    );
    let all = tracker.sent(Nanos(4), &request(Op::Write, 0, 1 << 20));
    let writes = tracker.units(0).iter().map(|unit| unit.writes).sum::<u32>();
    assert_eq!(writes as usize, MOST_PIECES);
    for ticket in [long, all, short] {
        tracker.completed(Nanos(5000), ticket, true);
    }
    for function in 0..functions.len() {
        let left = |unit: &Unit| unit.reads + unit.read_pages + unit.writes + unit.write_pages;
        assert!(tracker.units(function).iter().all(|unit| left(unit) == 0 && unit.sent == 0));
    }
}

/// A request that grows stays in the units that it was sent to.
#[test]
fn grown_request_keeps_its_pieces() {
    let mut tracker = DriveTracker::new(&[UnitFunction::Stripe { shift: 12, units: 6 }]);
    let pages = |tracker: &DriveTracker| {
        tracker.units(0).iter().map(|unit| unit.read_pages).collect::<Vec<_>>()
    };
    let ticket = tracker.sent(Nanos(1), &request(Op::Read, 0, 3 << 12));
    assert_eq!(pages(&tracker), [3, 3, 3, 0, 0, 0]);
    tracker.grown(Nanos(2), ticket, &request(Op::Read, 0, 5 << 12));
    assert_eq!(pages(&tracker), [5, 5, 5, 0, 0, 0]);
    tracker.completed(Nanos(2000), ticket, true);
    assert_eq!(pages(&tracker), [0; 6]);
    let completed = |unit: &Unit| (unit.service_ns, unit.last_done.0);
    assert_eq!(
        tracker.units(0)[..4].iter().map(completed).collect::<Vec<_>>(),
        [(1999, 2000), (1999, 2000), (1999, 2000), (0, 0)]
    );
}

/// After all completions nothing is in flight, whatever was merged meanwhile.
#[test]
fn grown_request_completes_whole() {
    let mut tracker = DriveTracker::new(&[UnitFunction::Page { shift: 13 }]);
    let small = |op| request(op, 8192, 4096);
    let large = |op| request(op, 8192, 16384);
    let read = tracker.sent(Nanos(1), &small(Op::Read));
    let write = tracker.sent(Nanos(2), &small(Op::Write));
    tracker.grown(Nanos(3), read, &large(Op::Read));
    tracker.grown(Nanos(3), write, &large(Op::Write));
    let state = tracker.state();
    assert_eq!((state.pages, state.read_bytes, state.written), (8, 16384, 16384));
    let unit = tracker.units(0).iter().find(|unit| unit.reads > 0).expect("one has it");
    assert_eq!((unit.read_pages, unit.write_pages), (4, 4));
    tracker.completed(Nanos(4), read, true);
    tracker.completed(Nanos(5), write, true);
    let state = tracker.state();
    assert_eq!((state.pages, state.read_bytes, state.write_bytes), (0, 0, 0));
    assert!(tracker.units(0).iter().all(|unit| unit.read_pages + unit.write_pages == 0));
    assert_eq!(state.history.map(|io| io.pages_then), [5, 4, 0, 0]);
}
