//! Queue models beside simulated disks.

use std::collections::HashMap;
use std::sync::Arc;
use trimtab_device::scheduler::SchedulerKind;
use trimtab_device::{Disk, DiskProfile, Profile, Ssd};

use trimtab_io::{DeviceId, HostEvent, IoClass, Issuer, Nanos, Op, Request, RequestId, mix64};
use trimtab_predict::Predictor;
use trimtab_predict::mitt::{DiskPrecision, FlashPrecision, Limit, MittSsd};
use trimtab_sim::mitt::{Ended, PredictedDevice, disk_predictor, flash_model};
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

/// The disk sorts eight requests by seek and rotation (NCQ), and so does the model: nineteen of twenty
/// reads take what is foretold, within 50 µs, if nothing comes after them.
#[test]
fn latencies_behind_a_sorted_queue_are_foretold() {
    for kind in ["kind = 'none'", "kind = 'cfq'"] {
        let kind = SchedulerKind::parse(kind).unwrap();
        let disk = Disk::new(&profile(), DeviceId(0), 1);
        let device = MaybeScheduled::Scheduled(Box::new(Scheduled::new(disk, &kind, 8)));
        let precision = DiskPrecision::default();
        let model = disk_predictor(&profile(), Some((&kind, 8)), Limit::default(), precision);
        let mut predicted = PredictedDevice::new(device, [model.unwrap()]);
        let units = predicted.device().capacity() / 4096;
        let (mut now, mut right, mut reads, mut queued) = (Nanos::ZERO, 0, 0, 0);
        for id in 0..2000 {
            // Bursts of up to seven.
            let gap = if mix64(id).is_multiple_of(7) { 60_000_000 } else { 100_000 };
            now += Nanos(gap + mix64(id + 1) % gap);
            predicted.advance(now);
            let ended: Vec<_> = predicted.ended().collect();
            queued -= ended.len();
            let read = read(id, mix64(id) % units * 4096);
            // The model learns the angle first, and how services depend on the queue.
            if id > 200 && queued < 8 {
                let foretold = predicted.forecasts(now, &read).next().unwrap().wait.unwrap();
                let mut copy = predicted.device().clone();
                copy.submit(now, &read).unwrap();
                let mut actual = None;
                while actual.is_none() {
                    copy.advance(copy.next_event().unwrap());
                    copy.drain(|done| {
                        let done = done.completion;
                        actual =
                            (done.request == read.id).then(|| done.complete.since(now)).or(actual);
                    });
                }
                reads += 1;
                right += u32::from(foretold.0.abs_diff(actual.unwrap().0) < 50_000);
            }
            predicted.send(now, &read).unwrap();
            queued += 1;
        }
        assert!(reads > 1000 && right * 20 > reads * 19, "{kind:?}: {right} of {reads}");
    }
}

/// The latency of a read that a copy of the drive serves, with nothing after it.
fn alone(ssd: &Ssd, now: Nanos, read: &Request) -> Nanos {
    let mut copy = ssd.clone();
    copy.submit(now, read).unwrap();
    loop {
        let found = copy.served().find(|served| served.completion.request == read.id);
        if let Some(served) = found {
            return served.completion.complete.since(now);
        }
        copy.advance(copy.next_event().expect("the read completes"));
    }
}

/// Channel time of a page.
const TRANSFER: u64 = 60_015;

/// `mitt-ssd` knows the queues, so it foretells a latency to the nanosecond unless something else
/// comes: however deep the queues, and for reads of any size. Only the order of transfers that are
/// ready in the same nanosecond is the drive's own.
#[test]
fn latencies_of_open_flash_are_exact_if_nothing_follows() {
    let text = Profile::builtin("openchannel").unwrap().to_toml();
    let small = text
        .replace("channels = 16", "channels = 2")
        .replace("chips_per_channel = 8", "chips_per_channel = 4")
        .replace("blocks_per_plane = 2048", "blocks_per_plane = 40");
    let profile = Profile::parse(&small).unwrap();
    for seed in 1..=4_u64 {
        let mut ssd = Ssd::new(&profile, DeviceId(0), seed);
        ssd.age(&profile, 1.0, 0.5);
        let map = ssd.open_channel();
        let model = Arc::new(flash_model(&profile).unwrap());
        let mut mitt = MittSsd::new(model, map, Limit::default(), FlashPrecision::default());
        let (start, pages) = (ssd.now(), ssd.capacity() >> 12);
        // Bursts, from an idle drive to queues of dozens of operations on each die.
        let mut now = start;
        let mut tickets = HashMap::new();
        let (mut reads, mut exact) = (0, 0);
        for id in 0..600_u64 {
            let draw = |salt: u64| mix64(seed << 40 | id << 8 | salt);
            now += Nanos(if draw(0) % 100 < 3 { 20_000_000 } else { draw(1) % 60_000 });
            while let Some(at) = ssd.next_event().filter(|&at| at <= now) {
                ssd.advance(at);
                ssd.take_flash_events(|event| mitt.observe(&HostEvent::Flash(event)));
                for served in ssd.served() {
                    let ticket = tickets.remove(&served.completion.request.0).unwrap();
                    mitt.completed(served.completion.complete, ticket, true);
                }
            }
            let op = if draw(2) % 10 < 7 { Op::Read } else { Op::Write };
            let length = 4096 << (draw(3) % 6);
            let offset = (draw(4) % (pages - 32)) << 12;
            let request = Request::new(RequestId(id), DeviceId(0), now, op, offset, length);
            if op == Op::Read {
                let expected = mitt.predict(now, &request).wait.unwrap();
                let off = expected.0.abs_diff(alone(&ssd, now, &request).0);
                (reads, exact) = (reads + 1, exact + u32::from(off == 0));
                assert!(off <= 5 * TRANSFER, "seed {seed}, request {id}: off by {off} ns");
            }
            tickets.insert(id, mitt.sent(now, &request));
            ssd.submit(now, &request).unwrap();
            ssd.take_flash_events(|event| mitt.observe(&HostEvent::Flash(event)));
        }
        assert!(reads > 300 && exact * 100 >= reads * 60, "seed {seed}: {exact} of {reads}");
        assert_eq!(ssd.stats().erases, 0, "cleaning is foretold less exactly");
    }
}
