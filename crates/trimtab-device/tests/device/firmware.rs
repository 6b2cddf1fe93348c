//! The firmware interface: one small policy of each intended kind.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_device::{
    Candidates, ContentionDecision, Firmware, Ideal, Profile, ReadContention, Served, Ssd, Standard,
};
use trimtab_io::{DeviceId, Flags, Nanos, Op, Outcome, Request, RequestId};

fn profile() -> Profile {
    let mut profile = Profile::builtin("reference").unwrap();
    let g = &mut profile.geometry;
    (g.channels, g.chips_per_channel, g.blocks_per_plane, g.pages_per_block) = (4, 2, 128, 64);
    Profile::parse(&profile.to_toml()).unwrap()
}

fn urgent(id: u64, arrival: Nanos, op: Op, unit: u64) -> Request {
    let request = Request::new(RequestId(id), DeviceId(0), arrival, op, unit * 4096, 4096);
    Request { flags: Flags::LATENCY_CRITICAL, ..request }
}

/// Random reads and writes, 8 in flight.
fn work(ssd: &mut Ssd, requests: u64) -> Vec<(Op, Served)> {
    let mut random = Pcg64::seed_from_u64(11);
    let units = ssd.capacity() / 4096;
    let (mut sent, mut answers) = (0, Vec::new());
    while (answers.len() as u64) < requests {
        while ssd.in_flight() < 8 && sent < requests {
            let op = if random.random_bool(0.7) { Op::Read } else { Op::Write };
            let id = sent << 1 | u64::from(op == Op::Read);
            let request = urgent(id, ssd.now(), op, random.random_range(0..units));
            sent += 1;
            ssd.submit(ssd.now(), &request).unwrap();
        }
        if let Some(at) = ssd.next_event() {
            ssd.advance(at);
        }
        answers.extend(ssd.served().map(|served| {
            let is_read = served.completion.request.0 & 1 == 1;
            (if is_read { Op::Read } else { Op::Write }, served)
        }));
    }
    answers
}

fn drive(firmware: impl Firmware + 'static) -> Ssd {
    let profile = profile();
    let mut ssd = Ssd::with_firmware(&profile, DeviceId(0), 1, Box::new(firmware));
    ssd.age(&profile, 1.0, 2.0);
    ssd.audit();
    ssd
}

fn slowest_read(answers: &[(Op, Served)]) -> Nanos {
    let reads = answers.iter().filter(|(op, _)| *op == Op::Read);
    reads.map(|(_, served)| served.completion.service_time()).max().unwrap()
}

macro_rules! ordinary_choice {
    () => {
        fn choose(
            &mut self,
            now: Nanos,
            candidates: &Candidates<'_>,
            random: &mut Pcg64,
        ) -> Option<u32> {
            self.ordinary.choose(now, candidates, random)
        }

        fn boxed_clone(&self) -> Box<dyn Firmware> {
            Box::new(self.clone())
        }
    };
}

/// Cleans only in every other time window, as a drive of an array does that takes turns (IODA,
/// §4.3).
#[derive(Clone, Debug)]
struct Windows {
    ordinary: Standard,
    length: Nanos,
}

impl Firmware for Windows {
    fn may_clean(&mut self, now: Nanos, _: u32) -> bool {
        (now.0 / self.length.0) % 2 == 1
    }

    fn next_change(&self, now: Nanos) -> Option<Nanos> {
        Some(Nanos((now.0 / self.length.0 + 1) * self.length.0))
    }

    ordinary_choice!();
}

