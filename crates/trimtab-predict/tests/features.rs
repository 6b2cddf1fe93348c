//! The numbers that decisions are made from, held still: models that were trained
//! before a change must mean the same after it.

use trimtab_io::{Nanos, Op, Request};

use crate::digits::Watched;
use crate::history::Recorded;
use crate::testing::request;
use crate::units::UnitFunction;
use crate::{Event, Ticket, Watch, events, replay};

/// Reads, writes, flushes and discards of all sizes, some without an answer, on a
/// drive that now and then stalls.
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
fn features_are_what_they_were() {
    let functions = [
        UnitFunction::Page { shift: 13 },
        UnitFunction::Stripe { shift: 12, units: 6 },
        UnitFunction::Parity { masks: vec![0b101 << 12, 0b10 << 12, 1 << 14] },
    ];
    let recorded = mixed();
    // FNV-1a over all numbers.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    replay(&recorded, &mut Watch::new(&functions), |i, watch| {
        let request = &recorded[i].request;
        for number in watch.features(request.arrival, request) {
            for byte in number.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    });
    assert_eq!(hash, 0x7a3e_5616_5657_f160, "{hash:#x}");
}

/// LinnOS's digits from what our watch keeps are those from what LinnOS keeps.
#[test]
fn digits_are_the_same_from_either() {
    let recorded = mixed();
    let (mut linnos, mut watch) = (Watched::default(), Watch::new(&[]));
    let mut tickets = vec![(Ticket(0), Ticket(0)); recorded.len()];
    for event in events(&recorded) {
        match event {
            Event::Sent(i) => {
                let request = &recorded[i].request;
                assert_eq!(watch.state().digits(request), linnos.digits(request), "{i}");
                let now = request.arrival;
                tickets[i] = (watch.sent(now, request), linnos.sent(now, request));
            }
            Event::Completed(i) => {
                let Recorded { complete, data, .. } = recorded[i];
                watch.completed(complete, tickets[i].0, data);
                linnos.completed(complete, tickets[i].1, data);
            }
        }
    }
    assert_eq!((watch.state().requests, watch.state().pages), (0, 0));
}

/// A request is in the units of all its pieces, and whoever asks about one is told of the
/// busiest.
#[test]
fn a_request_meets_all_its_pieces_units() {
    let functions =
        [UnitFunction::Stripe { shift: 12, units: 6 }, UnitFunction::Page { shift: 16 }];
    let mut watch = Watch::new(&functions);
    let reads = |watch: &Watch| watch.units(0).iter().map(|unit| unit.reads).collect::<Vec<_>>();
    let long = watch.sent(Nanos(1), &request(Op::Read, 4 << 12, 3 << 12));
    let short = watch.sent(Nanos(2), &request(Op::Read, 5 << 12, 4096));
    assert_eq!(reads(&watch), [1, 0, 0, 0, 1, 2]);
    assert_eq!(watch.state().whole.reads, 2);
    let unit0 = |offset: u64, length: u64| {
        let features = watch.features(Nanos(3), &request(Op::Read, offset, length));
        let of = |name| crate::FEATURE_NAMES.iter().position(|&known| known == name).unwrap();
        features[of(("unit0.", "reads"))]
    };
    assert_eq!(
        [unit0(0, 4096), unit0(0, 8192), unit0(4 << 12, 8192), unit0(3 << 12, 1)],
        [1, 1, 2, 0]
    );
    let all = watch.sent(Nanos(4), &request(Op::Write, 0, 1 << 20));
    let writes = watch.units(0).iter().map(|unit| unit.writes).sum::<u32>();
    assert_eq!(writes as usize, crate::units::MOST_PIECES);
    for ticket in [long, all, short] {
        watch.completed(Nanos(5000), ticket, true);
    }
    for function in 0..functions.len() {
        let left =
            |unit: &crate::Unit| unit.reads + unit.read_pages + unit.writes + unit.write_pages;
        assert!(watch.units(function).iter().all(|unit| left(unit) == 0 && unit.sent == 0));
    }
}

/// What grows stays in the units that it was sent to.
#[test]
fn a_request_that_grows_keeps_its_pieces() {
    let mut watch = Watch::new(&[UnitFunction::Stripe { shift: 12, units: 6 }]);
    let pages =
        |watch: &Watch| watch.units(0).iter().map(|unit| unit.read_pages).collect::<Vec<_>>();
    let ticket = watch.sent(Nanos(1), &request(Op::Read, 0, 3 << 12));
    assert_eq!(pages(&watch), [3, 3, 3, 0, 0, 0]);
    watch.grown(Nanos(2), ticket, &request(Op::Read, 0, 5 << 12));
    assert_eq!(pages(&watch), [5, 5, 5, 0, 0, 0]);
    watch.completed(Nanos(2000), ticket, true);
    assert_eq!(pages(&watch), [0; 6]);
    let answered = |unit: &crate::Unit| (unit.service_ns, unit.last_done.0);
    assert_eq!(
        watch.units(0)[..4].iter().map(answered).collect::<Vec<_>>(),
        [(1999, 2000), (1999, 2000), (1999, 2000), (0, 0)]
    );
}

/// When all is answered nothing is in flight, whatever was merged meanwhile.
#[test]
fn a_request_that_grows_is_taken_back_whole() {
    let mut watch = Watch::new(&[UnitFunction::Page { shift: 13 }]);
    let small = |op| request(op, 8192, 4096);
    let large = |op| request(op, 8192, 16384);
    let read = watch.sent(Nanos(1), &small(Op::Read));
    let write = watch.sent(Nanos(2), &small(Op::Write));
    watch.grown(Nanos(3), read, &large(Op::Read));
    watch.grown(Nanos(3), write, &large(Op::Write));
    let state = watch.state();
    assert_eq!((state.pages, state.read_bytes, state.written), (8, 16384, 16384));
    let unit = watch.units(0).iter().find(|unit| unit.reads > 0).expect("one has it");
    assert_eq!((unit.read_pages, unit.write_pages), (4, 4));
    watch.completed(Nanos(4), read, true);
    watch.completed(Nanos(5), write, true);
    let state = watch.state();
    assert_eq!((state.pages, state.read_bytes, state.write_bytes), (0, 0, 0));
    assert!(watch.units(0).iter().all(|unit| unit.read_pages + unit.write_pages == 0));
    assert_eq!(state.history.map(|answer| answer.pages_then), [5, 4, 0, 0]);
}
