//! Discards, and zeroes without data: how a request is taken apart.
//!
//! Members punch holes (`FALLOC_FL_PUNCH_HOLE`), which read as zeroes. So copies agree, and parity of a whole
//! stripe of zeroes is zeroes too. Of a part of a stripe of a parity array zeroes are written. A request may
//! be as long as the device: it is done step by step, so that it does not hold up all others.

use trimtab_array::Layout;
use trimtab_io::Op;

/// Stripes of a step.
const STRIPES: u64 = 16;
/// The granularity of discards where parity is not concerned, bytes.
const BLOCK: u32 = 4096;

/// What programs should ask for at least, bytes: less than a stripe is written, as zeroes.
pub(crate) const fn granularity(layout: &Layout) -> u32 {
    if layout.level().parities() > 0 { layout.stripe_bytes() as u32 } else { BLOCK }
}

/// What is done first of `length` bytes from `at` on, and how many bytes that is.
pub(crate) fn step(layout: &Layout, at: u64, length: u64) -> (Op, u64) {
    let stripe = layout.stripe_bytes();
    if layout.level().parities() == 0 {
        return (Op::Discard, length.min(STRIPES * stripe - at % stripe));
    }
    let to_next = stripe - at % stripe;
    if to_next < stripe || length < stripe {
        return (Op::Write, length.min(to_next));
    }
    (Op::Discard, (length / stripe).min(STRIPES) * stripe)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trimtab_array::{Level, Rotation};

    use super::*;

    const CHUNK: u64 = 4096;

    proptest! {
        /// Steps are a request's bytes in order, and of parity arrays whole stripes only are discarded.
        #[test]
        fn steps_follow_each_other(
            level in prop::sample::select(vec![Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid6]),
            first in 0_u64..200,
            blocks in 1_u64..400,
        ) {
            let layout = Layout::new(level, Rotation::LeftSymmetric, 5, CHUNK, 1 << 20).unwrap();
            let (mut at, end) = (first * 512, (first + blocks) * 512);
            while at < end {
                let (op, length) = step(&layout, at, end - at);
                prop_assert!(length > 0 && at + length <= end);
                let stripe = layout.stripe_bytes();
                let is_whole = at.is_multiple_of(stripe) && length.is_multiple_of(stripe);
                if level.parities() > 0 {
                    prop_assert_eq!(op == Op::Discard, is_whole);
                } else {
                    prop_assert_eq!(op, Op::Discard);
                }
                at += length;
            }
        }
    }
}
