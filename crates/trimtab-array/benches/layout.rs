//! Time to map an offset: `cargo bench -p trimtab-array --bench layout`. One core, a pseudo-random
//! offset each.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use trimtab_array::{Layout, Level, Rotation};

fn map(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("layout");
    for (name, level, chunk) in [
        ("raid0, chunks of 60 KiB", Level::Raid0, 60 << 10),
        ("raid5", Level::Raid5, 64 << 10),
        ("raid6", Level::Raid6, 64 << 10),
    ] {
        let layout = Layout::new(level, Rotation::LeftSymmetric, 7, chunk, 1 << 40).unwrap();
        let mut offset = 0_u64;
        let mut next = move || {
            offset = offset.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1) | 1;
            offset >> 22
        };
        group.bench_function(format!("{name}: to the member"), |bencher| {
            bencher.iter(|| {
                let found = layout.locate(black_box(next()));
                let member = layout.data_member(found.stripe, found.index);
                (member, layout.member_offset(found.stripe, found.offset))
            });
        });
        group.bench_function(format!("{name}: from a member"), |bencher| {
            bencher.iter(|| layout.user_offset(3, black_box(next() >> 3)));
        });
    }
}

criterion_group!(benches, map);
criterion_main!(benches);
