//! Plays a recording to the model of a disk.

use trimtab_device::{Disk, DiskProfile, DiskTiming, Order};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};

use super::distance::Played;
use super::sample::Sample;

/// Plays the requests one at a time, each after the recorded gap, and tells what the model made of
/// them. Requests beyond its end are moved to its last sectors.
pub(super) fn play(profile: &DiskProfile, samples: &[Sample]) -> Vec<Played> {
    let mut profile = profile.clone();
    (profile.queue.depth, profile.queue.order) = (1, Order::Fifo);
    let mut disk = Disk::new(&profile, DeviceId(0), 1);
    let timing = DiskTiming::new(&profile);
    let (mut now, mut hits) = (Nanos::ZERO, 0);
    let mut played = Vec::with_capacity(samples.len());
    for (i, sample) in (0..).zip(samples) {
        now += sample.gap;
        let offset = sample.offset.min(disk.capacity() - sample.length);
        let request =
            Request::new(RequestId(i), DeviceId(0), now, sample.op(), offset, sample.length);
        disk.submit(now, &request).expect("in order, and within the disk");
        // Writing back goes on after the answer.
        disk.advance_to_answer(Nanos(u64::MAX));
        let done = disk.served().next().expect("it completes").completion;
        let hit = disk.stats().hits > hits;
        hits = disk.stats().hits;
        let service = done.service_time().as_micros_f64();
        let by_arm = !hit && (sample.op() == Op::Read || profile.cache.write_kib == 0);
        let expected = match by_arm {
            true => timing
                .expected_service(sample.previous_end, sample.op(), offset, sample.length)
                .as_micros_f64(),
            false => service,
        };
        played.push(Played { service, expected, hit });
        now = done.complete;
    }
    played
}
