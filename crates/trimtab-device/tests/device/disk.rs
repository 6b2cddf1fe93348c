//! A disk against closed forms and conservation laws.

use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_pcg::Pcg64;
use trimtab_device::{Disk, DiskProfile, DiskTiming, Order, Served};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};

/// A disk without a buffer, so that every request needs the arm.
fn bare(order: Order, depth: u32) -> DiskProfile {
    let mut profile = DiskProfile::builtin("disk-7200").unwrap();
    profile.cache.segments = 0;
    profile.cache.write_kib = 0;
    profile.queue.order = order;
    profile.queue.depth = depth;
    profile.queue.starvation_ms = 0.0;
    DiskProfile::parse(&profile.to_toml()).unwrap()
}

fn disk(profile: &DiskProfile, seed: u64) -> Disk {
    Disk::new(profile, DeviceId(0), seed)
}

fn request(id: u64, at: Nanos, op: Op, offset: u64, length: u64) -> Request {
    Request::new(RequestId(id), DeviceId(0), at, op, offset, length)
}

/// Serves all that is in the disk.
fn finish(disk: &mut Disk) -> Vec<Served> {
    let mut all: Vec<_> = disk.served().collect();
    while let Some(at) = disk.next_event() {
        disk.advance(at);
        all.extend(disk.served());
    }
    assert_eq!(disk.in_flight(), 0);
    all
}

fn random_offset(random: &mut Pcg64, capacity: u64) -> u64 {
    random.random_range(0..capacity / 4096) * 4096
}

/// Reads of 4 KiB in a closed loop; returns the time per read.
fn closed_loop(profile: &DiskProfile, clients: u64, reads: u64) -> f64 {
    let (mut disk, mut random) = (disk(profile, 1), Pcg64::seed_from_u64(2));
    let capacity = disk.capacity();
    let mut send = |disk: &mut Disk, id, at| {
        let offset = random_offset(&mut random, capacity);
        disk.submit(at, &request(id, at, Op::Read, offset, 4096)).unwrap();
    };
    (0..clients).for_each(|id| send(&mut disk, id, Nanos::ZERO));
    let mut next = clients;
    while next < reads {
        let at = disk.advance_to_answer(Nanos(u64::MAX));
        let done = disk.served().count();
        for _ in 0..done {
            send(&mut disk, next, at);
            next += 1;
        }
    }
    disk.now().as_secs_f64() / reads as f64
}

proptest! {
    /// The closed form is the state machine's time to the nanosecond, for a known angle.
    #[test]
    fn exact_service_is_the_simulated_one(
        seed: u64,
        requests in prop::collection::vec((0_u64..2, 0_u64..1 << 28, 1_u64..64, 0_u64..1 << 25), 1..30),
    ) {
        let profile = bare(Order::Fifo, 1);
        let (mut disk, timing) = (disk(&profile, seed), DiskTiming::new(&profile));
        let mut now = Nanos::ZERO;
        for (i, (op, unit, sectors, gap)) in (0..).zip(requests) {
            now += Nanos(gap);
            let op = if op == 0 { Op::Read } else { Op::Write };
            let (offset, length) = (unit * 512 * 7, sectors * 512);
            let state = (disk.head(), disk.phase());
            let foretold = timing.exact_service(state, (now, now), op, offset, length);
            disk.submit(now, &request(i, now, op, offset, length)).unwrap();
            let served = finish(&mut disk);
            prop_assert_eq!(served.len(), 1);
            let took = served[0].completion.service_time();
            prop_assert!(took.0.abs_diff(foretold.0) <= 2, "{took} for {foretold}");
            now = disk.now();
        }
    }

    /// Whatever the order, depth and buffer: one completion for each request, none before its time,
    /// and a clone goes on like its original.
    #[test]
    fn each_request_completes_once(
        seed: u64,
        order in prop::sample::select(vec![Order::Fifo, Order::Sstf, Order::Ncq]),
        depth in 1_u32..=32,
        (segments, write_kib, keep_sent, on_arrival) in (0_u32..4, 0_u32..64, any::<bool>(), any::<bool>()),
        starvation_ms in prop::sample::select(vec![0.0, 30.0]),
        requests in prop::collection::vec(
            (0_u8..8, 0_u64..2000, 1_u64..32, 0_u64..10_000_000), 1..120),
    ) {
        let mut profile = bare(order, depth);
        profile.cache.segments = segments;
        profile.cache.segment_kib = 64;
        profile.cache.write_kib = write_kib;
        profile.cache.keep_sent = keep_sent;
        profile.cache.read_on_arrival = on_arrival;
        profile.queue.starvation_ms = starvation_ms;
        let mut disk = disk(&profile, seed);
        let (mut now, mut all) = (Nanos::ZERO, Vec::new());
        let count = requests.len();
        for (i, (op, place, sectors, gap)) in (0..).zip(requests) {
            now += Nanos(gap);
            let op = [Op::Read, Op::Read, Op::Read, Op::Read, Op::Write, Op::Write, Op::Discard, Op::Flush][op as usize];
            // A few places near each other, and some far away.
            let offset = if place < 1000 { place * 512 } else { place << 26 };
            let length = if op == Op::Flush { 0 } else { sectors * 512 };
            disk.submit(now, &request(i, now, op, offset, length)).unwrap();
            all.extend(disk.served());
        }
        let mut copy = disk.clone();
        let rest = finish(&mut disk);
        prop_assert_eq!(finish(&mut copy), rest.clone());
        all.extend(rest);
        prop_assert!(all.is_sorted_by_key(|served| served.completion.complete));
        let mut ids: Vec<_> = all.iter().map(|served| served.completion.request.0).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..count as u64).collect::<Vec<_>>());
        for served in &all {
            prop_assert!(served.completion.complete >= served.completion.issue);
        }
        prop_assert_eq!(disk.stats().completed, count as u64);
    }
}

