//! The three predictors against closed forms, and what holds for all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use trimtab_io::{
    CleaningWork, FlashChange, FlashEvent, FlashMap, FlashOp, HostEvent, IoClass, Issuer, Nanos,
    Op, Request,
};

use super::*;
use crate::predictor::{Forecast, Predictor, Ticket, Verdict};
use crate::testing::request;

const MS: u64 = 1_000_000;

/// A disk on which a seek takes 1 ns for 4 KiB of distance, and 2 ms at least; 4 KiB are
/// transferred in 0.1 ms, and in 0.2 ms from 1 GiB on.
fn disk() -> Arc<DiskTimes> {
    let seek = [(4096, 2 * MS), (4096 * 8 * MS, 10 * MS)];
    let zones = [(0, MS / 10), (1 << 30, MS / 5)];
    Arc::new(DiskTimes::new(&seek, &zones, Nanos(5000), Nanos(9000)).unwrap())
}

fn noop(order: QueueOrder, precision: DiskPrecision) -> MittNoop<Arc<DiskTimes>> {
    MittNoop::new(disk(), order, Limit::new(Some(Nanos::from_millis(20))), precision)
}

fn read(offset: u64) -> Request {
    request(Op::Read, offset, 4096)
}

fn wait(predictor: &impl Predictor, now: u64, request: &Request) -> Nanos {
    predictor.predict(Nanos(now), request).wait.unwrap()
}

/// In FIFO order a request waits for the sum of those before it, less what has passed.
#[test]
fn fifo_waits_for_the_sum() {
    let mut noop = noop(QueueOrder::Fifo, DiskPrecision::default());
    let disk = disk();
    let offsets = [8192, 1 << 30, 4096, 8192];
    let mut end = 0;
    let times = offsets.map(|offset| {
        let time = disk.expected(end, Op::Read, offset, 4096);
        end = offset + 4096;
        time
    });
    let mut sum = Nanos::ZERO;
    let mut tickets = Vec::new();
    for (offset, time) in offsets.into_iter().zip(times) {
        sum += time;
        assert_eq!(wait(&noop, 0, &read(offset)), sum);
        tickets.push(noop.sent(Nanos::ZERO, &read(offset)));
    }
    assert_eq!((noop.next_free(Nanos(MS)), noop.pending()), (sum, sum));
    // The first takes 3 ms longer than predicted, and all that follow are as much later.
    let actual = times[0] + Nanos(3 * MS);
    noop.completed(actual, tickets[0], true);
    assert_eq!(noop.next_free(actual), sum + Nanos(3 * MS));
    // The second is overdue: the third and fourth remain.
    let late = actual + times[1] + Nanos(MS);
    assert_eq!(noop.next_free(late), late + times[2] + times[3]);
}

#[test]
fn without_feedback_errors_add_up() {
    let precision = DiskPrecision { feedback: false, ..DiskPrecision::default() };
    let mut noop = noop(QueueOrder::Fifo, precision);
    let ticket = noop.sent(Nanos::ZERO, &read(8192));
    let free = noop.next_free(Nanos::ZERO);
    noop.completed(Nanos(1), ticket, true);
    assert_eq!(noop.next_free(Nanos(1)), free, "the completion teaches nothing");
    assert_eq!(noop.next_free(free + Nanos(9)), free + Nanos(9));
}

/// The arm takes the nearest first, so a near request passes far ones, and a far one waits for
/// those between.
#[test]
fn sstf_serves_the_nearest_first() {
    let mut noop = noop(QueueOrder::Sstf { depth: 8 }, DiskPrecision::default());
    let disk = disk();
    let gib = 1 << 30;
    let time = |from: u64, to: u64| disk.expected(from, Op::Read, to, 4096);
    let current = noop.sent(Nanos::ZERO, &read(0));
    noop.sent(Nanos::ZERO, &read(40 * gib));
    noop.sent(Nanos::ZERO, &read(20 * gib));
    let first = time(0, 0);
    // Nearer than both.
    assert_eq!(wait(&noop, 0, &read(10 * gib)), first + time(4096, 10 * gib));
    // After the one at 20 GiB, before the one at 40.
    let at_20 = first + time(4096, 20 * gib);
    assert_eq!(wait(&noop, 0, &read(25 * gib)), at_20 + time(20 * gib + 4096, 25 * gib));
    // After both.
    let at_40 = at_20 + time(20 * gib + 4096, 40 * gib);
    assert_eq!(wait(&noop, 0, &read(90 * gib)), at_40 + time(40 * gib + 4096, 90 * gib));
    // The disk goes on with the nearest.
    noop.completed(Nanos(MS), current, true);
    let next = Nanos(MS) + time(4096, 20 * gib);
    assert_eq!(
        Nanos(MS) + wait(&noop, MS, &read(21 * gib)),
        next + time(20 * gib + 4096, 21 * gib)
    );
}

