use trimtab_io::{Op, Request};

use super::*;
use crate::testing::request;

/// Reads every 100 µs that take 80 to 100 µs, but 3 ms to 4 ms in stretches of
/// 5 ms, one in every 50 ms, that begin at `phase`.
fn recording(phase: u64) -> Vec<Recorded> {
    let one = |i: u64| {
        let at = i * 100_000 + phase % 7;
        let slow = (at + 50_000_000 - phase) % 50_000_000 < 5_000_000;
        let latency =
            if slow { 3_000_000 + i * 7919 % 1_000_000 } else { 80_000 + i * 7919 % 20_000 };
        let request =
            Request { arrival: Nanos(at), ..request(Op::Read, i * 7919 % 1000 * 4096, 4096) };
        Recorded { request, complete: Nanos(at + latency), data: true }
    };
    (0..20_000).map(one).collect()
}

#[test]
fn independent_slow_periods_are_avoided() {
    let (a, b) = (recording(0), recording(25_000_000));
    let advice = advise(&[&a, &b], true, 1, |_| {}).unwrap();
    assert!(advice.same_clock);
    assert!(advice.coincide[0][1].unwrap() < 0.01, "{:?}", advice.coincide);
    for drive in &advice.drives {
        assert!((0.09..0.11).contains(&drive.slow_share), "{drive:?}");
        assert!(drive.best.p99.unwrap() < Nanos::from_micros(200), "{drive:?}");
        assert!(drive.best.mean.0 * 3 < drive.before.mean.0, "{drive:?}");
        assert!(drive.likely.mean.0 * 2 < drive.before.mean.0, "{drive:?}");
        assert!(drive.best.mean <= drive.likely.mean, "{drive:?}");
        assert!((0.05..0.6).contains(&drive.moved), "{drive:?}");
    }
}

#[test]
fn coinciding_slow_periods_are_not_avoided() {
    let a = recording(0);
    let advice = advise(&[&a, &a, &a], true, 1, |_| {}).unwrap();
    assert!(advice.coincide[0][1].unwrap() > 0.99);
    for drive in &advice.drives {
        assert!(drive.likely.mean.0 > drive.before.mean.0 * 95 / 100, "{drive:?}");
        // Still a bound: it does not depend on what the recordings show of each other.
        assert!(drive.best.mean < drive.likely.mean, "{drive:?}");
    }
}

#[test]
fn recordings_of_different_times_count_as_independent() {
    let a = recording(0);
    let mut b = recording(0);
    for recorded in &mut b {
        recorded.request.arrival += Nanos::from_secs(3600);
        recorded.complete += Nanos::from_secs(3600);
    }
    let advice = advise(&[&a, &b], true, 1, |_| {}).unwrap();
    assert!(!advice.same_clock);
    assert_eq!(advice.coincide[0][1], None);
    assert!(advice.drives[0].likely.mean < advice.drives[0].before.mean);
}

#[test]
fn different_clocks_count_as_different_times() {
    let a = recording(0);
    let advice = advise(&[&a, &a], false, 1, |_| {}).unwrap();
    assert!(!advice.same_clock && advice.coincide[0][1].is_none());
}

/// One of two drives has nine tenths of its reads in the first fifth of the time.
#[test]
fn drives_are_divided_at_one_moment() {
    let (a, mut b) = (recording(0), recording(25_000_000));
    let mut number = 0;
    b.retain(|recorded| {
        number += 1;
        recorded.request.arrival < Nanos::from_millis(400) || number % 9 == 0
    });
    let advice = advise(&[&a, &b], true, 1, |_| {}).unwrap();
    assert!(advice.same_clock);
    let reads: Vec<_> = advice.drives.iter().map(|drive| drive.reads).collect();
    assert!(reads[0] > 5 * reads[1], "{reads:?}");
}

#[test]
fn one_drive_is_an_error() {
    let error = advise(&[&recording(0)], true, 1, |_| {}).unwrap_err();
    assert!(error.to_string().contains("drives to fail over between: 1"), "{error}");
}
