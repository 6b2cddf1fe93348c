//! What holds for every firmware, whatever it decides.

use std::collections::BTreeSet;

use proptest::prelude::*;
use trimtab_device::{
    ArrayPosition, Dimension, FirmwareKind, HarmoniaOptions, PlIoOptions, Profile, Ssd,
    TinyTailOptions, WindowOptions, WindowSchedule,
};
use trimtab_io::{DeviceId, Nanos};

use crate::invariants::{profiles, work};

fn window_options() -> impl Strategy<Value = WindowOptions> {
    let ms = prop::option::of(1.0..200.0_f64).prop_map(|ms| Some(ms.unwrap_or(30.0)));
    let limit = prop::option::of(1_u32..3);
    (ms, prop::option::of(0.0..0.6), limit, prop::option::of(0.5..1.0)).prop_map(
        |(window_ms, clean_to, cleanings_per_channel, flush_at)| WindowOptions {
            window_ms,
            clean_to,
            cleanings_per_channel,
            flush_at,
            ..WindowOptions::default()
        },
    )
}

fn tiny_tail_options() -> impl Strategy<Value = TinyTailOptions> {
    prop::collection::vec(prop::bool::ANY, 6).prop_map(|on| TinyTailOptions {
        plane_blocking: on[0],
        parity: on[1],
        rotating: on[2],
        tolerant_reads: on[1] && on[3],
        tolerant_flush: on[4],
        copyback: on[5],
    })
}

fn kinds() -> impl Strategy<Value = FirmwareKind> {
    prop_oneof![
        Just(FirmwareKind::Ideal {}),
        Just(FirmwareKind::PlIo(PlIoOptions::default())),
        window_options().prop_map(FirmwareKind::Windows),
        window_options().prop_map(FirmwareKind::Ioda),
        window_options().prop_map(|options| FirmwareKind::IodaRanges(WindowOptions {
            flush_at: None,
            ..options
        })),
        (1_u32..4).prop_map(|ahead| FirmwareKind::Harmonia(HarmoniaOptions { ahead })),
        tiny_tail_options().prop_map(FirmwareKind::TinyTail),
    ]
}

/// A drive with this firmware, and its profile; `None` if there can be none.
fn drive(kind: &FirmwareKind, mut profile: Profile, seed: u64) -> Option<(Ssd, Profile)> {
    use Dimension::{Channel, Die, Plane, Way};
    profile.ftl.stripe = [Channel, Plane, Die, Way];
    profile.ftl.ranges = match kind {
        FirmwareKind::IodaRanges(_) => 3,
        _ if seed.is_multiple_of(2) => profile.geometry.channels,
        _ => 1,
    };
    let profile = kind.profile(&profile).ok()?;
    let firmware = kind.firmware(&profile, ArrayPosition { position: 1, drives: 3 }).unwrap();
    Some((Ssd::with_firmware(&profile, DeviceId(0), seed, firmware), profile))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 100 } else { 3000 }))]

    #[test]
    fn every_request_completes_exactly_once(
        kind in kinds(),
        profile in profiles(),
        seed: u64,
        depth in 1_usize..40,
        full in 0.0..=1.0,
    ) {
        let Some((mut ssd, _)) = drive(&kind, profile, seed) else { return Ok(()) };
        ssd.fill_in_order(full);
        ssd.audit();
        let mut answers = work(&mut ssd, seed, 700, depth);
        // In between, the array tells the drive something.
        ssd.clean_now();
        ssd.took_cleaning_start();
        let (start, length) = (ssd.now() + Nanos::from_millis(5), Nanos::from_millis(9));
        ssd.set_windows(WindowSchedule { start, length, position: 0, drives: 4 });
        let again = work(&mut ssd, !seed, 700, depth);
        prop_assert_eq!((answers.len(), again.len()), (700, 700));
        let ids: BTreeSet<_> = answers.iter().map(|a| a.completion.request).collect();
        prop_assert_eq!(ids.len(), 700);
        answers.extend(again);
        prop_assert!(answers.is_sorted_by_key(|a| a.completion.complete));
        prop_assert_eq!(ssd.verify(), Ok(()));
    }

    #[test]
    fn clone_continues_like_its_original(kind in kinds(), profile in profiles(), seed: u64) {
        let Some((mut ssd, _)) = drive(&kind, profile, seed) else { return Ok(()) };
        ssd.fill_in_order(0.9);
        work(&mut ssd, seed, 300, 16);
        let mut copy = ssd.clone();
        prop_assert_eq!(work(&mut ssd, !seed, 300, 16), work(&mut copy, !seed, 300, 16));
    }

    #[test]
    fn loaded_drive_continues_like_its_original(
        kind in kinds(),
        mut profile in profiles(),
        seed: u64,
    ) {
        profile.ftl.mapping_cache_mb = 0.0;
        let Some((mut ssd, profile)) = drive(&kind, profile, seed) else { return Ok(()) };
        ssd.fill_in_order(0.9);
        work(&mut ssd, seed, 300, 16);
        let mut saved = Vec::new();
        ssd.save(&profile, &mut saved).unwrap();
        let at = ArrayPosition { position: 1, drives: 3 };
        let firmware = |profile: &Profile| kind.firmware(profile, at).unwrap();
        let (mut loaded, with) = Ssd::load_with(&saved[..], DeviceId(0), firmware).unwrap();
        prop_assert_eq!(with, profile);
        prop_assert_eq!(work(&mut ssd, !seed, 300, 16), work(&mut loaded, !seed, 300, 16));
    }
}