#[test]
fn cleaning_stays_in_its_windows() {
    let length = Nanos::from_millis(100);
    let mut ssd = drive(Windows { ordinary: Standard::new(&profile()), length });
    let answers = work(&mut ssd, 30_000);
    assert!(ssd.stats().erases > 50, "{:?}", ssd.stats());
    assert_eq!(ssd.stats().stalls, 0, "there is room enough to wait for the window");
    // One cleaning may have begun just before its window closed.
    let grace = Nanos::from_millis(25);
    let outside = answers.iter().filter(|(_, served)| {
        let at = served.completion.issue.0 % (2 * length.0);
        at > grace.0 && at < length.0
    });
    let (mut quiet, mut waited) = (0, 0);
    for (_, served) in outside {
        quiet += 1;
        waited += u32::from(served.breakdown.cleaning > Nanos::ZERO);
    }
    assert!(quiet > 2_000);
    assert_eq!(waited, 0, "of {quiet} requests outside the windows");
    assert!(answers.iter().any(|(_, served)| served.breakdown.cleaning > Nanos::ZERO));
}

/// Refuses reads that cleaning would delay (IODA, §4.2).
#[derive(Clone, Debug)]
struct Refusing {
    ordinary: Standard,
}

impl Firmware for Refusing {
    fn contend(&mut self, contention: &ReadContention) -> ContentionDecision {
        assert!(contention.flags.contains(Flags::LATENCY_CRITICAL));
        ContentionDecision::Refuse
    }

    ordinary_choice!();
}

#[test]
fn refused_reads_report_the_busy_time() {
    let mut ssd = drive(Refusing { ordinary: Standard::new(&profile()) });
    let answers = work(&mut ssd, 30_000);
    let refused: Vec<_> = answers
        .iter()
        .filter_map(|(op, served)| match served.completion.outcome {
            Outcome::Refused { expected_wait } => {
                assert_eq!(*op, Op::Read);
                assert_eq!(served.completion.service_time(), Nanos::from_micros(1));
                Some(expected_wait)
            }
            _ => None,
        })
        .collect();
    assert!(refused.len() > 500, "{}", refused.len());
    assert_eq!(refused.len() as u64, ssd.stats().refused);
    // At most a block of valid pages, and an erase.
    let longest = Nanos(64 * (40_000 + 200_000 + 2 * 5_120) + 2_000_000);
    assert!(refused.iter().all(|&wait| wait <= longest));
    assert!(refused.iter().any(|&wait| wait > Nanos::from_millis(5)));
}

/// Also while the whole drive stalls for free blocks.
#[test]
fn reads_are_refused_during_a_stall() {
    let mut profile = profile();
    profile.gc.low_watermark = 0.24;
    let firmware = Refusing { ordinary: Standard::new(&profile) };
    let mut ssd = Ssd::with_firmware(&profile, DeviceId(0), 1, Box::new(firmware));
    ssd.age(&profile, 1.0, 2.0);
    let send = |ssd: &mut Ssd, op, unit: u64| {
        let request = urgent(unit, ssd.now(), op, unit);
        ssd.submit(ssd.now(), &request).unwrap();
    };
    let mut unit = 0;
    while ssd.stats().stalls == 0 {
        send(&mut ssd, Op::Write, unit);
        unit += 1;
    }
    let cleaning = |ssd: &Ssd| (0..8).find(|&die| ssd.is_cleaning(die));
    while cleaning(&ssd).is_none() {
        ssd.advance(ssd.next_event().expect("cleaning begins"));
    }
    ssd.served();
    let die = cleaning(&ssd).unwrap();
    let there = |unit: &u64| ssd.locate(unit * 4096).is_some_and(|locate| locate.die == die);
    let units: Vec<_> = (unit..).filter(there).take(20).collect();
    units.iter().for_each(|&unit| send(&mut ssd, Op::Read, unit));
    ssd.advance(ssd.now() + Nanos::from_micros(1));
    assert_eq!(ssd.stats().stalled, Nanos::ZERO, "the stall is not over");
    let refused = |served: &Served| matches!(served.completion.outcome, Outcome::Refused { .. });
    assert_eq!(ssd.served().filter(refused).count(), 20);
}

