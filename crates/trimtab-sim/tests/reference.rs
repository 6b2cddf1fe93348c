//! The figures of the reference configuration: closed forms where they exist, and results of
//! independent simulators.

use trimtab_io::Nanos;
use trimtab_sim::{DeviceReport, Scenario};

/// Random reads of 4 KiB on the reference configuration, filled once.
fn reads(arrivals: &str, requests: u64, device: &str) -> DeviceReport {
    let text = format!(
        "seed = 1
         warm_up_requests = 5_000
         requests = {requests}
         [[device]]
         profile = 'reference'
         capacity = '12G'
         {device}
         [device.workload]
         read_share = 1
         arrivals = {arrivals}
         offsets = {{ kind = 'uniform' }}
         sizes = [{{ bytes = 4096, weight = 1 }}]"
    );
    let mut simulation = Scenario::parse(&text, ".".as_ref()).unwrap().simulation().unwrap();
    simulation.run().unwrap();
    simulation.report().devices.remove(0)
}

fn closed(depth: u32, device: &str) -> f64 {
    let arrivals = format!("{{ kind = 'closed', queue_depth = {depth}, think_us = 0 }}");
    reads(&arrivals, 20_000 + 1_000 * u64::from(depth), device).iops()
}

fn near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 0.02, "{value}, expected {expected}");
}

#[test]
fn closed_loop_random_reads() {
    near(closed(1, ""), 22_163.0);
    near(closed(32, ""), 534_000.0);
    near(closed(256, ""), 1_220_000.0);
}

#[test]
fn link_to_the_host_limits_throughput() {
    near(closed(256, "override.timing.host_link_mb_s = 3200"), 781_000.0);
}

#[test]
fn idle_drive_latency_is_the_sum_of_its_parts() {
    // So rarely that no two requests overlap.
    let report = reads("{ kind = 'poisson', iops = 1 }", 2_000, "");
    let summary = &report.ops[0].latency;
    assert_eq!(summary.count, 2_000);
    // 40 µs in the die, 4096 B at 800 MB/s on the channel.
    assert_eq!((summary.mean, summary.max), (Some(Nanos(45_120)), Some(Nanos(45_120))));
    assert_eq!(report.reads.unwrap().service_ns, Nanos(45_120));
    assert_eq!(report.most_in_flight, 1);
}
