//! Parity beside copying: `cargo bench -p trimtab-array --bench parity`. One core. The throughput
//! counts bytes that are read: of four data strips, or of as many strips of data and parity. Copies
//! are of the same number of bytes.
//!
//! Goals, in memory: P at no less than half of what copying reaches, P and Q at no less than a
//! third.

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use trimtab_array::Parity;

/// Strips of data in a stripe.
const DATA: usize = 4;

/// Bytes of data beyond any cache, and with all strips in the first level.
const IN_MEMORY: usize = 256 << 20;
const IN_CACHE: usize = 32 << 10;

/// Stripes in a buffer, each with its data, P and Q.
struct Stripes {
    bytes: Vec<u8>,
    start: usize,
    strip: usize,
    next: usize,
}

impl Stripes {
    fn new(strip: usize, data_bytes: usize) -> Self {
        let bytes = data_bytes / DATA * (DATA + 2);
        // On a page, as buffers of direct I/O are.
        let bytes: Vec<u8> = (0..bytes + 4096).map(|i| (i ^ i >> 9) as u8).collect();
        let start = bytes.as_ptr().align_offset(4096);
        Self { bytes, start, strip, next: 0 }
    }

    /// The strips of the next stripe.
    fn next(&mut self) -> [&mut [u8]; DATA + 2] {
        let stripe = self.strip * (DATA + 2);
        let all = &mut self.bytes[self.start..];
        let count = all.len() / stripe;
        self.next = (self.next + 1) % count;
        let mut strips = all[self.next * stripe..][..stripe].chunks_exact_mut(self.strip);
        std::array::from_fn(|_| strips.next().expect("a stripe has them"))
    }
}

/// Measures one function of a stripe.
fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    stripes: &mut Stripes,
    mut work: impl FnMut([&mut [u8]; DATA + 2]),
) {
    group.throughput(Throughput::Bytes((DATA * stripes.strip) as u64));
    group.bench_function(name, |bencher| bencher.iter(|| work(black_box(stripes.next()))));
}

/// Copying, then parity with the given instructions.
fn group(criterion: &mut Criterion, name: &str, strip: usize, bytes: usize, sets: &[Parity]) {
    let mut stripes = Stripes::new(strip, bytes);
    let mut target = Stripes::new(strip, bytes);
    let mut group = criterion.benchmark_group(format!("{name}, strips of {} KiB", strip >> 10));
    measure(&mut group, "copy", &mut stripes, |strips| {
        for (to, from) in target.next().into_iter().zip(strips).take(DATA) {
            to.copy_from_slice(from);
        }
    });
    for parity in sets {
        let name = |what| format!("{what} {}", parity.name());
        measure(&mut group, &name("p"), &mut stripes, |[a, b, c, d, p, _]| {
            parity.p(&[a, b, c, d], p);
        });
        measure(&mut group, &name("p+q"), &mut stripes, |[a, b, c, d, p, q]| {
            parity.p_and_q(&[a, b, c, d], p, q);
        });
        measure(&mut group, &name("two lost"), &mut stripes, |[a, b, c, d, p, q]| {
            parity.two_data(&[Some(a), None, Some(c), None], p, q, [b, d]);
        });
        measure(&mut group, &name("update p+q"), &mut stripes, |[a, b, _, _, p, q]| {
            parity.update_p_and_q(3, a, b, p, q);
        });
    }
}

fn in_memory(criterion: &mut Criterion) {
    let sets: Vec<Parity> = Parity::all().collect();
    for strip in [64 << 10, 256 << 10, 1 << 20] {
        group(criterion, "memory", strip, IN_MEMORY, &sets);
    }
}

fn in_cache(criterion: &mut Criterion) {
    let sets: Vec<Parity> = Parity::all().collect();
    // One stripe, again and again.
    group(criterion, "cache", IN_CACHE / DATA, IN_CACHE, &sets);
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = in_memory, in_cache
}
criterion_main!(benches);
