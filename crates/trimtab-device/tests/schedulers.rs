//! What holds for every scheduler, and the shares that CFQ and BFQ promise.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use trimtab_device::scheduler::{AnyScheduler, Scheduler as _, SchedulerKind};
use trimtab_io::{DeviceId, Flags, IoClass, Issuer, Nanos, Op, Request, RequestId};

const SERVICE: Nanos = Nanos::from_micros(500);

fn kind(number: usize) -> SchedulerKind {
    SchedulerKind::parse(&format!("kind = '{}'", SchedulerKind::NAMES[number])).unwrap()
}

/// A device that serves one request after the other, `depth` at a time.
struct Device {
    scheduler: AnyScheduler,
    depth: usize,
    in_device: VecDeque<Request>,
    now: Nanos,
    done_at: Nanos,
    /// In the order of dispatch, with the time.
    dispatched: Vec<(Nanos, Request)>,
}

impl Device {
    fn new(kind: &SchedulerKind, depth: usize) -> Self {
        Self {
            scheduler: kind.scheduler(),
            depth,
            in_device: VecDeque::new(),
            now: Nanos::ZERO,
            done_at: Nanos::MAX,
            dispatched: Vec::new(),
        }
    }

    fn pump(&mut self) {
        while self.in_device.len() < self.depth {
            let in_device = self.in_device.len() as u32;
            let Some(next) = self.scheduler.dispatch(self.now, in_device) else { break };
            if self.in_device.is_empty() {
                self.done_at = self.now + SERVICE;
            }
            self.in_device.push_back(next);
            self.dispatched.push((self.now, next));
        }
        // An idle device with requests that wait is kept so on purpose, for a stated time.
        let waits = self.in_device.is_empty() && self.scheduler.len() > 0;
        assert!(!waits || self.scheduler.next_timer().is_some_and(|at| at > self.now));
    }

    fn next_event(&self) -> Option<Nanos> {
        let done = (!self.in_device.is_empty()).then_some(self.done_at);
        let has_room = self.in_device.len() < self.depth;
        let timer = self.scheduler.next_timer().filter(|_| has_room).map(|at| at.max(self.now));
        done.into_iter().chain(timer).min()
    }

    /// One event. Returns the request that it completed.
    fn step(&mut self) -> Option<Request> {
        self.now = self.next_event()?;
        let mut done = None;
        if !self.in_device.is_empty() && self.done_at <= self.now {
            done = self.in_device.pop_front();
            self.done_at = self.now + SERVICE;
            self.scheduler.completed(self.now, &done.unwrap(), SERVICE);
        }
        self.pump();
        done
    }

    fn insert(&mut self, at: Nanos, request: &Request) {
        while self.next_event().is_some_and(|event| event <= at) {
            self.step();
        }
        self.now = at;
        self.scheduler.insert(at, request);
        self.pump();
    }

    fn finish(&mut self) {
        while self.scheduler.len() > 0 || !self.in_device.is_empty() {
            assert!(self.next_event().is_some(), "requests wait, and nothing will happen");
            self.step();
        }
    }
}

fn request(id: u64, op: Op, page: u64, issuer: Issuer) -> Request {
    let request = Request::new(RequestId(id), DeviceId(0), Nanos(0), op, page * 4096, 4096);
    Request { issuer, flags: Flags::SYNC, ..request }
}

fn issuer(process: u32, class: IoClass, level: u8) -> Issuer {
    Issuer { process, group: 0, class, level }
}

fn issuers() -> impl Strategy<Value = Issuer> {
    let class =
        prop_oneof![Just(IoClass::RealTime), Just(IoClass::BestEffort), Just(IoClass::Idle)];
    (0..6_u32, 0..3_u16, class, 0..8_u8).prop_map(|(process, group, class, level)| Issuer {
        process,
        group,
        class,
        level,
    })
}

