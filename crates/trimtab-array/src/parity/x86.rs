//! Vectors of x86-64: 16 bytes with SSSE3, 32 with AVX2, 64 with AVX-512 and GFNI.

use core::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_add_epi8, _mm_and_si128, _mm_cmplt_epi8, _mm_loadu_si128,
    _mm_set1_epi8, _mm_setzero_si128, _mm_shuffle_epi8, _mm_srli_epi64, _mm_storeu_si128,
    _mm_xor_si128, _mm256_add_epi8, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_cmpgt_epi8, _mm256_loadu_si256, _mm256_set1_epi8, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
    _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_storeu_si512, _mm512_xor_si512,
};

use super::field::{MATRICES, NIBBLES, REDUCED};
use super::pass::{Pass, run};
use super::vector::Vector;

/// Runs a pass with SSSE3.
#[target_feature(enable = "ssse3")]
pub(super) fn ssse3(pass: &mut impl Pass) {
    // SAFETY: the function's instructions are those of the vector.
    unsafe { run::<Ssse3>(pass) }
}

/// Runs a pass with AVX2.
#[target_feature(enable = "avx2")]
pub(super) fn avx2(pass: &mut impl Pass) {
    // SAFETY: the function's instructions are those of the vector.
    unsafe { run::<Avx2>(pass) }
}

/// Runs a pass with AVX-512 and GFNI.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub(super) fn avx512(pass: &mut impl Pass) {
    // SAFETY: the function's instructions are those of the vector.
    unsafe { run::<Avx512>(pass) }
}

#[derive(Clone, Copy)]
struct Ssse3(__m128i);

// SAFETY: `zero` and `load` require SSSE3.
unsafe impl Vector for Ssse3 {
    const BYTES: usize = 16;

    /// The products of the lower and of the upper four bits.
    type Factor = [__m128i; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller guarantees SSSE3.
        Self(unsafe { _mm_setzero_si128() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller guarantees SSSE3 and 16 bytes.
        Self(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the value exists, and the caller guarantees 16 bytes.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn factor(by: u8) -> Self::Factor {
        let table = NIBBLES[usize::from(by)].as_ptr().cast::<__m128i>();
        // SAFETY: the caller guarantees SSSE3, and a table has twice 16 bytes.
        unsafe { [_mm_loadu_si128(table), _mm_loadu_si128(table.add(1))] }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: the value exists.
        Self(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    /// The top bit is the sign.
    #[inline(always)]
    fn double(self) -> Self {
        // SAFETY: the value exists.
        Self(unsafe {
            let top = _mm_cmplt_epi8(self.0, _mm_setzero_si128());
            let reduced = _mm_and_si128(top, _mm_set1_epi8(REDUCED as i8));
            _mm_xor_si128(_mm_add_epi8(self.0, self.0), reduced)
        })
    }

    #[inline(always)]
    fn times(self, [lower, upper]: Self::Factor) -> Self {
        // SAFETY: the value exists.
        Self(unsafe {
            let mask = _mm_set1_epi8(0x0f);
            let low = _mm_and_si128(self.0, mask);
            let high = _mm_and_si128(_mm_srli_epi64::<4>(self.0), mask);
            _mm_xor_si128(_mm_shuffle_epi8(lower, low), _mm_shuffle_epi8(upper, high))
        })
    }
}

#[derive(Clone, Copy)]
struct Avx2(__m256i);

// SAFETY: `zero` and `load` require AVX2.
unsafe impl Vector for Avx2 {
    const BYTES: usize = 32;

    /// The products of the lower and of the upper four bits, twice: a shuffle is within 16 bytes.
    type Factor = [__m256i; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller guarantees AVX2.
        Self(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller guarantees AVX2 and 32 bytes.
        Self(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the value exists, and the caller guarantees 32 bytes.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn factor(by: u8) -> Self::Factor {
        let table = NIBBLES[usize::from(by)].as_ptr().cast::<__m128i>();
        // SAFETY: the caller guarantees AVX2, and a table has twice 16 bytes.
        unsafe {
            [
                _mm256_broadcastsi128_si256(_mm_loadu_si128(table)),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(table.add(1))),
            ]
        }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: the value exists.
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    /// The top bit is the sign.
    #[inline(always)]
    fn double(self) -> Self {
        // SAFETY: the value exists.
        Self(unsafe {
            let top = _mm256_cmpgt_epi8(_mm256_setzero_si256(), self.0);
            let reduced = _mm256_and_si256(top, _mm256_set1_epi8(REDUCED as i8));
            _mm256_xor_si256(_mm256_add_epi8(self.0, self.0), reduced)
        })
    }

    #[inline(always)]
    fn times(self, [lower, upper]: Self::Factor) -> Self {
        // SAFETY: the value exists.
        Self(unsafe {
            let mask = _mm256_set1_epi8(0x0f);
            let low = _mm256_and_si256(self.0, mask);
            let high = _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), mask);
            _mm256_xor_si256(_mm256_shuffle_epi8(lower, low), _mm256_shuffle_epi8(upper, high))
        })
    }
}

#[derive(Clone, Copy)]
struct Avx512(__m512i);

// SAFETY: `zero` and `load` require AVX-512 and GFNI.
unsafe impl Vector for Avx512 {
    const BYTES: usize = 64;

    /// The matrix that multiplies by it, for each eight bytes. (GFNI's multiplication has another
    /// polynomial.)
    type Factor = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller guarantees AVX-512.
        Self(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller guarantees AVX-512 and 64 bytes.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the value exists, and the caller guarantees 64 bytes.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn factor(by: u8) -> Self::Factor {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_set1_epi64(MATRICES[usize::from(by)].cast_signed()) }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: the value exists.
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    /// One instruction where a mask takes three.
    #[inline(always)]
    fn double(self) -> Self {
        // SAFETY: the value exists.
        self.times(unsafe { Self::factor(2) })
    }

    #[inline(always)]
    fn times(self, by: Self::Factor) -> Self {
        // SAFETY: the value exists.
        Self(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(self.0, by) })
    }
}
