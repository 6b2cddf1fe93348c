//! A long run, checked. It takes minutes:
//! `cargo test --release -p trimtab-device --test endurance -- --ignored --nocapture`

#![expect(clippy::print_stdout, reason = "it shows how far it is")]

use rand::{RngExt as _, SeedableRng as _};
use trimtab_device::{Profile, Ssd};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};

const REQUESTS: u64 = 100_000_000;
const DEPTH: usize = 64;

#[test]
#[ignore = "takes minutes"]
fn hundred_million_mixed_requests_complete_once() {
    let mut profile = Profile::builtin("reference").unwrap();
    profile.geometry.over_provisioning = 0.1;
    profile.buffer.size_mb = 4.0;
    profile.gc.preemptive = true;
    let mut ssd = Ssd::new(&profile, DeviceId(0), 1);
    ssd.age(&profile, 0.9, 2.0);
    ssd.audit();
    let units = ssd.capacity() / 4096;
    let used = units * 9 / 10;
    let mut random = rand_pcg::Pcg64::seed_from_u64(2);
    // Every request completes once: its number is removed then.
    let mut open = std::collections::BTreeSet::new();
    let mut last = Nanos::ZERO;
    for id in 0..REQUESTS {
        while ssd.in_flight() >= DEPTH {
            let at = ssd.next_event().expect("something must happen to what is in flight");
            ssd.advance(at);
            for served in ssd.served() {
                assert!(open.remove(&served.completion.request.0), "answered twice");
                assert!(last <= served.completion.complete);
                last = served.completion.complete;
            }
        }
        let (op, most) = match random.random_range(0..1000) {
            0..600 => (Op::Read, 16),
            600..990 => (Op::Write, 16),
            990..999 => (Op::Discard, 64),
            _ => (Op::Flush, 0),
        };
        let count =
            if random.random_bool(0.8) { most.min(1) } else { random.random_range(0..=most) };
        let first = random.random_range(0..used - 64);
        let (offset, length) = if op == Op::Flush { (0, 0) } else { (first * 4096, count * 4096) };
        let request = Request::new(RequestId(id), DeviceId(0), ssd.now(), op, offset, length);
        open.insert(id);
        ssd.submit(ssd.now(), &request).unwrap();
        if id % (REQUESTS / 20) == 0 {
            ssd.verify().unwrap();
            let stats = ssd.stats();
            println!("{id}: {} erases, {} stalls, time {}", stats.erases, stats.stalls, ssd.now());
        }
    }
    while let Some(at) = ssd.next_event() {
        ssd.advance(at);
    }
    for served in ssd.served() {
        assert!(open.remove(&served.completion.request.0), "answered twice");
    }
    assert!(open.is_empty(), "{} requests were lost", open.len());
    ssd.verify().unwrap();
}
