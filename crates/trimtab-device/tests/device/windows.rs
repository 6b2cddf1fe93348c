//! Drives of an array that clean in turns.

use std::sync::LazyLock;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_device::{
    AgedState, ArrayPosition, CleaningInterval, FirmwareKind, Profile, Ssd, SsdStats,
    WindowSchedule,
};
use trimtab_io::{DeviceId, Flags, Nanos, Op, Outcome, Request, RequestId};

const DRIVES: u32 = 4;

/// An array of FEMU drives of Table 2, with the same load on each.
struct Array {
    drives: Vec<Ssd>,
    random: Pcg64,
    sent: u64,
    reads_per_write: f64,
    reads: Reads,
}

/// Flagged reads, outside and inside their drive's windows.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    outside: u64,
    inside: u64,
    delayed_outside: u64,
    delayed_inside: u64,
    refused_outside: u64,
    refused_inside: u64,
}

impl Array {
    fn new(kind: &str, aged: &AgedState, profile: &Profile) -> Self {
        let kind = FirmwareKind::parse(kind).unwrap();
        let drive = |position| {
            let at = ArrayPosition { position, drives: DRIVES };
            let mut ssd = aged.drive(profile, DeviceId(position), u64::from(position));
            ssd.replace_firmware(kind.firmware(profile, at).unwrap());
            ssd.log_cleanings(true);
            ssd
        };
        let drives = (0..DRIVES).map(drive).collect();
        Self {
            drives,
            random: Pcg64::seed_from_u64(3),
            sent: 0,
            reads_per_write: 2.0,
            reads: Reads::default(),
        }
    }

    /// Serves writes of one unit, this many a second and drive, and reads, until then.
    fn work(&mut self, until: Nanos, writes_per_s: f64) {
        let write_share = 1.0 / (1.0 + self.reads_per_write);
        let mean = 1e9 * write_share / writes_per_s;
        for (at, ssd) in self.drives.iter_mut().enumerate() {
            let units = ssd.capacity() / 4096;
            while ssd.now() < until {
                let now = ssd.now() + Nanos(self.random.random_range(0.0..2.0 * mean) as u64);
                let op = if self.random.random_bool(write_share) { Op::Write } else { Op::Read };
                let offset = self.random.random_range(0..units) * 4096;
                let id = RequestId(self.sent << 1 | u64::from(op == Op::Read));
                let request = Request::new(id, DeviceId(at as u32), now, op, offset, 4096);
                self.sent += 1;
                ssd.submit(now, &Request { flags: Flags::LATENCY_CRITICAL, ..request }).unwrap();
                let windows = ssd.windows();
                let reads = &mut self.reads;
                for served in ssd.served().filter(|s| s.completion.request.0 & 1 == 1) {
                    let inside = windows.is_some_and(|w| w.contains(served.completion.issue));
                    let refused = matches!(served.completion.outcome, Outcome::Refused { .. });
                    let delayed = served.breakdown.cleaning > Nanos::ZERO;
                    *(if inside { &mut reads.inside } else { &mut reads.outside }) += 1;
                    *(if inside {
                        &mut reads.refused_inside
                    } else {
                        &mut reads.refused_outside
                    }) += u64::from(refused);
                    *(if inside {
                        &mut reads.delayed_inside
                    } else {
                        &mut reads.delayed_outside
                    }) += u64::from(delayed);
                }
            }
        }
    }

    fn stats(&self) -> Vec<SsdStats> {
        self.drives.iter().map(Ssd::stats).collect()
    }

    fn sum(&self, of: impl Fn(&SsdStats) -> u64) -> u64 {
        self.stats().iter().map(of).sum()
    }

    fn cleanings(&mut self) -> Vec<Vec<CleaningInterval>> {
        self.drives.iter_mut().map(Ssd::cleanings).collect()
    }
}

/// A full drive that has been overwritten twice, and its profile.
static FEMU: LazyLock<(Profile, AgedState)> = LazyLock::new(|| {
    let profile = Profile::builtin("femu").unwrap();
    let aged = AgedState::new(&profile, 1, 1.0, 2.0);
    (profile, aged)
});

/// Whether each cleaning lies within a window of its drive.
fn are_within(cleanings: &[CleaningInterval], windows: WindowSchedule) -> bool {
    cleanings.iter().all(|c| {
        let (from, until) = windows.window(c.from);
        from <= c.from && c.until <= until
    })
}

/// So at most one drive of the array cleans at a time, and reads meet cleaning in one drive's
/// windows only. The load is 30 drive writes a day: 3000 writes of 4 KiB a second on 12 GiB, for
/// eight hours.
#[test]
fn cleaning_stays_in_its_turn() {
    let (profile, aged) = &*FEMU;
    for kind in ["kind = \"windows\"", "kind = \"ioda\"", "kind = \"ioda\"\nwindow_ms = 500"] {
        let mut array = Array::new(kind, aged, profile);
        array.work(Nanos::from_secs(5), 3000.0);
        let all = array.cleanings();
        for (cleanings, ssd) in all.iter().zip(&array.drives) {
            assert!(cleanings.len() > 80, "{kind}: {}", cleanings.len());
            assert!(are_within(cleanings, ssd.windows().unwrap()), "{kind}");
        }
        assert_eq!(array.sum(|s| s.window_overruns + s.forced_outside_window + s.stalls), 0);
        let reads = array.reads;
        assert_eq!(reads.delayed_outside, 0, "{kind}: {reads:?}");
        // A cleaning that waits for its die at the end of a window does not begin, and the reads
        // behind it have been refused.
        assert!(reads.refused_outside < 10, "{kind}: {reads:?}");
        if kind.contains("ioda") {
            assert!(reads.refused_inside > 1000 && reads.delayed_inside == 0, "{kind}: {reads:?}");
        } else {
            assert!(reads.delayed_inside > 1000 && reads.refused_inside == 0, "{kind}: {reads:?}");
        }
    }
}

