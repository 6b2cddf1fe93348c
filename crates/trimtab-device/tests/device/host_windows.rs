//! Windows whose length the host finds.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_device::{
    ArrayPosition, ControllerSettings, FirmwareKind, Profile, Ssd, WindowController,
};
use trimtab_io::{DeviceId, Flags, Nanos, Op, Outcome, Request, RequestId};

const DRIVES: u32 = 4;

struct Run {
    /// Stripes read, and those with more than one busy sub-I/O.
    stripes: u64,
    twice_busy: u64,
    forced: u64,
    /// At the end.
    length: Nanos,
}

/// Writes to four drives, and reads of the same units of all of them, for some seconds.
fn run(window_ms: u64, controller: Option<ControllerSettings>, seconds: u64) -> Run {
    let mut profile = Profile::builtin("femu").unwrap();
    let g = &mut profile.geometry;
    (g.channels, g.chips_per_channel, g.blocks_per_plane, g.pages_per_block) = (8, 4, 128, 64);
    let profile = Profile::parse(&profile.to_toml()).unwrap();
    let kind = FirmwareKind::parse(&format!("kind = \"ioda\"\nwindow_ms = {window_ms}")).unwrap();
    let drive = |position| {
        let firmware = kind.firmware(&profile, ArrayPosition { position, drives: DRIVES }).unwrap();
        let mut ssd = Ssd::with_firmware(&profile, DeviceId(position), position.into(), firmware);
        ssd.age(&profile, 1.0, 2.0);
        ssd
    };
    let mut drives: Vec<_> = (0..DRIVES).map(drive).collect();
    let mut controller = controller.map(|settings| WindowController::new(Nanos::ZERO, settings));
    let mut random = Pcg64::seed_from_u64(8);
    let units = drives[0].capacity() / 4096;
    let mut run = Run { stripes: 0, twice_busy: 0, forced: 0, length: Nanos::ZERO };
    // A stripe is read each millisecond.
    for ms in 1..=1000 * seconds {
        let now = Nanos::from_millis(ms);
        let read = random.random_range(0..units) * 4096;
        let mut busy = 0;
        for ssd in &mut drives {
            for i in 0..4 {
                let at = Nanos(now.0 - 999_000 + i * 240_000);
                let offset = random.random_range(0..units) * 4096;
                let write = Request::new(RequestId(0), DeviceId(0), at, Op::Write, offset, 4096);
                ssd.submit(at, &write).unwrap();
            }
            let request = Request::new(RequestId(1), DeviceId(0), now, Op::Read, read, 4096);
            ssd.submit(now, &Request { flags: Flags::LATENCY_CRITICAL, ..request }).unwrap();
            ssd.advance(now + Nanos::from_micros(1));
            let refused = ssd.served().filter(|served| {
                served.completion.issue == now
                    && matches!(served.completion.outcome, Outcome::Refused { .. })
            });
            busy += refused.count() as u32;
        }
        run.stripes += 1;
        run.twice_busy += u64::from(busy > 1);
        let now = now + Nanos::from_micros(1);
        if let Some(length) = controller.as_mut().and_then(|it| it.observe(now, busy)) {
            for ssd in &mut drives {
                let windows = ssd.windows().unwrap().from_next_cycle(now, length);
                ssd.set_windows(windows);
            }
        }
    }
    run.forced = drives.iter().map(|ssd| ssd.stats().forced_outside_window).sum();
    run.length = controller.map_or(Nanos::from_millis(window_ms), |it| it.length());
    run
}

/// Windows of 1.5 s are too long for 4000 writes a second on each drive, 0.7 s are not. The length
/// is applied at the end of a cycle, and the next signal comes after that: with a period shorter
/// than a cycle (IODA's example is 50 ms) it swings further, from 20 ms to 2.1 s here.
#[test]
fn controller_finds_a_length_that_holds() {
    let (short, long) = (run(700, None, 20), run(1500, None, 20));
    assert_eq!((short.forced, short.twice_busy), (0, 0));
    assert!(long.forced > 1000 && long.twice_busy * 50 > long.stripes, "{}", long.forced);
    let settings = ControllerSettings {
        base: Nanos::from_millis(1500),
        period: Nanos::from_millis(500),
        ..ControllerSettings::default()
    };
    let controlled = run(1500, Some(settings), 20);
    assert!(2 * controlled.forced < long.forced, "{} {}", controlled.forced, long.forced);
    assert!(controlled.twice_busy < long.twice_busy);
    assert!(controlled.length < Nanos::from_millis(800), "{}", controlled.length);
}
