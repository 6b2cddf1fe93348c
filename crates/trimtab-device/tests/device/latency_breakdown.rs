//! The latency breakdown is correct and complete.

use rand::{RngExt as _, SeedableRng as _};
use trimtab_device::{CopyMode, LatencyBreakdown, Profile, Scope, Served, Ssd};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};

/// Latency of a read, and of a program, of 4 KiB on an idle drive.
const READ: u64 = 45_120;
const WRITE: u64 = 205_120;

fn small() -> Profile {
    let mut profile = Profile::builtin("reference").unwrap();
    let g = &mut profile.geometry;
    (g.channels, g.chips_per_channel) = (2, 2);
    (g.blocks_per_plane, g.pages_per_block) = (64, 32);
    profile
}

fn request(id: u64, arrival: Nanos, op: Op, offset: u64) -> Request {
    Request::new(RequestId(id), DeviceId(0), arrival, op, offset, 4096)
}

/// Sends requests at the same time; returns the breakdown of each.
fn run_concurrently(profile: &Profile, requests: &[(Op, u64)]) -> Vec<LatencyBreakdown> {
    let mut ssd = Ssd::new(profile, DeviceId(0), 1);
    ssd.fill_in_order(1.0);
    for (id, &(op, offset)) in (0..).zip(requests) {
        ssd.submit(Nanos::ZERO, &request(id, Nanos::ZERO, op, offset)).unwrap();
    }
    ssd.advance(Nanos::from_secs(1));
    let mut served: Vec<_> = ssd.served().collect();
    served.sort_by_key(|served| served.completion.request);
    served.into_iter().map(|served| served.breakdown).collect()
}

#[test]
fn each_wait_has_its_cause() {
    let profile = small();
    let nothing = LatencyBreakdown::default();
    let (die, channel) = (
        |ns| LatencyBreakdown { die: Nanos(ns), ..LatencyBreakdown::default() },
        |ns| LatencyBreakdown { channel: Nanos(ns), ..LatencyBreakdown::default() },
    );
    // Pages are striped over two channels, then over two dies of each.
    let unit = |n: u64| n * 4096;
    let reads = |units: [u64; 2]| run_concurrently(&profile, &units.map(|n| (Op::Read, unit(n))));
    assert_eq!(reads([0, 4]), [nothing, die(READ)]);
    assert_eq!(reads([0, 2]), [nothing, channel(5_120)]);
    assert_eq!(reads([0, 1]), [nothing, nothing]);
    // So are writes, whatever their offsets.
    let writes = run_concurrently(&profile, &[(Op::Write, 0); 5]);
    let [on_one_channel, on_one_die] = [channel(5_120), die(WRITE)];
    assert_eq!(writes, [nothing, nothing, on_one_channel, on_one_channel, on_one_die]);

    let mut buffered = profile.clone();
    (buffered.buffer.size_mb, buffered.buffer.flush_watermark) = (0.0041, 0.0);
    let writes = run_concurrently(&buffered, &[(Op::Write, 0), (Op::Write, unit(1))]);
    assert_eq!(writes, [nothing, LatencyBreakdown { buffer: Nanos(WRITE), ..nothing }]);
}

/// Random reads and writes, several in flight.
fn work(ssd: &mut Ssd, requests: u64) -> Vec<Served> {
    let mut random = rand_pcg::Pcg64::seed_from_u64(3);
    let units = ssd.capacity() / 4096;
    let mut served = Vec::new();
    for id in 0..requests {
        let op = if random.random_bool(0.6) { Op::Read } else { Op::Write };
        let id = id << 1 | u64::from(op == Op::Read);
        let offset = random.random_range(0..units) * 4096;
        ssd.submit(ssd.now(), &request(id, ssd.now(), op, offset)).unwrap();
        while ssd.in_flight() > 12 {
            ssd.advance(ssd.next_event().expect("something is under way"));
        }
        served.extend(ssd.served());
    }
    served
}

/// Whatever cleaning, preemption, suspension and relocation do: latency minus waits is the
/// operation's service time.
#[test]
fn latency_is_waits_plus_service() {
    for n in 0..16 {
        let mut profile = small();
        let (preemptive, suspend) = (n & 1 != 0, n & 2 != 0);
        (profile.gc.preemptive, profile.gc.suspend) = (preemptive, suspend);
        profile.gc.blocks = [Scope::Plane, Scope::Die, Scope::Channel, Scope::Controller][n / 4];
        profile.gc.copy = if n % 3 == 0 { CopyMode::Copyback } else { CopyMode::Serial };
        let mut ssd = Ssd::new(&profile, DeviceId(0), 1);
        ssd.age(&profile, 1.0, 2.0);
        let mut waited_for_cleaning = 0;
        for served in work(&mut ssd, 20_000) {
            let LatencyBreakdown { stalled, die, cleaning, channel, buffer, retries } =
                served.breakdown;
            let waits = stalled + die + cleaning + channel + buffer + retries;
            let is_read = served.completion.request.0 & 1 == 1;
            let service = if is_read { READ } else { WRITE };
            let time = served.completion.service_time();
            if is_read && time == Nanos::ZERO {
                continue; // Its data was on the way into the flash.
            }
            assert_eq!(time, waits + Nanos(service), "{n}: {:?}", served.breakdown);
            waited_for_cleaning += u32::from(cleaning > Nanos::ZERO);
        }
        assert!(waited_for_cleaning > 100, "{n}: {waited_for_cleaning}");
        assert_eq!(ssd.stats().suspended > 0, suspend, "{n}");
    }
}

/// Waiting for a mapping-table page counts too.
#[test]
fn map_lookup_waits_are_included() {
    let mut profile = small();
    profile.ftl.mapping_cache_mb = 0.01;
    let die = |ns| LatencyBreakdown { die: Nanos(ns), ..LatencyBreakdown::default() };
    // Table pages 0 and 4, and both units, are on one die; each waits for the one before.
    let breakdown = run_concurrently(&profile, &[(Op::Read, 0), (Op::Read, 4096 * 4096)]);
    assert_eq!(breakdown, [die(READ), die(2 * READ)]);
}
