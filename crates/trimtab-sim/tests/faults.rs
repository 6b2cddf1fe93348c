//! Drives of an array that stall, slow down and fail.

use trimtab_device::{Effect, Fault, FaultOps, Profile, Ssd};
use trimtab_io::{DeviceId, LatencyHistogram, Nanos, Op};
use trimtab_sim::array::{ArrayDrive, ArrayIo, ArrayOptions, ArrayRun, RunOptions, run};
use trimtab_steer::{
    Costs, Replica, ReplicaHistory, StrategyInputs, StrategyKind, Tuning, strategies,
};

const GAP: Nanos = Nanos::from_millis(1);
const READS: u64 = 1000;

const fn times(time: Nanos, factor: u64) -> Nanos {
    Nanos(time.0 * factor)
}

/// Two drives that take the same time for every read.
fn drives(depth: u32) -> Vec<ArrayDrive> {
    let mut profile = Profile::builtin("reference").unwrap();
    let g = &mut profile.geometry;
    (g.channels, g.chips_per_channel, g.blocks_per_plane, g.pages_per_block) = (2, 2, 64, 64);
    let profile = Profile::parse(&profile.to_toml()).unwrap();
    let drive = |number| {
        let mut ssd = Ssd::new(&profile, DeviceId(number), 1);
        ssd.fill_in_order(1.0);
        ArrayDrive::new(ssd, depth)
    };
    (0..2).map(drive).collect()
}

/// A read of each drive every millisecond.
fn requests() -> Vec<ArrayIo> {
    let read = |number: u64| {
        ArrayIo::new(
            times(GAP, number / 2),
            Op::Read,
            number * 4096,
            4096,
            Replica((number % 2) as u8),
        )
    };
    (0..2 * READS).map(read).collect()
}

fn fault(effect: Effect, at_s: f64, for_s: f64) -> Fault {
    let fault = Fault::once(effect, at_s, for_s);
    fault.check().unwrap();
    fault
}

/// Under `kind`, with faults of drive 0 and of drive 1.
fn run_kind(kind: StrategyKind, faults: [&[Fault]; 2], depth: u32) -> ArrayRun {
    let mut drives = drives(depth);
    for (drive, faults) in drives.iter_mut().zip(faults) {
        drive.set_faults(faults, 7);
    }
    let run_options = RunOptions { log: true, each_read: true, ..RunOptions::default() };
    let options = ArrayOptions { run: run_options, ..ArrayOptions::default() };
    let mut reads = LatencyHistogram::new();
    reads.extend((1..=1000).map(Nanos::from_micros));
    let inflection = Nanos::from_millis(1);
    let history = vec![ReplicaHistory { reads, inflection, false_submit_rate: 0.0 }; 2];
    let costs = Costs::new(Nanos::ZERO);
    let inputs = StrategyInputs { predictors: None, costs, tuning: Tuning::default(), seed: 1 };
    run(drives, kind.build(&history, inputs), &requests(), &options).unwrap()
}

/// The latencies of the reads of a drive, in order.
fn of(run: &ArrayRun, drive: usize) -> Vec<Nanos> {
    run.figures.each_read.iter().skip(drive).step_by(2).copied().collect()
}

fn base(faults: [&[Fault]; 2]) -> ArrayRun {
    run_kind(StrategyKind::Base, faults, 32)
}

#[test]
fn schedule_without_effect_changes_nothing() {
    let usual = base([&[], &[]]);
    let later = base([&[fault(Effect::Stall, 1e6, 1.0)], &[]]);
    assert_eq!(usual.figures.each_read, later.figures.each_read);
    assert_eq!(usual.log, later.log);
}