fn arrivals() -> impl Strategy<Value = Vec<(u64, Op, bool, u64, u64, Issuer)>> {
    let op = prop_oneof![3 => Just(Op::Read), 2 => Just(Op::Write), 1 => Just(Op::Discard)];
    let gap = prop_oneof![4 => 0..300_u64, 1 => 0..30_000_u64, 1 => Just(3_000_000)];
    let arrival = (gap, op, any::<bool>(), 0..20_000_u64, 1..200_u64, issuers());
    prop::collection::vec(arrival, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Each request is dispatched once or removed once, and the device idles only on purpose.
    #[test]
    fn every_request_is_dispatched_once(
        scheduler in 0..4_usize,
        depth in 1..9_usize,
        arrivals in arrivals(),
        removed in prop::collection::btree_set(0..120_u64, 0..10),
    ) {
        let mut device = Device::new(&kind(scheduler), depth);
        let (mut now, mut taken_out) = (Nanos::ZERO, 0);
        for (&(gap_us, op, sync, page, pages, issuer), id) in arrivals.iter().zip(0..) {
            now += Nanos::from_micros(gap_us);
            let flags = if sync { Flags::SYNC } else { Flags::empty() };
            let length = pages * 4096;
            let made = Request { flags, length, ..request(id, op, page, issuer) };
            device.insert(now, &made);
            if removed.contains(&id) {
                let waits = !device.dispatched.iter().any(|(_, other)| other.id == made.id);
                let removed = device.scheduler.remove(made.id);
                prop_assert_eq!(removed, waits.then_some(made));
                prop_assert_eq!(device.scheduler.remove(made.id), None);
                taken_out += usize::from(waits);
            }
        }
        device.finish();
        let mut ids: Vec<_> = device.dispatched.iter().map(|(_, request)| request.id.0).collect();
        prop_assert_eq!(ids.len(), arrivals.len() - taken_out);
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), arrivals.len() - taken_out);
    }

    /// A burst of reads of one process is served in one sweep, except by `none`.
    #[test]
    fn a_process_is_served_by_offset(
        scheduler in 1..4_usize,
        pages in prop::collection::btree_set(1_000..4_000_u64, 2..60),
        seed in any::<u64>(),
    ) {
        let mut device = Device::new(&kind(scheduler), 1);
        // Occupies the device while the others arrive.
        device.insert(Nanos(0), &request(0, Op::Read, 0, issuer(1, IoClass::BestEffort, 4)));
        let mut shuffled: Vec<_> = pages.iter().copied().collect();
        shuffled.sort_by_key(|page| trimtab_io::mix64(page ^ seed));
        for (&page, id) in shuffled.iter().zip(1..) {
            device.insert(Nanos(id), &request(id, Op::Read, page, issuer(1, IoClass::BestEffort, 4)));
        }
        device.finish();
        let served: Vec<_> = device.dispatched[1..].iter().map(|(_, r)| r.offset / 4096).collect();
        prop_assert_eq!(served, pages.into_iter().collect::<Vec<_>>());
    }

    /// A waiting class is not passed over by a lower one (`none` has no classes).
    #[test]
    fn higher_classes_are_served_first(
        scheduler in 1..4_usize,
        classes in prop::collection::vec(1..4_u8, 2..60),
    ) {
        let class = |n| [IoClass::RealTime, IoClass::BestEffort, IoClass::Idle][usize::from(n) - 1];
        let mut device = Device::new(&kind(scheduler), 1);
        device.insert(Nanos(0), &request(0, Op::Read, 0, issuer(9, IoClass::RealTime, 4)));
        for (&n, id) in classes.iter().zip(1..) {
            let issuer = issuer(n.into(), class(n), 4);
            device.insert(Nanos(id), &request(id, Op::Read, id * 7 % 61, issuer));
        }
        device.finish();
        let served: Vec<_> = device.dispatched[1..].iter().map(|(_, r)| r.issuer.class).collect();
        prop_assert!(served.is_sorted(), "{served:?}");
    }
}

