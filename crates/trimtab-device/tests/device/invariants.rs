//! Invariants under random workloads: every request completes once, and reads return the last
//! written version.

use std::collections::BTreeSet;

use proptest::prelude::*;
use trimtab_device::{
    CopyMode, Dimension, Geometry, Profile, Schedule, Scope, Served, Ssd, Timing, Victim,
};
use trimtab_io::{DeviceId, Flags, Nanos, Op, Request, RequestId};

/// Drives with few blocks, so that cleaning is constant, with every feature on or off.
pub(crate) fn profiles() -> impl Strategy<Value = Profile> {
    let geometry = (1_u32..4, 1_u32..4, 1_u32..3, 10_u32..24, 2_u32..12, 0_u32..3);
    let scope =
        prop::sample::select(vec![Scope::Plane, Scope::Die, Scope::Channel, Scope::Controller]);
    let victim = prop::sample::select(vec![
        Victim::Greedy,
        Victim::CostBenefit,
        Victim::Fifo,
        Victim::Random,
        Victim::DChoices,
    ]);
    let buffer = (prop::bool::ANY, 0.0..1.0, prop::bool::ANY, 0_u32..3);
    let switches = prop::collection::vec(prop::bool::ANY, 8);
    (geometry, scope, victim, buffer, switches).prop_map(|(g, scope, victim, buffer, on)| {
        let (channels, chips_per_channel, planes_per_die, blocks_per_plane, pages, units) = g;
        let mut profile = Profile {
            name: "small".to_owned(),
            about: String::new(),
            geometry: Geometry {
                channels,
                chips_per_channel,
                dies_per_chip: 1,
                planes_per_die,
                blocks_per_plane,
                pages_per_block: pages,
                page_bytes: 4096 << units,
                over_provisioning: 0.5,
            },
            timing: Timing {
                read_us: 40.0,
                program_us: Some(200.0),
                program_pattern_us: None,
                erase_us: 2000.0,
                channel_mb_s: 800.0,
                command_us: 0.1,
                host_link_mb_s: if on[0] { 2000.0 } else { 0.0 },
                firmware_us: if on[1] { 3.0 } else { 0.0 },
                regenerate_us: 10.0,
            },
            ftl: Default::default(),
            buffer: Default::default(),
            gc: Default::default(),
            wear: Default::default(),
            noise: Default::default(),
        };
        profile.ftl.schedule = if on[2] { Schedule::ReadsFirst } else { Schedule::Fifo };
        profile.ftl.mapping_cache_mb = if on[3] { 0.05 } else { 0.0 };
        profile.ftl.stripe = [Dimension::Plane, Dimension::Die, Dimension::Way, Dimension::Channel];
        profile.gc.blocks = scope;
        profile.gc.victim = victim;
        profile.gc.copy = if on[4] { CopyMode::Copyback } else { CopyMode::Serial };
        profile.gc.preemptive = on[5];
        profile.gc.suspend = on[6];
        profile.wear.static_threshold = if on[7] { 4 } else { 0 };
        if on[7] {
            profile.noise.retry_probability = 0.1;
            profile.noise.retry_most = 3;
            profile.noise.pause_every_ms = 20.0;
            profile.noise.pause_ms = 1.0;
        }
        let (buffered, mark, period, per_die) = buffer;
        if buffered {
            profile.buffer.size_mb = 0.2;
            profile.buffer.flush_watermark = mark;
            profile.buffer.flush_period_ms = if period { 3.0 } else { 0.0 };
        }
        profile.buffer.writes_per_die = per_die;
        Profile::parse(&profile.to_toml()).expect("such a drive can be")
    })
}

