use std::collections::BTreeSet;

use trimtab_io::SplitMix64;

use super::*;
use crate::heuristic::SimpleHeuristic;
use crate::testing;

const FLOOR: Nanos = Nanos::from_micros(80);
const SOON: Nanos = Nanos::from_micros(20);
const LONG: Nanos = Nanos::from_millis(1);

fn cache(pages: u64) -> MittCache {
    let options =
        MittCacheOptions { pages, floor: FLOOR, memory: Nanos::from_micros(1), deadline: None };
    MittCache::new(options, Box::new(SimpleHeuristic::new(2)))
}

fn read(page: u64, pages: u64, within: Option<Nanos>) -> Request {
    let request = testing::request(Op::Read, page * PAGE, pages * PAGE);
    Request { deadline: within, ..request }
}

#[test]
fn evicted_pages_are_refused_and_first_accesses_are_not() {
    let mut cache = cache(1 << 20);
    let now = Nanos::ZERO;
    let soon = read(5, 2, Some(SOON));
    let CacheRuling::FirstAccess(first) = cache.ruling(now, &soon) else { panic!("never seen") };
    assert_eq!((first.verdict, first.wait), (Verdict::Fast, Some(FLOOR)));
    let ticket = cache.sent(now, &soon);
    cache.completed(now, ticket, true);
    let CacheRuling::InMemory(hit) = cache.ruling(now, &soon) else { panic!("in memory") };
    assert_eq!((hit.verdict, hit.wait), (Verdict::Fast, Some(Nanos::from_micros(1))));
    cache.evicted(6, 1);
    let CacheRuling::Evicted(refused) = cache.ruling(now, &soon) else { panic!("evicted") };
    assert_eq!((refused.verdict, refused.wait), (Verdict::Late, Some(FLOOR)));
    assert_eq!(cache.predict(now, &soon).verdict, Verdict::Late);
    // A page beside it that was never read.
    assert!(matches!(cache.ruling(now, &read(5, 3, Some(SOON))), CacheRuling::FirstAccess(_)));
    // A deadline that the drive can keep, and none.
    for within in [None, Some(LONG), Some(FLOOR)] {
        let request = read(5, 2, within);
        assert!(matches!(cache.ruling(now, &request), CacheRuling::Drive(_)), "{within:?}");
    }
    // The background read brings it in again.
    let ticket = cache.sent(now, &read(6, 1, None));
    cache.completed(now, ticket, true);
    assert!(matches!(cache.ruling(now, &soon), CacheRuling::InMemory(_)));
}

#[test]
fn deadline_passes_while_a_request_waits() {
    let mut cache = cache(1 << 20);
    cache.filled(1, 1);
    cache.evicted(1, 1);
    let request = read(1, 1, Some(LONG));
    assert!(matches!(cache.ruling(Nanos::ZERO, &request), CacheRuling::Drive(_)));
    let later = Nanos(LONG.0 - SOON.0);
    assert!(matches!(cache.ruling(later, &request), CacheRuling::Evicted(_)));
}

#[test]
fn reads_from_memory_and_failed_reads_do_not_reach_the_predictor_or_the_record() {
    let mut cache = cache(1 << 20);
    cache.filled(0, 8);
    let now = Nanos::ZERO;
    // More than the limit of the predictor below.
    let tickets = [(); 5].map(|()| cache.sent(now, &read(0, 8, None)));
    assert_eq!(cache.predict(now, &read(100, 1, None)).verdict, Verdict::Fast);
    tickets.into_iter().for_each(|ticket| cache.completed(now, ticket, true));
    let failed = cache.sent(now, &read(9, 1, None));
    cache.completed(now, failed, false);
    assert!(matches!(cache.ruling(now, &read(9, 1, Some(SOON))), CacheRuling::FirstAccess(_)));
    let write = cache.sent(now, &testing::request(Op::Write, 9 * PAGE, PAGE));
    cache.completed(now, write, true);
    assert!(matches!(cache.ruling(now, &read(9, 1, Some(SOON))), CacheRuling::FirstAccess(_)));
    // What is not in memory does.
    let sent = [(); 3].map(|()| cache.sent(now, &read(200, 1, None)));
    let forecast = cache.predict(now, &read(300, 1, Some(LONG)));
    assert_eq!(forecast.verdict, Verdict::Late);
    assert_eq!(forecast, cache.below.predict(now, &read(300, 1, Some(LONG))));
    // Even then, a first access that expects memory is sent.
    assert_eq!(cache.predict(now, &read(300, 1, Some(SOON))).verdict, Verdict::Fast);
    sent.into_iter().for_each(|ticket| cache.completed(now, ticket, true));
}

/// Against sets of pages, on drives that fit the record and on larger ones: only pages that were
/// in memory and are gone are refused, and all of them if the record is exact.
#[test]
fn only_evicted_pages_are_refused() {
    let mut random = SplitMix64::new(3);
    let mut below = |n: u64| random.next() % n;
    for (pages, space) in [(4096, 4096), (64, 6000)] {
        let mut cache = cache(pages);
        let (mut resident, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let (mut refused, mut admitted) = (0, 0);
        for _ in 0..30_000 {
            let (first, count) = (below(space - 4), 1 + below(4));
            let range = first..first + count;
            match below(3) {
                0 => {
                    cache.filled(first, count);
                    resident.extend(range.clone());
                    seen.extend(range.clone());
                }
                1 => {
                    cache.evicted(first, count);
                    resident.retain(|page| !range.contains(page));
                }
                _ => {}
            }
            let is_in_memory = range.clone().all(|page| resident.contains(&page));
            let was_seen = range.clone().all(|page| seen.contains(&page));
            match cache.ruling(Nanos::ZERO, &read(first, count, Some(SOON))) {
                CacheRuling::InMemory(_) => assert!(is_in_memory),
                CacheRuling::Evicted(_) => {
                    assert!(was_seen && !is_in_memory);
                    refused += 1;
                }
                CacheRuling::FirstAccess(_) => {
                    assert!(space > pages || !was_seen);
                    admitted += 1;
                }
                CacheRuling::Drive(_) => panic!("the deadline expects memory"),
            }
        }
        assert!(refused > 100 && admitted > 500, "{refused} {admitted}");
    }
}
