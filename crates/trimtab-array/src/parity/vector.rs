//! Vectors of field elements: what a pass needs of them. Integers are vectors too: of eight
//! elements for any processor, and of one for the end of strips.

use super::field::{self, REDUCED};

/// Bytes in a register.
///
/// Methods are always inlined, so that they are compiled with the instructions of their caller.
///
/// # Safety
/// Values are made only by `zero` and `load`, whose callers guarantee that the processor has the
/// instructions. So the methods that take a value may use them. `load` and `store` access
/// `BYTES` bytes, at any alignment.
pub(super) unsafe trait Vector: Copy {
    /// Bytes of a value.
    const BYTES: usize;

    /// A number to multiply with.
    type Factor: Copy;

    /// # Safety
    /// The processor has the instructions.
    unsafe fn zero() -> Self;

    /// # Safety
    /// The processor has the instructions, and `BYTES` bytes at `from` can be read.
    unsafe fn load(from: *const u8) -> Self;

    /// # Safety
    /// `BYTES` bytes at `to` can be written.
    unsafe fn store(self, to: *mut u8);

    /// # Safety
    /// The processor has the instructions.
    unsafe fn factor(by: u8) -> Self::Factor;

    fn xor(self, other: Self) -> Self;

    /// The products with g.
    fn double(self) -> Self;

    fn times(self, by: Self::Factor) -> Self;
}

// SAFETY: any processor has the instructions.
unsafe impl Vector for u64 {
    const BYTES: usize = 8;

    type Factor = u8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        0
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller guarantees 8 bytes.
        unsafe { from.cast::<Self>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller guarantees 8 bytes.
        unsafe { to.cast::<Self>().write_unaligned(self) }
    }

    #[inline(always)]
    unsafe fn factor(by: u8) -> u8 {
        by
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }

    /// From a byte's top bit comes a mask of the byte: 0x100 − 1. That is without a multiplication,
    /// which compilers do not vectorise well.
    #[inline(always)]
    fn double(self) -> Self {
        let top = self & 0x8080_8080_8080_8080;
        let mask = (top << 1).wrapping_sub(top >> 7);
        ((self ^ top) << 1) ^ (mask & Self::from_ne_bytes([REDUCED; 8]))
    }

    #[inline(always)]
    fn times(self, by: u8) -> Self {
        let mut sum = 0;
        for bit in (0..8).rev() {
            sum = Self::double(sum) ^ (self & (Self::from(by >> bit & 1)).wrapping_neg());
        }
        sum
    }
}

// SAFETY: any processor has the instructions.
unsafe impl Vector for u8 {
    const BYTES: usize = 1;

    type Factor = u8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        0
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller guarantees a byte.
        unsafe { from.read() }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller guarantees a byte.
        unsafe { to.write(self) }
    }

    #[inline(always)]
    unsafe fn factor(by: u8) -> u8 {
        by
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }

    #[inline(always)]
    fn double(self) -> Self {
        field::double(self)
    }

    #[inline(always)]
    fn times(self, by: u8) -> Self {
        field::product(self, by)
    }
}
