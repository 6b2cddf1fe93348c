use std::ops::ControlFlow;

use trimtab_device::{DiskProfile, Effect, Profile};
use trimtab_io::mix64;

use super::super::spec::Fill;
use super::*;

fn drive() -> State<u64> {
    let profile = Profile::builtin("consumer-a").unwrap().with_capacity(3 << 30).unwrap();
    let spec = Spec { fill: Fill { share: 1.0, overwrites: 3.0 }, ..Spec::new("test", profile) };
    let ControlFlow::Continue(ssd) = spec.model(&mut |_| ControlFlow::Continue(())) else {
        unreachable!("not stopped")
    };
    State::new(&spec, ssd, START)
}

fn arrived(arrival: Nanos, op: Op, offset: u64, ticket: u64) -> Incoming<u64> {
    Incoming { arrival, op, offset, length: 4096, ticket, flag: None }
}

const START: Nanos = Nanos::from_secs(1_000);

/// Writes and reads for a while from `begin` on; returns when each was answered, relative to
/// `begin`.
fn work(drive: &mut State<u64>, begin: Nanos) -> Vec<(u64, Nanos)> {
    let (mut answers, mut ready) = (Vec::new(), Vec::new());
    let mut now = begin;
    let mut number = 0;
    while number < 20_000 || drive.in_flight() > 0 {
        drive.pass_time(now);
        drive.take_ready(now, &mut ready);
        answers.extend(ready.drain(..).map(|ready| (ready.ticket, now.since(begin))));
        if number < 20_000 {
            let offset = number * 7_919 * 4_096 % (3_u64 << 30);
            let op = if number % 3 == 0 { Op::Read } else { Op::Write };
            drive.submit(arrived(now, op, offset / 4096 * 4096 % (2 << 30), number));
            number += 1;
        }
        now += Nanos::from_micros(20);
    }
    answers
}

#[test]
fn restored_snapshot_repeats_latencies() {
    let mut drive = drive();
    work(&mut drive, START);
    drive.take_snapshot(START + Nanos::from_secs(10)).unwrap();
    let begin = START + Nanos::from_secs(11);
    drive.restore(begin).unwrap();
    let first = work(&mut drive, begin);
    let later = begin + Nanos::from_secs(77);
    assert_ne!(work(&mut drive, later), first, "the drive has changed");
    let later = later + Nanos::from_secs(77);
    drive.restore(later).unwrap();
    assert_eq!(work(&mut drive, later), first);
}

#[test]
fn next_event_is_never_after_an_answer() {
    let mut drive = drive();
    let mut ready = Vec::new();
    for number in 0..1_000 {
        let arrival = START + Nanos::from_millis(1 + number);
        drive.submit(arrived(arrival, Op::Read, number * 4096 * 100, number));
        let mut steps = 0;
        let mut now = arrival;
        while ready.is_empty() {
            let next = drive.next_event();
            assert_eq!(next.waiting, 1);
            now = next.at.expect("something will come").max(now);
            drive.pass_time(now);
            drive.take_ready(now, &mut ready);
            steps += 1;
        }
        // On time to the nanosecond.
        assert_eq!(drive.figures.added.max(), Some(Nanos::ZERO));
        assert!(steps <= 6, "{steps} steps for one read");
        ready.clear();
    }
}

#[test]
fn answers_are_early_by_the_compensation_but_never_before_arrival() {
    const COMPENSATION: Nanos = Nanos::from_micros(40);
    let (mut exact, mut early) = (drive(), drive());
    early.fix_compensation(Some(COMPENSATION));
    let after = |drive: &mut State<u64>, op, arrival, offset| {
        drive.submit(arrived(arrival, op, offset, 0));
        let (mut ready, mut now) = (Vec::new(), arrival);
        loop {
            drive.take_ready(now, &mut ready);
            if !ready.is_empty() {
                return now.since(arrival);
            }
            now = drive.next_event().at.expect("an answer will come").max(now);
            drive.pass_time(now);
        }
    };
    let mut arrival = START;
    for number in 0..200 {
        // The next request follows an early answer directly.
        let (op, offset) = if number % 2 == 0 { (Op::Read, 7 << 20) } else { (Op::Write, 0) };
        let exactly = after(&mut exact, op, arrival, offset + number * 4096);
        assert_eq!(
            after(&mut early, op, arrival, offset + number * 4096),
            exactly.since(COMPENSATION)
        );
        arrival += exactly + Nanos(number);
    }
    // A write into the buffer takes less than the compensation.
    assert_eq!(early.figures.added.max(), Some(Nanos::ZERO));
}

#[test]
fn clearing_a_fault_releases_held_answers() {
    let mut drive = drive();
    let stall = Fault::once(Effect::Stall, 0.0, 100.0);
    drive.add_fault(&stall, START);
    drive.submit(arrived(START, Op::Read, 0, 7));
    let now = START + Nanos::from_secs(1);
    let mut ready = Vec::new();
    drive.pass_time(now);
    drive.take_ready(now, &mut ready);
    assert!(ready.is_empty() && drive.in_flight() == 1);
    assert_eq!(drive.next_event().at, Some(START + Nanos::from_secs(100)));
    drive.clear_faults(now);
    drive.take_ready(now, &mut ready);
    assert_eq!((ready.len(), drive.in_flight()), (1, 0));
}

/// A disk answers at its model's times; the same model, alone, is the truth.
#[test]
fn disk_answers_when_its_model_does() {
    let profile = DiskProfile::builtin("disk-7200").unwrap().with_capacity(64 << 30).unwrap();
    let mut spec = Spec::new("test", profile);
    spec.compensation = Some(Nanos::ZERO);
    let model = || match spec.model(&mut |_| ControlFlow::Continue(())) {
        ControlFlow::Continue(model) => model,
        ControlFlow::Break(()) => unreachable!("not stopped"),
    };
    let mut truth = model();
    let mut drive = State::new(&spec, model(), START);
    let (mut number, mut answered, mut ready) = (0_u64, 0, Vec::new());
    let mut now = START;
    let mut expected = vec![Nanos::ZERO; 600];
    while answered < 600 {
        // Up to eight in flight, of all kinds.
        while number < 600 && drive.in_flight() < 8 {
            let offset = mix64(number) % (60 << 30) / 4096 * 4096;
            let op = [Op::Read, Op::Read, Op::Write, Op::Read, Op::Flush][number as usize % 5];
            let (offset, length) = if op == Op::Flush { (0, 0) } else { (offset, 4096) };
            drive.submit(Incoming { arrival: now, op, offset, length, ticket: number, flag: None });
            let at = now.since(START);
            let id = RequestId(number);
            truth.submit(at, &Request::new(id, DeviceId(0), at, op, offset, length)).unwrap();
            number += 1;
        }
        now = drive.next_event().at.expect("an answer will come").max(now);
        truth.advance(now.since(START));
        truth.drain(|served| {
            expected[served.completion.request.0 as usize] = served.completion.complete;
        });
        drive.pass_time(now);
        drive.take_ready(now, &mut ready);
        for ready in ready.drain(..) {
            assert_eq!(now.since(START), expected[ready.ticket as usize], "{}", ready.ticket);
            answered += 1;
        }
    }
    assert_eq!(drive.figures.added.max(), Some(Nanos::ZERO));
    let refused = drive.idealise(true, now).unwrap_err().to_string();
    assert!(refused.contains("a disk has no firmware that cleans"), "{refused}");
}