/// Cleans one channel at a time, and meanwhile regenerates its data from the others (Tiny-Tail
/// Flash).
#[derive(Clone, Debug)]
struct Regenerating {
    ordinary: Standard,
}

impl Regenerating {
    const TURN: Nanos = Nanos::from_millis(50);
}

impl Firmware for Regenerating {
    fn may_clean(&mut self, now: Nanos, plane: u32) -> bool {
        let channel = plane / 2;
        // A late start would reach into the next one's turn.
        let early = now.0 % Self::TURN.0 < Self::TURN.0 / 2;
        early && now.0 / Self::TURN.0 % 4 == u64::from(channel)
    }

    fn next_change(&self, now: Nanos) -> Option<Nanos> {
        Some(Nanos((now.0 / Self::TURN.0 + 1) * Self::TURN.0))
    }

    fn contend(&mut self, _: &ReadContention) -> ContentionDecision {
        ContentionDecision::Regenerate
    }

    ordinary_choice!();
}

/// Besides reading the other channels, the controller combines their data, one page at a time.
#[test]
fn regeneration_takes_controller_time() {
    // Reads with this latency, and all regenerated reads.
    let slow = |us: f64| {
        let mut profile = profile();
        profile.timing.regenerate_us = us;
        let firmware = Regenerating { ordinary: Standard::new(&profile) };
        let mut ssd = Ssd::with_firmware(&profile, DeviceId(0), 1, Box::new(firmware));
        ssd.age(&profile, 1.0, 2.0);
        let answers = work(&mut ssd, 30_000);
        let reads = answers.iter().filter(|(op, _)| *op == Op::Read);
        let least = Nanos(3_000_000 + 45_120);
        let slow = reads.filter(|(_, served)| served.completion.service_time() >= least).count();
        (slow as u64, ssd.stats().regenerated)
    };
    let (without, all) = slow(0.0);
    assert!(all > 500 && without < all / 4, "{without} of {all}");
    let (with, all) = slow(3_000.0);
    assert!(all > 500 && with >= all, "{with} of {all}");
}

#[test]
fn regeneration_and_ideal_avoid_cleaning_waits() {
    let p99 = |answers: &[(Op, Served)]| {
        let mut reads: Vec<_> = answers
            .iter()
            .filter(|(op, _)| *op == Op::Read)
            .map(|(_, served)| served.completion.service_time())
            .collect();
        reads.sort_unstable();
        reads[reads.len() * 99 / 100]
    };
    let mut ordinary = drive(Standard::new(&profile()));
    let mut regenerating = drive(Regenerating { ordinary: Standard::new(&profile()) });
    let mut ideal = drive(Ideal::new(&profile()));
    let (a, b, c) =
        (work(&mut ordinary, 30_000), work(&mut regenerating, 30_000), work(&mut ideal, 30_000));
    assert!(regenerating.stats().regenerated > 500, "{:?}", regenerating.stats());
    assert!(p99(&a) > Nanos(5 * p99(&b).0), "{} {}", p99(&a), p99(&b));
    assert!(ideal.stats().erases > 50 && ideal.stats().cleaning == Nanos::ZERO);
    assert!(slowest_read(&c) < Nanos::from_millis(2), "{}", slowest_read(&c));
    for ssd in [ordinary, regenerating, ideal] {
        assert_eq!(ssd.verify(), Ok(()));
    }
}

#[test]
fn firmware_can_be_replaced_while_running() {
    let mut ssd = drive(Standard::new(&profile()));
    let slow = slowest_read(&work(&mut ssd, 30_000));
    ssd.replace_firmware(Box::new(Ideal::new(&profile())));
    // Cleanings in progress still end.
    work(&mut ssd, 5_000);
    let fast = slowest_read(&work(&mut ssd, 30_000));
    assert!(slow > Nanos(3 * fast.0), "{slow} {fast}");
    assert_eq!(ssd.verify(), Ok(()));
}
