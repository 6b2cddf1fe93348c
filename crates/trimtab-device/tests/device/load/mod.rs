//! Synthetic workloads with the rates and sizes of published traces.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_device::{Profile, Served, Ssd};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};

/// Alignment of requests, bytes.
const GRAIN: u64 = 4096;
/// Mean length of a burst, s. The table's peaks are means of 10 s; this test is too short for that.
const BURST_S: f64 = 0.1;

/// A row of LinnOS, Table 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) mean_iops: f64,
    pub(crate) peak_iops: f64,
    pub(crate) read_share: f64,
    /// Mean sizes, KiB.
    pub(crate) read_kib: u64,
    pub(crate) write_kib: u64,
}

impl Load {
    /// `count` requests after `start`, Poisson arrivals at one rate in bursts (the peak) and
    /// another between them (half the mean). Offsets are uniform over the drive, sizes uniform from
    /// 4 KiB to twice the mean.
    pub(crate) fn requests(
        &self,
        count: usize,
        start: Nanos,
        capacity: u64,
        seed: u64,
    ) -> Vec<Request> {
        let mut random = Pcg64::seed_from_u64(seed);
        let mut exponential = Pcg64::seed_from_u64(seed ^ 1);
        let mut exponential = |mean: f64| {
            let uniform: f64 = exponential.random();
            -(1.0 - uniform).ln() * mean
        };
        let calm_iops = self.mean_iops / 2.0;
        let in_burst = (self.mean_iops - calm_iops) / (self.peak_iops - calm_iops);
        let calm_s = BURST_S / in_burst - BURST_S;
        let (mut now, mut bursting) = (0.0, false);
        let mut change = exponential(calm_s);
        (0..count)
            .map(|id| {
                loop {
                    let iops = if bursting { self.peak_iops } else { calm_iops };
                    let next = now + exponential(1.0 / iops);
                    if next < change {
                        now = next;
                        break;
                    }
                    now = change;
                    bursting = !bursting;
                    change += exponential(if bursting { BURST_S } else { calm_s });
                }
                let is_read = random.random_bool(self.read_share);
                let mean = 1024 * if is_read { self.read_kib } else { self.write_kib };
                let most = (2 * mean / GRAIN).saturating_sub(1);
                let length = random.random_range(1..=most) * GRAIN;
                let offset = random.random_range(0..=(capacity - length) / GRAIN) * GRAIN;
                let op = if is_read { Op::Read } else { Op::Write };
                request(id as u64, start + Nanos::from_secs_f64(now), op, offset, length)
            })
            .collect()
    }
}

fn request(id: u64, arrival: Nanos, op: Op, offset: u64, length: u64) -> Request {
    Request::new(RequestId(id), DeviceId(0), arrival, op, offset, length)
}

/// A drive of about `bytes` bytes, full, and overwritten at random by a share of its capacity, so
/// that it is being cleaned.
pub(crate) fn aged(profile: &Profile, bytes: u64, share: f64, seed: u64) -> Ssd {
    const BYTES: u64 = 64 << 10;
    let profile = profile.clone().with_capacity(bytes).unwrap();
    let mut ssd = Ssd::new(&profile, DeviceId(0), seed);
    ssd.fill_in_order(1.0);
    let mut random = Pcg64::seed_from_u64(seed);
    let writes = (ssd.capacity() as f64 * share) as u64 / BYTES;
    for id in 0..writes {
        let offset = random.random_range(0..ssd.capacity() / BYTES) * BYTES;
        ssd.submit(ssd.now(), &request(id, ssd.now(), Op::Write, offset, BYTES)).unwrap();
        while ssd.in_flight() > 64 {
            ssd.advance(ssd.next_event().expect("something is under way"));
        }
        ssd.served();
    }
    settle(&mut ssd);
    ssd.served();
    ssd.reset_stats();
    ssd
}

/// Runs a drive until it is idle.
fn settle(ssd: &mut Ssd) {
    while let Some(at) = ssd.next_event() {
        ssd.advance(at);
    }
}

/// A drive's completions of reads.
pub(crate) fn serve(ssd: &mut Ssd, requests: &[Request]) -> Vec<Served> {
    let mut served = Vec::new();
    for request in requests {
        ssd.submit(request.arrival, request).unwrap();
        served.extend(ssd.served());
    }
    settle(ssd);
    served.extend(ssd.served());
    let first = requests[0].id.0;
    served.retain(|s| requests[(s.completion.request.0 - first) as usize].op == Op::Read);
    served
}

/// Sorted latencies.
pub(crate) fn latencies(served: &[Served]) -> Vec<Nanos> {
    let mut latencies: Vec<_> = served.iter().map(|s| s.completion.service_time()).collect();
    latencies.sort_unstable();
    latencies
}

/// A quantile of sorted latencies.
pub(crate) fn quantile(sorted: &[Nanos], q: f64) -> Nanos {
    sorted[((sorted.len() - 1) as f64 * q) as usize]
}

/// The knee of the latency distribution: with latencies up to their 97th percentile scaled to 0..1,
/// the one where the distribution is farthest above the diagonal. It stands for the inflection
/// point of LinnOS, §4.2, which needs an estimate of other replicas' latencies.
pub(crate) fn knee(sorted: &[Nanos]) -> Nanos {
    let low = sorted[0];
    let high = quantile(sorted, 0.97);
    let upto = sorted.partition_point(|&latency| latency <= high);
    let above = |i: usize| {
        let share = (i + 1) as f64 / upto as f64;
        share - (sorted[i] - low).0 as f64 / (high - low).0.max(1) as f64
    };
    let best = (0..upto).max_by(|&a, &b| above(a).total_cmp(&above(b)));
    sorted[best.expect("there are latencies")]
}

/// The share of latencies above a limit.
pub(crate) fn share_above(sorted: &[Nanos], limit: Nanos) -> f64 {
    let upto = sorted.partition_point(|&latency| latency <= limit);
    1.0 - upto as f64 / sorted.len() as f64
}
