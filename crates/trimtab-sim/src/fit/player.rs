//! A recording, played to models.
//!
//! Requests come to the model at the times between them in the recording, with one exception.
//! Who kept the drive's queue full (a closed loop, a program that catches up) sent a request
//! when there was room for it: an answer came, and it was the drive that set the pace. Such a
//! request is sent to the model when *its* answers make room. Otherwise a model that is a little
//! slower than the drive would be buried under its queue, and one a little faster would have
//! none.

use std::sync::{Arc, Mutex};

use trimtab_device::{Buffer, Gc, Noise, Profile, Ssd};
use trimtab_io::{DeviceId, Nanos, RequestId};
use trimtab_trace::Record;

use super::distance::Latencies;

/// More requests on their way than this: the model is too slow for the load.
const HOPELESS: usize = 4096;
/// Aged drives that are kept.
const KEPT: usize = 6;
/// A queue of this share of the depth that is reached now and then (at p99) is a full one, if
/// it is at least so deep.
const FULL: f64 = 0.75;
const DEEP: usize = 8;

/// A request of a recording, and when it is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) record: Record,
    pub(super) when: When,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    /// So long after the one before.
    After(Nanos),
    /// As soon as fewer than so many are in flight.
    Below(usize),
}

/// When each request of a recording is to be sent; they have latencies and stand in order of
/// arrival.
pub(super) fn sent(records: &[Record]) -> Vec<Sent> {
    let mut ends: Vec<Nanos> = records.iter().filter_map(|record| record.complete).collect();
    ends.sort_unstable();
    let mut ended = 0;
    let depths: Vec<usize> = records
        .iter()
        .enumerate()
        .map(|(before, record)| {
            ended += ends[ended..].iter().take_while(|&&end| end <= record.arrival).count();
            // Of those that ended at once some may come after this one.
            before.saturating_sub(ended) + 1
        })
        .collect();
    let mut sorted = depths.clone();
    sorted.sort_unstable();
    let deep = sorted.get(sorted.len() * 99 / 100).copied().unwrap_or_default();
    let full = if deep < DEEP { usize::MAX } else { (FULL * deep as f64) as usize };
    let mut last = records.first().map_or(Nanos::ZERO, |record| record.arrival);
    let times = records.iter().zip(depths).map(|(record, depth)| {
        let after = When::After(Nanos(record.arrival.since(last).0));
        last = record.arrival;
        let when = if depth >= full { When::Below(depth) } else { after };
        Sent { record: *record, when }
    });
    times.collect()
}

/// Plays recordings to models that have been used for long. Ageing a drive takes longer
/// than playing to it, and depends on little of its profile: what was aged last is kept.
#[derive(Debug, Default)]
pub(super) struct Player {
    aged: Mutex<Vec<(Profile, Arc<Ssd>)>>,
}

impl Player {
    /// The latencies of all requests but the first so many; none if the model does not keep
    /// up with the load.
    pub(super) fn play(
        &self,
        profile: &Profile,
        requests: &[Sent],
        warm_up: usize,
    ) -> Option<Latencies> {
        let mut ssd = self.drive(profile);
        let capacity = ssd.capacity();
        let mut all = Latencies::default();
        let mut take = |ssd: &mut Ssd| {
            for served in ssd.served() {
                let number = served.completion.request.0 as usize;
                if number >= warm_up {
                    all.add(requests[number].record.op, served.completion.service_time());
                }
            }
        };
        for (number, Sent { record, when }) in requests.iter().enumerate() {
            let at = match *when {
                When::After(time) => ssd.now() + time,
                When::Below(depth) => {
                    while ssd.in_flight() >= depth {
                        let at = ssd.next_event()?;
                        ssd.advance(at);
                        take(&mut ssd);
                    }
                    ssd.now()
                }
            };
            let mut request = record.request(RequestId(number as u64));
            request.arrival = at;
            request.length = request.length.min(capacity / 2);
            request.offset %= capacity - request.length;
            request.offset -= request.offset % 512;
            ssd.submit(at, &request).ok()?;
            take(&mut ssd);
            if ssd.in_flight() > HOPELESS {
                return None;
            }
        }
        while ssd.in_flight() > 0 {
            let at = ssd.next_event()?;
            ssd.advance(at);
            take(&mut ssd);
        }
        Some(all)
    }

    /// An aged drive.
    fn drive(&self, profile: &Profile) -> Ssd {
        let kind = what_ages(profile);
        let mut ssd = Ssd::new(profile, DeviceId(0), 1);
        let known = {
            let aged = self.aged.lock().expect("no one panics with it");
            aged.iter().find(|(other, _)| *other == kind).map(|(_, aged)| Arc::clone(aged))
        };
        let like = known.unwrap_or_else(|| {
            let mut like = Ssd::new(&kind, DeviceId(0), 1);
            like.age(&kind, 1.0, 3.0);
            let like = Arc::new(like);
            let mut aged = self.aged.lock().expect("no one panics with it");
            if aged.len() == KEPT {
                aged.remove(0);
            }
            aged.push((kind, Arc::clone(&like)));
            like
        });
        ssd.age_like(&like);
        ssd
    }
}

/// A profile of a drive that ages like this one's: the same for all that differ in nothing
/// with a bearing on where data lies.
fn what_ages(profile: &Profile) -> Profile {
    let mut kind = profile.clone();
    kind.name.clear();
    kind.about.clear();
    let timing = &mut kind.timing;
    (timing.read_us, timing.program_us, timing.program_pattern_us) = (1.0, Some(1.0), None);
    (timing.erase_us, timing.channel_mb_s, timing.command_us) = (1.0, 1000.0, 0.0);
    (timing.host_link_mb_s, timing.firmware_us) = (0.0, 0.0);
    (kind.ftl.schedule, kind.ftl.mapping_cache_mb) = Default::default();
    (kind.buffer, kind.noise) = (Buffer::default(), Noise::default());
    let Gc { blocks, copy, preemptive, suspend, suspend_us, .. } = Gc::default();
    kind.gc = Gc { blocks, copy, preemptive, suspend, suspend_us, ..kind.gc };
    kind
}
