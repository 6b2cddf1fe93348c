//! Flushes of the write buffer in a drive's windows.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_device::{ArrayPosition, FirmwareKind, Profile, Ssd, SsdStats};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};

/// Reads outside the drive's windows: how many waited for their die, of how many, and for how long
/// the slowest one in a thousand.
struct Outside {
    waited: usize,
    reads: usize,
    p999: Nanos,
    stats: SsdStats,
}

/// Two reads for each write of 4 KiB, this many writes a second, on a drive with a buffer of
/// 16 MB and windows of 100 ms in 400.
fn run(flush_at: Option<f64>, writes_per_s: f64) -> Outside {
    let mut profile = Profile::builtin("femu").unwrap();
    let g = &mut profile.geometry;
    (g.channels, g.chips_per_channel) = (8, 4);
    profile.buffer.size_mb = 16.0;
    let profile = Profile::parse(&profile.to_toml()).unwrap();
    let flush_at = flush_at.map_or(String::new(), |share| format!("flush_at = {share}"));
    let kind =
        FirmwareKind::parse(&format!("kind = \"windows\"\nwindow_ms = 100\n{flush_at}")).unwrap();
    let firmware = kind.firmware(&profile, ArrayPosition { position: 1, drives: 4 }).unwrap();
    let mut ssd = Ssd::with_firmware(&profile, DeviceId(0), 1, firmware);
    ssd.age(&profile, 1.0, 2.0);
    let windows = ssd.windows().unwrap();
    let mut random = Pcg64::seed_from_u64(4);
    let units = ssd.capacity() / 4096;
    let (mut times, mut waited, mut id) = (Vec::new(), 0, 0);
    while ssd.now() < Nanos::from_secs(5) {
        let mean = 1e9 / (3.0 * writes_per_s);
        let now = ssd.now() + Nanos(random.random_range(0.0..2.0 * mean) as u64);
        let op = if random.random_bool(1.0 / 3.0) { Op::Write } else { Op::Read };
        let offset = random.random_range(0..units) * 4096;
        id += 2;
        let id = RequestId(id | u64::from(op == Op::Read));
        ssd.submit(now, &Request::new(id, DeviceId(0), now, op, offset, 4096)).unwrap();
        for served in ssd.served().filter(|served| served.completion.request.0 & 1 == 1) {
            if !windows.contains(served.completion.issue) {
                times.push(served.completion.service_time());
                waited += usize::from(served.breakdown.die > Nanos::ZERO);
            }
        }
    }
    times.sort_unstable();
    Outside {
        waited,
        reads: times.len(),
        p999: times[times.len() * 999 / 1000],
        stats: ssd.stats(),
    }
}

/// The reads that wait then wait for other reads.
#[test]
fn flushes_stay_in_the_windows() {
    let (free, windowed) = (run(None, 3000.0), run(Some(0.9), 3000.0));
    assert!(free.p999 > Nanos::from_millis(10), "{}", free.p999);
    assert!(windowed.p999 < Nanos::from_micros(250), "{}", windowed.p999);
    assert!(2 * windowed.waited < free.waited, "{} {}", windowed.waited, free.waited);
    assert!(windowed.reads > 20_000 && windowed.reads == free.reads);
    for stats in [free.stats, windowed.stats] {
        assert!(stats.units_programmed > 10_000, "{stats:?}");
        assert_eq!((stats.flushes_outside_window, stats.forced_outside_window), (0, 0));
    }
}

/// A cycle's writes are more than the buffer holds: it is flushed before it is full, and counted.
#[test]
fn full_buffers_are_flushed_outside_the_windows() {
    let windowed = run(Some(0.9), 12_000.0);
    // Three thousand writes would fit between two windows, and four thousand come.
    let outside = windowed.stats.flushes_outside_window;
    assert!((5..20).contains(&outside), "{outside}");
    assert!(windowed.p999 > Nanos::from_millis(10), "{}", windowed.p999);
}
