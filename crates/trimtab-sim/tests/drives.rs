//! Drives of all kinds serve every request once, for any firmware.

use proptest::prelude::*;
use trimtab_sim::Scenario;

/// A value of a profile's key, as in TOML.
fn one_of(key: &'static str, values: &'static [&'static str]) -> BoxedStrategy<String> {
    proptest::sample::select(values).prop_map(move |v| format!("override.{key} = {v}\n")).boxed()
}

/// Small drives, which are soon full.
fn drives() -> impl Strategy<Value = String> {
    let keys = vec![
        one_of("geometry.channels", &["1", "2", "4"]),
        one_of("geometry.chips_per_channel", &["1", "2"]),
        one_of("geometry.planes_per_die", &["1", "2", "4"]),
        one_of("geometry.blocks_per_plane", &["32", "40"]),
        one_of("geometry.pages_per_block", &["8", "16"]),
        one_of("geometry.page_bytes", &["4096", "8192", "16384"]),
        one_of("geometry.over_provisioning", &["0.15", "0.28"]),
        one_of("gc.victim", &["'greedy'", "'cost-benefit'", "'fifo'", "'random'", "'d-choices'"]),
        one_of("gc.blocks", &["'plane'", "'die'", "'channel'", "'controller'"]),
        one_of("gc.copy", &["'serial'", "'copyback'"]),
        one_of("gc.preemptive", &["true", "false"]),
        one_of("gc.suspend", &["true", "false"]),
        one_of("buffer.size_mb", &["0", "0", "0.1", "1"]),
        one_of("buffer.flush_period_ms", &["0", "5"]),
        one_of("buffer.writes_per_die", &["0", "1", "2"]),
        one_of("timing.host_link_mb_s", &["0", "3200"]),
        one_of("timing.firmware_us", &["0", "3"]),
        one_of("ftl.schedule", &["'fifo'", "'reads-first'"]),
        one_of("ftl.mapping_cache_mb", &["0", "0.05"]),
        one_of("noise", &["{}", "{ retry_probability = 0.01, retry_most = 5 }"]),
        one_of("wear.static_threshold", &["0", "3"]),
    ];
    keys.prop_map(|lines| lines.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn every_drive_serves_every_request(
        drive in drives(),
        seed: u32,
        depth in 1_u32..65,
        read_share in prop::sample::select(&[0.0, 0.3, 0.9][..]),
        align in prop::sample::select(&[512, 4096][..]),
        arrivals in prop::sample::select(&[
            "{ kind = 'closed', queue_depth = 1, think_us = 0 }",
            "{ kind = 'closed', queue_depth = 40, think_us = 0 }",
            "{ kind = 'closed', queue_depth = 40, think_us = 100 }",
            "{ kind = 'poisson', iops = 2000 }",
        ][..]),
        zipf: bool,
    ) {
        let offsets = if zipf { "'zipf', theta = 0.9" } else { "'uniform'" };
        let text = format!(
            "seed = {seed}
             requests = 10_000
             [[device]]
             profile = 'reference'
             {drive}
             host.queue_depth = {depth}
             [device.workload]
             read_share = {read_share}
             align_bytes = {align}
             sizes = [{{ bytes = 4096, weight = 3 }}, {{ bytes = 512, weight = 1 }},
                      {{ bytes = 65536, weight = 1 }}]
             offsets = {{ kind = {offsets} }}
             arrivals = {arrivals}"
        );
        let scenario = Scenario::parse(&text, ".".as_ref()).unwrap();
        let run = || {
            let mut simulation = scenario.simulation().unwrap();
            simulation.run().unwrap();
            simulation.report()
        };
        let report = run();
        let device = &report.devices[0];
        let answered: u64 = device.ops.iter().map(|op| op.latency.count).sum();
        prop_assert_eq!((device.requests, answered, device.unanswered), (10_000, 10_000, 0));
        prop_assert!(device.most_in_flight <= depth as usize);
        prop_assert_eq!(run(), report);
    }
}
