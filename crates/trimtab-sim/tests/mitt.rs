//! Queue models beside simulated disks.

use trimtab_device::scheduler::SchedulerKind;
use trimtab_device::{Disk, DiskProfile};
use trimtab_io::{DeviceId, IoClass, Issuer, Nanos, Op, Request, RequestId};
use trimtab_predict::Predictor;
use trimtab_predict::mitt::{DiskPrecision, Limit};
use trimtab_sim::mitt::{Ended, PredictedDevice, disk_predictor};
use trimtab_sim::{MaybeScheduled, Scheduled, Server};

fn profile() -> DiskProfile {
    DiskProfile::builtin("disk-7200").unwrap()
}

fn read(id: u64, offset: u64) -> Request {
    Request::new(RequestId(id), DeviceId(0), Nanos::ZERO, Op::Read, offset, 4096)
}

fn below(kind: &str) -> (MaybeScheduled<Disk>, SchedulerKind) {
    let kind = SchedulerKind::parse(kind).unwrap();
    let disk = Disk::new(&profile(), DeviceId(0), 1);
    (MaybeScheduled::Scheduled(Box::new(Scheduled::new(disk, &kind, 1))), kind)
}

fn model(kind: &SchedulerKind, deadline: Option<Nanos>) -> Box<dyn Predictor> {
    let limit = Limit { deadline, hop: Nanos::ZERO, elsewhere: None };
    disk_predictor(&profile(), Some((kind, 1)), limit, DiskPrecision::default()).unwrap()
}

#[test]
fn expected_latencies_follow_the_queue_and_requests_end_once() {
    for kind in ["kind = 'none'", "kind = 'cfq'"] {
        let (device, kind) = below(kind);
        let capacity = device.capacity();
        let mut predicted = PredictedDevice::new(device, [model(&kind, None)]);
        let mut expected = Nanos::ZERO;
        for id in 0..8 {
            let request = read(id, id * 7919 * (1 << 20) % capacity);
            let wait = predicted.forecasts(Nanos::ZERO, &request).next().unwrap().wait.unwrap();
            assert!(wait > expected, "{id}: {wait:?} after {expected:?}");
            expected = wait;
            predicted.send(Nanos::ZERO, &request).unwrap();
        }
        predicted.finish();
        let ended: Vec<_> = predicted.ended().collect();
        assert_eq!(ended.len(), 8);
        let last = ended.iter().map(|ended| match ended {
            Ended::Completed(completion) => completion.complete,
            Ended::TakenBack { .. } => panic!("nothing is cancelled"),
        });
        // Eight waits for a sector: each is off by half a revolution at most.
        let (last, most) = (last.max().unwrap(), Nanos::from_micros(8 * 4167));
        assert!(expected.0.abs_diff(last.0) < most.0, "{expected:?} {last:?}");
    }
}

#[test]
fn reads_that_a_higher_class_bumps_are_taken_back() {
    let (device, kind) = below("kind = 'cfq'");
    let deadline = Nanos::from_millis(60);
    let mut predicted = PredictedDevice::new(device, [model(&kind, Some(deadline))]).takes_back();
    predicted.send(Nanos::ZERO, &read(0, 0)).unwrap();
    predicted.send(Nanos::ZERO, &read(1, 1 << 38)).unwrap();
    let issuer = Issuer { process: 9, class: IoClass::RealTime, ..Issuer::default() };
    for id in 2..12 {
        let urgent = Request { issuer, ..read(id, (id % 2) << 39) };
        predicted.send(Nanos::ZERO, &urgent).unwrap();
    }
    predicted.finish();
    let mut taken_back = Vec::new();
    let mut completed = 0;
    for ended in predicted.ended() {
        match ended {
            Ended::TakenBack { request, .. } => taken_back.push(request.0),
            Ended::Completed(_) => completed += 1,
        }
    }
    // The disk has the first one.
    assert_eq!((taken_back, completed), (vec![1], 11));
}

#[test]
fn schedulers_without_a_queue_model_have_no_predictor() {
    for kind in ["kind = 'mq-deadline'", "kind = 'bfq'"] {
        let kind = SchedulerKind::parse(kind).unwrap();
        let none = disk_predictor(
            &profile(),
            Some((&kind, 1)),
            Limit::default(),
            DiskPrecision::default(),
        );
        assert!(none.is_none(), "{kind:?}");
    }
}
