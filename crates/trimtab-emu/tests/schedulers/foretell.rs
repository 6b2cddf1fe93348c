//! The order that a model foretells.

use std::collections::VecDeque;

use trimtab_device::scheduler::{AnyScheduler, Scheduler as _};
use trimtab_io::{DeviceId, Flags, IoClass, Issuer, Nanos, Op, Request, RequestId};

use crate::burst::Burst;
use crate::device::{DEPTH, Served};

/// Time between two completions, once the drive goes on. The order hardly depends on it.
const SERVICE: Nanos = Nanos::from_micros(40);

/// The burst's requests, by number, in the order that the model gives them to a drive which is
/// stalled until `served.goes_on` and then completes one after the other. Of the observation it
/// uses the times of arrival, and when the drive went on. The model has served the bursts before.
/// `seed` tells processes of different bursts apart.
pub(crate) fn foretold(
    scheduler: &mut AnyScheduler,
    seed: u64,
    burst: &Burst,
    served: &Served,
) -> Vec<usize> {
    let process_of = |number: usize| (seed * 16 + number as u64) as u32;
    let plug_number = burst.requests.len() as u64;
    let mut in_device = VecDeque::new();
    let mut order = Vec::new();
    let mut pump = |scheduler: &mut AnyScheduler, in_device: &mut VecDeque<Request>, now: Nanos| {
        while in_device.len() < DEPTH {
            let Some(next) = scheduler.dispatch(now, in_device.len() as u32) else { return };
            if next.id.0 < plug_number {
                order.push(next.id.0 as usize);
            }
            in_device.push_back(next);
        }
    };
    for (&at, i) in served.plug.iter().zip(0..) {
        let id = RequestId(plug_number + i);
        let request = Request::new(id, DeviceId(0), at, Op::Read, i * 8192, 4096);
        let issuer = Issuer::of_process(process_of(15));
        scheduler.insert(at, &Request { issuer, ..request });
        pump(scheduler, &mut in_device, at);
    }
    for ((request, &at), i) in burst.requests.iter().zip(&served.arrivals).zip(0..) {
        let process = burst.processes[request.process];
        let level = if process.class == IoClass::Idle { 0 } else { process.level };
        let issuer =
            Issuer { process: process_of(request.process), group: 0, class: process.class, level };
        let id = RequestId(i);
        let made = Request::new(id, DeviceId(0), at, request.op, request.offset, request.length);
        // The kernel marks direct writes as waited for.
        scheduler.insert(at, &Request { issuer, flags: Flags::SYNC, ..made });
        pump(scheduler, &mut in_device, at);
    }
    let mut now = served.goes_on;
    loop {
        pump(scheduler, &mut in_device, now);
        if let Some(done) = in_device.pop_front() {
            scheduler.completed(now, &done, SERVICE);
            pump(scheduler, &mut in_device, now);
            now += SERVICE;
        } else if let Some(timer) = scheduler.next_timer() {
            now = now.max(timer);
        } else {
            return order;
        }
    }
}

/// Of all pairs of a burst, how many are in the same order in both; and the number of pairs.
pub(crate) fn pairs_in_order(observed: &[usize], foretold: &[usize]) -> (usize, usize) {
    assert_eq!(observed.len(), foretold.len(), "each request is dispatched once");
    let mut place = vec![0; foretold.len()];
    foretold.iter().enumerate().for_each(|(at, &i)| place[i] = at);
    let mut agreeing = 0;
    for (at, &first) in observed.iter().enumerate() {
        agreeing += observed[at + 1..].iter().filter(|&&later| place[first] < place[later]).count();
    }
    (agreeing, observed.len() * (observed.len() - 1) / 2)
}
