//! The driver's guarantees, on a device with known results.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use proptest::prelude::*;
use trimtab_device::{Error as DeviceError, LatencyBreakdown, Served};
use trimtab_io::{Completion, Issuer, Nanos, Outcome, Request};
use trimtab_sim::{
    Arbitration, Device, DeviceReport, Error, HostInterface, Server, Simulation, Source, Span,
    Workload,
};
use trimtab_trace::synth;

const CAPACITY: u64 = 1 << 30;

/// Serves each request in the same time, any number at once.
struct Constant {
    time: Nanos,
    now: Nanos,
    on_the_way: VecDeque<(Nanos, Request)>,
    served: Vec<Served>,
    /// All submitted requests, with their times and the number in flight.
    log: Rc<RefCell<Vec<(Nanos, Request, usize)>>>,
}

impl Constant {
    fn new(time: Nanos) -> Self {
        Self {
            time,
            now: Nanos::ZERO,
            on_the_way: VecDeque::new(),
            served: Vec::new(),
            log: Rc::default(),
        }
    }
}

impl Server for Constant {
    fn capacity(&self) -> u64 {
        CAPACITY
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn in_flight(&self) -> usize {
        self.on_the_way.len()
    }

    fn submit(&mut self, now: Nanos, request: &Request) -> Result<(), DeviceError> {
        self.advance(now);
        self.on_the_way.push_back((now, *request));
        self.log.borrow_mut().push((now, *request, self.on_the_way.len()));
        self.advance(now);
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        self.on_the_way.front().map(|&(at, _)| at + self.time).filter(|&at| at != Nanos::MAX)
    }

    fn advance(&mut self, until: Nanos) {
        assert!(until >= self.now, "time runs back");
        self.now = until;
        while self.next_event().is_some_and(|at| at <= until) {
            let (issue, request) = self.on_the_way.pop_front().unwrap();
            self.served.push(Served {
                completion: Completion {
                    request: request.id,
                    device: request.device,
                    issue,
                    complete: issue + self.time,
                    outcome: Outcome::Done,
                },
                breakdown: LatencyBreakdown::default(),
            });
        }
    }

    fn drain(&mut self, take: impl FnMut(&Served)) {
        self.served.iter().for_each(take);
        self.served.clear();
    }
}

fn synthetic(arrivals: &str) -> synth::Workload {
    let text = format!(
        "read_share = 0.5
         arrivals = {arrivals}
         offsets = {{ kind = 'uniform' }}
         sizes = [{{ bytes = 4096, weight = 1 }}]"
    );
    let spec: synth::Spec = toml::from_str(&text).unwrap();
    spec.check(CAPACITY).unwrap();
    synth::Workload::new(&spec, 1, CAPACITY)
}

fn closed(clients: u32) -> String {
    format!("{{ kind = 'closed', queue_depth = {clients}, think_us = 0 }}")
}

fn workload(name: &str, queue: Option<u32>, arrivals: &str) -> Workload {
    let source = Source::synthetic(synthetic(arrivals), None, None);
    Workload { name: name.to_owned(), queue, issuer: Issuer::default(), source }
}

fn device(server: Constant, host: HostInterface, workloads: Vec<Workload>) -> Device<Constant> {
    Device { name: "constant".to_owned(), server, host, workloads }
}

fn run(span: Span, device: Device<Constant>) -> Result<DeviceReport, Error> {
    let mut simulation = Simulation::new(1, span, [device]);
    simulation.run()?;
    Ok(simulation.report().devices.remove(0))
}

fn host(queue_depth: u32, submission_queues: u32, arbitration: Arbitration) -> HostInterface {
    HostInterface { queue_depth, submission_queues, arbitration }
}

fn requests(n: u64) -> Span {
    Span { requests: Some(n), ..Span::default() }
}

proptest! {
    #[test]
    fn every_request_is_served_once_and_never_too_many_at_a_time(
        depth in 1_u32..20,
        queues in 1_u32..5,
        round_robin: bool,
        clients in 1_u32..40,
        think in 0_u32..200,
        open_iops in 1_000_u32..400_000,
        warm_up_requests in 0_u64..100,
    ) {
        let arbitration =
            if round_robin { Arbitration::RoundRobin } else { Arbitration::FirstCome };
        let server = Constant::new(Nanos::from_micros(50));
        let log = Rc::clone(&server.log);
        let loops = format!("{{ kind = 'closed', queue_depth = {clients}, think_us = {think} }}");
        let open = format!("{{ kind = 'poisson', iops = {open_iops} }}");
        let workloads = vec![workload("closed", Some(0), &loops), workload("open", None, &open)];
        let span = Span { warm_up_requests, ..requests(500) };
        let host = host(depth, queues, arbitration);
        let report = run(span, device(server, host, workloads)).unwrap();

        let log = log.borrow();
        prop_assert_eq!(log.len() as u64, warm_up_requests + 500);
        let mut ids: Vec<_> = log.iter().map(|(_, request, _)| request.id).collect();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), log.len());
        prop_assert!(log.iter().all(|&(at, request, _)| at >= request.arrival));
        prop_assert!(log.is_sorted_by_key(|&(at, _, _)| at));
        let most = log.iter().map(|&(_, _, on_the_way)| on_the_way).max().unwrap();
        prop_assert!(most <= depth as usize);
        prop_assert_eq!(most, report.most_in_flight);
        if arbitration == Arbitration::FirstCome {
            prop_assert!(log.is_sorted_by_key(|(_, request, _)| request.arrival));
        }

