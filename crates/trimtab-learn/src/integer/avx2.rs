//! Eight neurons at a time.

use core::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_add_epi64, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_max_epi32, _mm256_mul_epi32, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_srli_epi64,
    _mm256_storeu_si256,
};

use super::{Network, Pairs};

/// Neurons per register.
const LANES: usize = 8;

/// Registers summed at a time: half of all.
const TILE: usize = 8;

impl<const INPUTS: usize, const PAIRS: usize, const HIDDEN: usize> Network<INPUTS, PAIRS, HIDDEN> {
    #[target_feature(enable = "avx2")]
    pub(super) fn avx2<const N: usize>(
        &self,
        pairs: &Pairs<PAIRS>,
        second: [&[i32; HIDDEN]; N],
    ) -> [i64; N] {
        let mut outputs = [_mm256_setzero_si256(); N];
        let vectors = HIDDEN / LANES;
        let mut vector = 0;
        while vector + TILE <= vectors {
            self.avx2_tile::<N, TILE>(pairs, second, vector, &mut outputs);
            vector += TILE;
        }
        while vector < vectors {
            self.avx2_tile::<N, 1>(pairs, second, vector, &mut outputs);
            vector += 1;
        }
        outputs.map(|output| sum(output))
    }

    /// Adds the outputs' terms of some vectors of neurons.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn avx2_tile<const N: usize, const VECTORS: usize>(
        &self,
        pairs: &Pairs<PAIRS>,
        second: [&[i32; HIDDEN]; N],
        vector: usize,
        outputs: &mut [__m256i; N],
    ) {
        let bias = &self.first_bias.as_chunks::<LANES>().0[vector..vector + VECTORS];
        let mut sums = [_mm256_setzero_si256(); VECTORS];
        for (pair, weights) in pairs.iter().zip(&self.first) {
            let weights = &weights.as_chunks::<LANES>().0[vector..vector + VECTORS];
            let pair = _mm256_set1_epi32(*pair);
            for (sum, weights) in sums.iter_mut().zip(weights) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pair, load_pairs(weights)));
            }
        }
        for (i, &sum) in sums.iter().enumerate() {
            let sum = _mm256_add_epi32(sum, load(&bias[i]));
            let even = _mm256_max_epi32(sum, _mm256_setzero_si256());
            let odd = _mm256_srli_epi64::<32>(even);
            for (output, weights) in outputs.iter_mut().zip(second) {
                let weights = load(&weights.as_chunks::<LANES>().0[vector + i]);
                // The multiplication uses the lower half of each 64 bits.
                let even = _mm256_mul_epi32(even, weights);
                let odd = _mm256_mul_epi32(odd, _mm256_srli_epi64::<32>(weights));
                *output = _mm256_add_epi64(*output, _mm256_add_epi64(even, odd));
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(from: &[i32; LANES]) -> __m256i {
    // SAFETY: 32 bytes that can be read.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_pairs(from: &[[i16; 2]; LANES]) -> __m256i {
    // SAFETY: 32 bytes that can be read.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn sum(of: __m256i) -> i64 {
    let mut parts = [0_i64; 4];
    // SAFETY: 32 bytes that can be written.
    unsafe { _mm256_storeu_si256(parts.as_mut_ptr().cast(), of) };
    parts.iter().sum()
}