#[test]
fn refuses_from_deadline_less_hop() {
    let mut noop = noop(QueueOrder::Fifo, DiskPrecision::default());
    let mut sent = 0;
    while noop.predict(Nanos::ZERO, &read(8192)).verdict == Verdict::Fast {
        noop.sent(Nanos::ZERO, &read(8192));
        sent += 1;
    }
    let Forecast { wait, probability, fast, .. } = noop.predict(Nanos::ZERO, &read(8192));
    assert!(wait.unwrap() > Nanos::from_micros(19_700) && probability > 0.5 && fast.is_none());
    let service = disk().expected(12_288, Op::Read, 8192, 4096);
    assert!(wait.unwrap() - service <= Nanos::from_micros(19_700) && sent > 5);
    let patient = Request { deadline: Some(Nanos::from_secs(1)), ..read(8192) };
    assert_eq!(noop.predict(Nanos::ZERO, &patient).verdict, Verdict::Fast);
    let write = request(Op::Write, 8192, 4096);
    assert_eq!(noop.predict(Nanos::ZERO, &write).verdict, Verdict::Fast);
}

fn cfq(weights: CfqWeights) -> MittCfq<Arc<DiskTimes>> {
    let limit = Limit { deadline: None, hop: Nanos::ZERO, elsewhere: None };
    MittCfq::new(disk(), QueueOrder::Fifo, weights, limit, DiskPrecision::default())
}

fn of(process: u32, class: IoClass, group: u16, offset: u64) -> Request {
    Request { issuer: Issuer { process, class, group, level: 4 }, ..read(offset) }
}

use IoClass::{BestEffort, Idle, RealTime};

#[test]
fn cfq_waits_for_higher_classes_and_for_slices_of_peers() {
    let mut cfq = cfq(CfqWeights::default());
    let service = disk().expected(0, Op::Read, 8192, 4096);
    let again = disk().expected(12_288, Op::Read, 8192, 4096);
    // 100 best-effort requests of process 1: more than a slice of 100 ms.
    for _ in 0..100 {
        cfq.sent(Nanos::ZERO, &of(1, BestEffort, 0, 8192));
    }
    let all = Nanos(service.0 + 99 * again.0);
    assert_eq!(cfq.pending(), all);
    assert_eq!(wait(&cfq, 0, &of(2, RealTime, 0, 8192)), service);
    assert_eq!(wait(&cfq, 0, &of(2, BestEffort, 0, 8192)), Nanos::from_millis(100) + service);
    assert_eq!(wait(&cfq, 0, &of(2, Idle, 0, 8192)), all + service);
    assert_eq!(wait(&cfq, 0, &of(1, BestEffort, 0, 8192)), all + again);
    // A higher level has longer slices, a lower one shorter.
    let mut short = of(3, BestEffort, 1, 8192);
    short.issuer.level = 7;
    for _ in 0..100 {
        cfq.sent(Nanos::ZERO, &short);
    }
    let wait_of = wait(&cfq, 0, &of(4, BestEffort, 1, 8192));
    // 40 ms of the peer, and as much of the other group as of this one, of equal weight.
    let inside = Nanos::from_millis(40) + service;
    assert_eq!(wait_of, Nanos(2 * inside.0));
}

#[test]
fn groups_share_by_weight() {
    let weights = CfqWeights { groups: vec![(0, 100), (1, 400)], ..CfqWeights::default() };
    let mut cfq = cfq(weights);
    (0..100).for_each(|_| _ = cfq.sent(Nanos::ZERO, &of(1, BestEffort, 0, 8192)));
    let service = disk().expected(0, Op::Read, 8192, 4096);
    let wait = wait(&cfq, 0, &of(2, BestEffort, 1, 8192));
    assert_eq!(wait, Nanos(service.0 + service.0 / 4), "a fifth for the other group");
}

