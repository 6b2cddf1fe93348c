//! What a decision of the queue models costs with a whole profile of a disk ([`ProfileTimes`]), whose
//! angle is known: a model of the disk's queue, seek and rotation.

#![allow(missing_docs, reason = "criterion's macros")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use trimtab_device::scheduler::SchedulerKind;
use trimtab_device::{Disk, DiskProfile};
use trimtab_io::{DeviceId, Issuer, Nanos, Op, Request, RequestId, mix64};
use trimtab_predict::mitt::{DiskPrecision, Limit};
use trimtab_sim::mitt::{PredictedDevice, disk_predictor};
use trimtab_sim::{MaybeScheduled, Scheduled, Server as _};

fn decide(c: &mut Criterion) {
    let mut group = c.benchmark_group("mitt with a profile");
    let profile = DiskProfile::builtin("disk-7200").expect("built in");
    for (kind, depth, pending) in
        [("none", 1, 32), ("none", 32, 8), ("none", 32, 31), ("cfq", 8, 8), ("cfq", 8, 128)]
    {
        let scheduler = SchedulerKind::parse(&format!("kind = '{kind}'")).expect("a scheduler");
        let disk = Disk::new(&profile, DeviceId(0), 1);
        let device = MaybeScheduled::Scheduled(Box::new(Scheduled::new(disk, &scheduler, depth)));
        let limit = Limit::new(Some(Nanos::from_millis(20)));
        let precision = DiskPrecision::default();
        let model = disk_predictor(&profile, Some((&scheduler, depth)), limit, precision);
        let mut predicted = PredictedDevice::new(device, [model.expect("it has a model")]);
        let units = predicted.device().capacity() / 4096;
        let read = |id: u64, at: Nanos| {
            let offset = mix64(id) % units * 4096;
            let plain = Request::new(RequestId(id), DeviceId(0), at, Op::Read, offset, 4096);
            Request { issuer: Issuer::of_process((id % 128) as u32), ..plain }
        };
        // One at a time: the model learns the angle.
        let alone = (0..20).map(|id| (id, Nanos::from_millis(100 * id)));
        let queued = (20..20 + pending).map(|id| (id, Nanos::from_secs(3)));
        for (id, at) in alone.chain(queued) {
            predicted.advance(at);
            predicted.send(at, &read(id, at)).expect("it is on the disk");
        }
        let now = Nanos(Nanos::from_secs(3).0 + 1000);
        let asked: Vec<_> = (1000..2024).map(|id| read(id, now)).collect();
        let mut next = 0;
        group.bench_function(format!("{kind}, {depth} on the disk, {pending} pending"), |b| {
            b.iter(|| {
                next = (next + 1) % asked.len();
                black_box(predicted.forecasts(now, black_box(&asked[next])).next())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decide);
criterion_main!(benches);
