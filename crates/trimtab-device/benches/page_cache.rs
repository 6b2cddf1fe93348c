//! The cost of the page cache for each page: hits, misses with eviction, and sequential reads
//! with readahead, in a cache of 1 GiB.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trimtab_device::{Below, CacheProfile, OpenFile, PageCache};
use trimtab_io::SplitMix64;

const PAGES: u64 = 1 << 18;
/// Pages of a measured piece.
const PIECE: u64 = 1024;

fn serve(cache: &mut PageCache, below: &mut Vec<Below>) {
    for request in below.drain(..) {
        match request {
            Below::Read { first, pages, .. } => cache.filled(first, pages),
            Below::Write { first, pages } => cache.written(first, pages),
        }
    }
}

fn full() -> (PageCache, OpenFile, Vec<Below>) {
    let mut cache = PageCache::new(&CacheProfile::default()).expect("the default");
    let mut file = OpenFile::new(0, 1 << 40);
    let mut below = Vec::new();
    for page in 0..PAGES {
        cache.read(&mut file, page, 1, &mut below);
        serve(&mut cache, &mut below);
    }
    (cache, file, below)
}

fn page_cache(c: &mut Criterion) {
    let mut group = c.benchmark_group("page cache, a page");
    group.throughput(Throughput::Elements(PIECE));
    let mut random = SplitMix64::new(1);
    let (mut cache, mut file, mut below) = full();
    group.bench_function("random hits", |b| {
        b.iter(|| {
            for _ in 0..PIECE {
                cache.read(&mut file, random.next() % PAGES, 1, &mut below);
            }
            assert!(below.len() < 1 << 20);
        });
    });
    let (mut cache, mut file, mut below) = full();
    group.bench_function("random misses", |b| {
        b.iter(|| {
            for _ in 0..PIECE {
                cache.read(&mut file, random.next() % (1 << 40), 1, &mut below);
                serve(&mut cache, &mut below);
            }
        });
    });
    let (mut cache, mut file, mut below) = full();
    let mut page = PAGES;
    group.bench_function("sequential misses", |b| {
        b.iter(|| {
            for _ in 0..PIECE {
                cache.read(&mut file, page, 1, &mut below);
                serve(&mut cache, &mut below);
                page += 1;
            }
        });
    });
    let (mut cache, _, mut below) = full();
    group.bench_function("random writes", |b| {
        b.iter(|| {
            for _ in 0..PIECE {
                cache.write(random.next() % (1 << 40), 1, &mut below);
                serve(&mut cache, &mut below);
            }
        });
    });
    group.finish();
}

criterion_group!(benches, page_cache);
criterion_main!(benches);
