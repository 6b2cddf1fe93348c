//! Each option of a profile has its documented effect.

use rand::{RngExt as _, SeedableRng as _};
use trimtab_device::{Profile, Schedule, Scope, Served, Ssd};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};

fn reference() -> Profile {
    Profile::builtin("reference").unwrap()
}

fn drive(profile: &Profile) -> Ssd {
    let mut ssd = Ssd::new(profile, DeviceId(0), 1);
    ssd.fill_in_order(1.0);
    ssd
}

fn send(ssd: &mut Ssd, op: Op, offset: u64, length: u64) {
    let request = Request::new(RequestId(offset), DeviceId(0), ssd.now(), op, offset, length);
    ssd.submit(ssd.now(), &request).unwrap();
}

fn finish(ssd: &mut Ssd) -> Vec<Served> {
    while ssd.in_flight() > 0 {
        let at = ssd.next_event().unwrap();
        ssd.advance(at);
    }
    ssd.served().collect()
}

fn times(served: &[Served]) -> Vec<u64> {
    served.iter().map(|served| served.completion.service_time().0).collect()
}

/// The next offset on the same die as `from`, or on another.
fn place(ssd: &Ssd, from: u64, same_die: bool) -> u64 {
    let die = ssd.locate(from).unwrap().die;
    let mut offsets = (from / 4096 + 1..).map(|unit| unit * 4096);
    offsets.find(|&offset| (ssd.locate(offset).unwrap().die == die) == same_die).unwrap()
}

#[test]
fn planes_of_a_die_read_together() {
    let mut profile = reference();
    (profile.geometry.planes_per_die, profile.geometry.blocks_per_plane) = (2, 128);
    let mut ssd = drive(&profile);
    // The first read is alone; the other two are on two planes, and run together: cells once, the
    // channel for each.
    let (a, b) = (place(&ssd, 0, true), {
        let a = place(&ssd, 0, true);
        place(&ssd, a, true)
    });
    for offset in [0, a, b] {
        send(&mut ssd, Op::Read, offset, 4096);
    }
    assert_eq!(times(&finish(&mut ssd)), [45_120, 95_360, 95_360]);
}

#[test]
fn reads_suspend_programs_if_enabled() {
    let read_beside_a_write = |suspend: bool| {
        let mut profile = reference();
        (profile.gc.suspend, profile.gc.suspend_us) = (suspend, 10.0);
        let mut ssd = drive(&profile);
        send(&mut ssd, Op::Write, 0, 4096);
        let now = ssd.now() + Nanos::from_micros(100);
        ssd.advance(now);
        // The write went to the next die in striping order: find it busy.
        let busy = (0..64).find(|&die| ssd.die_free_at(die) > now).unwrap();
        let units = (0..).map(|unit| unit * 4096);
        let offset = units.skip(1).find(|&o| ssd.locate(o).unwrap().die == busy).unwrap();
        send(&mut ssd, Op::Read, offset, 4096);
        let mut took = times(&finish(&mut ssd));
        took.sort_unstable();
        took
    };
    // The program began at 5.12 µs and takes until 205.12 µs.
    assert_eq!(read_beside_a_write(false), [105_120 + 45_120, 205_120]);
    // Or the read goes first, and the program pays for it and 10 µs.
    assert_eq!(read_beside_a_write(true), [45_120, 205_120 + 45_120 + 10_000]);
}

#[test]
fn reads_first_overtakes_waiting_writes() {
    let last_read = |schedule| {
        let mut profile = reference();
        (profile.geometry.channels, profile.geometry.chips_per_channel) = (1, 1);
        profile.ftl.schedule = schedule;
        let mut ssd = drive(&profile);
        for unit in 0..4 {
            send(&mut ssd, Op::Write, unit * 4096, 4096);
        }
        send(&mut ssd, Op::Read, 8 * 4096, 4096);
        let served = finish(&mut ssd);
        let read = served.iter().find(|s| s.completion.request.0 == 8 * 4096).unwrap();
        read.completion.service_time()
    };
    assert_eq!(last_read(Schedule::Fifo), Nanos(4 * 205_120 + 45_120));
    assert_eq!(last_read(Schedule::ReadsFirst), Nanos(205_120 + 45_120));
}

#[test]
fn retries_and_pauses_are_attributed() {
    let mut profile = reference();
    (profile.noise.retry_probability, profile.noise.retry_most) = (1.0, 1);
    let mut ssd = drive(&profile);
    send(&mut ssd, Op::Read, 0, 4096);
    let served = finish(&mut ssd);
    assert_eq!(times(&served), [85_120]);
    assert_eq!(served[0].breakdown.retries, Nanos(40_000));

    let mut profile = reference();
    (profile.noise.pause_every_ms, profile.noise.pause_ms) = (1.0, 1.0);
    let mut ssd = drive(&profile);
    let mut paused = 0;
    for unit in 0..10_000 {
        send(&mut ssd, Op::Read, unit % 1000 * 4096, 4096);
        let served = finish(&mut ssd);
        let waited = served[0].breakdown.stalled;
        assert_eq!(times(&served), [45_120 + waited.0]);
        paused += u64::from(waited > Nanos::ZERO);
    }
    // One read falls into each pause, and about twenty between two.
    assert!((200..1200).contains(&paused), "{paused}");
}

