//! A drive's parallel units, as far as addresses tell.
//!
//! Two requests that meet at one channel, die or page wait for each other; two
//! that do not, need not. Which addresses meet is the drive's secret, but its
//! latencies give it away: [`find`] looks for it in a recording. What it finds
//! are [`UnitFunction`]s, each of which puts every offset into one of at most
//! [`MOST_UNITS`] units; the predictor then watches each unit on its own. A request
//! lies in the units of all its [pieces](UnitFunction::pieces).

mod find;
mod spectrum;

pub use find::{Found, find};

use serde::{Deserialize, Serialize};

/// The most units that a function may tell apart. (What is kept of each fits a
/// cache line, that of all of them a core's own cache.)
pub const MOST_UNITS: u32 = 4096;

/// The most pieces of a request that are told apart: a longer one is in the units of its
/// first ones.
pub const MOST_PIECES: usize = 16;

/// Puts an offset into one of a drive's parallel units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum UnitFunction {
    /// All that lies in the same aligned stretch of `2^shift` bytes, spread over
    /// [`MOST_UNITS`] by a hash: a flash page.
    Page {
        /// The stretch's size, as a power of two.
        shift: u32,
    },
    /// Stretches of `2^shift` bytes dealt out in turn.
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
    /// How many units it tells apart.
    #[must_use]
    #[inline]
    pub fn units(&self) -> u32 {
        match self {
            Self::Page { .. } => MOST_UNITS,
            Self::Stripe { units, .. } => *units,
            Self::Parity { masks } => 1 << masks.len(),
        }
    }

    /// Whether it is one that can be watched.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        match self {
            Self::Page { shift } => *shift < 64,
            Self::Stripe { shift, units } => *shift < 64 && (1..=MOST_UNITS).contains(units),
            Self::Parity { masks } => (1..=MOST_UNITS.ilog2() as usize).contains(&masks.len()),
        }
    }

    /// The size, as a power of two, of aligned stretches of addresses none of which lies in
    /// two units.
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

    /// The units that a request (bytes) lies in, piece by piece: a piece is what it has of
    /// one stretch ([`stretch_shift`](Self::stretch_shift)). The first [`MOST_PIECES`] of them; one that is
    /// several pieces' unit comes several times.
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

/// The least of some functions' [stretches](UnitFunction::stretch_shift): what does not reach
/// beyond one is in one piece by all of them.
#[must_use]
pub fn least_shift(functions: &[UnitFunction]) -> u32 {
    functions.iter().map(UnitFunction::stretch_shift).min().unwrap_or(u64::BITS - 1)
}

/// Whether a request (bytes) reaches beyond one aligned stretch of `2^shift` bytes.
#[must_use]
pub const fn is_spread(offset: u64, length: u64, shift: u32) -> bool {
    (offset ^ last_byte(offset, length)) >> shift != 0
}

/// The last byte of a request; that at its offset if it has none.
const fn last_byte(offset: u64, length: u64) -> u64 {
    offset.saturating_add(length.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_what_lies_in_one_stretch() {
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
    fn deals_out_in_turn() {
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
    fn pages_are_spread_evenly() {
        let page = UnitFunction::Page { shift: 13 };
        assert_eq!(page.unit(8192), page.unit(16383));
        let mut counts = vec![0_u32; MOST_UNITS as usize];
        for i in 0..10 * u64::from(MOST_UNITS) {
            counts[usize::from(page.unit(i * 8192))] += 1;
        }
        assert!(counts.iter().all(|count| (5..20).contains(count)));
    }
}
