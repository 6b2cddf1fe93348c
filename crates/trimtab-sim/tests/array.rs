//! Several drives under a strategy, compared with independent results.

mod suspicious;

use proptest::prelude::*;
use suspicious::Suspicious;
use trimtab_device::{Profile, Ssd};
use trimtab_io::{
    DeviceId, Flags, Issuer, LatencyHistogram, Nanos, Op, Request, RequestId, SplitMix64,
};
use trimtab_predict::Predictor;
use trimtab_sim::array::{ArrayDrive, ArrayIo, ArrayOptions, ArrayRun, RunOptions, run};
use trimtab_steer::{
    Costs, PredictorSet, Replica, ReplicaHistory, Strategy, StrategyInputs, StrategyKind, Tuning,
};

const DRIVES: usize = 3;

fn profile() -> Profile {
    let mut profile = Profile::builtin("reference").unwrap();
    let g = &mut profile.geometry;
    (g.channels, g.chips_per_channel, g.blocks_per_plane, g.pages_per_block) = (2, 2, 64, 64);
    Profile::parse(&profile.to_toml()).unwrap()
}

fn drives(depth: u32) -> Vec<ArrayDrive> {
    let drive = |number: usize| {
        let mut ssd = Ssd::new(&profile(), DeviceId(number as u32), number as u64);
        ssd.age(&profile(), 1.0, 3.0);
        ArrayDrive::new(ssd, depth)
    };
    (0..DRIVES).map(drive).collect()
}

/// `count` requests with this gap on average, a third of them writes.
fn requests(count: u64, gap: u64, seed: u64) -> Vec<ArrayIo> {
    let capacity = profile().capacity_bytes() / 4096;
    let mut random = SplitMix64::new(seed);
    let mut at = Nanos::ZERO;
    let io = |_| {
        at += Nanos(random.next() % (2 * gap));
        ArrayIo::new(
            at,
            if random.next().is_multiple_of(3) { Op::Write } else { Op::Read },
            random.next() % (capacity - 4) * 4096,
            (1 + random.next() % 4) * 4096,
            Replica((random.next() % DRIVES as u64) as u8),
        )
    };
    (0..count).map(io).collect()
}

fn strategy(kind: StrategyKind) -> Box<dyn Strategy> {
    let mut reads = LatencyHistogram::new();
    reads.extend((1..=1000).map(Nanos::from_micros));
    let inflection = Nanos::from_micros(800);
    let history = vec![ReplicaHistory { reads, inflection, false_submit_rate: 0.1 }; DRIVES];
    let predictor = |_| Box::new(Suspicious::new(inflection)) as Box<dyn Predictor>;
    let predictors = Some(PredictorSet::new((0..DRIVES).map(predictor)));
    let costs = Costs::new(Nanos::from_micros(6));
    kind.build(&history, StrategyInputs { predictors, costs, tuning: Tuning::default(), seed: 1 })
}

fn run_kind(kind: StrategyKind, depth: u32, requests: &[ArrayIo]) -> ArrayRun {
    let thresholds = Some(vec![Nanos::from_micros(800); DRIVES]);
    let options = ArrayOptions {
        run: RunOptions { seed: 5, thresholds, log: true, ..RunOptions::default() },
        refusal_samples: 20,
    };
    run(drives(depth), strategy(kind), requests, &options).unwrap()
}

/// Under `base` the drives are independent, so each behaves as if alone.
#[test]
fn base_equals_drives_alone() {
    let requests = requests(30_000, 300_000, 1);
    let run = run_kind(StrategyKind::Base, 1024, &requests);
    for (number, drive) in drives(1024).into_iter().enumerate() {
        let mut ssd = drive.server;
        let mut alone = LatencyHistogram::new();
        let mut served = Vec::new();
        let own = requests.iter().enumerate().filter(|(_, io)| io.primary.index() == number);
        for (id, io) in own {
            ssd.submit(io.at, &request(id as u64, io)).unwrap();
            served.extend(ssd.served());
        }
        while ssd.in_flight() > 0 {
            ssd.advance(ssd.next_event().unwrap());
        }
        served.extend(ssd.served());
        for answer in served {
            let io = &requests[answer.completion.request.0 as usize];
            if io.op == Op::Read {
                alone.record(answer.completion.service_time());
            }
        }
        let replica = &run.figures.replicas[number];
        assert_eq!(replica.reads.summary(), alone.summary());
        assert_eq!(replica.served.summary(), alone.summary());
        assert!(alone.max().unwrap() > Nanos::from_millis(1), "nothing was slow");
    }
    assert_eq!(run.figures.counts.extra_share(), 0.0);
}

