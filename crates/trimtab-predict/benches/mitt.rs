//! What a decision of the queue models costs: `mitt-noop` and `mitt-ssd`, `mitt-cfq` by processes.

#![allow(missing_docs, reason = "criterion's macros")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use trimtab_io::{
    DeviceId, FlashChange, FlashEvent, FlashMap, FlashOp, IoClass, Issuer, Nanos, Op, Request,
    RequestId,
};
use trimtab_predict::Predictor;
use trimtab_predict::mitt::{
    CfqWeights, DiskPrecision, DiskTimes, FlashModel, FlashPrecision, FlashValues, Limit, MittCfq,
    MittNoop, MittSsd, QueueOrder,
};

const ASKED: usize = 1024;

/// A disk of 1 TB with 24 knots and 16 zones.
fn disk() -> Arc<DiskTimes> {
    let seek: Vec<_> =
        (0..24).map(|i| (4096_u64 << i, 1_000_000 + 400_000 * u64::from(i as u32))).collect();
    let zones: Vec<_> = (0..16_u64).map(|i| (i << 36, 20_000 + 1000 * i)).collect();
    Arc::new(DiskTimes::new(&seek, &zones, Nanos(100_000), Nanos(150_000)).expect("ascending"))
}

/// Reads of 4 to 64 KiB, scattered.
fn reads(capacity: u64) -> Vec<Request> {
    let read = |i: u64| {
        let offset = (trimtab_io::mix64(i) % (capacity >> 12)) << 12;
        let length = 4096 << (i % 5);
        let issuer = Issuer {
            process: (i % 128) as u32,
            group: (i % 4) as u16,
            class: [IoClass::BestEffort, IoClass::RealTime, IoClass::BestEffort, IoClass::Idle]
                [i as usize % 4],
            level: (i % 8) as u8,
        };
        let plain = Request::new(RequestId(i), DeviceId(0), Nanos(i), Op::Read, offset, length);
        Request { issuer, ..plain }
    };
    (0..ASKED as u64).map(read).collect()
}

fn limit() -> Limit {
    Limit::new(Some(Nanos::from_millis(20)))
}

fn decide(c: &mut Criterion) {
    let mut group = c.benchmark_group("mitt");
    let asked = reads(1 << 40);
    let mut bench = |name: &str, predictor: &dyn Predictor, asked: &[Request]| {
        let mut next = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                next = (next + 1) % asked.len();
                black_box(predictor.predict(Nanos(2000), black_box(&asked[next])))
            });
        });
    };
    for (name, order, pending) in [
        ("noop, fifo, 32 pending", QueueOrder::Fifo, 32),
        ("noop, sstf, 8 pending", QueueOrder::Sstf { depth: 32 }, 8),
        ("noop, ncq, 8 pending", QueueOrder::Ncq { depth: 32, starvation: Nanos::MAX }, 8),
        ("noop, ncq, 31 pending", QueueOrder::Ncq { depth: 32, starvation: Nanos::MAX }, 31),
        ("noop, sstf, 31 pending", QueueOrder::Sstf { depth: 32 }, 31),
    ] {
        let mut noop = MittNoop::new(disk(), order, limit(), DiskPrecision::default());
        asked[..pending].iter().for_each(|read| _ = noop.sent(Nanos(1000), read));
        bench(name, &noop, &asked);
    }
    for processes in [16, 128] {
        let mut cfq = MittCfq::new(
            disk(),
            QueueOrder::Ncq { depth: 32, starvation: Nanos::MAX },
            CfqWeights::default(),
            limit(),
            DiskPrecision::default(),
        );
        for read in &asked {
            let process = read.issuer.process % processes;
            cfq.sent(Nanos(1000), &Request { issuer: Issuer { process, ..read.issuer }, ..*read });
        }
        bench(&format!("cfq, {processes} processes, 1024 pending"), &cfq, &asked);
    }
    let (ssd, capacity) = flash();
    let small: Vec<_> =
        reads(capacity).iter().map(|read| Request { length: 4096, ..*read }).collect();
    bench("ssd, 4 KiB", &ssd, &small);
    let large: Vec<_> = small.iter().map(|read| Request { length: 65_536, ..*read }).collect();
    bench("ssd, 64 KiB", &ssd, &large);
    group.finish();
}

/// 128 dies behind 16 channels, each with programs queued.
fn flash() -> (MittSsd, u64) {
    const UNITS: u32 = 1 << 20;
    let program: Vec<_> = (0..512).map(|page| Nanos(1_000_000 << (page % 2))).collect();
    let values = FlashValues {
        read: Nanos(40_000),
        program: &program,
        erase: Nanos(6_000_000),
        command: Nanos(1500),
        channel_ps_per_byte: 3571,
        firmware: Nanos::ZERO,
        link_ps_per_byte: 0,
        dies: 128,
        dies_per_channel: 8,
        unit_bytes: 4096,
        units_per_page: 4,
        units_per_die: UNITS / 128,
        reads_first: false,
        preemptive: false,
        copyback: false,
    };
    let map = FlashMap::new(UNITS as usize, 4096);
    for user in 0..UNITS {
        let (page, slot) = (user / 4, user % 4);
        map.set(user, Some(page % 128 * (UNITS / 128) + page / 128 * 4 + slot));
    }
    let model = Arc::new(FlashModel::new(&values).expect("nothing is zero"));
    let mut ssd = MittSsd::new(model, Arc::new(map), limit(), FlashPrecision::default());
    for die in 0..128 {
        let begun = FlashChange::Begun(FlashOp::Program { page: die % 512 });
        ssd.observe(&FlashEvent { at: Nanos(1000), die, change: begun }.into());
    }
    (ssd, u64::from(UNITS) * 4096 - 65_536)
}

criterion_group!(benches, decide);
criterion_main!(benches);