#[test]
fn expected_service_is_the_mean_over_angles() {
    let profile = bare(Order::Fifo, 1);
    let timing = DiskTiming::new(&profile);
    let period = timing.revolution().0;
    for (from, to, length) in [(0, 0, 4096), (1 << 35, 1 << 36, 65536), (1 << 38, 1 << 20, 1 << 20)]
    {
        for op in [Op::Read, Op::Write] {
            let head = timing.locate(from.max(1) - 1);
            let angles = 1000;
            let service = |i| {
                let phase = Nanos(i * period / angles);
                timing.exact_service((head, phase), (Nanos::ZERO, Nanos::ZERO), op, to, length).0
            };
            let mean = (0..angles).map(service).sum::<u64>() / angles;
            let expected = timing.expected_service(from, op, to, length).0;
            // The mean over a thousand angles is off by half a step at most.
            assert!(mean.abs_diff(expected) <= period / angles, "{mean} for {expected}");
        }
    }
}

/// First come, first served, one at a time: the arm never rests while a request waits, and each
/// takes its closed form.
#[test]
fn fifo_conserves_work() {
    let profile = bare(Order::Fifo, 1);
    let timing = DiskTiming::new(&profile);
    let (mut disk, mut random) = (disk(&profile, 3), Pcg64::seed_from_u64(4));
    let capacity = disk.capacity();
    let offsets: Vec<_> = (0..500).map(|_| random_offset(&mut random, capacity)).collect();
    for (i, &offset) in (0..).zip(&offsets) {
        disk.submit(Nanos::ZERO, &request(i, Nanos::ZERO, Op::Read, offset, 4096)).unwrap();
    }
    let phase = disk.phase();
    let (mut free, mut head) = (Nanos::ZERO, disk.head());
    for (served, &offset) in finish(&mut disk).iter().zip(&offsets) {
        free += timing.exact_service((head, phase), (free, free), Op::Read, offset, 4096);
        head = timing.locate(offset + 4095);
        assert!(served.completion.complete.0.abs_diff(free.0) < 2000, "{served:?}");
        free = served.completion.complete;
    }
}

