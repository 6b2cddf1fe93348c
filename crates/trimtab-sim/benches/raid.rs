//! The speed of an array of simulated drives, in requests of the user per second of wall time: four
//! drives, RAID 5, chunks of 4 KiB, 70% reads of 4 KiB, in the drives' steady state.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use trimtab_array::planner::Planner;
use trimtab_array::policy::{BusyTime, Flagged, Plain, ReadPolicy};
use trimtab_array::{Layout, Level, Rotation};
use trimtab_device::{ArrayPosition, FirmwareKind, Profile, Ssd};
use trimtab_io::DeviceId;
use trimtab_sim::array::ArrayDrive;
use trimtab_sim::{RaidOptions, Source, run_raid};
use trimtab_trace::synth::{Spec, Workload};

const REQUESTS: u64 = 500_000;
const DRIVES: u32 = 4;

fn drives(firmware: &str) -> Vec<ArrayDrive> {
    let profile = Profile::builtin("femu").expect("it is built in");
    let kind = FirmwareKind::parse(firmware).expect("it is a firmware");
    let drive = |number: u32| {
        let mut ssd = Ssd::new(&profile, DeviceId(number), number.into());
        ssd.age(&profile, 1.0, 2.0);
        let at = ArrayPosition { position: number, drives: DRIVES };
        ssd.replace_firmware(kind.firmware(&profile, at).expect("it has a window"));
        ArrayDrive::new(ssd, 1024)
    };
    (0..DRIVES).map(drive).collect()
}

fn source(capacity: u64) -> Source {
    let spec: Spec = toml::from_str(
        "read_share = 0.7
         arrivals = { kind = 'poisson', iops = 10_000 }
         offsets = { kind = 'uniform' }
         sizes = [{ bytes = 4096, weight = 1 }]",
    )
    .expect("it is a workload");
    Source::synthetic(Workload::new(&spec, 1, capacity), Some(REQUESTS), None)
}

fn raid(c: &mut Criterion) {
    let mut group = c.benchmark_group("raid5");
    group.sample_size(10).throughput(Throughput::Elements(REQUESTS));
    type Made = fn() -> Box<dyn ReadPolicy>;
    let rows: [(&str, &str, Made); 2] = [
        ("base", "kind = 'standard'", || Box::new(Plain)),
        ("ioda", "kind = 'ioda'", || Box::new(Flagged::new(BusyTime::Ignored))),
    ];
    for (name, firmware, policy) in rows {
        let aged = drives(firmware);
        let capacity = aged[0].server.capacity();
        let layout = Layout::new(Level::Raid5, Rotation::LeftSymmetric, 4, 4096, capacity);
        let layout = layout.expect("it is an array");
        group.bench_function(name, |b| {
            let fresh =
                || (aged.clone(), Planner::new(layout, policy()), source(layout.capacity()));
            b.iter_batched(
                fresh,
                |(drives, planner, source)| {
                    let options = RaidOptions::default();
                    let run = run_raid(drives, planner, source, options, &mut |_| {});
                    black_box(run.expect("it runs").figures.reads.count())
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, raid);
criterion_main!(benches);
