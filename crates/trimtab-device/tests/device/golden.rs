//! The ordinary drive gives the same completions as in every earlier version.
//!
//! Policies for arrays add questions that the drive asks its firmware. Where the firmware is the
//! ordinary one or the ideal, none of that may change a single completion.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_device::{Ideal, Profile, Ssd};
use trimtab_io::{DeviceId, Flags, Nanos, Op, Request, RequestId, mix64};

/// By profile: a digest of all completions with the ordinary firmware, and with the ideal.
const DIGESTS: [(&str, u64, u64); 8] = [
    ("reference", 0x4db3_6514_5826_c227, 0x441f_392b_19a2_ffea),
    ("ioda-sim", 0x90de_51a4_d6ce_ab1c, 0x4771_2c5a_a482_1c4c),
    ("femu", 0x77f5_bbfd_13c4_e33e, 0x9fc9_8adb_5b82_0b35),
    ("970", 0x96c2_5e26_26b9_9d6c, 0xb195_0273_e64c_47e6),
    ("openchannel", 0x22f0_3fe1_603b_7102, 0x04ce_dce8_5592_1bbe),
    ("consumer-a", 0x2707_539f_0f27_351f, 0x0f56_aa89_9f06_6bca),
    ("enterprise-a", 0x3cd1_7be5_4f37_1083, 0xe289_82a0_6fa0_4024),
    ("enterprise-c", 0xf655_cdb1_b19f_768e, 0x152e_aab3_910b_303b),
];

/// Serves random reads and writes on an aged drive.
fn digest(profile: &Profile, ideal: bool) -> u64 {
    let mut ssd = Ssd::new(profile, DeviceId(0), 1);
    ssd.age(profile, 1.0, 1.0);
    if ideal {
        ssd.replace_firmware(Box::new(Ideal::new(profile)));
    }
    let mut random = Pcg64::seed_from_u64(17);
    let (mut sum, mut answers, mut sent) = (0, 0, 0);
    let units = ssd.capacity() / 4096;
    while answers < 20_000 {
        while ssd.in_flight() < 16 {
            let op = if random.random_bool(0.5) { Op::Read } else { Op::Write };
            let (offset, length) = (random.random_range(0..units - 4), random.random_range(1..=4));
            let request = Request {
                flags: if random.random_bool(0.5) {
                    Flags::LATENCY_CRITICAL
                } else {
                    Flags::empty()
                },
                ..Request::new(
                    RequestId(sent),
                    DeviceId(0),
                    ssd.now(),
                    op,
                    offset << 12,
                    length << 12,
                )
            };
            sent += 1;
            ssd.submit(ssd.now() + Nanos(random.random_range(0..9_000)), &request).unwrap();
        }
        ssd.advance(ssd.next_event().unwrap());
        for served in ssd.served() {
            answers += 1;
            let completion = served.completion;
            sum = mix64(sum ^ completion.request.0 ^ completion.complete.0.rotate_left(20));
            sum = mix64(sum ^ served.breakdown.cleaning.0);
        }
    }
    assert!(ssd.stats().erases > 0, "{}", profile.name);
    mix64(sum ^ ssd.stats().erases ^ ssd.stats().units_moved)
}

#[test]
fn completions_equal_those_of_earlier_versions() {
    for (name, ordinary, ideal) in DIGESTS {
        let mut profile = Profile::builtin(name).unwrap();
        let g = &mut profile.geometry;
        (g.channels, g.chips_per_channel, g.blocks_per_plane) = (2, 2, 64);
        profile.buffer.size_mb = profile.buffer.size_mb.min(4.0);
        let profile = Profile::parse(&profile.to_toml()).unwrap();
        let found = [digest(&profile, false), digest(&profile, true)];
        assert_eq!(found, [ordinary, ideal], "{name}");
    }
}