/// In any order the arm is busy from the first request to the last.
#[test]
fn arm_is_busy_while_requests_wait() {
    for order in [Order::Fifo, Order::Sstf, Order::Ncq] {
        let profile = bare(order, 32);
        let (mut disk, mut random) = (disk(&profile, 3), Pcg64::seed_from_u64(4));
        let capacity = disk.capacity();
        for i in 0..1000 {
            let offset = random_offset(&mut random, capacity);
            disk.submit(Nanos::ZERO, &request(i, Nanos::ZERO, Op::Read, offset, 4096)).unwrap();
        }
        let last = finish(&mut disk).last().unwrap().completion.complete;
        let stats = disk.stats();
        let busy = stats.seeking + stats.rotating + stats.transferring;
        // Beside it: the first command, the last sector's way over the bus.
        assert!(last.since(busy) < Nanos::from_micros(200), "{order:?}: {last} for {busy}");
    }
}

#[test]
fn sstf_serves_the_nearest_cylinder() {
    let profile = bare(Order::Sstf, 32);
    let timing = DiskTiming::new(&profile);
    for seed in 0..50 {
        let (mut disk, mut random) = (disk(&profile, seed), Pcg64::seed_from_u64(seed));
        let capacity = disk.capacity();
        let mut left: Vec<_> = (0..32).map(|i| (i, random_offset(&mut random, capacity))).collect();
        let mut head = disk.head().cylinder;
        for &(i, offset) in &left {
            disk.submit(Nanos::ZERO, &request(i, Nanos::ZERO, Op::Read, offset, 4096)).unwrap();
        }
        for served in finish(&mut disk) {
            let id = served.completion.request.0;
            let distance = |offset| timing.locate(offset).cylinder.abs_diff(head);
            let nearest = left.iter().map(|&(_, offset)| distance(offset)).min().unwrap();
            let at = left.iter().position(|&(i, _)| i == id).unwrap();
            let (_, offset) = left.swap_remove(at);
            assert_eq!(distance(offset), nearest);
            head = timing.locate(offset).cylinder;
        }
    }
}

/// Choice shortens positioning, more so with the angle known; FIFO has none.
#[test]
fn throughput_of_random_reads_grows_with_depth() {
    let per_read = |order, depth| closed_loop(&bare(order, depth), depth.into(), 4000);
    let fifo = [1, 8, 32].map(|depth| per_read(Order::Fifo, depth));
    assert!((fifo[2] / fifo[0] - 1.0).abs() < 0.05, "{fifo:?}");
    for order in [Order::Sstf, Order::Ncq] {
        let times = [1, 2, 4, 8, 16, 32].map(|depth| per_read(order, depth));
        assert!(times.is_sorted_by(|a, b| a > b), "{order:?}: {times:?}");
    }
    let at_32 = [Order::Fifo, Order::Sstf, Order::Ncq].map(|order| per_read(order, 32));
    assert!(at_32[0] > 1.4 * at_32[1] && at_32[1] > 1.2 * at_32[2], "{at_32:?}");
}

/// On one track, random sectors and Poisson arrivals: service times are independent and known in
/// distribution, so the Pollaczek–Khinchine formula holds exactly.
#[test]
fn fifo_waits_as_m_g_1() {
    let profile = bare(Order::Fifo, 1);
    let timing = DiskTiming::new(&profile);
    let track = u64::from(timing.locate(0).sectors_per_track);
    let period = timing.revolution().as_secs_f64();
    // Constant part and a uniform wait of up to a revolution.
    let constant = timing.expected_service(1, Op::Read, 0, 512).as_secs_f64() - period / 2.0;
    let mean = constant + period / 2.0;
    let second = mean * mean + period * period / 12.0;
    for load in [0.3, 0.6, 0.8] {
        let rate = load / mean;
        let foretold = rate * second / (2.0 * (1.0 - load));
        let runs: Vec<f64> = (0..20)
            .map(|seed| {
                let (mut disk, mut random) = (disk(&profile, seed), Pcg64::seed_from_u64(seed));
                let (mut now, mut waited, n) = (0.0, 0.0, 10_000);
                for i in 0..n {
                    now -= (1.0 - random.random::<f64>()).ln() / rate;
                    let (at, offset) =
                        (Nanos::from_secs_f64(now), random.random_range(0..track) * 512);
                    disk.submit(at, &request(i, at, Op::Read, offset, 512)).unwrap();
                    disk.drain(|s| waited += s.completion.service_time().as_secs_f64());
                }
                waited += finish(&mut disk)
                    .iter()
                    .map(|s| s.completion.service_time().as_secs_f64())
                    .sum::<f64>();
                waited / n as f64 - mean
            })
            .collect();
        let average = runs.iter().sum::<f64>() / runs.len() as f64;
        let variance = runs.iter().map(|x| (x - average).powi(2)).sum::<f64>() / 19.0;
        let error = (variance / 20.0).sqrt();
        // Four standard errors of twenty independent runs; seeds are fixed.
        assert!(
            (average - foretold).abs() < 4.0 * error,
            "{load}: {average} for {foretold} ± {error}"
        );
        assert!(error < 0.05 * foretold, "{load}: too few runs to tell");
    }
}

