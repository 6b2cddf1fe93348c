//! A drive's parallel units, as functions of the address.
//!
//! Two requests to one channel, die or page wait for each other; requests to different ones
//! do not. The drive does not tell its address mapping, but a recording of its latencies
//! shows it (`trimtab_train::units`). A [`UnitFunction`] maps every offset to one of at most
//! [`MOST_UNITS`] units, and the tracker keeps the state of each unit. A request lies in the
//! units of all its [pieces](UnitFunction::pieces).

use serde::{Deserialize, Serialize};

/// The most functions that are tracked, next to the drive as a whole.
pub const MAX_FUNCTIONS: usize = 3;

/// The most units of a function. (The state of each is a cache line, that of all of them fits
/// a core's private cache.)
pub const MOST_UNITS: u32 = 4096;

/// The most pieces of a request that count: a longer one lies in the units of its first
/// pieces.
pub const MOST_PIECES: usize = 16;

/// Maps an offset to one of a drive's parallel units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum UnitFunction {
    /// Aligned stretches of `2^shift` bytes, spread over [`MOST_UNITS`] by a hash: flash
    /// pages.
    Page {
        /// The stretch's size, as a power of two.
        shift: u32,
    },
    /// Stretches of `2^shift` bytes in turn: the stretch number modulo `units`.
    Stripe {
        /// The stretch's size, as a power of two.
        shift: u32,
        /// How many units there are.
        units: u32,
    },
    /// Each bit of the unit's number is the parity of some of the offset's bits.
    Parity {
        /// Which bits of the offset: a mask for each bit of the number.
        masks: Vec<u64>,
    },
}

impl UnitFunction {
    /// The number of units.
    #[must_use]
    #[inline]
    pub fn units(&self) -> u32 {
        match self {
            Self::Page { .. } => MOST_UNITS,
            Self::Stripe { units, .. } => *units,
            Self::Parity { masks } => 1 << masks.len(),
        }
    }

    /// Whether it can be tracked.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        match self {
            Self::Page { shift } => *shift < 64,
            Self::Stripe { shift, units } => *shift < 64 && (1..=MOST_UNITS).contains(units),
            Self::Parity { masks } => (1..=MOST_UNITS.ilog2() as usize).contains(&masks.len()),
        }
    }

    /// The size, as a power of two, of aligned stretches of addresses that each lie in one
    /// unit.
    #[must_use]
    pub fn stretch_shift(&self) -> u32 {
        match self {
            Self::Page { shift } | Self::Stripe { shift, .. } => *shift,
            Self::Parity { masks } => {
                let bits = masks.iter().fold(0, |bits, mask| bits | mask);
                bits.trailing_zeros().min(u64::BITS - 1)
            }
        }
    }

    /// The units that a request (bytes) lies in, piece by piece. A piece is the request's part
    /// of one stretch ([`stretch_shift`](Self::stretch_shift)). Only the first [`MOST_PIECES`]
    /// count; a unit comes as often as it has pieces.
    pub fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = u16> {
        let shift = self.stretch_shift();
        let first = offset >> shift;
        let more = (last_byte(offset, length) >> shift) - first;
        (0..=more.min(MOST_PIECES as u64 - 1)).map(move |piece| self.unit((first + piece) << shift))
    }

    /// The unit that an offset (bytes) lies in.
    #[must_use]
    #[inline]
    pub fn unit(&self, offset: u64) -> u16 {
        match self {
            Self::Page { shift } => {
                // Multiplicative hashing: the high bits of the product depend on
                // all bits of the page's number.
                let product = (offset >> shift).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (product >> (64 - MOST_UNITS.ilog2())) as u16
            }
            Self::Stripe { shift, units } => ((offset >> shift) % u64::from(*units)) as u16,
            Self::Parity { masks } => masks
                .iter()
                .rev()
                .fold(0, |number, mask| number << 1 | ((offset & mask).count_ones() & 1) as u16),
        }
    }
}

/// The least of some functions' [stretches](UnitFunction::stretch_shift): a request within one
/// such stretch is one piece by all of them.
#[must_use]
pub fn least_shift(functions: &[UnitFunction]) -> u32 {
    functions.iter().map(UnitFunction::stretch_shift).min().unwrap_or(u64::BITS - 1)
}

/// Whether a request (bytes) crosses a boundary of aligned stretches of `2^shift` bytes.
#[must_use]
pub const fn is_spread(offset: u64, length: u64, shift: u32) -> bool {
    (offset ^ last_byte(offset, length)) >> shift != 0
}

/// The last byte of a request; the byte at its offset if it is empty.
const fn last_byte(offset: u64, length: u64) -> u64 {
    offset.saturating_add(length.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_at_stretch_boundaries() {
        let stripe = UnitFunction::Stripe { shift: 12, units: 6 };
        let parity = UnitFunction::Parity { masks: vec![0b1010 << 12, 0b100 << 12] };
        let pieces = |function: &UnitFunction, offset, length| -> Vec<u16> {
            function.pieces(offset, length).collect()
        };
        assert_eq!(pieces(&stripe, 0, 0), [0]);
        assert_eq!(pieces(&stripe, 4095, 1), [0]);
        assert_eq!(pieces(&stripe, 4095, 2), [0, 1]);
        assert_eq!(pieces(&stripe, 5 << 12, 3 << 12), [5, 0, 1]);
        assert_eq!(parity.stretch_shift(), 13);
        assert_eq!(pieces(&parity, 4096, 4096), [0]);
        assert_eq!(pieces(&parity, 0, 5 << 12), [0, 1, 2]);
        assert_eq!(pieces(&stripe, 0, 1 << 30).len(), MOST_PIECES);
        // At the end of all addresses.
        let last = stripe.unit(u64::MAX);
        assert_eq!(pieces(&stripe, u64::MAX - 1, u64::MAX), [last]);
        let none = UnitFunction::Parity { masks: vec![0] };
        assert_eq!(pieces(&none, 0, 1 << 63), [0]);
    }

    #[test]
    fn stripes_and_parities_follow_the_offset() {
        let stripe = UnitFunction::Stripe { shift: 12, units: 6 };
        let units = |function: &UnitFunction, step: u64| -> Vec<u16> {
            (0..8).map(|i| function.unit(i * step)).collect()
        };
        assert_eq!(units(&stripe, 4096), [0, 1, 2, 3, 4, 5, 0, 1]);
        let parity = UnitFunction::Parity { masks: vec![0b11 << 12, 0b100 << 12] };
        assert_eq!(units(&parity, 4096), [0, 1, 1, 0, 2, 3, 3, 2]);
        assert_eq!(parity.units(), 4);
    }

    #[test]
    fn page_hash_is_even() {
        let page = UnitFunction::Page { shift: 13 };
        assert_eq!(page.unit(8192), page.unit(16383));
        let mut counts = vec![0_u32; MOST_UNITS as usize];
        for i in 0..10 * u64::from(MOST_UNITS) {
            counts[usize::from(page.unit(i * 8192))] += 1;
        }
        assert!(counts.iter().all(|count| (5..20).contains(count)));
    }
}