#[test]
fn mapping_cache_misses_read_flash() {
    let mut profile = reference();
    profile.ftl.mapping_cache_mb = 1.0;
    let mut ssd = drive(&profile);
    send(&mut ssd, Op::Read, 0, 4096);
    let first = times(&finish(&mut ssd))[0];
    send(&mut ssd, Op::Read, 4096, 4096);
    let second = times(&finish(&mut ssd))[0];
    assert!(first > 80_000 && second == 45_120, "{first} {second}");
}

#[test]
fn static_wear_levelling_bounds_wear_spread() {
    let spread = |threshold: u32| {
        let mut profile = reference();
        let g = &mut profile.geometry;
        (g.channels, g.chips_per_channel, g.blocks_per_plane, g.pages_per_block) = (1, 1, 64, 32);
        profile.wear.static_threshold = threshold;
        let mut ssd = drive(&profile);
        let hot = ssd.capacity() / 4096 / 10;
        let mut random = rand_pcg::Pcg64::seed_from_u64(1);
        for _ in 0..60_000 {
            send(&mut ssd, Op::Write, random.random_range(0..hot) * 4096, 4096);
            finish(&mut ssd);
        }
        let erases = ssd.erases();
        erases.iter().max().unwrap() - erases.iter().min().unwrap()
    };
    let (without, with) = (spread(0), spread(10));
    assert!(with <= 14 && without > 3 * with, "{with} {without}");
}

#[test]
fn cleaning_scope_determines_blocked_reads() {
    // Share of random reads that met a cleaning.
    let share = |scope: Scope| {
        let mut profile = reference();
        let g = &mut profile.geometry;
        (g.channels, g.chips_per_channel, g.planes_per_die) = (4, 2, 2);
        (g.blocks_per_plane, g.pages_per_block) = (64, 32);
        profile.gc.blocks = scope;
        let mut ssd = Ssd::new(&profile, DeviceId(0), 1);
        ssd.age(&profile, 1.0, 2.0);
        ssd.log_cleanings(true);
        let mut random = rand_pcg::Pcg64::seed_from_u64(1);
        let units = ssd.capacity() / 4096;
        let mut blocked = 0;
        for i in 0..40_000 {
            let op = if i % 4 == 0 { Op::Write } else { Op::Read };
            send(&mut ssd, op, random.random_range(0..units) * 4096, 4096);
            ssd.advance(ssd.now() + Nanos::from_micros(300));
            blocked += ssd.served().filter(|s| s.breakdown.cleaning > Nanos::ZERO).count();
        }
        let cleanings = ssd.cleanings();
        assert!(cleanings.len() > 50 && cleanings.is_sorted_by_key(|c| c.until));
        assert_eq!(ssd.verify(), Ok(()));
        blocked
    };
    let met = [Scope::Plane, Scope::Die, Scope::Channel, Scope::Controller].map(share);
    assert!(met.is_sorted() && met[0] > 50 && met[3] > 2 * met[0], "{met:?}");
}

#[test]
fn view_predicts_when_dies_and_channels_are_free() {
    let mut ssd = drive(&reference());
    let locate = ssd.locate(0).unwrap();
    assert_eq!(ssd.die_free_at(locate.die), Nanos::ZERO);
    let second = place(&ssd, 0, true);
    send(&mut ssd, Op::Read, 0, 4096);
    send(&mut ssd, Op::Read, second, 4096);
    assert_eq!(ssd.die_free_at(locate.die), Nanos(2 * 45_120));
    ssd.advance(Nanos(41_000));
    assert_eq!(ssd.channel_free_at(locate.channel), Nanos(45_120));
    assert!(!ssd.is_erasing(locate.die) && !ssd.is_cleaning(locate.die));
    // A program is foreseen while its data crosses the channel, or waits to.
    let mut ssd = drive(&reference());
    let units = (0..64_u64).map(|unit| unit * 4096);
    units.for_each(|offset| send(&mut ssd, Op::Write, offset, 4096));
    ssd.advance(Nanos(1_000));
    let free_at = |at| (0..64).filter(|&die| ssd.die_free_at(die) == Nanos(at)).count();
    assert_eq!((free_at(205_120), free_at(1_000 + 205_120)), (8, 56), "one of each channel has it");
    assert_eq!(ssd.locate(ssd.capacity()), None);
}
