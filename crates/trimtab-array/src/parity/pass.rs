//! One pass over strips, in blocks that fit the registers.

use super::vector::Vector;

/// Work on strips of equal length, position by position.
///
/// # Safety
/// `block` accesses its strips only at the bytes it is given, and the strips have `length` bytes.
pub(super) unsafe trait Pass {
    /// Bytes of each strip.
    fn length(&self) -> usize;

    /// Works on the bytes `at..at + N * V::BYTES` of all strips.
    ///
    /// # Safety
    /// The processor has the instructions of `V`, and the strips have these bytes.
    unsafe fn block<V: Vector, const N: usize>(&mut self, at: usize);
}

/// Vectors of a block. Four for each of two sums and for what is added fit 16 registers, and hide
/// the latency of a doubling.
const BLOCK: usize = 4;

/// Runs a pass: in blocks, then by vectors, then what is left by integers.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn run<V: Vector>(pass: &mut impl Pass) {
    // SAFETY: the caller guarantees the instructions.
    let at = unsafe { blocks::<V, BLOCK>(pass, 0) };
    // SAFETY: as above.
    let at = unsafe { blocks::<V, 1>(pass, at) };
    if at < pass.length() {
        rest(pass, at);
    }
}

/// The bytes from `at` on, which are fewer than a vector: not inlined, as strips seldom end so.
#[inline(never)]
fn rest(pass: &mut impl Pass, at: usize) {
    // SAFETY: any processor has integers.
    let at = unsafe { blocks::<u64, 1>(pass, at) };
    // SAFETY: as above.
    unsafe { blocks::<u8, 1>(pass, at) };
}

/// All whole blocks from `at` on. Returns their end.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn blocks<V: Vector, const N: usize>(pass: &mut impl Pass, mut at: usize) -> usize {
    let length = pass.length();
    while length - at >= N * V::BYTES {
        // SAFETY: the caller guarantees the instructions, and the block ends within the strips.
        unsafe { pass.block::<V, N>(at) };
        at += N * V::BYTES;
    }
    at
}

/// Some vectors of a strip.
///
/// # Safety
/// The processor has the instructions of `V`, and the strip has `N * V::BYTES` bytes at `at`.
#[inline(always)]
pub(super) unsafe fn load<V: Vector, const N: usize>(strip: &[u8], at: usize) -> [V; N] {
    debug_assert!(at + N * V::BYTES <= strip.len());
    // SAFETY: the caller guarantees the instructions.
    let mut vectors = [unsafe { V::zero() }; N];
    for (i, vector) in vectors.iter_mut().enumerate() {
        // SAFETY: the caller guarantees instructions and bytes.
        *vector = unsafe { V::load(strip.as_ptr().add(at + i * V::BYTES)) };
    }
    vectors
}

/// Writes some vectors to a strip.
///
/// # Safety
/// The strip has `N * V::BYTES` bytes at `at`.
#[inline(always)]
pub(super) unsafe fn store<V: Vector, const N: usize>(
    vectors: [V; N],
    strip: &mut [u8],
    at: usize,
) {
    debug_assert!(at + N * V::BYTES <= strip.len());
    for (i, vector) in vectors.into_iter().enumerate() {
        // SAFETY: the caller guarantees the bytes.
        unsafe { vector.store(strip.as_mut_ptr().add(at + i * V::BYTES)) };
    }
}

/// Adds vectors.
#[inline(always)]
pub(super) fn add<V: Vector, const N: usize>(sums: &mut [V; N], vectors: [V; N]) {
    for (sum, vector) in sums.iter_mut().zip(vectors) {
        *sum = sum.xor(vector);
    }
}

/// Multiplies vectors by g.
#[inline(always)]
pub(super) fn double<V: Vector, const N: usize>(vectors: &mut [V; N]) {
    for vector in vectors {
        *vector = vector.double();
    }
}

/// The products of vectors with a number.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn times<V: Vector, const N: usize>(mut vectors: [V; N], by: u8) -> [V; N] {
    // SAFETY: the caller guarantees the instructions.
    let by = unsafe { V::factor(by) };
    for vector in &mut vectors {
        *vector = vector.times(by);
    }
    vectors
}
