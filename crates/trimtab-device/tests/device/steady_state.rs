//! Drives in steady state: against theory, and against drives that were really written.

#![expect(clippy::print_stdout, reason = "the figures are of interest beside the verdict")]

use std::ops::ControlFlow;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_device::{AgedState, Profile, Ssd};
use trimtab_io::{DeviceId, LatencyHistogram, Nanos, Op, Request, RequestId};

/// A drive of a few planes.
fn profile(blocks: u32, pages: u32, over_provisioning: f64) -> Profile {
    let mut profile = Profile::builtin("reference").unwrap();
    let g = &mut profile.geometry;
    (g.channels, g.chips_per_channel) = (4, 2);
    (g.blocks_per_plane, g.pages_per_block) = (blocks, pages);
    g.over_provisioning = over_provisioning;
    Profile::parse(&profile.to_toml()).unwrap()
}

/// Keeps `depth` random 4 KiB requests in flight until `requests` have completed; returns the
/// reads' latencies.
fn work(ssd: &mut Ssd, seed: u64, requests: u64, depth: u64, reads: f64) -> LatencyHistogram {
    let mut random = Pcg64::seed_from_u64(seed);
    let units = ssd.capacity() / 4096;
    let mut latencies = LatencyHistogram::new();
    let mut send = |ssd: &mut Ssd, id: u64| {
        let is_read = random.random_bool(reads);
        let op = if is_read { Op::Read } else { Op::Write };
        let id = RequestId(id << 1 | u64::from(is_read));
        let offset = random.random_range(0..units) * 4096;
        let request = Request::new(id, DeviceId(0), ssd.now(), op, offset, 4096);
        ssd.submit(ssd.now(), &request).unwrap();
    };
    (0..depth).for_each(|id| send(ssd, id));
    let (mut sent, mut answered) = (depth, 0);
    let mut served = Vec::new();
    while answered < sent {
        let at = ssd.next_event().expect("something must happen to what is in flight");
        ssd.advance(at);
        served.extend(ssd.served());
        for answer in served.drain(..) {
            answered += 1;
            if answer.completion.request.0 & 1 == 1 {
                latencies.record(answer.completion.service_time());
            }
            if sent < requests {
                send(ssd, sent);
                sent += 1;
            }
        }
    }
    latencies
}

/// The write amplification of greedy cleaning under uniform random writes, in
/// the limit of many blocks: Desnoyers, "Analytic Modeling of SSD Write
/// Performance" (SYSTOR 2012), and Van Houdt, "A Mean Field Model for a Class of
/// Garbage Collection Algorithms in Flash-based Solid State Drives" (SIGMETRICS
/// 2013). A block goes from k valid pages to k − 1 at a rate proportional to k,
/// so blocks with k are as frequent as 1/k, down to the victims' v. With N pages
/// in a block and a share u of them valid over all blocks in use,
/// (N − v) / (H(N) − H(v)) = u N, and the amplification is N / (N − v).
fn greedy_write_amplification(pages: u32, used: f64) -> f64 {
    let n = f64::from(pages);
    let (mut harmonic, mut v) = (0.0, n);
    while v > 1.0 {
        harmonic += 1.0 / v;
        let next = v - 1.0;
        if (n - next) / harmonic <= used * n {
            break;
        }
        v = next;
    }
    n / (n - v)
}

#[test]
fn write_amplification_matches_theory() {
    const BLOCKS: u32 = 400;
    const PAGES: u32 = 128;
    for spare in [0.07, 0.15, 0.28] {
        // Not spare: the free blocks that cleaning maintains, its own block, and the two open ones,
        // half full on average.
        let kept = |p: f64| (0.02 * p * f64::from(BLOCKS)).round().max(1.0) + 1.0 + 1.0;
        // Over-provisioning that leaves this spare share.
        let mut hidden = 0.1;
        for _ in 0..100 {
            hidden = 1.0 - (f64::from(BLOCKS) - kept(hidden)) / (1.0 + spare) / f64::from(BLOCKS);
        }
        let mut profile = profile(BLOCKS, PAGES, hidden);
        (profile.gc.high_watermark, profile.gc.low_watermark) = (0.02, 0.001);
        let mut ssd = Ssd::new(&Profile::parse(&profile.to_toml()).unwrap(), DeviceId(0), 3);
        ssd.fill_in_order(1.0);
        let units = ssd.capacity() / 4096;
        work(&mut ssd, 1, 9 * units, 64, 0.0);
        ssd.reset_stats();
        work(&mut ssd, 2, units, 64, 0.0);
        let measured = ssd.stats().write_amplification().unwrap();
        let expected = greedy_write_amplification(PAGES, 1.0 / (1.0 + spare));
        let off = measured / expected - 1.0;
        println!("spare {spare}: measured {measured:.3}, theory {expected:.3}, off {off:+.3}");
        assert!(off.abs() < 0.05, "spare {spare}: {measured} is not {expected}");
    }
}

/// Kolmogorov–Smirnov distance.
fn ks_distance(a: &[u16], b: &[u16]) -> f64 {
    let share = |values: &[u16], most: u16| {
        values.iter().filter(|&&v| v <= most).count() as f64 / values.len() as f64
    };
    let most = a.iter().chain(b).max().copied().unwrap_or(0);
    (0..=most).map(|v| (share(a, v) - share(b, v)).abs()).fold(0.0, f64::max)
}

