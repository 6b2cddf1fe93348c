use trimtab_device::Ssd;
use trimtab_io::{DeviceId, Flags, Nanos, RequestId};

use super::player::When;
use super::*;

const CAPACITY: u64 = 1 << 28;
/// Requests before the recording starts, which bring the drive into its state; and recorded
/// ones.
const USED: u64 = 4000;
const RECORDED: u64 = 8000;

/// A small drive: they are aged repeatedly.
fn small() -> Profile {
    let mut profile = Profile::builtin("reference").unwrap();
    let g = &mut profile.geometry;
    // Small blocks too: planes that were aged start their blocks together.
    (g.channels, g.chips_per_channel, g.pages_per_block) = (4, 2, 32);
    profile.gc.preemptive = true;
    profile.with_capacity(CAPACITY).unwrap()
}

/// A recording of a model that is not among the initial profiles.
fn recording() -> (Profile, Vec<Record>) {
    let mut profile = small();
    profile.timing.read_us = 70.0;
    profile.timing.channel_mb_s = 300.0;
    profile.timing.firmware_us = 12.0;
    let mut ssd = Ssd::new(&profile, DeviceId(0), 5);
    ssd.age(&profile, 1.0, 3.0);
    let mut state = 3_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let (mut now, mut records) = (0, Vec::new());
    for number in 0..USED + RECORDED {
        now += random(200_000);
        let op = if random(10) < 9 { Op::Read } else { Op::Write };
        let record =
            Record::arriving(Nanos(now), DeviceId(0), op, random(50_000) * 4096, 4096 << random(2));
        assert_eq!(record.flags, Flags::empty());
        ssd.submit(Nanos(now), &record.request(RequestId(number))).unwrap();
        records.push(record);
    }
    while let Some(at) = ssd.next_event().filter(|_| ssd.in_flight() > 0) {
        ssd.advance(at);
    }
    for served in ssd.served() {
        let completion = served.completion;
        records[completion.request.0 as usize].complete = Some(completion.complete);
    }
    (profile, records.split_off(USED as usize))
}

#[test]
fn fit_approximates_an_unknown_drive() {
    let (drive, records) = recording();
    let bases = [small()];
    // Stops at this distance.
    let fitted = fit(&records, &bases, CAPACITY, 2, |_, error| error > 0.025).unwrap();
    let requests = sent(&records);
    let half = requests.len() / 2;
    let distance = |profile| {
        let model = Player::default().play(profile, &requests, half).unwrap();
        model.distance(&Latencies::measured(&requests[half..]))
    };
    let errors = [&fitted.profile, &small(), &drive].map(|of| distance(of).read_error.unwrap());
    let [fitted, unfitted, drive] = errors;
    assert!(unfitted > 0.2, "{unfitted}");
    assert!(drive < 0.05, "the drive's own profile: {drive}");
    assert!(fitted < unfitted / 4.0 && fitted < 0.15, "{fitted} {unfitted}");
}

#[test]
fn result_is_independent_of_threads() {
    let (_, records) = recording();
    let bases = [small(), Profile::builtin("femu").unwrap()];
    let with = |threads| {
        let go_on = |tried, _| tried < 150;
        fit(&records, &bases, CAPACITY, threads, go_on).unwrap()
    };
    let (one, three) = (with(1), with(3));
    assert_eq!((one.profile, one.tried), (three.profile, three.tried));
    assert_eq!(one.second_half, three.second_half);
}

#[test]
fn short_recordings_are_an_error() {
    let error = fit(&[], &[], 1 << 30, 2, |_, _| true).unwrap_err();
    assert!(error.to_string().contains("at least 1000"), "{error}");
}

#[test]
fn full_queue_sets_the_pace() {
    // Two requests every four milliseconds; then always sixteen.
    let mut records = Vec::new();
    let mut add = |number: u64, arrival| {
        let offset = number * 4096;
        let mut record = Record::arriving(Nanos(arrival), DeviceId(0), Op::Read, offset, 4096);
        record.complete = Some(Nanos(arrival + 160_000));
        records.push(record);
    };
    (0..200).for_each(|i| add(i, i / 2 * 4_000_000 + i % 2 * 10_000));
    (200..1200).for_each(|i| add(i, 400_000_000 + i * 10_000));
    let requests = sent(&records);
    let paced = |range: std::ops::Range<usize>| {
        requests[range].iter().filter(|sent| matches!(sent.when, When::Below(..))).count()
    };
    assert_eq!(paced(0..200), 0);
    assert_eq!(paced(216..1200), 1200 - 216);
    // A model ten times slower has no growing queue, because no program sends into a full
    // queue.
    let mut profile = small();
    profile.timing.read_us = 1600.0;
    let slow = Player::default().play(&profile, &requests, 0).unwrap();
    let pace = slow.slower_by(&Latencies::measured(&requests));
    assert!((0.04..0.1).contains(&pace), "{pace}");
}

#[test]
fn stall_is_not_a_full_queue() {
    // A request every 100 µs; every second the drive completes nothing for 20 ms.
    let records: Vec<Record> = (0..20_000_u64)
        .map(|i| {
            let arrival = i * 100_000;
            let mut record = Record::arriving(Nanos(arrival), DeviceId(0), Op::Read, 0, 4096);
            let second = arrival / 1_000_000_000 * 1_000_000_000;
            record.complete = Some(Nanos((second + 20_000_000).max(arrival) + 90_000));
            record
        })
        .collect();
    let requests = sent(&records);
    let paced =
        requests.iter().filter(|sent| matches!(sent.when, When::Below(depth, _) if depth > 1));
    assert_eq!(paced.count(), 0);
}
