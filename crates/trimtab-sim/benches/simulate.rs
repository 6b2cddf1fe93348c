//! The speed of the driver and a drive together, in requests per second of
//! wall time, on the configuration that public simulators are compared on.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use trimtab_sim::Scenario;

/// Closed loop at depth 64, requests of 4 KiB anywhere, nothing measured for
/// warm-up.
fn scenario(read_share: f64, requests: u64) -> Scenario {
    let text = format!(
        "seed = 1
         requests = {requests}
         [[device]]
         profile = 'reference'
         capacity = '8G'
         [device.workload]
         read_share = {read_share}
         arrivals = {{ kind = 'closed', queue_depth = 64, think_us = 0 }}
         offsets = {{ kind = 'uniform' }}
         sizes = [{{ bytes = 4096, weight = 1 }}]"
    );
    Scenario::parse(&text, ".".as_ref()).expect("valid")
}

fn simulate(c: &mut Criterion) {
    const REQUESTS: u64 = 1_000_000;
    let mut group = c.benchmark_group("simulate");
    group.sample_size(10);
    group.throughput(Throughput::Elements(REQUESTS));
    for (name, read_share) in [("reads", 1.0), ("70/30 mixed", 0.7)] {
        let scenario = scenario(read_share, REQUESTS);
        group.bench_function(name, |b| {
            // Making and filling the drive is not what is measured.
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

criterion_group!(benches, simulate);
criterion_main!(benches);
