use std::ops::ControlFlow;
use std::sync::Arc;

use trimtab_device::DiskProfile;
use trimtab_io::{Op, mix64};
use trimtab_serve::{Announced, FlagTable};

use super::super::engine::Incoming;
use super::super::spec::{Fill, Spec};
use super::*;

const START: Nanos = Nanos::from_secs(1_000);

/// A drive that has to clean, and the array's side of its flags.
fn drive() -> (State<u64>, FlagTable) {
    let profile = Profile::builtin("femu").unwrap().with_capacity(1 << 30).unwrap();
    let spec = Spec { fill: Fill { share: 1.0, overwrites: 1.0 }, ..Spec::new("test", profile) };
    let ControlFlow::Continue(model) = spec.model(&mut |_| ControlFlow::Continue(())) else {
        unreachable!("not stopped")
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flags");
    let mut drive = State::new(&spec, model, START);
    drive.flags = Some(Arc::new(FlagTable::create(&path).unwrap()));
    (drive, FlagTable::open(&path).unwrap())
}

fn lease(owner: &str, for_ms: u64) -> PredictableCommand {
    PredictableCommand::Lease(Lease {
        owner: owner.to_owned(),
        position: 1,
        drives: 4,
        start_ns: START.0,
        length_ns: 100_000_000,
        for_ms,
    })
}

/// Writes for two seconds, with a flagged read each ms. Returns how many were refused.
fn work(drive: &mut State<u64>, array: &FlagTable, begin: Nanos) -> u32 {
    let (mut ready, mut refused) = (Vec::new(), 0);
    let mut reads: Vec<(u64, Announced)> = Vec::new();
    for step in 0..20_000_u64 {
        let now = begin + Nanos::from_micros(100 * step);
        drive.pass_time(now);
        drive.take_ready(now, &mut ready);
        for answer in ready.drain(..) {
            if let Some(place) = reads.iter().position(|read| read.0 == answer.ticket) {
                refused += u32::from(array.take(reads.remove(place).1).is_some());
            }
        }
        let offset = mix64(step) % (1 << 17) * 4096;
        let incoming =
            |op, flag| Incoming { arrival: now, op, offset, length: 4096, ticket: step, flag };
        if step % 10 == 0 {
            let announced = array.announce(offset, 4096).unwrap();
            reads.push((step, announced));
            let flag = drive.flags.as_ref().unwrap().find(offset, 4096);
            assert!(flag.is_some());
            drive.submit(incoming(Op::Read, flag));
        } else if step % 3 == 0 {
            drive.submit(incoming(Op::Write, None));
        }
    }
    refused
}

#[test]
fn flagged_reads_are_refused_while_a_lease_lasts() {
    let (mut drive, array) = drive();
    assert_eq!(work(&mut drive, &array, START), 0, "nothing has a lease");
    let mut now = START + Nanos::from_secs(3);
    assert_eq!(drive.predictable(lease("a", 6_000), now).unwrap(), PredictableReply::Leased);
    assert_eq!(drive.predictable_stat().unwrap().position, 1);
    assert!(work(&mut drive, &array, now) > 0);
    assert!(drive.figures.refused > 0);
    // What replaces the firmware does not end it.
    now += Nanos::from_secs(3);
    drive.predictable(lease("a", 6_000), now).unwrap();
    drive.retune(drive.profile.clone(), now).unwrap();
    assert!(work(&mut drive, &array, now) > 0);
    // It is not renewed.
    now += Nanos::from_secs(7);
    assert_eq!(work(&mut drive, &array, now), 0);
    assert_eq!(drive.predictable_stat(), None);
}

#[test]
fn drive_works_for_one_array_at_a_time() {
    let (mut drive, _) = drive();
    drive.predictable(lease("a", 1_000), START).unwrap();
    let why = drive.predictable(lease("b", 1_000), START).unwrap_err().to_string();
    assert_eq!(why, "its firmware works for a");
    drive.predictable(PredictableCommand::End { owner: "b".to_owned() }, START).unwrap();
    assert_eq!(drive.predictable_stat().unwrap().owner, "a");
    drive.predictable(PredictableCommand::End { owner: "a".to_owned() }, START).unwrap();
    drive.predictable(lease("b", 1_000), START).unwrap();
}

#[test]
fn impossible_leases_are_refused() {
    let (mut drive, _) = drive();
    let with = |position, length_ns, for_ms| {
        let PredictableCommand::Lease(lease) = lease("a", for_ms) else { unreachable!("is one") };
        PredictableCommand::Lease(Lease { position, length_ns, ..lease })
    };
    for command in
        [with(4, 1_000_000, 1), with(0, 0, 1), with(0, u64::MAX, 1), with(0, 1_000_000, u64::MAX)]
    {
        assert!(drive.predictable(command, START).unwrap_err().is_bad_input());
    }
    let spec = Spec::new("disk", DiskProfile::builtin("disk-7200").unwrap());
    let ControlFlow::Continue(model) = spec.model(&mut |_| ControlFlow::Continue(())) else {
        unreachable!("not stopped")
    };
    let mut disk = State::<u64>::new(&spec, model, START);
    assert!(disk.predictable(lease("a", 1), START).unwrap_err().is_bad_input());
    assert!(disk.predictable(PredictableCommand::Window { drives: 4 }, START).is_err());
}

#[test]
fn window_is_that_of_the_formula() {
    let (mut drive, _) = drive();
    let reply = drive.predictable(PredictableCommand::Window { drives: 4 }, START).unwrap();
    let PredictableReply::Window { length_ns } = reply else { panic!("{reply:?}") };
    assert!((60_000_000..80_000_000).contains(&length_ns), "{length_ns}");
}
