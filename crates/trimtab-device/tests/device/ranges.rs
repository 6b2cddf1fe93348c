//! LBA ranges that are kept apart, and windows for each of them.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_device::{ArrayPosition, FirmwareKind, Profile, Ssd};
use trimtab_io::{DeviceId, Flags, Nanos, Op, Request, RequestId};

const DRIVES: u32 = 4;

fn profile() -> Profile {
    let mut profile = Profile::builtin("femu").unwrap();
    let g = &mut profile.geometry;
    (g.channels, g.chips_per_channel, g.blocks_per_plane, g.pages_per_block) = (8, 4, 128, 64);
    profile.ftl.ranges = DRIVES;
    Profile::parse(&profile.to_toml()).unwrap()
}

fn drive(profile: &Profile, kind: &str, position: u32) -> Ssd {
    let kind = FirmwareKind::parse(kind).unwrap();
    let firmware = kind.firmware(profile, ArrayPosition { position, drives: DRIVES }).unwrap();
    let mut ssd = Ssd::with_firmware(profile, DeviceId(position), 1, firmware);
    ssd.age(profile, 1.0, 2.0);
    ssd
}

/// The range of a unit: all are equally long.
fn range_of(ssd: &Ssd, unit: u64) -> u32 {
    let units = (ssd.capacity() / 4096).div_ceil(DRIVES.into());
    (unit / units) as u32
}

/// Writes units below `end` at random, and twice as many reads anywhere.
fn work(ssd: &mut Ssd, random: &mut Pcg64, requests: u64, every_us: u64, end: u64) {
    let units = ssd.capacity() / 4096;
    for id in 0..requests {
        let now = ssd.now() + Nanos(random.random_range(0..2 * every_us * 1000));
        let is_write = random.random_bool(1.0 / 3.0);
        let op = if is_write { Op::Write } else { Op::Read };
        let unit = random.random_range(0..if is_write { end } else { units });
        let request = Request::new(RequestId(id), DeviceId(0), now, op, unit * 4096, 4096);
        ssd.submit(now, &Request { flags: Flags::LATENCY_CRITICAL, ..request }).unwrap();
        ssd.served();
    }
}

#[test]
fn a_range_stays_on_its_channels() {
    let profile = profile();
    let mut filled = Ssd::new(&profile, DeviceId(0), 1);
    filled.fill_in_order(1.0);
    let aged = drive(&profile, "kind = \"standard\"", 0);
    for (mut ssd, cleans) in [(filled, false), (aged, true)] {
        ssd.audit();
        let units = ssd.capacity() / 4096;
        work(&mut ssd, &mut Pcg64::seed_from_u64(2), 60_000, 100, units);
        assert_eq!(ssd.stats().erases > 100, cleans, "{:?}", ssd.stats());
        assert_eq!(ssd.verify(), Ok(()));
        for unit in 0..units {
            let Some(at) = ssd.locate(unit * 4096) else { continue };
            assert_eq!(at.channel % DRIVES, range_of(&ssd, unit), "unit {unit}");
        }
    }
}

/// In any window each drive cleans one range, and no two drives the same: no stripe of the array is
/// blocked on two drives.
#[test]
fn each_range_is_cleaned_by_one_drive_at_a_time() {
    let profile = profile();
    for position in 0..DRIVES {
        let mut ssd = drive(&profile, "kind = \"ioda-ranges\"\nwindow_ms = 100", position);
        ssd.log_cleanings(true);
        let units = ssd.capacity() / 4096;
        work(&mut ssd, &mut Pcg64::seed_from_u64(2), 60_000, 100, units);
        let (windows, stats) = (ssd.windows().unwrap(), ssd.stats());
        let cleanings = ssd.cleanings();
        assert!(cleanings.len() > 100 && stats.refused > 100, "{stats:?}");
        assert_eq!(stats.forced_outside_window + stats.stalls, 0);
        // The channels are busier than the margin allows for, now and then.
        assert!(stats.window_overruns * 100 < cleanings.len() as u64, "{stats:?}");
        let mut in_windows_of = [0; DRIVES as usize];
        for cleaning in cleanings {
            let range = cleaning.die / 4 % DRIVES;
            assert!(windows.for_range(range).contains(cleaning.from), "{cleaning:?}");
            in_windows_of[windows.busy_drive(cleaning.from).unwrap() as usize] += 1;
        }
        // The drive cleans in every window.
        assert!(in_windows_of.iter().all(|&n| n > 10), "{in_windows_of:?}");
    }
}

/// A range cannot use the others' space: it runs low alone, and cleaning is forced for it.
#[test]
fn skewed_writes_exhaust_a_range() {
    let profile = profile();
    let forced = |share: u64| {
        let mut ssd = drive(&profile, "kind = \"ioda-ranges\"\nwindow_ms = 100", 0);
        let end = ssd.capacity() / 4096 / share;
        work(&mut ssd, &mut Pcg64::seed_from_u64(2), 120_000, 70, end);
        assert_eq!(ssd.verify(), Ok(()));
        (ssd.stats().forced_outside_window, ssd.stats().stalls)
    };
    let (even, skewed) = (forced(1), forced(4));
    assert_eq!(even, (0, 0));
    assert!(skewed.0 > 10 && skewed.1 > 0, "{skewed:?}");
}