        let counted: u64 = report.ops.iter().map(|op| op.latency.count).sum();
        prop_assert_eq!((report.requests, counted, report.unanswered), (500, 500, 0));
        let by_workload: u64 =
            report.workloads.iter().flat_map(|w| &w.ops).map(|op| op.latency.count).sum();
        prop_assert_eq!(by_workload, 500);
    }
}

#[test]
fn latency_counts_from_arrival() {
    // More arrivals than one at a time can serve: each waits for the previous one (Lindley).
    const REQUESTS: u64 = 5_000;
    let time = Nanos::from_micros(100);
    let arrivals = "{ kind = 'poisson', iops = 9000 }";
    let interface = host(1, 1, Arbitration::FirstCome);
    let server = Constant::new(time);
    let report =
        run(requests(REQUESTS), device(server, interface, vec![workload("w", None, arrivals)]));

    let synth::Timing::Open(mut arrivals) = synthetic(arrivals).timing else { unreachable!() };
    let (mut done, mut sum, mut longest) = (Nanos::ZERO, 0, Nanos::ZERO);
    for _ in 0..REQUESTS {
        let arrival = arrivals.next();
        done = done.max(arrival) + time;
        sum += done.since(arrival).0;
        longest = longest.max(done.since(arrival));
    }
    let report = report.unwrap();
    let total: u64 =
        report.ops.iter().map(|op| op.latency.mean.unwrap().0 * op.latency.count).sum();
    // Means are rounded to a nanosecond.
    assert!(total.abs_diff(sum) <= REQUESTS, "{total}, expected {sum}");
    assert_eq!(report.ops.iter().filter_map(|op| op.latency.max).max(), Some(longest));
    assert_eq!(report.measured_ns, done);
    assert!(longest > Nanos::from_millis(1));
}

#[test]
fn round_robin_is_fair_and_first_come_is_not() {
    let shares = |arbitration| {
        let workloads =
            vec![workload("many", Some(0), &closed(64)), workload("few", Some(1), &closed(8))];
        let server = Constant::new(Nanos::from_micros(50));
        let report = run(requests(7_200), device(server, host(4, 2, arbitration), workloads));
        let count = |i: usize, report: &DeviceReport| -> u64 {
            report.workloads[i].ops.iter().map(|op| op.latency.count).sum()
        };
        let report = report.unwrap();
        [count(0, &report), count(1, &report)]
    };
    let [many, few] = shares(Arbitration::RoundRobin);
    // The last ones of each are served after the end.
    assert!(many.abs_diff(few) <= 64 + 8, "{many} and {few}");
    let [many, few] = shares(Arbitration::FirstCome);
    assert!((many as f64 / few as f64 - 8.0).abs() < 0.2, "{many} and {few}");
}

#[test]
fn rates_are_those_of_the_measured_time() {
    let span = Span {
        warm_up: Nanos::from_millis(10),
        duration: Some(Nanos::from_secs(1)),
        ..Span::default()
    };
    let server = Constant::new(Nanos::from_micros(100));
    let workloads = vec![workload("w", None, &closed(4))];
    let report = run(span, device(server, HostInterface::default(), workloads)).unwrap();
    assert_eq!((report.measured_ns, report.iops()), (Nanos::from_secs(1), 40_000.0));
    assert_eq!((report.requests, report.warm_up_requests), (40_000, 400));
    let mb_s: f64 = report.ops.iter().filter_map(|op| op.mb_s).sum();
    assert!((mb_s - 40_000.0 * 4096.0 / 1e6).abs() < 1e-9);
}

#[test]
fn devices_are_independent() {
    let one = |time, arrivals: &str| {
        let workloads = vec![workload("w", None, arrivals)];
        device(Constant::new(Nanos::from_micros(time)), HostInterface::default(), workloads)
    };
    let alone =
        [run(requests(50_000), one(10, &closed(3))), run(requests(50_000), one(90, &closed(2)))];
    let mut together =
        Simulation::new(1, requests(50_000), [one(10, &closed(3)), one(90, &closed(2))]);
    together.run().unwrap();
    for (report, alone) in together.report().devices.iter().zip(alone) {
        assert_eq!(*report, alone.unwrap());
    }
}

#[test]
fn lack_of_progress_is_an_error() {
    let with = |time| {
        let workloads = vec![workload("w", None, &closed(4))];
        device(Constant::new(time), HostInterface::default(), workloads)
    };
    let endless = Span { duration: Some(Nanos::from_secs(1)), ..Span::default() };
    let error = run(requests(100), with(Nanos::MAX)).unwrap_err();
    assert!(matches!(error, Error::Stuck { in_flight: 4, .. }), "{error}");
    let error = run(endless, with(Nanos::ZERO)).unwrap_err();
    assert!(matches!(error, Error::Endless { .. }), "{error}");

    let source = Source::synthetic(synthetic(&closed(1)), Some(10), None);
    let workloads =
        vec![Workload { name: "w".to_owned(), queue: None, issuer: Issuer::default(), source }];
    let server = Constant::new(Nanos::from_micros(1));
    let span = Span { warm_up_requests: 20, ..requests(1) };
    let error = run(span, device(server, HostInterface::default(), workloads)).unwrap_err();
    assert!(matches!(error, Error::OnlyWarmUp { requests: 10, .. }), "{error}");
}