/// Requests that each process got of `total`, each of them having eight that wait at all times.
fn shares(kind: &SchedulerKind, issuers: &[Issuer], total: usize) -> BTreeMap<u32, usize> {
    let mut device = Device::new(kind, 1);
    let mut id = 0;
    let mut next = |issuer: Issuer| {
        id += 1;
        request(id, Op::Read, trimtab_io::mix64(id) % 1_000_000, issuer)
    };
    for &issuer in issuers {
        for _ in 0..8 {
            let request = next(issuer);
            device.insert(Nanos(0), &request);
        }
    }
    let mut counts = BTreeMap::new();
    for _ in 0..total {
        let done = loop {
            if let Some(done) = device.step() {
                break done;
            }
        };
        *counts.entry(done.issuer.process).or_default() += 1;
        let request = next(done.issuer);
        device.insert(device.now, &request);
    }
    counts
}

/// The time that nodes with these slices, ns, get until `until`, each having requests at all times.
/// A node that was served comes back later by (longest slice − its own) for each other node. The
/// first to come back is served; of two, the one that was served before the other.
fn turns(slices: &[u64], until: u64) -> Vec<u64> {
    let longest = slices.iter().max().unwrap();
    let mut back: Vec<_> = slices.iter().zip(0..).map(|(_, served)| (0, served)).collect();
    let (mut now, mut got) = (0, vec![0; slices.len()]);
    for served in slices.len().. {
        let next = (0..slices.len()).min_by_key(|&node| back[node]).unwrap();
        now += slices[next];
        got[next] += slices[next];
        back[next] = (now + (longest - slices[next]) * (slices.len() as u64 - 1), served);
        if now >= until {
            break;
        }
    }
    got
}

#[test]
fn cfq_shares_time_by_level() {
    // A target latency would shorten the slices of all.
    let kind = SchedulerKind::parse("kind = 'cfq'\ntarget_latency_ms = 0").unwrap();
    for levels in [&[0, 4, 7][..], &[0, 7], &[4, 7], &[4, 4, 4], &[0, 1, 2, 3, 4, 5, 6, 7]] {
        let issuers: Vec<_> = levels
            .iter()
            .zip(0..)
            .map(|(&level, process)| issuer(process, IoClass::BestEffort, level))
            .collect();
        let counts = shares(&kind, &issuers, 60_000);
        let slices: Vec<_> =
            levels.iter().map(|&level| (9 - u64::from(level)) * 20_000_000).collect();
        let got = turns(&slices, 30_000_000_000);
        for (process, &time) in (0..).zip(&got) {
            let expected = time as f64 / got.iter().sum::<u64>() as f64;
            let share = counts[&process] as f64 / 60_000.0;
            assert!((share - expected).abs() < 0.01, "{levels:?}: {share}, {expected}, {counts:?}");
        }
    }
}

#[test]
fn cfq_shares_time_by_group() {
    let text = "kind = 'cfq'\ngroups = [{ group = 1, weight = 100 }, { group = 2, weight = 300 }]";
    let kind = SchedulerKind::parse(text).unwrap();
    let issuers = [1, 2].map(|group| Issuer { group, ..Issuer::of_process(group.into()) });
    let counts = shares(&kind, &issuers, 60_000);
    let share = counts[&2] as f64 / 60_000.0;
    assert!((share - 0.75).abs() < 0.02, "{share}, {counts:?}");
}

#[test]
fn bfq_shares_service_by_level_and_group() {
    let kind = SchedulerKind::parse("kind = 'bfq'\nlow_latency = false").unwrap();
    let issuers = [0, 4, 7].map(|level| issuer(level.into(), IoClass::BestEffort, level));
    let counts = shares(&kind, &issuers, 60_000);
    // Weights of 80, 40 and 10.
    for (level, weight) in [(0, 80.0), (4, 40.0), (7, 10.0)] {
        let share = counts[&level] as f64 / 60_000.0;
        assert!((share - weight / 130.0).abs() < 0.03, "level {level}: {share}, {counts:?}");
    }
    let text = "kind = 'bfq'\nlow_latency = false\n\
                groups = [{ group = 1, weight = 100 }, { group = 2, weight = 300 }]";
    let kind = SchedulerKind::parse(text).unwrap();
    let issuers = [1, 2].map(|group| Issuer { group, ..Issuer::of_process(group.into()) });
    let counts = shares(&kind, &issuers, 60_000);
    let share = counts[&2] as f64 / 60_000.0;
    assert!((share - 0.75).abs() < 0.03, "{share}, {counts:?}");
}

