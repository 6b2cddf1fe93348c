//! What holds for arrays with a write buffer: the same as for those without, whatever is staged,
//! destaged or waits for room; and in the end all is on the members.

use crate::checks::{check, check_concurrent, layouts, policy, requests};
use crate::members::Array;
use proptest::prelude::*;
use trimtab_array::policy::Turns;
use trimtab_array::staging::{Destaging, Staging, StagingAction, StagingOptions};
use trimtab_array::{Layout, Member};
use trimtab_io::{DeviceId, Nanos, Op, Outcome, Request, RequestId};

/// Buffers that hold one write or many, and destage at once or in turns.
fn options() -> impl Strategy<Value = (u64, u64, Option<u64>)> {
    let capacity = prop_oneof![1_u64..20_000, 20_000_u64..200_000];
    (capacity, 0_u64..2_000, prop::option::of(500_u64..20_000))
}

fn buffer(layout: &Layout, (capacity, latency, turn): (u64, u64, Option<u64>)) -> StagingOptions {
    let members = layout.members() as u8;
    let turns = |length| Turns { start: Nanos(0), length: Nanos(length), members };
    let in_turns = |length| Destaging::InTurns(turns(length));
    let destaging = turn.map_or(Destaging::AtOnce, in_turns);
    StagingOptions { capacity, latency: Nanos(latency), destaging }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn reads_return_what_was_written(
        layout in layouts(),
        policy in 0_usize..11,
        options in options(),
        requests in requests(),
        seed: u64,
    ) {
        let array = Array::new(layout, self::policy(policy, &layout), seed);
        let array = array.with_nvram(buffer(&layout, options));
        check(array, &requests, 0, false)?;
    }

    /// Members that break with data staged for them are gone around, as far as the level can lose
    /// them.
    #[test]
    fn members_that_do_not_take_destages_are_gone_around(
        layout in layouts(),
        policy in 0_usize..11,
        options in options(),
        requests in requests(),
        seed: u64,
        lost in 1_usize..3,
    ) {
        let array = Array::new(layout, self::policy(policy, &layout), seed);
        let array = array.with_nvram(buffer(&layout, options));
        check(array, &requests, lost, seed.is_multiple_of(2))?;
    }

    #[test]
    fn concurrent_requests_do_not_mix_old_and_new(
        layout in layouts(),
        policy in 0_usize..11,
        options in options(),
        requests in requests(),
        seed: u64,
    ) {
        let array = Array::new(layout, self::policy(policy, &layout), seed);
        check_concurrent(array.with_nvram(buffer(&layout, options)), &requests)?;
    }
}

const M: Member = Member(0);
const LATENCY: Nanos = Nanos(10);

fn staging(capacity: u64, destaging: Destaging) -> Staging {
    Staging::new(2, StagingOptions { capacity, latency: LATENCY, destaging })
}

fn request(now: u64, op: Op, offset: u64, length: u64) -> Request {
    Request::new(RequestId(0), DeviceId(0), Nanos(now), op, offset, length)
}

/// What it does: numbers of answered requests, and requests to drives with their tickets.
fn actions(staging: &mut Staging) -> (Vec<u32>, Vec<(u32, Request)>) {
    let (mut answered, mut sent) = (Vec::new(), Vec::new());
    while let Some(action) = staging.next_action() {
        match action {
            StagingAction::Answer { slot, outcome: Outcome::Done, .. } => answered.push(slot),
            StagingAction::Send(_, ticket, request) => sent.push((ticket, request)),
            _ => {}
        }
    }
    (answered, sent)
}

#[test]
fn writes_are_acknowledged_and_read_after_the_latency() {
    let mut staging = staging(8192, Destaging::AtOnce);
    for (slot, op) in [(1, Op::Write), (2, Op::Read)] {
        staging.submit(Nanos(100), M, slot, &request(100, op, 0, 4096));
        assert!(actions(&mut staging).0.is_empty());
    }
    assert_eq!(staging.next_event(), Nanos(110));
    staging.advance(Nanos(110));
    assert_eq!(actions(&mut staging), (vec![1, 2], vec![]));
    assert_eq!(staging.counts().read_hits, 1);
    // Half of it is staged: the drive is asked, and the stage has the rest.
    staging.submit(Nanos(120), M, 3, &request(120, Op::Read, 2048, 4096));
    let (_, sent) = actions(&mut staging);
    assert_eq!(staging.pieces(sent[0].0)[0].length, 2048);
}

