use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use trimtab_device::{Disk, DiskProfile};
use trimtab_io::SplitMix64;

use super::*;

const MEMORY: Nanos = Nanos::from_micros(20);

fn cached(pages: u32, warm: bool, evict: Option<EvictionSpec>) -> Cached<Disk> {
    let disk = Disk::new(&DiskProfile::builtin("disk-7200").unwrap(), DeviceId(0), 1);
    let spec = CacheSpec { pages, memory_us: 20.0, warm, readahead_bytes: 0, evict };
    spec.check().unwrap();
    Cached::new(disk, &spec, 7)
}

fn request(id: u64, at: Nanos, op: Op, page: u64, pages: u64) -> Request {
    Request::new(RequestId(id), DeviceId(0), at, op, page * PAGE, pages * PAGE)
}

/// The latency of one read on an otherwise idle device.
fn latency(cached: &mut Cached<Disk>, id: u64, page: u64) -> Nanos {
    let at = cached.now() + Nanos::from_secs(1);
    cached.submit(at, &request(id, at, Op::Read, page, 1)).unwrap();
    let mut latency = None;
    while latency.is_none() {
        cached.drain(|served| {
            assert_eq!(served.completion.request, RequestId(id));
            latency = Some(served.completion.complete.since(at));
        });
        let next = cached.next_event().unwrap_or(at);
        cached.advance(next);
    }
    latency.unwrap()
}

#[test]
fn memory_answers_what_was_read_before() {
    let mut cold = cached(100, false, None);
    let disk = Nanos(10 * MEMORY.0);
    assert!(latency(&mut cold, 1, 5) > disk);
    assert_eq!(latency(&mut cold, 2, 5), MEMORY);
    let mut warm = cached(100, true, None);
    assert_eq!(latency(&mut warm, 1, 99), MEMORY);
    assert!(latency(&mut warm, 2, 100) > disk, "beyond the cache");
}

#[test]
fn time_before_the_submission_is_not_the_devices() {
    let mut warm = cached(100, true, None);
    let at = Nanos::from_secs(9);
    for (id, page, op) in [(1, 5, Op::Read), (2, 500, Op::Read), (3, 6, Op::Write)] {
        // Each has waited for its turn since the beginning.
        warm.submit(at, &request(id, Nanos::ZERO, op, page, 1)).unwrap();
    }
    let mut issues = Vec::new();
    while issues.len() < 3 {
        warm.advance_to_answer(Nanos::MAX);
        warm.drain(|served| issues.push(served.completion.issue));
    }
    assert_eq!(issues, [at; 3]);
    assert!(
        warm.advance_to_answer(Nanos::MAX) < Nanos::from_secs(60),
        "nothing is left to wait for"
    );
}

#[test]
fn reads_of_the_same_page_wait_for_one_request() {
    let mut cached = cached(100, false, None);
    for id in 0..5 {
        cached.submit(Nanos(id), &request(id, Nanos(id), Op::Read, 3, 1)).unwrap();
    }
    assert_eq!((cached.in_flight(), cached.server().in_flight()), (5, 1));
    let mut ends = BTreeMap::new();
    while let Some(at) = cached.next_event() {
        cached.advance(at);
        cached.drain(|served| {
            _ = ends.insert(served.completion.request.0, served.completion.complete)
        });
    }
    assert_eq!(ends.len(), 5);
    assert!(ends.values().all(|at| *at == ends[&0]), "{ends:?}");
}

#[test]
fn refused_reads_are_brought_in_if_wanted() {
    for wanted in [false, true] {
        let mut cached = cached(100, false, None);
        if wanted {
            cached.bring_in_refused();
        }
        cached.refused(Nanos(5), &request(1, Nanos(5), Op::Read, 8, 2)).unwrap();
        while let Some(at) = cached.next_event() {
            cached.advance(at);
        }
        cached.drain(|_| panic!("nobody waits for it"));
        assert_eq!(cached.cache().is_resident(9), wanted);
    }
}

#[test]
fn neighbours_take_their_share() {
    let evict = EvictionSpec { share: 0.2, every_ms: 1000.0 };
    let mut cached = cached(10_000, true, Some(evict));
    cached.tell_pages();
    let next = cached.next_event().unwrap();
    cached.advance(next);
    let resident = (0..10_000).filter(|&page| cached.cache().is_resident(page)).count();
    assert_eq!(resident, 8000);
    let mut told = BTreeSet::new();
    cached.take_host_events(|event| apply(&mut told, event));
    assert_eq!(told.len(), resident);
    // Without neighbours all is there again, and stays.
    cached.end_evictions();
    cached.advance(next + Nanos::from_secs(3600));
    cached.take_host_events(|event| apply(&mut told, event));
    assert!((0..10_000).all(|page| cached.cache().is_resident(page)));
    assert_eq!(told.len(), 10_000);
}

fn apply(resident: &mut BTreeSet<u64>, event: HostEvent) {
    match event {
        HostEvent::Cache(CacheEvent::Filled { first, pages }) => {
            resident.extend(first..first + pages);
        }
        HostEvent::Cache(CacheEvent::Evicted { first, pages }) => {
            (first..first + pages).for_each(|page| _ = resident.remove(&page));
        }
        HostEvent::Flash(_) => panic!("a disk has no flash"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    /// Everything ends once, and the events tell exactly which pages are in memory.
    #[test]
    fn requests_end_and_events_follow(pages in 1..60_u32, seed: u64, writes in 0..3_u64) {
        let evict = EvictionSpec { share: 0.3, every_ms: 40.0 };
        let mut cached = cached(pages, seed % 2 == 0, Some(evict));
        cached.tell_pages();
        let mut random = SplitMix64::new(seed);
        let mut draw = |below: u64| random.next() % below;
        let (mut resident, mut ended, mut at) = (BTreeSet::new(), BTreeSet::new(), Nanos::ZERO);
        for id in 0..200 {
            at += Nanos(draw(20_000_000));
            let op = if draw(4) < writes { Op::Write } else { Op::Read };
            let one = request(id, at, op, draw(80), 1 + draw(3));
            if draw(9) == 0 {
                cached.refused(at, &one).unwrap();
                ended.insert(id);
                continue;
            }
            cached.submit(at, &one).unwrap();
            cached.take_host_events(|event| apply(&mut resident, event));
            for page in 0..90 {
                prop_assert_eq!(resident.contains(&page), cached.cache().is_resident(page));
            }
            cached.drain(|served| assert!(ended.insert(served.completion.request.0)));
        }
        let end = at + Nanos::from_secs(60);
        cached.advance(end);
        cached.drain(|served| assert!(ended.insert(served.completion.request.0)));
        prop_assert_eq!((ended.len(), cached.in_flight()), (200, 0));
    }
}
