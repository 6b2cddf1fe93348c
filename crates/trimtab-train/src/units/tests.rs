//! Simulated drives whose units are known.

use trimtab_io::{Nanos, Op, Request};

use super::*;
use crate::testing::request;

/// Random reads on a drive of which each unit serves one at a time, 100 µs each.
fn drive(unit: impl Fn(u64) -> u64) -> Vec<Recorded> {
    let mut free = std::collections::HashMap::new();
    let mut state = 1_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let mut now = 0;
    let one = |_| {
        now += random(60_000);
        let offset = random(1 << 18) << 12;
        let free = free.entry(unit(offset)).or_insert(0);
        *free = now.max(*free) + 100_000 + random(5_000);
        let request = Request { arrival: Nanos(now), ..request(Op::Read, offset, 4096) };
        Recorded { request, complete: Nanos(*free), data: true }
    };
    let mut all: Vec<Recorded> = (0..30_000).map(one).collect();
    all.sort_by_key(|r| r.request.arrival);
    all
}

/// Whether two functions put the same addresses together.
fn alike(function: &UnitFunction, unit: impl Fn(u64) -> u64) -> bool {
    let mut numbers = std::collections::HashMap::new();
    let mut seen = std::collections::HashSet::new();
    let fits = (0..4096).all(|i| {
        let offset = i << 12;
        let number = function.unit(offset);
        *numbers.entry(number).or_insert(unit(offset)) == unit(offset)
    });
    fits && numbers.values().all(|unit| seen.insert(*unit))
}

#[test]
fn finds_channels_by_low_bits() {
    let unit = |offset: u64| offset >> 14 & 3;
    let found = find(&[&drive(unit)]);
    assert!(found.functions.iter().any(|f| alike(f, unit)), "{found:?}");
}

#[test]
fn finds_a_hash_of_bits() {
    let unit = |offset: u64| u64::from(parity(offset & 0b1001 << 13)) | (offset >> 15 & 1) << 1;
    let found = find(&[&drive(unit)]);
    assert!(found.functions.iter().any(|f| alike(f, unit)), "{found:?}");
}

#[test]
fn finds_a_round_of_six() {
    let unit = |offset: u64| (offset >> 13) % 6;
    let found = find(&[&drive(unit)]);
    let expected = UnitFunction::Stripe { shift: 13, units: 6 };
    assert!(found.functions.contains(&expected), "{found:?}");
}

#[test]
fn no_units_are_found_without_structure() {
    // One unit for all; and units unrelated to the address.
    for unit in [|_| 0, |offset: u64| offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62] {
        let found = find(&[&drive(unit)]);
        assert_eq!(found.functions.len(), 1, "{found:?}");
    }
    assert_eq!(find(&[]).functions, [UnitFunction::Page { shift: 12 }]);
}
