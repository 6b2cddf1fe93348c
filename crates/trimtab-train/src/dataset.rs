//! From recordings to samples.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_io::Op;
use trimtab_predict::units::UnitFunction;
use trimtab_predict::{DIGITS, DriveTracker, FEATURES, Recorded};

use crate::replay::{replay, replay_part};

/// LinnOS's digits of the selected requests.
pub(crate) fn digits(recorded: &[Recorded], wanted: &[bool]) -> Vec<[u8; DIGITS]> {
    tracked(recorded, wanted, &mut DriveTracker::new(&[]), |tracker, i| {
        tracker.state().digits(&recorded[i].request)
    })
}

/// The features of the selected requests.
pub(crate) fn features(
    recorded: &[Recorded],
    wanted: &[bool],
    functions: &[UnitFunction],
) -> Vec<[i32; FEATURES]> {
    tracked(recorded, wanted, &mut DriveTracker::new(functions), |tracker, i| {
        let request = &recorded[i].request;
        tracker.features(request.arrival, request)
    })
}

/// As [`features`], if a changing share of the reads had been steered to other drives.
pub(crate) fn steered_features(
    recorded: &[Recorded],
    wanted: &[bool],
    functions: &[UnitFunction],
    seed: u64,
) -> Vec<[i32; FEATURES]> {
    let sent = sent_here(recorded, seed);
    let mut all = Vec::with_capacity(wanted.iter().filter(|w| **w).count());
    replay_part(
        recorded,
        |i| sent[i],
        &mut DriveTracker::new(functions),
        |i, tracker| {
            if wanted[i] {
                let request = &recorded[i].request;
                all.push(tracker.features(request.arrival, request));
            }
        },
    );
    all
}

/// For how many reads the share of reads that come to this drive stays the same.
const SHARE_LASTS: std::ops::Range<u32> = 4..100;
/// That share.
const SHARES: [f64; 5] = [1.0, 0.5, 0.2, 0.05, 0.0];

/// Which requests come to this drive when reads are steered: all but some of the reads.
fn sent_here(recorded: &[Recorded], seed: u64) -> Vec<bool> {
    let mut random = Pcg64::seed_from_u64(seed);
    let (mut left, mut share) = (0, 1.0);
    let mut is_sent = |one: &Recorded| {
        if one.request.op != Op::Read {
            return true;
        }
        if left == 0 {
            left = random.random_range(SHARE_LASTS);
            share = SHARES[random.random_range(..SHARES.len())];
        }
        left -= 1;
        random.random_bool(share)
    };
    recorded.iter().map(&mut is_sent).collect()
}

fn tracked<T>(
    recorded: &[Recorded],
    wanted: &[bool],
    tracker: &mut DriveTracker,
    look: impl Fn(&DriveTracker, usize) -> T,
) -> Vec<T> {
    let mut all = Vec::with_capacity(wanted.iter().filter(|w| **w).count());
    replay(recorded, tracker, |i, tracker| {
        if wanted[i] {
            all.push(look(tracker, i));
        }
    });
    all
}
