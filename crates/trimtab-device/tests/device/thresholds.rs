//! Behaviour at watermarks and period ends.

use rand::{RngExt as _, SeedableRng as _};
use trimtab_device::{Profile, Ssd};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};

fn request(id: u64, arrival: Nanos, op: Op, unit: u64) -> Request {
    Request::new(RequestId(id), DeviceId(0), arrival, op, unit * 4096, 4096)
}

fn write(ssd: &mut Ssd, at: Nanos, unit: u64) {
    ssd.submit(at, &request(unit, at, Op::Write, unit)).unwrap();
}

/// A drive with a buffer of 100 units.
fn buffered(watermark: f64, period_ms: f64) -> Ssd {
    let mut profile = Profile::builtin("reference").unwrap();
    profile.buffer.size_mb = 0.4096;
    (profile.buffer.flush_watermark, profile.buffer.flush_period_ms) = (watermark, period_ms);
    let profile = Profile::parse(&profile.to_toml()).unwrap();
    Ssd::new(&profile, DeviceId(0), 1)
}

#[test]
fn buffer_flushes_at_its_watermark() {
    let mut ssd = buffered(0.4, 0.0);
    (0..39).for_each(|unit| write(&mut ssd, Nanos::ZERO, unit));
    // Rewritten units count once.
    write(&mut ssd, Nanos::from_secs(1), 0);
    assert_eq!((ssd.stats().units_programmed, ssd.next_event()), (0, None));
    write(&mut ssd, Nanos::from_secs(2), 39);
    assert_eq!(ssd.stats().units_programmed, 40);
    // One more does not: the units before it are clean.
    ssd.advance(Nanos::from_secs(3));
    write(&mut ssd, Nanos::from_secs(3), 40);
    assert_eq!(ssd.stats().units_programmed, 40);
}

#[test]
fn buffer_flushes_at_multiples_of_its_period() {
    let mut ssd = buffered(1.0, 5.0);
    let at = |us| Nanos::from_micros(us);
    write(&mut ssd, at(1_000), 0);
    write(&mut ssd, at(4_000), 1);
    ssd.advance(at(4_999));
    assert_eq!(ssd.stats().units_programmed, 0);
    ssd.advance(at(5_000));
    assert_eq!(ssd.stats().units_programmed, 2);
    // Nothing is dirty, so no flush is due until something is.
    ssd.advance(at(21_000));
    assert_eq!(ssd.next_event(), None);
    write(&mut ssd, at(21_000), 2);
    assert_eq!(ssd.next_event(), Some(at(25_000)));
}

/// Below the low watermark user requests stall, and nothing is preempted or suspended, until the
/// high watermark is reached.
#[test]
fn low_watermark_stalls_users_and_disables_preemption() {
    let mut profile = Profile::builtin("reference").unwrap();
    let g = &mut profile.geometry;
    (g.channels, g.chips_per_channel, g.blocks_per_plane, g.pages_per_block) = (4, 2, 128, 32);
    (profile.gc.preemptive, profile.gc.suspend) = (true, true);
    let high = (0.25_f64 * 0.28 * 128.0).round() as usize * 8;
    let low = (0.05_f64 * 0.28 * 128.0 * 8.0).ceil() as usize;
    let mut ssd = Ssd::new(&profile, DeviceId(0), 1);
    ssd.age(&profile, 1.0, 2.0);
    let units = ssd.capacity() / 4096;
    let mut random = rand_pcg::Pcg64::seed_from_u64(3);
    // During the current stall: suspensions at its start, and the first request after that.
    let mut stall: Option<(u64, u64)> = None;
    let (mut id, mut stalls, mut interrupted) = (0, 0, 0);
    while stalls < 3 {
        while ssd.in_flight() < 64 {
            let op = if random.random_bool(0.3) { Op::Read } else { Op::Write };
            ssd.submit(ssd.now(), &request(id, ssd.now(), op, random.random_range(0..units)))
                .unwrap();
            id += 1;
        }
        ssd.advance(ssd.next_event().expect("cleaning goes on"));
        let (stats, free) = (ssd.stats(), ssd.free_blocks());
        let newest = ssd.served().map(|served| served.completion.request.0).max();
        if let Some((suspended, first)) = stall {
            if newest >= Some(first) || stats.suspended > suspended || free >= high {
                // An admitted request may take a block of each plane at once.
                assert!(free + 8 >= high, "users were let in with {free} free blocks of {high}");
                stall = None;
            }
        } else if stats.stalls > stalls {
            assert!(free < low, "a stall began with {free} free blocks");
            stalls = stats.stalls;
            stall = Some((stats.suspended, id));
            interrupted = stats.suspended;
        }
    }
    assert!(interrupted > 1_000, "beside the stalls programs and erases are interrupted");
}
