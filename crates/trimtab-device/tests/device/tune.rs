//! Wall-clock driving of a drive: the lower bound of a request's latency, and firmware changes at
//! run time.

use trimtab_device::{Profile, Ssd};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};

fn drive() -> (Ssd, Profile) {
    let profile = Profile::builtin("consumer-a").unwrap().with_capacity(3 << 30).unwrap();
    let mut ssd = Ssd::new(&profile, DeviceId(0), 1);
    ssd.age(&profile, 1.0, 2.0);
    (ssd, profile)
}

#[test]
fn min_latency_is_a_lower_bound_and_tight_when_idle() {
    let (mut ssd, _) = drive();
    for number in 0..2_000_u64 {
        let now = Nanos::from_millis(number + 1);
        let length = 4096 << (number % 6);
        let offset = number * 7_919 * 4096 % (2 << 30);
        let read = Request::new(RequestId(0), DeviceId(0), now, Op::Read, offset, length);
        let least = ssd.min_latency(&read);
        ssd.submit(now, &read).unwrap();
        while ssd.in_flight() > 0 {
            let next = ssd.next_event().expect("the read is on its way");
            ssd.advance(next);
        }
        let took = ssd.served().next().unwrap().completion.service_time();
        assert!(took >= least, "{took} < {least}");
        if length == 4096 {
            assert!(took.0 - least.0 <= 1, "{took}, at least {least}");
        }
    }
}

#[test]
fn retune_rejects_other_drives() {
    let (mut ssd, profile) = drive();
    let mut other = profile.clone();
    other.gc.preemptive = true;
    other.gc.high_watermark = 0.4;
    ssd.retune(&other, &profile).unwrap();
    let mut different = other.clone();
    different.timing.read_us *= 2.0;
    assert!(ssd.retune(&different, &other).unwrap_err().to_string().contains("only gc.*"));

    // The drive continues, and cleans up to its new watermark.
    let mut now = ssd.now();
    for number in 0..20_000_u64 {
        now += Nanos::from_micros(50);
        let offset = number * 7_919 * 4096 % (2 << 30);
        let write = Request::new(RequestId(number), DeviceId(0), now, Op::Write, offset, 4096);
        ssd.submit(now, &write).unwrap();
        ssd.served();
    }
    while let Some(next) = ssd.next_event()
        && ssd.in_flight() > 0
    {
        ssd.advance(next);
    }
    assert!(ssd.stats().erases > 0);
    assert_eq!(ssd.in_flight(), 0);
}
