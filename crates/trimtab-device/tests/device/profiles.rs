//! The profiles of LinnOS's arrays have a tail of slow reads under the published loads, and the
//! writes cause it.

use crate::load::{Load, aged, knee, latencies, quantile, serve, share_above};
use trimtab_device::Profile;
use trimtab_io::{Nanos, Op};

/// LinnOS, Table 1: mean and peak IOPS, share of reads, sizes in KiB.
const fn load(name: &'static str, iops: [f64; 2], read_share: f64, kib: [u64; 2]) -> Load {
    let ([mean_iops, peak_iops], [read_kib, write_kib]) = (iops, kib);
    Load { name, mean_iops, peak_iops, read_share, read_kib, write_kib }
}

const CONSUMER: [Load; 4] = [
    load("AZ/C", [745.0, 4_900.0], 0.27, [24, 18]),
    load("BI/C", [361.0, 1_800.0], 0.17, [57, 30]),
    load("BS/C", [114.0, 1_100.0], 0.22, [163, 73]),
    load("CO/C", [113.0, 623.0], 0.32, [479, 121]),
];

const ENTERPRISE: [Load; 4] = [
    load("AZ/E", [13_000.0, 31_000.0], 0.25, [25, 17]),
    load("BI/E", [2_400.0, 9_200.0], 0.23, [55, 30]),
    load("BS/E", [1_300.0, 4_300.0], 0.27, [196, 73]),
    load("CO/E", [2_500.0, 7_200.0], 0.22, [430, 107]),
];

/// Enough for each plane to be cleaned several times.
const REQUESTS: usize = 24_000;
/// The highest rate needs more requests to cover the same time.
const LEAST_SECONDS: f64 = 5.0;

/// Serves each load on an aged drive of 8 GiB, and the same requests with every write turned into a
/// read.
fn has_a_tail(profile: &str, loads: &[Load]) {
    let profile = Profile::builtin(profile).unwrap();
    let drive = aged(&profile, 8 << 30, 1.0, 1);
    for load in loads {
        let what = format!("{}, {}", profile.name, load.name);
        let count = REQUESTS.max((load.mean_iops * LEAST_SECONDS) as usize);
        let mut requests = load.requests(count, drive.now(), drive.capacity(), 7);

        let mut ssd = drive.clone();
        let mixed = latencies(&serve(&mut ssd, &requests));
        assert!(ssd.stats().erases > 0, "{what}: nothing was cleaned");
        let knee = knee(&mixed);
        let slow = share_above(&mixed, knee);
        assert!((0.01..=0.25).contains(&slow), "{what}: {:.1}% above {knee}", 100.0 * slow);

        requests.iter_mut().for_each(|request| request.op = Op::Read);
        let reads = latencies(&serve(&mut drive.clone(), &requests));
        let [p50, p999] = [0.5, 0.999].map(|q| quantile(&reads, q));
        // Read sizes differ by a factor of ten and more; that spread is not a tail.
        assert!(p999 <= Nanos(p50.0 * 8), "{what}, reads alone: p50 {p50}, p99.9 {p999}");
        // Many reads exceed, beside writes, what one in a thousand exceeds alone.
        let late = share_above(&mixed, p999);
        assert!(late >= 0.01, "{what}: {:.1}% above {p999}", 100.0 * late);
    }
}

#[test]
fn consumer_a_has_a_tail() {
    has_a_tail("consumer-a", &CONSUMER);
}

#[test]
fn enterprise_a_has_a_tail() {
    has_a_tail("enterprise-a", &ENTERPRISE);
}

#[test]
fn enterprise_b_has_a_tail() {
    has_a_tail("enterprise-b", &ENTERPRISE);
}

#[test]
fn enterprise_c_has_a_tail() {
    has_a_tail("enterprise-c", &ENTERPRISE);
}
