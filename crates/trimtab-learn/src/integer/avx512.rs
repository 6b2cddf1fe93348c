//! Sixteen neurons at a time, with or without the fused multiply-add instruction (VNNI).

use core::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_add_epi64, _mm512_dpwssd_epi32, _mm512_loadu_si512,
    _mm512_madd_epi16, _mm512_max_epi32, _mm512_mul_epi32, _mm512_reduce_add_epi64,
    _mm512_set1_epi32, _mm512_setzero_si512, _mm512_srli_epi64,
};

use super::{Network, Pairs};

/// Neurons per register.
const LANES: usize = 16;

/// Registers summed at a time: enough to hide latency.
const TILE: usize = 8;

/// The two variants differ in one instruction. An attribute cannot be generic, so a macro generates
/// both.
macro_rules! variant {
    ($outputs:ident, $tile:ident, $features:literal, $add_products:expr) => {
        impl<const INPUTS: usize, const PAIRS: usize, const HIDDEN: usize>
            Network<INPUTS, PAIRS, HIDDEN>
        {
            #[target_feature(enable = $features)]
            pub(super) fn $outputs<const N: usize>(
                &self,
                pairs: &Pairs<PAIRS>,
                second: [&[i32; HIDDEN]; N],
            ) -> [i64; N] {
                let mut outputs = [_mm512_setzero_si512(); N];
                let vectors = HIDDEN / LANES;
                let mut vector = 0;
                while vector + TILE <= vectors {
                    self.$tile::<N, TILE>(pairs, second, vector, &mut outputs);
                    vector += TILE;
                }
                while vector < vectors {
                    self.$tile::<N, 1>(pairs, second, vector, &mut outputs);
                    vector += 1;
                }
                outputs.map(|output| _mm512_reduce_add_epi64(output))
            }

            /// Adds the outputs' terms of some vectors of neurons.
            #[inline]
            #[target_feature(enable = $features)]
            fn $tile<const N: usize, const VECTORS: usize>(
                &self,
                pairs: &Pairs<PAIRS>,
                second: [&[i32; HIDDEN]; N],
                vector: usize,
                outputs: &mut [__m512i; N],
            ) {
                let bias = &self.first_bias.as_chunks::<LANES>().0[vector..vector + VECTORS];
                let mut sums = [_mm512_setzero_si512(); VECTORS];
                for (pair, weights) in pairs.iter().zip(&self.first) {
                    let weights = &weights.as_chunks::<LANES>().0[vector..vector + VECTORS];
                    let pair = _mm512_set1_epi32(*pair);
                    for (sum, weights) in sums.iter_mut().zip(weights) {
                        *sum = $add_products(*sum, pair, load_pairs(weights));
                    }
                }
                for (i, &sum) in sums.iter().enumerate() {
                    let sum = _mm512_add_epi32(sum, load(&bias[i]));
                    let even = _mm512_max_epi32(sum, _mm512_setzero_si512());
                    let odd = _mm512_srli_epi64::<32>(even);
                    for (output, weights) in outputs.iter_mut().zip(second) {
                        let weights = load(&weights.as_chunks::<LANES>().0[vector + i]);
                        // The multiplication uses the lower half of each 64 bits.
                        let even = _mm512_mul_epi32(even, weights);
                        let odd = _mm512_mul_epi32(odd, _mm512_srli_epi64::<32>(weights));
                        *output = _mm512_add_epi64(*output, _mm512_add_epi64(even, odd));
                    }
                }
            }
        }
    };
}

variant!(avx512, avx512_tile, "avx512f,avx512bw", |sum, a, b| {
    _mm512_add_epi32(sum, _mm512_madd_epi16(a, b))
});
variant!(avx512_vnni, avx512_vnni_tile, "avx512f,avx512bw,avx512vnni", |sum, a, b| {
    _mm512_dpwssd_epi32(sum, a, b)
});

#[inline]
#[target_feature(enable = "avx512f")]
fn load(from: &[i32; LANES]) -> __m512i {
    // SAFETY: 64 bytes that can be read.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_pairs(from: &[[i16; 2]; LANES]) -> __m512i {
    // SAFETY: 64 bytes that can be read.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}