/// Mean number in the disk = rate × mean time in it, between two moments at which it is empty.
#[test]
fn littles_law_holds_in_every_order() {
    for order in [Order::Fifo, Order::Sstf, Order::Ncq] {
        let profile = bare(order, 16);
        let (mut disk, mut random) = (disk(&profile, 5), Pcg64::seed_from_u64(6));
        let (mut now, mut area, mut total) = (Nanos::ZERO, 0, 0);
        let capacity = disk.capacity();
        let mut pass = |disk: &mut Disk, until: Nanos, last: &mut Nanos| {
            while let Some(at) = disk.next_event().filter(|&at| at <= until) {
                area += at.since(*last).0 * disk.in_flight() as u64;
                *last = at;
                disk.advance(at);
                disk.drain(|s| total += s.completion.service_time().0);
            }
            if until.0 != u64::MAX {
                area += until.since(*last).0 * disk.in_flight() as u64;
                *last = until;
            }
        };
        let mut last = Nanos::ZERO;
        for i in 0..2000 {
            now += Nanos(random.random_range(0..16_000_000));
            pass(&mut disk, now, &mut last);
            let offset = random_offset(&mut random, capacity);
            disk.submit(now, &request(i, now, Op::Read, offset, 4096)).unwrap();
        }
        pass(&mut disk, Nanos(u64::MAX), &mut last);
        assert_eq!(area, total, "{order:?}");
    }
}

/// Two hundred near reads keep the arm busy; one far read waits for its bound, or for all of them.
#[test]
fn starvation_is_bounded() {
    let wait = |starvation_ms: f64| {
        let mut profile = bare(Order::Sstf, 32);
        profile.queue.starvation_ms = starvation_ms;
        let mut disk = disk(&profile, 1);
        let far = disk.capacity() - 4096;
        let mut random = Pcg64::seed_from_u64(7);
        let mut near = |disk: &mut Disk, id, at| {
            let offset = random.random_range(0..10_000_u64) * 4096;
            disk.submit(at, &request(id, at, Op::Read, offset, 4096)).unwrap();
        };
        (1..30).for_each(|id| near(&mut disk, id, Nanos::ZERO));
        disk.submit(Nanos::ZERO, &request(0, Nanos::ZERO, Op::Read, far, 4096)).unwrap();
        for id in 30..230 {
            let at = disk.advance_to_answer(Nanos(u64::MAX));
            if let Some(done) = disk.served().find(|s| s.completion.request.0 == 0) {
                return done.completion.service_time();
            }
            near(&mut disk, id, at);
        }
        Nanos(u64::MAX)
    };
    assert_eq!(wait(0.0), Nanos(u64::MAX));
    // The request that the arm is serving, those that are older, and its own.
    let bounded = wait(100.0);
    assert!(bounded > Nanos::from_millis(100) && bounded < Nanos::from_millis(450), "{bounded}");
}