fn request(id: u64, io: &ArrayIo) -> Request {
    Request {
        id: RequestId(id),
        device: DeviceId(io.primary.0.into()),
        arrival: io.at,
        op: io.op,
        offset: io.offset,
        length: io.length,
        flags: Flags::empty(),
        deadline: None,
        issuer: Issuer::default(),
    }
}

#[test]
fn log_holds_all_requests_sent() {
    let requests = requests(5_000, 200_000, 2);
    let run = run_kind(StrategyKind::Clone, 4, &requests);
    let mut reads = LatencyHistogram::new();
    let mut rows = 0;
    for log in &run.log {
        assert!(log.is_sorted_by_key(|entry| entry.arrival));
        for entry in log {
            let (issue, complete) = (entry.issue.unwrap(), entry.complete.unwrap());
            assert!(entry.arrival <= issue && issue <= complete);
            if entry.op == Op::Read {
                reads.record(complete.since(entry.arrival));
            }
        }
        rows += log.len() as u64;
    }
    let counts = run.figures.counts;
    let writes = requests.iter().filter(|io| io.op == Op::Write).count() as u64;
    assert_eq!(rows, writes + counts.sent);
    assert_eq!(counts.sent, 2 * counts.reads);
    let mut served = LatencyHistogram::new();
    run.figures.replicas.iter().for_each(|replica| served.merge(&replica.served));
    assert_eq!(reads.summary(), served.summary());
}

/// With one request at a time the others wait in the host's queue, where a copy can be
/// cancelled.
#[test]
fn queued_requests_can_be_cancelled() {
    let requests = requests(5_000, 300_000, 3);
    let counts = run_kind(StrategyKind::Tied, 1, &requests).figures.counts;
    assert!(counts.cancelled > counts.reads / 10, "{counts:?}");
    assert_eq!(counts.sent + counts.cancelled, 2 * counts.reads);
    let roomy = run_kind(StrategyKind::Tied, 1024, &requests).figures.counts;
    assert_eq!(roomy.cancelled, 0);
}

#[test]
fn deciding_costs_time() {
    let requests = requests(2_000, 2_000_000, 4);
    let base = run_kind(StrategyKind::Base, 1024, &requests).figures;
    let linnos = run_kind(StrategyKind::Linnos, 1024, &requests).figures;
    let p50 = |figures: &trimtab_sim::array::ArrayFigures| figures.reads.quantile(0.5).unwrap().0;
    // At this load only reads delayed by an erase are slow.
    assert!((5_500..8_000).contains(&(p50(&linnos) - p50(&base))), "{}", p50(&linnos) - p50(&base));
}

#[test]
fn decisions_are_scored() {
    let requests = requests(40_000, 300_000, 5);
    let base = run_kind(StrategyKind::Base, 1024, &requests).figures;
    assert_eq!((base.score.submitted, base.score.sampled), (0, 0));
    let score = run_kind(StrategyKind::Linnos, 1024, &requests).figures.score;
    assert!(score.submitted > 10_000 && score.false_submits > 100, "{score:?}");
    assert!(score.refused > 1_000 && (10..20).contains(&score.sampled), "{score:?}");
    assert!(score.false_revokes < score.sampled, "{score:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn every_read_completes(seed: u64, gap in 20_000_u64..400_000, depth in 1_u32..40) {
        let requests = requests(3_000, gap, seed);
        let reads = requests.iter().filter(|io| io.op == Op::Read).count() as u64;
        for kind in StrategyKind::ALL {
            let ArrayRun { figures, drives, log } = run_kind(kind, depth, &requests);
            prop_assert_eq!(figures.reads.count(), reads, "{}", kind);
            prop_assert_eq!(figures.errors, 0);
            prop_assert_eq!(figures.counts.reads, reads);
            let read = log.iter().flatten().filter(|r| r.op == Op::Read);
            let done = read.filter(|r| r.complete.is_some()).count() as u64;
            prop_assert_eq!(done, figures.counts.sent, "{}", kind);
            for drive in drives {
                prop_assert_eq!(drive.server.in_flight(), 0);
                prop_assert_eq!(drive.server.verify(), Ok(()));
            }
            let again = run_kind(kind, depth, &requests);
            prop_assert_eq!(figures.reads.summary(), again.figures.reads.summary());
            prop_assert_eq!(figures.score, again.figures.score);
        }
    }
}