#[test]
fn higher_class_cancels_reads_that_can_wait_no_longer() {
    let mut cfq = cfq(CfqWeights::default());
    let service = disk().expected(0, Op::Read, 8192, 4096);
    let again = disk().expected(12_288, Op::Read, 8192, 4096);
    let deadline = |tolerable: u64, expected: Nanos| Request {
        deadline: Some(Nanos(tolerable) + expected),
        ..of(1, BestEffort, 0, 8192)
    };
    let one = cfq.sent(Nanos::ZERO, &deadline(9 * MS, service));
    let two = cfq.sent(Nanos::ZERO, &deadline(service.0 + again.0, service + again));
    let dispatched = cfq.sent(Nanos::ZERO, &deadline(0, service + again + again));
    cfq.dispatched(Nanos::ZERO, dispatched);
    let other_group = cfq.sent(
        Nanos::ZERO,
        &Request { deadline: Some(Nanos::from_secs(1)), ..of(7, Idle, 1, 8192) },
    );
    cfq.sent(Nanos::ZERO, &of(2, RealTime, 0, 8192));
    assert_eq!(cfq.next_cancelled(), None, "both have time left");
    cfq.sent(Nanos::ZERO, &of(2, RealTime, 0, 8192));
    assert_eq!(cfq.next_cancelled(), None, "two has none left, and is not late");
    cfq.sent(Nanos::ZERO, &of(2, RealTime, 0, 8192));
    assert_eq!(cfq.next_cancelled(), Some(two));
    let before = cfq.pending();
    cfq.completed(Nanos::ZERO, two, false);
    assert_eq!(cfq.pending(), before - again);
    (0..2).for_each(|_| _ = cfq.sent(Nanos::ZERO, &of(2, RealTime, 0, 8192)));
    assert_eq!((cfq.next_cancelled(), cfq.next_cancelled()), (Some(one), None));
    let rest = [dispatched, other_group];
    assert!(
        rest.iter().all(|ticket| cfq.predict(Nanos(1), &read(0)).wait.is_some() && ticket.0 < 9)
    );
}

const DIES: u32 = 4;
const PROGRAM: [u64; 4] = [1000, 2000, 1000, 4000];

/// Two channels of two dies; pages of two units; a read takes 100 ns, a transfer 10 ns and 1 ns for
/// a unit.
fn flash(reads_first: bool) -> Arc<FlashModel> {
    let program = PROGRAM.map(Nanos);
    let values = FlashValues {
        read: Nanos(100),
        program: &program,
        erase: Nanos(9000),
        command: Nanos(10),
        channel_ps_per_byte: 1,
        firmware: Nanos::ZERO,
        link_ps_per_byte: 0,
        dies: DIES,
        dies_per_channel: 2,
        unit_bytes: 1024,
        units_per_page: 2,
        units_per_die: 100,
        reads_first,
        preemptive: false,
        copyback: false,
    };
    Arc::new(FlashModel::new(&values).unwrap())
}

/// Two units on each die in turn: a page, then one of the next die.
fn map() -> Arc<FlashMap> {
    let map = FlashMap::new(64, 1024);
    for user in 0..32 {
        let (die, round) = (user / 2 % DIES, user / 2 / DIES);
        map.set(user, Some(die * 100 + round * 2 + user % 2));
    }
    Arc::new(map)
}

fn ssd(reads_first: bool, precision: FlashPrecision) -> MittSsd {
    let limit = Limit { deadline: Some(Nanos(5000)), hop: Nanos(500), elsewhere: None };
    MittSsd::new(flash(reads_first), map(), limit, precision)
}

const fn event(at: u64, die: u32, change: FlashChange) -> HostEvent {
    HostEvent::Flash(FlashEvent { at: Nanos(at), die, change })
}

fn units(first: u64, count: u64) -> Request {
    request(Op::Read, first * 1024, count * 1024)
}

/// A page's transfer: the command, and 2 ns for two units, rounded up.
const PAGE: u64 = 10 + 3;
const UNIT: u64 = 10 + 2;