#[test]
fn full_buffer_lets_writes_wait_in_order() {
    let mut staging = staging(8192, Destaging::AtOnce);
    for (slot, offset, length) in [(0, 0, 8192), (1, 8192, 4096), (2, 0, 512)] {
        staging.submit(Nanos(0), M, slot, &request(0, Op::Write, offset, length));
    }
    assert!(staging.destage(Nanos(0), M));
    let (ticket, destage) = actions(&mut staging).1[0];
    assert_eq!((destage.offset, destage.length), (0, 8192));
    staging.advance(Nanos(1000));
    assert_eq!(actions(&mut staging).0, [0]);
    staging.ended(Nanos(1000), ticket, Outcome::Done);
    staging.advance(Nanos(1010));
    assert_eq!(actions(&mut staging).0, [1, 2]);
    let counts = staging.counts();
    assert_eq!((counts.stalled, counts.stalled_time), (2, Nanos(2000)));
    assert_eq!((counts.high_water, staging.used()), (8192, 4608));
    // Longer than the whole buffer: when it is empty.
    staging.submit(Nanos(1020), M, 3, &request(1020, Op::Write, 1 << 20, 16384));
    while staging.destage(Nanos(1020), M) {}
    for (ticket, _) in actions(&mut staging).1 {
        staging.ended(Nanos(1020), ticket, Outcome::Done);
    }
    staging.advance(Nanos(1030));
    assert_eq!((actions(&mut staging).0, staging.used()), (vec![3], 16384));
}

#[test]
fn adjacent_writes_are_destaged_together_and_overwritten_ones_not_at_all() {
    let mut staging = staging(1 << 20, Destaging::AtOnce);
    for offset in [4096, 0, 8192, 0] {
        staging.submit(Nanos(0), M, 0, &request(0, Op::Write, offset, 4096));
    }
    assert_eq!((staging.used(), staging.counts().coalesced), (12288, 4096));
    assert!(staging.destage(Nanos(0), M) && !staging.destage(Nanos(0), M));
    let (ticket, destage) = actions(&mut staging).1[0];
    assert_eq!((destage.offset, destage.length), (0, 12288));
    // Overwritten while it is in flight: that waits, and stays.
    staging.submit(Nanos(0), M, 1, &request(0, Op::Write, 4096, 512));
    assert!(!staging.destage(Nanos(0), M), "it would overtake");
    staging.ended(Nanos(0), ticket, Outcome::Done);
    assert_eq!(staging.used(), 512);
    assert!(staging.destage(Nanos(0), M));
    assert_eq!(actions(&mut staging).1.last().unwrap().1.length, 512);
}

#[test]
fn members_are_written_to_in_their_turns() {
    let turns = Turns { start: Nanos(0), length: Nanos(1000), members: 2 };
    let mut staging = staging(1 << 20, Destaging::InTurns(turns));
    staging.submit(Nanos(0), Member(1), 0, &request(0, Op::Write, 0, 4096));
    staging.advance(Nanos(10));
    assert_eq!((staging.destage(Nanos(10), Member(1)), staging.next_event()), (false, Nanos(1000)));
    assert!(staging.destage(Nanos(1000), Member(1)));
    let (ticket, _) = actions(&mut staging).1[0];
    staging.ended(Nanos(1500), ticket, Outcome::Done);
    assert_eq!((staging.is_empty(), staging.next_event()), (true, Nanos::MAX));
    staging.submit(Nanos(2500), Member(1), 0, &request(2500, Op::Write, 0, 4096));
    assert!(!staging.destage(Nanos(2500), Member(1)), "its turn is over");
    staging.set_destaging(Destaging::AtOnce);
    assert!(staging.destage(Nanos(2500), Member(1)));
}

/// A discard does nothing to what is staged, and no destage overtakes one.
#[test]
fn discards_keep_their_place() {
    let mut staging = staging(1 << 20, Destaging::AtOnce);
    staging.submit(Nanos(0), M, 0, &request(0, Op::Discard, 0, 8192));
    let (discard, _) = actions(&mut staging).1[0];
    staging.submit(Nanos(0), M, 1, &request(0, Op::Write, 4096, 4096));
    assert!(!staging.destage(Nanos(0), M));
    staging.submit(Nanos(0), M, 2, &request(0, Op::Discard, 0, 8192));
    assert!(actions(&mut staging).1.is_empty(), "something is staged");
    staging.ended(Nanos(5), discard, Outcome::Done);
    assert!(staging.destage(Nanos(5), M));
    staging.advance(Nanos(15));
    assert_eq!(actions(&mut staging).0, [0, 1, 2]);
}

/// With room it is gentle, and with less of it fast.
#[test]
fn destaging_depends_on_room() {
    let mut staging = staging(1 << 20, Destaging::AtOnce);
    let mut destages = |bytes: u64| {
        for offset in (0..bytes).step_by(4096) {
            staging.submit(Nanos(0), M, 0, &request(0, Op::Write, offset, 4096));
        }
        while staging.destage(Nanos(0), M) {}
        let sent = actions(&mut staging).1;
        sent.iter().map(|(_, request)| request.length).collect::<Vec<_>>()
    };
    assert_eq!(destages(256 << 10), [16 << 10; 4]);
    let more = destages(1 << 20);
    assert_eq!((more.len(), more.iter().max()), (12, Some(&(64 << 10))));
}
