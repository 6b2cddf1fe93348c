//! Drives of an array that clean together.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_device::{ArrayPosition, FirmwareKind, Profile, Ssd};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};

const DRIVES: u32 = 4;

/// The share of time in which some drive cleans, and in which all do.
struct Busy {
    some: f64,
    all: f64,
    erases: u64,
}

/// Writes to four drives at the same rate, but at random, for some seconds. `relay`: whether each
/// drive's beginnings are told to the others.
fn run(kind: &str, relay: bool) -> Busy {
    let mut profile = Profile::builtin("femu").unwrap();
    let g = &mut profile.geometry;
    (g.channels, g.chips_per_channel, g.blocks_per_plane, g.pages_per_block) = (4, 4, 128, 64);
    let profile = Profile::parse(&profile.to_toml()).unwrap();
    let kind = FirmwareKind::parse(kind).unwrap();
    let drive = |position| {
        let firmware = kind.firmware(&profile, ArrayPosition { position, drives: DRIVES });
        let mut ssd =
            Ssd::with_firmware(&profile, DeviceId(position), position.into(), firmware.unwrap());
        ssd.age(&profile, 1.0, 2.0 + 0.1 * f64::from(position));
        ssd
    };
    let mut drives: Vec<_> = (0..DRIVES).map(drive).collect();
    let mut random = Pcg64::seed_from_u64(5);
    let units = drives[0].capacity() / 4096;
    let (mut some, mut all, mut steps) = (0, 0, 0);
    for id in 0..80_000 {
        let now = Nanos(id * 125_000);
        let ssd = &mut drives[random.random_range(0..DRIVES as usize)];
        let offset = random.random_range(0..units) * 4096;
        let request = Request::new(RequestId(id), DeviceId(0), now, Op::Write, offset, 4096);
        ssd.submit(now, &request).unwrap();
        let mut busy = 0;
        for i in 0..DRIVES as usize {
            drives[i].advance(now);
            drives[i].served();
            if relay && drives[i].took_cleaning_start() {
                for other in (0..DRIVES as usize).filter(|&other| other != i) {
                    drives[other].advance(now);
                    drives[other].clean_now();
                }
            }
            busy += u32::from((0..16).any(|die| drives[i].is_cleaning(die)));
        }
        some += u32::from(busy > 0);
        all += u32::from(busy == DRIVES);
        steps += 1;
    }
    for ssd in &drives {
        assert_eq!(ssd.verify(), Ok(()));
        assert_eq!(ssd.stats().stalls, 0);
    }
    let share = |count: u32| f64::from(count) / f64::from(steps);
    let erases = drives.iter().map(|ssd| ssd.stats().erases).sum();
    Busy { some: share(some), all: share(all), erases }
}

/// Each drive cleans a seventh of the time. Apart, some drive cleans half of the time; told of each
/// other, all four clean together for six sevenths of the time that any of them does.
#[test]
fn drives_clean_at_the_same_time() {
    let alone = run("kind = \"standard\"", false);
    let unrelayed = run("kind = \"harmonia\"", false);
    let together = run("kind = \"harmonia\"", true);
    let figures = |busy: &Busy| format!("{:.3} {:.3} {}", busy.some, busy.all, busy.erases);
    let figures = [&alone, &unrelayed, &together].map(figures);
    assert!(together.all > 0.75 * together.some, "{figures:?}");
    assert!(together.some < 0.4 * alone.some, "{figures:?}");
    assert!(together.some < 0.6 * unrelayed.some, "{figures:?}");
    // Cleaning earlier than necessary moves a little more.
    assert!(together.erases < alone.erases * 11 / 10, "{figures:?}");
}