#[test]
fn pages_wait_for_dies_and_channels() {
    let mut ssd = ssd(false, FlashPrecision::default());
    assert_eq!(wait(&ssd, 0, &units(0, 1)), Nanos(100 + UNIT));
    assert_eq!(wait(&ssd, 0, &units(0, 2)), Nanos(100 + PAGE));
    // Dies 0 and 1 share a channel: one transfer after the other.
    assert_eq!(wait(&ssd, 0, &units(0, 4)), Nanos(100 + 2 * PAGE));
    assert_eq!(wait(&ssd, 0, &units(40, 2)), Nanos::ZERO, "in no flash");
    ssd.observe(&event(0, 2, FlashChange::Queued(FlashOp::Program { page: 3 })));
    assert_eq!(wait(&ssd, 0, &units(4, 1)), Nanos(PAGE + 4000 + 100 + UNIT));
    ssd.observe(&event(0, 2, FlashChange::Begun(FlashOp::Program { page: 3 })));
    assert_eq!(wait(&ssd, 50, &units(4, 1)), Nanos(PAGE + 4000 + 100 + UNIT - 50));
    // A large read is as late as its latest page, and refused whole.
    let large = ssd.predict(Nanos(50), &units(0, 16));
    let both_pages = Nanos(PAGE + 4000 + 2 * (100 + PAGE) - 50);
    assert_eq!((large.wait, large.verdict), (Some(both_pages), Verdict::Fast));
    ssd.observe(&event(60, 2, FlashChange::Queued(FlashOp::Program { page: 0 })));
    assert_eq!(ssd.predict(Nanos(60), &units(0, 16)).verdict, Verdict::Late);
    assert_eq!(ssd.predict(Nanos(60), &units(0, 4)).verdict, Verdict::Fast);
    // It ends late, and what is queued begins.
    ssd.observe(&event(5000, 2, FlashChange::Ended { idle: false }));
    ssd.observe(&event(5000, 2, FlashChange::Begun(FlashOp::Program { page: 0 })));
    assert_eq!(wait(&ssd, 5000, &units(4, 1)), Nanos(PAGE + 1000 + 100 + UNIT));
}

#[test]
fn cleaning_takes_its_moves_and_its_erase() {
    let work = CleaningWork { reads: 2, bytes: 3 * 1024, programs: 2, first_page: 3 };
    let begun = event(0, 0, FlashChange::Begun(FlashOp::Clean(work)));
    let mut with = ssd(false, FlashPrecision::default());
    with.observe(&begun);
    // Two reads; out: two commands and 4 ns; two pages in; the last page of a block and the first
    // of the next; the erase.
    let cleaning = 200 + (20 + 4) + 2 * PAGE + 4000 + 1000 + 9000;
    assert_eq!(with.next_free(Nanos::ZERO, 0), Nanos(cleaning));
    let mut mean = ssd(false, FlashPrecision { page_table: false, ..FlashPrecision::default() });
    mean.observe(&begun);
    assert_eq!(mean.next_free(Nanos::ZERO, 0), Nanos(cleaning - 5000 + 2 * 2000));
    let mut without = ssd(false, FlashPrecision { erase: false, ..FlashPrecision::default() });
    without.observe(&begun);
    assert_eq!(without.next_free(Nanos::ZERO, 0), Nanos::ZERO);
    with.observe(&event(7, 0, FlashChange::Ended { idle: true }));
    assert_eq!(with.next_free(Nanos(7), 0), Nanos(7));
}

#[test]
fn reads_pass_what_is_queued_where_dies_serve_them_first() {
    for (first, queued) in [(true, 0), (false, PAGE + 1000)] {
        let mut ssd = ssd(first, FlashPrecision::default());
        ssd.observe(&event(0, 0, FlashChange::Begun(FlashOp::Program { page: 1 })));
        ssd.observe(&event(0, 0, FlashChange::Queued(FlashOp::Program { page: 0 })));
        ssd.sent(Nanos::ZERO, &units(0, 1));
        let expected = PAGE + 2000 + queued + 2 * (100 + UNIT);
        assert_eq!(wait(&ssd, 0, &units(0, 1)), Nanos(expected));
    }
}

#[test]
fn stalls_delay_everything() {
    let mut ssd = ssd(false, FlashPrecision::default());
    ssd.observe(&event(5, 0, FlashChange::Stalled { left: Nanos(700) }));
    assert_eq!(wait(&ssd, 10, &units(0, 1)), Nanos(695 + 100 + UNIT));
    ssd.observe(&event(20, 0, FlashChange::Admitted));
    assert_eq!(wait(&ssd, 20, &units(0, 1)), Nanos(100 + UNIT));
}

