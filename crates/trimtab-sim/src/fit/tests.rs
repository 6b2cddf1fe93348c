use trimtab_io::Flags;

use super::*;

/// A recording of a model that is not among those it is fitted from.
fn recording() -> (Profile, Vec<Record>) {
    let mut profile = Profile::builtin("reference").unwrap().with_capacity(1 << 30).unwrap();
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
    for number in 0..12_000 {
        now += random(30_000);
        let op = if random(10) < 8 { Op::Read } else { Op::Write };
        let record = Record::arriving(
            Nanos(now),
            DeviceId(0),
            op,
            random(200_000) * 4096,
            4096 << random(3),
        );
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
    (profile, records)
}

#[test]
fn comes_near_a_drive_it_has_not_seen() {
    let (_, records) = recording();
    let bases = [Profile::builtin("reference").unwrap()];
    let fitted = fit(&records, &bases, 1 << 30, |_, _| true).unwrap();
    let unfitted = fit(&records, &bases, 1 << 30, |tried, _| tried < 1).unwrap();
    let error = |fitted: &Fitted| fitted.second_half.read_error.unwrap();
    assert!(error(&unfitted) > 0.3, "{:?}", unfitted.second_half);
    assert!(error(&fitted) < 0.08, "{:?} {:?}", fitted.second_half, fitted.profile.timing);
    // The CDF is steep: its reads take one of a few times, and a small shift moves
    // all of it.
    let ks = |fitted: &Fitted| fitted.second_half.read_ks.unwrap();
    assert!(ks(&fitted) < ks(&unfitted) / 2.0, "{} {}", ks(&fitted), ks(&unfitted));
}

#[test]
fn equal_distributions_have_no_distance() {
    let mut a = LatencyHistogram::new();
    a.extend((1..1000).map(Nanos::from_micros));
    assert_eq!((error(&a, &a), ks(&a, &a)), (Some(0.0), Some(0.0)));
    let mut b = LatencyHistogram::new();
    b.extend((1..1000).map(|us| Nanos::from_micros(us + 2000)));
    assert!((ks(&a, &b).unwrap() - 1.0).abs() < 1e-9);
    assert_eq!(error(&a, &LatencyHistogram::new()), None);
}

#[test]
fn too_little_is_an_error() {
    let error = fit(&[], &[], 1 << 30, |_, _| true).unwrap_err();
    assert!(error.to_string().contains("at least 1000"), "{error}");
}