/// When mq-deadline dispatched a write and a read that are far away, and what `lower` asked for,
/// while reads keep arriving at lower offsets as fast as the device serves them.
fn far_requests(lower: Option<Issuer>) -> [Option<Nanos>; 3] {
    let mut device = Device::new(&kind(2), 1);
    let reader = issuer(1, IoClass::BestEffort, 4);
    device.insert(Nanos(0), &request(0, Op::Read, 0, reader));
    device.insert(Nanos(1), &request(1, Op::Write, 900_000, reader));
    device.insert(Nanos(2), &request(2, Op::Read, 900_000, reader));
    if let Some(lower) = lower {
        device.insert(Nanos(3), &request(3, Op::Read, 900_000, lower));
    }
    for id in 4..60 {
        device.insert(Nanos(4), &request(id, Op::Read, id, reader));
    }
    for (id, arrival) in (60..24_000).zip(1..) {
        device.insert(Nanos(arrival * SERVICE.0), &request(id, Op::Read, id % 1000, reader));
    }
    device.finish();
    [1, 2, 3].map(|id| {
        let mut of_id = device.dispatched.iter().filter(|(_, r)| r.id == RequestId(id));
        of_id.next().map(|(at, _)| *at)
    })
}

#[test]
fn mq_deadline_starves_no_request() {
    let [write, read, _] = far_requests(None);
    // The batch that was begun and two that pass over the write: 48 requests of 500 µs.
    assert_eq!(write, Some(Nanos(48 * SERVICE.0)));
    // Reads expire after 500 ms, which a batch may overrun.
    assert!(read.unwrap() < Nanos::from_millis(510), "{read:?}");
}

/// A waiting request of a lower class is served after ten seconds. Until then it lets each batch
/// begin anew, as the kernel does: only the end of a sweep, here 1000 requests long, makes way for
/// writes.
#[test]
fn mq_deadline_serves_lower_classes_by_age() {
    let [write, read, aged] = far_requests(Some(issuer(2, IoClass::Idle, 4)));
    let (write, read, aged) = (write.unwrap(), read.unwrap(), aged.unwrap());
    let sweep = Nanos(1000 * SERVICE.0);
    assert!(write > sweep && write < Nanos(3 * sweep.0), "{write:?}");
    assert!(read < sweep + Nanos::from_millis(10), "{read:?}");
    assert!(aged >= Nanos::from_secs(10) && aged < Nanos::from_millis(10_050), "{aged:?}");
}

/// A queue that empties because its request was taken out leaves its group in the order while
/// another queue of the group is served.
#[test]
fn removal_does_not_disturb_the_queue_in_service() {
    for number in 0..4 {
        let mut device = Device::new(&kind(number), 1);
        // Of two levels: BFQ would have them share a queue.
        let [served, waits] = [4, 6].map(|level| issuer(level.into(), IoClass::BestEffort, level));
        for id in 0..200 {
            let large = Request { length: 1 << 20, ..request(id, Op::Read, id * 256, served) };
            device.insert(Nanos::from_secs(1), &large);
        }
        let removed = request(200, Op::Read, 7, waits);
        device.insert(Nanos::from_secs(1), &removed);
        assert_eq!(device.scheduler.remove(removed.id), Some(removed));
        device.finish();
        assert_eq!(device.dispatched.len(), 200);
    }
}

#[test]
fn keys_are_checked() {
    for (text, expected) in [
        ("kind = 'mq-deadline'\nfifo_batch = 0", "fifo_batch must be"),
        ("kind = 'cfq'\nslice_ms = 3", "slice_ms"),
        ("kind = 'bfq'\ngroups = [{ group = 1, weight = 0 }]", "groups.weight must be"),
        ("kind = 'anticipatory'", "anticipatory"),
    ] {
        let error = SchedulerKind::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