/// A request of any issuer, and how long it stays.
#[derive(Clone, Copy, Debug)]
struct Step {
    gap: u64,
    request: Request,
    latency: u64,
    data: bool,
}

prop_compose! {
    fn step()(
        gap in prop_oneof![Just(0), 0_u64..8 * MS],
        op in prop_oneof![4 => Just(Op::Read), 1 => Just(Op::Write), 1 => Just(Op::Flush)],
        unit in 0_u64..40,
        count in 0_u64..9,
        latency in prop_oneof![Just(0), 0_u64..80 * MS],
        data in prop::bool::weighted(0.9),
        issuer in (0_u32..5, 0_u16..3, 0_u8..3, 0_u8..8),
        deadline in prop::option::of(0_u64..100 * MS),
    ) -> Step {
        let (process, group, class, level) = issuer;
        let class = [RealTime, BestEffort, Idle][usize::from(class)];
        let request = Request {
            issuer: Issuer { process, group, class, level },
            deadline: deadline.map(Nanos),
            ..request(op, unit * 1024, count * 1024)
        };
        Step { gap, request, latency, data }
    }
}

fn every() -> Vec<Box<dyn Predictor>> {
    let coarse = DiskPrecision { feedback: false, sizes: false };
    let limit = Limit::new(Some(Nanos::from_millis(20)));
    let usual = DiskPrecision::default();
    vec![
        Box::new(noop(QueueOrder::Fifo, usual)),
        Box::new(noop(QueueOrder::Fifo, coarse)),
        Box::new(noop(QueueOrder::Sstf { depth: 4 }, usual)),
        Box::new(noop(QueueOrder::Ncq { depth: 4, starvation: Nanos::MAX }, usual)),
        Box::new(MittCfq::new(disk(), QueueOrder::Fifo, CfqWeights::default(), limit, usual)),
        Box::new(MittCfq::new(
            disk(),
            QueueOrder::Ncq { depth: 4, starvation: Nanos::MAX },
            CfqWeights::default(),
            limit,
            usual,
        )),
        Box::new(MittCfq::new(
            disk(),
            QueueOrder::Sstf { depth: 4 },
            CfqWeights::default(),
            limit,
            coarse,
        )),
        Box::new(ssd(false, FlashPrecision::default())),
        Box::new(ssd(true, FlashPrecision::default())),
        Box::new(ssd(false, FlashPrecision::NONE)),
    ]
}

/// Runs steps; `each` sees the predictor before each request is sent.
fn run(
    predictor: &mut dyn Predictor,
    steps: &[Step],
    mut each: impl FnMut(&dyn Predictor, Nanos, &Request, usize),
) -> Vec<Ticket> {
    let (mut now, mut cancelled) = (0, Vec::new());
    let mut flying: BTreeMap<(u64, usize), (Ticket, bool)> = BTreeMap::new();
    for (number, step) in steps.iter().enumerate() {
        now += step.gap;
        while let Some(entry) = flying.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((at, _), (ticket, data)) = entry.remove_entry();
            predictor.completed(Nanos(at), ticket, data);
        }
        let arrival = Nanos(now);
        let deadline = step.request.deadline.map(|deadline| arrival + deadline);
        let request = Request { arrival, deadline, ..step.request };
        each(predictor, arrival, &request, flying.len());
        let ticket = predictor.sent(arrival, &request);
        while let Some(ticket) = predictor.next_cancelled() {
            cancelled.push(ticket);
        }
        flying.insert((now + step.latency, number), (ticket, step.data));
    }
    cancelled
}

