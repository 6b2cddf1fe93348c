//! The arithmetic of parity: P and Q of data, and what was lost from the rest.
//!
//! P is the XOR of a stripe's data. Q is Σ gⁱ·Dᵢ over the field of 256 elements with the polynomial
//! x⁸ + x⁴ + x³ + x² + 1 (0x11d) and g = 2, where i is the index of the data: md's Q (H. P. Anvin,
//! "The mathematics of RAID-6", 2004, §2). The order of md's sum begins with the member behind Q,
//! which for the layouts of this crate is the order of the data.
//!
//! Three things make it fast:
//!
//! - Q is summed by Horner's rule, from the last data to the first: q ← 2q + Dᵢ. To double needs no
//!   table, only a shift and a mask ([`vector`]).
//! - Everything is done in one pass over the strips, with all sums in registers ([`pass`]): a strip
//!   is read once, and only results are written. Beyond the caches the memory is the limit.
//! - Vector instructions are selected at run time ([`x86`]). Products with other constants take two
//!   shuffles of tables of 16 products (Anvin, §5; Plank, Greenan and Miller, FAST '13), or one
//!   instruction for a matrix of bits (GFNI).

mod field;
mod instructions;
mod pass;
mod passes;
mod reconstruct;
#[cfg(test)]
mod tests;
mod vector;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod x86;

pub use reconstruct::TooManyLost;

use instructions::Instructions;
use passes::{FromP, FromQ, Strip, Sums, TwoData, Update};

use crate::MOST_MEMBERS;

/// Computes parity with one set of vector instructions. All give the same bytes.
///
/// Strips are slices of equal length, which may be any, at any alignment. Data are in the order of
/// their index. Nothing allocates.
///
/// # Panics
/// All methods panic if strips differ in length, or if there are none or more than
/// [`MOST_MEMBERS`] data.
///
/// # Example
///
/// A RAID 6 of five members that loses two.
///
/// ```
/// use trimtab_array::Parity;
///
/// let parity = Parity::best();
/// let (d0, d1, d2) = (*b"in order", *b"of their", *b" index: ");
/// let (mut p, mut q) = ([0; 8], [0; 8]);
/// parity.p_and_q(&[&d0, &d1, &d2], &mut p, &mut q);
///
/// let (mut lost0, mut kept1, mut lost2) = ([0; 8], d1, [0; 8]);
/// let mut strips: [&mut [u8]; 5] = [&mut lost0, &mut kept1, &mut lost2, &mut p, &mut q];
/// parity.reconstruct(&mut strips, 3, 0b00101)?;
/// assert_eq!((lost0, lost2), (d0, d2));
/// # Ok::<(), trimtab_array::TooManyLost>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity(Instructions);

impl Parity {
    /// With 64-bit integers: for any processor.
    pub const PORTABLE: Self = Self(Instructions::PORTABLE);

    /// With the best instructions that the processor has, detected once.
    #[must_use]
    #[inline]
    pub fn best() -> Self {
        Self(Instructions::best())
    }

    /// With all that the processor has, the best last: for comparisons.
    pub fn all() -> impl Iterator<Item = Self> {
        Instructions::all().map(Self)
    }

    /// The name of the instructions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name()
    }

    /// P of data.
    pub fn p(self, data: &[&[u8]], p: &mut [u8]) {
        self.sums_p(data, p);
    }

    /// Q of data.
    pub fn q(self, data: &[&[u8]], q: &mut [u8]) {
        self.sums_q(data, q);
    }

    /// P and Q of data, in one pass.
    pub fn p_and_q(self, data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
        self.sums(data, p, q);
    }

    /// Changes P when a strip of data changes (read-modify-write).
    pub fn update_p(self, old: &[u8], new: &[u8], p: &mut [u8]) {
        self.0.run(Update::<true, false>::new(0, old, new, p, &mut []));
    }

    /// Changes Q when the strip of data with this index changes.
    pub fn update_q(self, index: usize, old: &[u8], new: &[u8], q: &mut [u8]) {
        self.0.run(Update::<false, true>::new(index, old, new, &mut [], q));
    }

    /// Changes P and Q when the strip of data with this index changes.
    pub fn update_p_and_q(self, index: usize, old: &[u8], new: &[u8], p: &mut [u8], q: &mut [u8]) {
        self.0.run(Update::<true, true>::new(index, old, new, p, q));
    }

    /// Computes the one strip of data that is lost (`None`) from P.
    ///
    /// # Panics
    /// Not exactly one is lost.
    pub fn data_from_p(self, data: &[Option<&[u8]>], p: &[u8], lost: &mut [u8]) {
        self.0.run(FromP::<false>::new(data, p, lost, &mut []));
    }

    /// Computes the one strip of data that is lost (`None`) from P, and Q.
    ///
    /// # Panics
    /// Not exactly one is lost.
    pub fn data_and_q(self, data: &[Option<&[u8]>], p: &[u8], lost: &mut [u8], q: &mut [u8]) {
        self.0.run(FromP::<true>::new(data, p, lost, q));
    }

    /// Computes the one strip of data that is lost (`None`) from Q.
    ///
    /// # Panics
    /// Not exactly one is lost.
    pub fn data_from_q(self, data: &[Option<&[u8]>], q: &[u8], lost: &mut [u8]) {
        self.0.run(FromQ::<false>::new(data, q, lost, &mut []));
    }

    /// Computes the one strip of data that is lost (`None`) from Q, and P.
    ///
    /// # Panics
    /// Not exactly one is lost.
    pub fn data_and_p(self, data: &[Option<&[u8]>], q: &[u8], lost: &mut [u8], p: &mut [u8]) {
        self.0.run(FromQ::<true>::new(data, q, lost, p));
    }

    /// Computes the two strips of data that are lost (`None`), in their order, from P and Q.
    ///
    /// # Panics
    /// Not exactly two are lost.
    pub fn two_data(self, data: &[Option<&[u8]>], p: &[u8], q: &[u8], lost: [&mut [u8]; 2]) {
        self.0.run(TwoData::new(data, p, q, lost));
    }

    fn sums_p<S: Strip>(self, data: &[S], p: &mut [u8]) {
        self.0.run(Sums::<S, true, false>::new(data, p, &mut []));
    }

    fn sums_q<S: Strip>(self, data: &[S], q: &mut [u8]) {
        self.0.run(Sums::<S, false, true>::new(data, &mut [], q));
    }

    fn sums<S: Strip>(self, data: &[S], p: &mut [u8], q: &mut [u8]) {
        self.0.run(Sums::<S, true, true>::new(data, p, q));
    }
}