/// A cleaning that takes longer than a window begins early in one, and ends in another drive's.
#[test]
fn short_windows_are_overrun() {
    let (profile, aged) = &*FEMU;
    let mut array = Array::new("kind = \"ioda\"\nwindow_ms = 20", aged, profile);
    array.work(Nanos::from_secs(2), 3000.0);
    let cleanings = array.cleanings();
    let overruns = array.sum(|s| s.window_overruns);
    let all: usize = cleanings.iter().map(Vec::len).sum();
    assert!(all > 300 && overruns == all as u64, "{overruns} of {all}");
    for (cleanings, ssd) in cleanings.iter().zip(&array.drives) {
        let windows = ssd.windows().unwrap();
        let early = |c: &CleaningInterval| c.from.since(windows.window(c.from).0);
        assert!(cleanings.iter().all(|c| early(c) <= Nanos::from_millis(5)));
    }
    assert!(array.reads.refused_outside > array.reads.refused_inside, "{:?}", array.reads);
}

/// Writes between two turns exceed the free blocks, and cleaning is forced.
#[test]
fn overlong_windows_force_cleaning_outside_them() {
    let (profile, aged) = &*FEMU;
    let mut array = Array::new("kind = \"ioda\"\nwindow_ms = 3000", aged, profile);
    array.reads_per_write = 0.1;
    // The fourth drive's first turn is after 9 s.
    array.drives.drain(..3);
    array.work(Nanos::from_secs(6), 50_000.0);
    let stats = &array.stats()[0];
    assert!(stats.forced_outside_window > 100 && stats.stalls > 0, "{stats:?}");
    assert_eq!(stats.erases, stats.forced_outside_window - in_progress(&array.drives[0]));
}

fn in_progress(ssd: &Ssd) -> u64 {
    (0..64).filter(|&die| ssd.is_cleaning(die)).count() as u64
}

/// What the host sets applies from the given start, on all drives at once.
#[test]
fn windows_can_be_set_while_running() {
    let (profile, aged) = &*FEMU;
    let mut array = Array::new("kind = \"ioda\"\nwindow_ms = 100", aged, profile);
    array.work(Nanos::from_millis(1130), 3000.0);
    let old: Vec<_> = array.drives.iter().map(|ssd| ssd.windows().unwrap()).collect();
    assert_eq!(old[2].position, 2);
    // In the middle of the second drive's window.
    let (start, length) = (Nanos::from_millis(1380), Nanos::from_millis(250));
    for (ssd, &old) in array.drives.iter_mut().zip(&old) {
        assert!(ssd.set_windows(WindowSchedule { start, length, ..old }));
        assert_eq!(ssd.windows(), Some(old), "not before its start");
    }
    let before = array.cleanings();
    array.work(Nanos::from_millis(3000), 3000.0);
    let after = array.cleanings();
    for (i, ssd) in array.drives.iter().enumerate() {
        let new = ssd.windows().unwrap();
        assert_eq!((new.start, new.length, new.position), (start, length, i as u32));
        assert!(are_within(&before[i], old[i]));
        let (early, late): (Vec<_>, Vec<_>) = after[i].iter().partition(|c| c.from < start);
        assert!(are_within(&early, old[i]) && early.iter().all(|c| c.until <= start));
        assert!(late.len() > 25 && are_within(&late, new), "{}", late.len());
    }
    assert_eq!(array.reads.delayed_outside + array.sum(|s| s.window_overruns), 0);

    let mut ordinary = Ssd::new(profile, DeviceId(0), 1);
    assert!(ordinary.windows().is_none() && !ordinary.set_windows(old[0]));
}

/// Cleaning ahead leaves more free blocks at the end of a window, and moves more.
#[test]
fn clean_to_is_a_share_of_the_spare_blocks() {
    let (profile, aged) = &*FEMU;
    let run = |clean_to: f64| {
        let kind = format!("kind = \"windows\"\nwindow_ms = 200\nclean_to = {clean_to}");
        let mut array = Array::new(&kind, aged, profile);
        array.work(Nanos::from_secs(20), 300.0);
        (array.drives[0].free_blocks(), array.sum(|s| s.units_moved))
    };
    let ((at_high, moved), (ahead, moved_ahead)) = (run(0.0), run(0.28));
    // 64 dies with 64 spare blocks each.
    assert!((1000..=1040).contains(&at_high), "{at_high}");
    assert!((1130..=1180).contains(&ahead) && moved_ahead > 2 * moved, "{ahead} {moved_ahead}");
}

#[test]
fn cleanings_per_channel_are_limited() {
    let (profile, aged) = &*FEMU;
    let most = |limit: &str, writes: f64| {
        let kind = format!("kind = \"windows\"\nwindow_ms = 400\n{limit}");
        let mut array = Array::new(&kind, aged, profile);
        array.work(Nanos::from_secs(5), writes);
        let cleanings = &array.cleanings()[0];
        let on = |c: &CleaningInterval, at| c.die / 8 == 0 && c.from <= at && at < c.until;
        let count = |at| cleanings.iter().filter(|c| on(c, at)).count();
        cleanings.iter().map(|c| count(c.from)).max().unwrap()
    };
    assert_eq!(most("", 1_000.0), 1, "enough blocks are free");
    // When fewer are, 2: a page takes 300 µs, 120 of them on the channel.
    assert_eq!((most("cleanings_per_channel = 1", 40_000.0), most("", 40_000.0)), (1, 2));
}
