//! Plays a recording to models.
//!
//! Requests are sent to the model at the recorded intervals, with one exception. A program
//! that keeps a queue full (a closed loop, a program that catches up) sends a request when a
//! completion has made space for it: the drive sets the pace. Such a request is sent to the
//! model when *the model's* completions make space. Otherwise a model slightly slower than the
//! drive would have an ever-growing queue, and one slightly faster would have none.

use std::sync::{Arc, Mutex};

use trimtab_device::{AgedState, Profile, Ssd};
use trimtab_io::{DeviceId, Nanos, RequestId};
use trimtab_trace::Record;

use super::distance::Latencies;

/// With more requests in flight than this, the model is too slow for the load.
const HOPELESS: usize = 4096;
/// The number of aged states that are cached.
const KEPT: usize = 6;
/// A queue counts as full at this share of the depth reached at p99 of this many requests.
const FULL: f64 = 0.75;
const WITHIN: usize = 1000;

/// A request of a recording, and its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) record: Record,
    pub(super) when: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// This long after the one before.
    After(Nanos),
    /// This long after a completion, with fewer than this many in flight.
    Below(usize, Nanos),
}

/// The times at which the requests of a recording are to be sent; they have latencies and are
/// in order of arrival.
pub(super) fn sent(records: &[Record]) -> Vec<Sent> {
    let mut ends: Vec<Nanos> = records.iter().filter_map(|record| record.complete).collect();
    ends.sort_unstable();
    let mut last = records.first().map_or(Nanos::ZERO, |record| record.arrival);
    let mut ended = 0;
    // Each with its queue depth, itself included, and the time since the last completion, if
    // there was one after the previous request.
    let mut all = Vec::with_capacity(records.len());
    for (before, &record) in records.iter().enumerate() {
        let completions = ends[ended..].iter().take_while(|&&end| end <= record.arrival).count();
        ended += completions;
        // Of those that completed at once some may arrive after this one.
        let depth = before.saturating_sub(ended) + 1;
        let since = |time| Nanos(record.arrival.since(time).0);
        let after = When::After(since(last));
        let completed = (completions > 0).then(|| since(ends[ended - 1]));
        all.push((depth, completed, Sent { record, when: after }));
        last = record.arrival;
    }
    for near in all.chunks_mut(WITHIN) {
        let mut depths: Vec<usize> = near.iter().map(|(depth, ..)| *depth).collect();
        depths.sort_unstable();
        let full = FULL * depths[depths.len() * 99 / 100] as f64;
        let is_full = |depth: usize| depth as f64 >= full;
        let finds_full = || near.iter().filter(|(depth, ..)| is_full(*depth));
        // Otherwise the drive had stalled, and the program did not wait for it.
        let paced = finds_full().filter(|(_, completed, _)| completed.is_some()).count();
        if 2 * paced >= finds_full().count() {
            for (depth, completed, sent) in near.iter_mut().filter(|near| is_full(near.0)) {
                sent.when = When::Below(*depth, completed.unwrap_or_default());
            }
        }
    }
    all.into_iter().map(|(.., sent)| sent).collect()
}

/// Plays recordings to aged models. Ageing a drive takes longer than playing to it, and
/// depends on few keys of its profile: the last aged drives are cached.
#[derive(Debug, Default)]
pub(super) struct Player {
    aged: Mutex<Vec<Arc<AgedState>>>,
}

impl Player {
    /// The latencies of all requests after the first `warm_up`; `None` if the model cannot
    /// sustain the load.
    pub(super) fn play(
        &self,
        profile: &Profile,
        requests: &[Sent],
        warm_up: usize,
    ) -> Option<Latencies> {
        let mut ssd = self.drive(profile);
        let capacity = ssd.capacity();
        let mut all = Latencies::default();
        // Returns the time of the last completion, if there was one.
        let mut take = |ssd: &mut Ssd| {
            let mut last = None;
            for served in ssd.served() {
                last = Some(served.completion.complete);
                let number = served.completion.request.0 as usize;
                if number >= warm_up {
                    all.add(requests[number].record.op, served.completion.service_time());
                }
            }
            last
        };
        let mut completed = Nanos::ZERO;
        for (number, Sent { record, when }) in requests.iter().enumerate() {
            let at = match *when {
                When::After(time) => ssd.now() + time,
                When::Below(depth, time) => {
                    while ssd.in_flight() >= depth {
                        let at = ssd.next_event()?;
                        ssd.advance(at);
                        completed = take(&mut ssd).unwrap_or(completed);
                    }
                    ssd.now().max(completed + time)
                }
            };
            let mut request = record.request(RequestId(number as u64));
            request.arrival = at;
            request.length = request.length.min(capacity / 2);
            request.offset %= capacity - request.length;
            request.offset -= request.offset % 512;
            ssd.submit(at, &request).ok()?;
            completed = take(&mut ssd).unwrap_or(completed);
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
        let known = {
            let aged = self.aged.lock().expect("no one panics with it");
            aged.iter().find(|aged| aged.is_of(profile)).map(Arc::clone)
        };
        let state = known.unwrap_or_else(|| {
            let state = Arc::new(AgedState::new(profile, 1, 1.0, 3.0));
            let mut aged = self.aged.lock().expect("no one panics with it");
            if aged.len() == KEPT {
                aged.remove(0);
            }
            aged.push(Arc::clone(&state));
            state
        });
        state.drive(profile, DeviceId(0), 1)
    }
}
