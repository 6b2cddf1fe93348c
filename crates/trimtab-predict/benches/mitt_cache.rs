//! The cost of a decision of `mitt-cache`, by its outcome; the predictor below is a heuristic.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};
use trimtab_predict::{MittCache, MittCacheOptions, Predictor as _, SimpleHeuristic};

const PAGES: u64 = 1 << 20;

fn mitt_cache(c: &mut Criterion) {
    let (floor, memory) = (Nanos::from_micros(80), Nanos::from_micros(1));
    let options = MittCacheOptions { pages: PAGES, floor, memory, deadline: None };
    let mut cache = MittCache::new(options, Box::new(SimpleHeuristic::new(4)));
    // The first half is in memory, the next quarter was.
    cache.filled(0, PAGES / 4 * 3);
    cache.evicted(PAGES / 2, PAGES / 4);
    let read = |page: u64, pages: u64, within| {
        let arrival = Nanos::ZERO;
        let (offset, length) = (page << 12, pages << 12);
        let request = Request::new(RequestId(1), DeviceId(0), arrival, Op::Read, offset, length);
        Request { deadline: Some(Nanos::from_micros(within)), ..request }
    };
    let mut group = c.benchmark_group("mitt-cache");
    for (name, from, pages, within) in [
        ("in memory", 0, 1, 20),
        ("in memory, 16 pages", 0, 16, 20),
        ("evicted", PAGES / 2, 1, 20),
        ("first access", PAGES / 4 * 3, 1, 20),
        ("left to the drive's predictor", PAGES / 2, 1, 2000),
    ] {
        let mut i = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                i = (i + 7919 * 16) % (PAGES / 4 - 16);
                cache.predict(Nanos::ZERO, black_box(&read(from + i, pages, within)))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, mitt_cache);
criterion_main!(benches);