#[test]
fn aged_drive_matches_a_written_one() {
    let profile = profile(512, 128, 0.2);
    let mut written = Ssd::new(&profile, DeviceId(0), 5);
    written.fill_in_order(1.0);
    let units = written.capacity() / 4096;
    work(&mut written, 6, 3 * units, 32, 0.0);
    let mut aged = Ssd::new(&profile, DeviceId(0), 7);
    aged.age(&profile, 1.0, 3.0);
    assert_eq!(aged.verify(), Ok(()));
    assert_eq!(aged.valid_units(), units);

    let distance = ks_distance(written.valid_by_block(), aged.valid_by_block());
    println!("KS distance {distance:.4}");
    assert!(distance < 0.02, "{distance}");

    let measure = |ssd: &mut Ssd| {
        ssd.reset_stats();
        let reads = work(ssd, 8, 600_000, 32, 0.7);
        let p99 = reads.summary().percentile("p99").unwrap();
        (ssd.stats().write_amplification().unwrap(), p99.0 as f64)
    };
    let (written, aged) = (measure(&mut written), measure(&mut aged));
    println!(
        "write amplification {:.3} and {:.3}, p99 {} and {} ns",
        written.0, aged.0, written.1, aged.1
    );
    assert!((aged.0 / written.0 - 1.0).abs() < 0.03, "{aged:?} {written:?}");
    assert!((aged.1 / written.1 - 1.0).abs() < 0.05, "{aged:?} {written:?}");
}

#[test]
fn ageing_reports_progress_and_can_be_stopped() {
    let profile = profile(512, 128, 0.2);
    let drive = || Ssd::new(&profile, DeviceId(0), 7);
    let (mut watched, mut plain) = (drive(), drive());
    let mut shares = Vec::new();
    let aged = watched.age_watched(&profile, 1.0, 3.0, &mut |share| {
        shares.push(share);
        ControlFlow::Continue(())
    });
    assert!(aged.is_continue());
    assert!(shares.len() > 10, "{shares:?}");
    assert!(shares.is_sorted() && shares.iter().all(|share| (0.0..=1.0).contains(share)));
    // From begin to end, without a long step.
    let steps = shares.windows(2).map(|two| two[1] - two[0]);
    assert!(shares[0] < 0.05 && *shares.last().unwrap() > 0.95, "{shares:?}");
    assert!(steps.fold(0.0, f64::max) < 0.1, "{shares:?}");
    plain.age(&profile, 1.0, 3.0);
    assert_eq!(watched.valid_by_block(), plain.valid_by_block());

    let mut looks = 0;
    let ended = drive().age_watched(&profile, 1.0, 3.0, &mut |_| {
        looks += 1;
        if looks == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(ended.is_break());
    assert_eq!(looks, 3);
}

#[test]
fn aged_state_is_shared_between_drives() {
    let profile = profile(512, 128, 0.2);
    let state = AgedState::new(&profile, 7, 1.0, 3.0);
    let measure = |ssd: &mut Ssd| {
        assert_eq!(ssd.verify(), Ok(()));
        let reads = work(ssd, 8, 300_000, 32, 0.7);
        reads.summary().percentile("p50").unwrap().0 as f64
    };
    let mut aged = Ssd::new(&profile, DeviceId(0), 7);
    aged.age(&profile, 1.0, 3.0);
    let mut like = state.drive(&profile, DeviceId(0), 7);
    assert_eq!(like.valid_by_block(), aged.valid_by_block());
    let (aged, like) = (measure(&mut aged), measure(&mut like));
    assert!((like / aged - 1.0).abs() < 0.03, "{like} {aged}");

    let mut slower = profile.clone();
    slower.timing.read_us *= 4.0;
    slower.buffer.size_mb = 1.0;
    assert!(measure(&mut state.drive(&slower, DeviceId(0), 7)) > 1.2 * aged);
    let mut earlier = profile.clone();
    earlier.gc.high_watermark = 0.4;
    assert!(!state.is_of(&earlier));
}

#[test]
fn minimal_over_provisioning_can_be_aged() {
    let profile = profile(4096, 8, 0.003);
    let mut ssd = Ssd::new(&profile, DeviceId(0), 5);
    ssd.age(&profile, 1.0, 1.0);
    assert_eq!(ssd.verify(), Ok(()));
    assert_eq!(ssd.valid_units(), ssd.capacity() / 4096);
}

#[test]
fn writes_cause_the_read_tail() {
    let profile = profile(256, 128, 0.2);
    let mut ssd = Ssd::new(&profile, DeviceId(0), 5);
    ssd.age(&profile, 1.0, 3.0);
    let tail = |reads: &LatencyHistogram| {
        let summary = reads.summary();
        let at = |p| summary.percentile(p).unwrap_or(Nanos::ZERO).0 as f64;
        (at("p50"), at("p99.9"))
    };
    let (median, alone) = tail(&work(&mut ssd, 9, 100_000, 1, 1.0));
    assert!(alone < 1.01 * median, "{alone} {median}");
    let (_, beside_writes) = tail(&work(&mut ssd, 10, 100_000, 2, 0.9));
    println!("p99.9 {alone} alone, {beside_writes} beside writes");
    assert!((10.0..1000.0).contains(&(beside_writes / alone)), "{beside_writes} {alone}");
}