#[test]
fn buffer_serves_what_follows_a_read() {
    let mut profile = bare(Order::Fifo, 1);
    profile.cache.segments = 2;
    profile.cache.segment_kib = 128;
    profile.interface.hit_us = 60.0;
    profile.interface.bus_mb_s = 100.0;
    let mut disk = disk(&profile, 1);
    let mut service = |at_ms, op, kib: u64| {
        let at = Nanos::from_millis(at_ms);
        disk.submit(at, &request(at_ms, at, op, kib << 10, 4096)).unwrap();
        finish(&mut disk)[0].completion.service_time()
    };
    let hit = Nanos(60_000 + 40_960);
    assert!(service(0, Op::Read, 1000) > hit);
    // Read on until the segment is full; what was sent stays.
    for (i, kib) in [1004, 1124, 1000].into_iter().enumerate() {
        assert_eq!(service(100 + i as u64, Op::Read, kib), hit, "{kib}");
    }
    assert!(service(200, Op::Read, 1132) > hit, "beyond the segment");
    assert!(service(300, Op::Read, 900) > hit, "before it");
    // Two segments: the first is gone.
    assert!(service(400, Op::Read, 1100) > hit);
    // Writing makes what is held obsolete.
    assert_eq!(service(500, Op::Read, 1012), hit);
    service(600, Op::Write, 1012);
    assert!(service(700, Op::Read, 1016) > hit);
}

#[test]
fn write_buffer_completes_early_and_flush_waits_for_it() {
    let mut profile = bare(Order::Fifo, 4);
    profile.cache.write_kib = 12;
    profile.cache.write_back_after_ms = 0.5;
    profile.interface.write_us = 50.0;
    profile.interface.bus_mb_s = 100.0;
    let mut disk = disk(&profile, 1);
    for (i, mib) in [(0, 1), (1, 1 << 14), (2, 1 << 16), (3, 1 << 15)] {
        let write = request(i, Nanos::ZERO, Op::Write, mib << 20, 4096);
        disk.submit(Nanos::ZERO, &write).unwrap();
    }
    let served = finish(&mut disk.clone());
    // The bus takes one after the other; the fourth finds no room and needs the arm.
    let time = |i: usize| served[i].completion.complete;
    assert_eq!(time(0), Nanos(90_960));
    assert_eq!(time(2), Nanos(90_960 + 2 * 40_960));
    assert!(time(3) > Nanos::from_millis(1));
    assert_eq!(served[3].completion.request.0, 3);
    // Its data is read from the buffer meanwhile.
    let flush = request(4, Nanos(1_000_000), Op::Flush, 0, 0);
    let read = request(5, Nanos(1_000_000), Op::Read, 1 << 20, 4096);
    disk.submit(Nanos(1_000_000), &flush).unwrap();
    disk.submit(Nanos(1_000_000), &read).unwrap();
    let served = finish(&mut disk);
    assert_eq!(served.last().unwrap().completion.request.0, 4);
    assert_eq!(disk.stats().written_back, 3);
}

/// A program that reads on gets the rate of the platters.
#[test]
fn sequential_reads_run_at_the_media_rate() {
    let mut profile = bare(Order::Fifo, 1);
    profile.cache.segments = 4;
    profile.cache.segment_kib = 1024;
    let mut disk = disk(&profile, 1);
    let (mut at, size) = (Nanos::ZERO, 64 << 10);
    for i in 0..2000 {
        disk.submit(at, &request(i, at, Op::Read, i * size, size)).unwrap();
        finish(&mut disk);
        at = disk.now();
    }
    let rate = (2000 * size) as f64 / at.as_secs_f64();
    let timing = DiskTiming::new(&profile);
    let track = f64::from(timing.locate(0).sectors_per_track) * 512.0;
    // A cylinder of 4 tracks takes 4 revolutions and 4 steps of 0.8 ms.
    let cylinder = 4.0 * timing.revolution().as_secs_f64() + 4.0 * 0.0008;
    let media = 4.0 * track / cylinder;
    assert!((rate / media - 1.0).abs() < 0.03, "{rate} for {media}");
}

#[test]
fn requests_beyond_the_end_and_in_the_past_are_refused() {
    let mut disk = disk(&bare(Order::Fifo, 1), 1);
    let end = disk.capacity();
    assert!(disk.submit(Nanos(5), &request(0, Nanos(5), Op::Read, end, 512)).is_err());
    assert!(disk.submit(Nanos(5), &request(0, Nanos(5), Op::Read, u64::MAX, 2)).is_err());
    assert!(disk.submit(Nanos(5), &request(0, Nanos(5), Op::Read, end - 512, 512)).is_ok());
    assert!(disk.submit(Nanos(4), &request(1, Nanos(4), Op::Read, 0, 512)).is_err());
    assert_eq!(finish(&mut disk).len(), 1);
}
