//! Latencies that can be calculated.

use rand::{RngExt as _, SeedableRng as _};
use trimtab_device::{Profile, Ssd};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};

fn request(op: Op, offset: u64, length: u64) -> Request {
    Request::new(RequestId(offset), DeviceId(0), Nanos::ZERO, op, offset, length)
}

/// Latencies of reads sent at the same time.
fn run_concurrently(ssd: &mut Ssd, offsets: &[u64]) -> Vec<u64> {
    for &offset in offsets {
        ssd.submit(ssd.now(), &request(Op::Read, offset, 4096)).unwrap();
    }
    while let Some(at) = ssd.next_event() {
        ssd.advance(at);
    }
    ssd.served().map(|served| served.completion.service_time().0).collect()
}

/// The next offset after `from` on another die, with the same channel or not.
fn place(ssd: &Ssd, from: u64, same_die: bool, same_channel: bool) -> u64 {
    let first = ssd.locate(from).unwrap();
    (from / 4096 + 1..)
        .map(|unit| unit * 4096)
        .find(|&offset| {
            let locate = ssd.locate(offset).unwrap();
            (locate.die == first.die) == same_die
                && (locate.channel == first.channel) == same_channel
        })
        .unwrap()
}

#[test]
fn reads_wait_for_die_and_channel() {
    let mut ssd = Ssd::new(&Profile::builtin("reference").unwrap(), DeviceId(0), 1);
    ssd.fill_in_order(1.0);
    let (die, channel, other) =
        (place(&ssd, 0, true, true), place(&ssd, 0, false, true), place(&ssd, 0, false, false));
    assert_eq!(run_concurrently(&mut ssd, &[0]), [45_120]);
    // One after the other.
    assert_eq!(run_concurrently(&mut ssd, &[0, die]), [45_120, 90_240]);
    // Cells in parallel, data one after the other.
    assert_eq!(run_concurrently(&mut ssd, &[0, channel]), [45_120, 50_240]);
    assert_eq!(run_concurrently(&mut ssd, &[0, other]), [45_120, 45_120]);
    // In the buffer, and where nothing was written, flash is not read.
    assert_eq!(run_concurrently(&mut ssd, &[]), [0; 0]);
}

#[test]
fn latency_includes_firmware_and_link() {
    let mut profile = Profile::builtin("reference").unwrap();
    profile.timing.firmware_us = 3.0;
    profile.timing.host_link_mb_s = 4096.0;
    profile.timing.command_us = 0.5;
    let mut ssd = Ssd::new(&profile, DeviceId(0), 1);
    ssd.fill_in_order(1.0);
    // 3 firmware, 40 cells, 0.5 + 5.12 channel, 1 link.
    let took = run_concurrently(&mut ssd, &[0])[0];
    assert!(took.abs_diff(49_620) <= 2, "{took}");
}

/// Read bandwidth in MB/s at this depth.
fn bandwidth(profile: &Profile, length: u64, depth: u64, random: bool) -> f64 {
    let mut ssd = Ssd::new(profile, DeviceId(0), 1);
    ssd.fill_in_order(1.0);
    let slots = ssd.capacity() / length;
    let mut rng = rand_pcg::Pcg64::seed_from_u64(2);
    let mut sent = 0;
    let mut send = |ssd: &mut Ssd| {
        let slot = if random { rng.random_range(0..slots) } else { sent % slots };
        sent += 1;
        ssd.submit(ssd.now(), &request(Op::Read, slot * length, length)).unwrap();
    };
    (0..depth).for_each(|_| send(&mut ssd));
    let mut run = |ssd: &mut Ssd, requests: u64| {
        let mut done = 0;
        while done < requests {
            let at = ssd.next_event().unwrap();
            ssd.advance(at);
            let answered = ssd.served().count() as u64;
            done += answered;
            (0..answered).for_each(|_| send(ssd));
        }
        done
    };
    run(&mut ssd, 4 * depth);
    let start = ssd.now();
    let done = run(&mut ssd, 20 * depth);
    (done * length) as f64 / ssd.now().since(start).as_secs_f64() / 1e6
}

#[test]
fn bandwidth_is_that_of_the_bottleneck() {
    let reference = Profile::builtin("reference").unwrap();
    // 64 dies, each held for 45.12 µs per page.
    let dies = 64.0 * 4096.0 / 45.12;
    let mut slow_channels = reference.clone();
    slow_channels.timing.channel_mb_s = 200.0;
    let mut slow_link = reference.clone();
    slow_link.timing.host_link_mb_s = 2000.0;
    for (profile, limit) in [(&reference, dies), (&slow_channels, 1600.0), (&slow_link, 2000.0)] {
        for (length, depth, random) in [(1 << 20, 16, false), (4096, 8192, true)] {
            let reached = bandwidth(profile, length, depth, random);
            let off = reached / limit - 1.0;
            assert!(off.abs() < 0.01, "{reached:.0} MB/s is not {limit:.0} (random: {random})");
        }
    }
}

#[test]
fn buffered_data_is_read_from_the_buffer() {
    let mut profile = Profile::builtin("reference").unwrap();
    profile.buffer.size_mb = 1.0;
    profile.buffer.flush_watermark = 1.0;
    let mut ssd = Ssd::new(&profile, DeviceId(0), 1);
    ssd.fill_in_order(1.0);
    ssd.submit(Nanos(5), &request(Op::Write, 8192, 4096)).unwrap();
    ssd.submit(Nanos(5), &request(Op::Read, 8192, 4096)).unwrap();
    let took: Vec<_> = ssd.served().map(|served| served.completion.service_time()).collect();
    assert_eq!(took, [Nanos::ZERO, Nanos::ZERO]);
    // A flush writes it to the flash: channel and program.
    ssd.submit(Nanos(5), &request(Op::Flush, 0, 0)).unwrap();
    while let Some(at) = ssd.next_event() {
        ssd.advance(at);
    }
    assert_eq!(ssd.served().next().unwrap().completion.service_time(), Nanos(205_120));
}
