//! Devices below an I/O scheduler.

use std::path::Path;

use trimtab_device::scheduler::SchedulerKind;
use trimtab_device::{Disk, DiskProfile};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};
use trimtab_sim::{Report, Scenario, Scheduled, Server as _};

fn run(scheduler: &str) -> Report {
    let text = format!(
        "seed = 1
         requests = 20_000
         [[device]]
         profile = 'reference'
         capacity = '12G'
         device_depth = 1
         scheduler = {scheduler}
         [[device.workload]]
         name = 'urgent'
         issuer = {{ class = 'real-time', level = 0 }}
         read_share = 1
         arrivals = {{ kind = 'poisson', iops = 2_000 }}
         offsets = {{ kind = 'uniform' }}
         sizes = [{{ bytes = 4096, weight = 1 }}]
         [[device.workload]]
         name = 'batch'
         read_share = 1
         arrivals = {{ kind = 'closed', queue_depth = 16, think_us = 0 }}
         offsets = {{ kind = 'uniform' }}
         sizes = [{{ bytes = 4096, weight = 1 }}]"
    );
    let mut simulation = Scenario::parse(&text, Path::new(".")).unwrap().simulation().unwrap();
    simulation.run().unwrap();
    simulation.report()
}

fn p99(report: &Report, workload: usize) -> Nanos {
    let ops = &report.devices[0].workloads[workload].ops;
    assert_eq!(ops[0].op, Op::Read);
    ops[0].latency.percentile("p99").unwrap()
}

#[test]
fn every_request_completes_and_urgent_ones_are_not_behind_others() {
    let fifo = run("{ kind = 'none' }");
    // Sixteen requests of 45 µs come first.
    assert!(p99(&fifo, 0) > Nanos::from_micros(500), "{:?}", p99(&fifo, 0));
    for kind in ["mq-deadline", "cfq", "bfq"] {
        let report = run(&format!("{{ kind = '{kind}' }}"));
        assert_eq!(report.devices[0].unanswered, 0);
        let urgent = p99(&report, 0);
        assert!(urgent < Nanos::from_micros(250), "{kind}: {urgent:?}");
        assert_eq!(report, run(&format!("{{ kind = '{kind}' }}")), "the same again");
    }
}

#[test]
fn time_stands_still_where_nothing_will_happen() {
    let profile = DiskProfile::builtin("disk-7200").unwrap();
    for kind in ["none", "mq-deadline", "cfq", "bfq"] {
        let kind: SchedulerKind = toml::from_str(&format!("kind = '{kind}'")).unwrap();
        let mut disk = Scheduled::new(Disk::new(&profile, DeviceId(0), 1), &kind, 1);
        for id in 0..3 {
            let read =
                Request::new(RequestId(id), DeviceId(0), Nanos(id), Op::Read, id << 30, 4096);
            disk.submit(Nanos(id), &read).unwrap();
        }
        // One is on the disk, the others are taken back: timers of the scheduler may remain.
        assert!(disk.cancel(RequestId(1)) && disk.cancel(RequestId(2)), "{kind:?}");
        let mut answers = 0;
        for _ in 0..10 {
            disk.advance_to_answer(Nanos::MAX);
            disk.drain(|_| answers += 1);
        }
        disk.advance(Nanos::MAX);
        assert_eq!((answers, disk.in_flight()), (1, 0), "{kind:?}");
        assert!(disk.now() < Nanos::from_secs(10), "{kind:?}: {:?}", disk.now());
    }
}

#[test]
fn keys_are_checked() {
    let fails = |keys: &str| {
        let text = format!(
            "seed = 1
             requests = 1
             [[device]]
             profile = 'reference'
             {keys}"
        );
        Scenario::parse(&text, Path::new(".")).unwrap_err().to_string()
    };
    for (keys, expected) in [
        ("scheduler = { kind = 'cfq', quantum = 0 }", "quantum must be"),
        ("scheduler = { kind = 'cfq', quanta = 1 }", "quanta"),
        ("device_depth = 3", "needs a `scheduler`"),
        ("scheduler = { kind = 'bfq' }\ndevice_depth = 0", "device_depth"),
    ] {
        let error = fails(keys);
        assert!(error.contains(expected), "{error}");
    }
}