/// Sends random requests, and returns all completions.
pub(crate) fn work(ssd: &mut Ssd, seed: u64, requests: u64, depth: usize) -> Vec<Served> {
    use rand::{RngExt as _, SeedableRng as _};
    let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
    let capacity = ssd.capacity();
    let mut answers = Vec::new();
    for id in 0..requests {
        while ssd.in_flight() >= depth {
            let at = ssd.next_event().expect("something must happen to what is in flight");
            ssd.advance(at);
            answers.extend(ssd.served());
        }
        let op = match random.random_range(0..100) {
            0..40 => Op::Read,
            40..92 => Op::Write,
            92..97 => Op::Discard,
            _ => Op::Flush,
        };
        let length = match op {
            Op::Flush => 0,
            _ => (random.random_range(1..=96_u64) * 512).min(capacity),
        };
        let offset = random.random_range(0..=(capacity - length) / 512) * 512;
        let fua = op == Op::Write && random.random_bool(0.05);
        let offset = if op == Op::Flush { 0 } else { offset };
        let request = Request {
            flags: if fua { Flags::FUA } else { Flags::empty() },
            ..Request::new(RequestId(id), DeviceId(0), ssd.now(), op, offset, length)
        };
        let now = ssd.now() + Nanos(random.random_range(0..20_000));
        ssd.submit(now, &request).expect("the request is within the drive");
        answers.extend(ssd.served());
    }
    while ssd.in_flight() > 0 {
        let at = ssd.next_event().expect("something must happen to what is in flight");
        ssd.advance(at);
        answers.extend(ssd.served());
    }
    answers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 150 } else { 3000 }))]

    #[test]
    fn every_request_completes_exactly_once(
        profile in profiles(),
        seed: u64,
        depth in 1_usize..40,
        full in 0.0..=1.0,
    ) {
        let mut ssd = Ssd::new(&profile, DeviceId(0), seed);
        ssd.fill_in_order(full);
        ssd.audit();
        let answers = work(&mut ssd, seed, 1500, depth);
        let ids: BTreeSet<_> = answers.iter().map(|a| a.completion.request).collect();
        prop_assert_eq!((answers.len(), ids.len()), (1500, 1500));
        prop_assert!(answers.is_sorted_by_key(|a| a.completion.complete));
        prop_assert!(answers.iter().all(|a| a.completion.issue <= a.completion.complete));
        prop_assert_eq!(ssd.verify(), Ok(()));
    }

    #[test]
    fn every_valid_profile_can_be_aged(
        mut profile in profiles(),
        blocks in 10_u32..1500,
        spare in 4.0_f64..40.0,
        mark in 0.0..0.6,
        seed: u64,
    ) {
        let g = &mut profile.geometry;
        g.blocks_per_plane = blocks;
        // Cleaning writes whole pages: with several units per page, blocks that lack fewer units
        // gain nothing.
        let (units, pages) = (f64::from(g.page_bytes / 4096), f64::from(g.pages_per_block));
        let lost = (units - 1.0) / (units * pages);
        g.over_provisioning = (spare / f64::from(blocks) + lost).min(0.6);
        profile.gc.high_watermark = mark;
        profile.gc.low_watermark = mark / 5.0;
        // Profiles that the check refuses are skipped.
        if let Ok(profile) = Profile::parse(&profile.to_toml()) {
            let mut ssd = Ssd::new(&profile, DeviceId(0), seed);
            ssd.age(&profile, 1.0, 1.5);
            prop_assert_eq!(ssd.verify(), Ok(()));
            prop_assert_eq!(ssd.valid_units() * 4096, ssd.capacity());
        }
    }

    #[test]
    fn same_seed_gives_same_completions(profile in profiles(), seed: u64) {
        let run = || {
            let mut ssd = Ssd::new(&profile, DeviceId(0), seed);
            ssd.fill_in_order(1.0);
            work(&mut ssd, seed, 300, 16)
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn clone_continues_like_its_original(profile in profiles(), seed: u64) {
        let mut ssd = Ssd::new(&profile, DeviceId(0), seed);
        ssd.fill_in_order(0.9);
        work(&mut ssd, seed, 300, 16);
        let mut copy = ssd.clone();
        prop_assert_eq!(work(&mut ssd, !seed, 300, 16), work(&mut copy, !seed, 300, 16));
    }

    #[test]
    fn loaded_drive_continues_like_its_original(mut profile in profiles(), seed: u64) {
        // The mapping cache's content is not saved.
        profile.ftl.mapping_cache_mb = 0.0;
        let mut ssd = Ssd::new(&profile, DeviceId(0), seed);
        ssd.fill_in_order(0.9);
        work(&mut ssd, seed, 300, 16);
        let mut saved = Vec::new();
        ssd.save(&profile, &mut saved).unwrap();
        let (mut loaded, with) = Ssd::load(&saved[..], DeviceId(0)).unwrap();
        prop_assert_eq!(with, profile);
        prop_assert_eq!(work(&mut ssd, !seed, 300, 16), work(&mut loaded, !seed, 300, 16));
    }

    #[test]
    fn damaged_file_is_an_error(at in 0.0..1.0, bits in 1_u8.., cut: bool) {
        let profile = Profile::builtin("reference").unwrap().with_capacity(1 << 30).unwrap();
        let mut ssd = Ssd::new(&profile, DeviceId(0), 1);
        ssd.fill_in_order(0.1);
        let mut saved = Vec::new();
        ssd.save(&profile, &mut saved).unwrap();
        let at = (at * saved.len() as f64) as usize;
        if cut {
            saved.truncate(at);
        } else {
            saved[at] ^= bits;
        }
        prop_assert!(Ssd::load(&saved[..], DeviceId(0)).is_err());
    }
}