proptest! {
    /// An idle disk has no wait, a busy one is never free in the past.
    #[test]
    fn an_idle_disk_does_not_wait(steps in prop::collection::vec(step(), 1..60)) {
        for order in [QueueOrder::Fifo, QueueOrder::Sstf { depth: 4 }, QueueOrder::Ncq { depth: 4, starvation: Nanos::MAX }] {
            let mut predictor = noop(order, DiskPrecision::default());
            let mut flying: BTreeMap<(u64, usize), Ticket> = BTreeMap::new();
            let mut now = 0;
            for (number, step) in steps.iter().enumerate() {
                now += step.gap;
                while let Some(entry) = flying.first_entry().filter(|entry| entry.key().0 <= now) {
                    let ((at, _), ticket) = entry.remove_entry();
                    predictor.completed(Nanos(at), ticket, true);
                }
                prop_assert!(predictor.next_free(Nanos(now)) >= Nanos(now));
                if flying.is_empty() {
                    prop_assert_eq!(predictor.next_free(Nanos(now)), Nanos(now));
                    prop_assert_eq!(predictor.pending(), Nanos::ZERO);
                }
                flying.insert((now + step.latency, number), predictor.sent(Nanos(now), &step.request));
            }
        }
    }

    /// What is pending is the sum of what is in flight, and nothing is left in the end.
    #[test]
    fn predicted_times_are_conserved(steps in prop::collection::vec(step(), 1..60)) {
        let mut predictor = cfq(CfqWeights::default());
        let mut tickets = Vec::new();
        for step in &steps {
            let before = predictor.pending();
            let ticket = predictor.sent(Nanos::ZERO, &step.request);
            tickets.push((ticket, predictor.pending() - before));
            prop_assert!(predictor.pending() >= before);
        }
        for (number, (ticket, time)) in tickets.into_iter().enumerate() {
            let before = predictor.pending();
            if number % 3 == 0 {
                // From then on it counts for what it takes where the arm is.
                predictor.dispatched(Nanos::ZERO, ticket);
            }
            predictor.completed(Nanos(number as u64), ticket, true);
            prop_assert_eq!(predictor.pending(), before - time);
        }
        prop_assert_eq!(predictor.pending(), Nanos::ZERO);
        let mut flash = ssd(false, FlashPrecision::default());
        for step in steps.iter().filter(|step| step.request.op == Op::Read) {
            flash.sent(Nanos::ZERO, &step.request);
        }
        for die in 0..DIES {
            prop_assert!(flash.next_free(Nanos(1), die) >= Nanos(1));
            flash.observe(&event(9, die, FlashChange::Ended { idle: true }));
        }
        prop_assert_eq!(flash.queued(), Nanos::ZERO);
    }

    /// No forecast, and no cancellation, depends on what is not known yet: when requests in flight
    /// will complete, and what comes later.
    #[test]
    fn forecasts_do_not_know_the_future(
        past in prop::collection::vec(step(), 1..40),
        future in prop::collection::vec(step(), 0..10),
        other in prop::collection::vec((0_u64..90 * MS, prop::bool::ANY), 40),
    ) {
        let now: u64 = past.iter().map(|step| step.gap).sum();
        let mut at = 0;
        let changed = past.iter().zip(&other).map(|(step, &(latency, data))| {
            at += step.gap;
            // Only what has not completed by the last decision.
            if at + step.latency > now { Step { latency: (now - at) + latency + 1, data, ..*step } }
            else { *step }
        });
        let changed: Vec<_> = changed.chain(future.iter().copied()).collect();
        for (one, two) in every().iter_mut().zip(every().iter_mut()) {
            let mut forecasts = Vec::new();
            let note = |all: &mut Vec<Forecast>, p: &dyn Predictor, now, request: &Request| {
                all.push(p.predict(now, request));
            };
            run(&mut **one, &past, |p, now, request, _| note(&mut forecasts, p, now, request));
            let mut others = Vec::new();
            run(&mut **two, &changed, |p, now, request, _| note(&mut others, p, now, request));
            prop_assert_eq!(&forecasts[..], &others[..past.len()], "{}", one.name());
        }
    }

    /// Any order of events leaves a predictor that answers: no panic, no probability outside 0..1.
    #[test]
    fn forecasts_are_sane(steps in prop::collection::vec(step(), 1..60)) {
        for predictor in &mut every() {
            let mut sane = true;
            run(&mut **predictor, &steps, |p, now, request, _| {
                let Forecast { verdict, probability, wait, .. } = p.predict(now, request);
                sane &= (0.0..=1.0).contains(&probability) && wait.is_some();
                sane &= (verdict == Verdict::Late) <= (probability >= 0.5);
                sane &= request.op == Op::Read || verdict == Verdict::Fast;
            });
            prop_assert!(sane, "{}", predictor.name());
        }
    }
}
