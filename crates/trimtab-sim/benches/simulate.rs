//! The speed of the driver and a drive together, in requests per second of
//! wall time, on the configuration that public simulators are compared on.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use trimtab_sim::Scenario;

const REQUESTS: u64 = 3_000_000;

/// Closed loop, requests of 4 KiB anywhere, on a drive in its steady state.
fn scenario(read_share: f64, depth: u32, extra: &str) -> Scenario {
    let text = format!(
        "seed = 1
         requests = {REQUESTS}
         [[device]]
         profile = 'reference'
         override.geometry.blocks_per_plane = 256
         fill = {{ share = 1.0, kind = 'aged' }}
         {extra}
         [device.workload]
         read_share = {read_share}
         arrivals = {{ kind = 'closed', queue_depth = {depth}, think_us = 0 }}
         offsets = {{ kind = 'uniform' }}
         sizes = [{{ bytes = 4096, weight = 1 }}]"
    );
    Scenario::parse(&text, ".".as_ref()).expect("valid")
}

fn simulate(c: &mut Criterion) {
    let mut group = c.benchmark_group("simulate");
    group.sample_size(10);
    group.throughput(Throughput::Elements(REQUESTS));
    // 28% of the user's capacity.
    let of_user = "override.geometry.over_provisioning = 0.21875";
    let seven = "override.geometry.over_provisioning = 0.07";
    let preemptive = "override.gc.preemptive = true";
    let large = "override.geometry.chips_per_channel = 32";
    for (name, read_share, depth, extra) in [
        ("reads, depth 1", 1.0, 1, ""),
        ("reads, depth 64", 1.0, 64, ""),
        ("reads, depth 1024", 1.0, 1024, ""),
        ("reads, depth 64, 256 dies", 1.0, 64, large),
        ("mixed", 0.7, 64, ""),
        ("mixed, 28% of user space", 0.7, 64, of_user),
        ("mixed, 256 dies", 0.7, 64, large),
        ("mixed, 7% over-provisioned", 0.7, 64, seven),
        ("mixed, preemptive", 0.7, 64, preemptive),
    ] {
        let scenario = scenario(read_share, depth, extra);
        group.bench_function(name, |b| {
            // Making and filling the drive is excluded from the measurement.
            b.iter_batched_ref(
                || scenario.simulation().expect("no trace to open"),
                |simulation| {
                    simulation.run().expect("valid");
                    black_box(simulation.report())
                },
                criterion::BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// Random reads on a disk in each order of its queue.
fn disk(c: &mut Criterion) {
    const REQUESTS: u64 = 300_000;
    let mut group = c.benchmark_group("disk");
    group.sample_size(10);
    group.throughput(Throughput::Elements(REQUESTS));
    for (order, depth) in [("fifo", 1), ("fifo", 32), ("sstf", 32), ("ncq", 32)] {
        let text = format!(
            "seed = 1
             requests = {REQUESTS}
             [[device]]
             profile = 'disk-7200'
             override.queue.order = '{order}'
             [device.workload]
             read_share = 0.7
             arrivals = {{ kind = 'closed', queue_depth = {depth}, think_us = 0 }}
             offsets = {{ kind = 'uniform' }}
             sizes = [{{ bytes = 4096, weight = 1 }}]"
        );
        let scenario = Scenario::parse(&text, ".".as_ref()).expect("valid");
        group.bench_function(format!("{order}, depth {depth}"), |b| {
            b.iter_batched_ref(
                || scenario.simulation().expect("no trace to open"),
                |simulation| {
                    simulation.run().expect("valid");
                    black_box(simulation.report())
                },
                criterion::BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, simulate, disk);
criterion_main!(benches);