#[test]
fn slow_multiplies_latencies_for_a_time_or_for_good() {
    let usual = of(&base([&[], &[]]), 0);
    for (for_s, until) in [(0.25, 750), (f64::INFINITY, READS as usize)] {
        let run = base([&[fault(Effect::Slow { factor: 10.0 }, 0.5, for_s)], &[]]);
        for (number, (&now, &usual)) in of(&run, 0).iter().zip(&usual).enumerate() {
            let factor = if (500..until).contains(&number) { 10 } else { 1 };
            assert_eq!(now, times(usual, factor), "read {number}");
        }
        assert_eq!(of(&run, 1), usual, "the other drive is as before");
    }
}

#[test]
fn stall_holds_completions_until_it_ends() {
    let usual = of(&base([&[], &[]]), 0);
    let run = base([&[fault(Effect::Stall, 0.5, 0.02)], &[]]);
    let end = Nanos::from_millis(520);
    for (number, (&now, &usual)) in (0..).zip(of(&run, 0).iter().zip(&usual)) {
        let held = end.since(times(GAP, number));
        assert_eq!(now, if (500..520).contains(&number) { held } else { usual }, "read {number}");
    }
    // A drive that stalls keeps its slots: the others wait in the host queue.
    let run = run_kind(StrategyKind::Base, [&[fault(Effect::Stall, 0.5, 0.02)], &[]], 4);
    let issued = run.log[0].iter().map(|entry| entry.issue.unwrap());
    let during = issued.filter(|at| (Nanos::from_millis(500)..end).contains(at));
    assert_eq!(during.count(), 4);
}

#[test]
fn failed_reads_are_served_elsewhere_after_their_usual_time() {
    let dies = fault(Effect::Error { ops: FaultOps::Reads, share: 1.0 }, 0.5, f64::INFINITY);
    let usual = base([&[], &[]]);
    let run = base([&[dies], &[]]);
    assert_eq!((run.figures.errors, run.figures.reads.count()), (0, 2 * READS));
    let (now, usual) = (of(&run, 0), of(&usual, 0));
    assert_eq!(now[..500], usual[..500]);
    assert!(now[500..].iter().zip(&usual[500..]).all(|(&now, &usual)| now >= times(usual, 2)));
    assert_eq!(run.figures.counts.sent, 2 * READS + 500);
}

#[test]
fn read_that_fails_everywhere_completes_with_an_error() {
    let dies = fault(Effect::Error { ops: FaultOps::All, share: 1.0 }, 0.5, 0.25);
    for kind in [StrategyKind::Base, StrategyKind::Hedge, StrategyKind::C3] {
        let run = run_kind(kind, [&[dies], &[dies]], 32);
        assert_eq!((run.figures.errors, run.figures.reads.count()), (500, 1500), "{kind}");
        assert_eq!(of(&run, 1).iter().filter(|&&latency| latency == Nanos::MAX).count(), 250);
    }
}

#[test]
fn the_seed_decides_which_requests_fail() {
    let some = [fault(Effect::Error { ops: FaultOps::Reads, share: 0.3 }, 0.0, f64::INFINITY)];
    let (one, other) = (base([&some, &[]]), base([&some, &[]]));
    assert_eq!(one.figures.each_read, other.figures.each_read);
    let retried = one.figures.counts.sent - 2 * READS;
    assert!((250..350).contains(&retried), "{retried}");
}

#[test]
fn drives_go_on_from_where_a_run_with_faults_ended() {
    let mut first = base([&[fault(Effect::Slow { factor: 5.0 }, 0.0, f64::INFINITY)], &[]]);
    first.drives.iter_mut().for_each(|drive| drive.set_faults(&[], 0));
    let start = first.drives[0].server.now().max(first.drives[1].server.now());
    let mut later = requests();
    later.iter_mut().for_each(|io| io.at += start);
    let run_options = RunOptions { each_read: true, ..RunOptions::default() };
    let options = ArrayOptions { run: run_options, ..ArrayOptions::default() };
    let base_again = Box::new(strategies::Base::new("base"));
    let again = run(first.drives, base_again, &later, &options).unwrap();
    assert_eq!(again.figures.each_read, base([&[], &[]]).figures.each_read);
}
