//! Sixteen thresholds, or 64 trees, at a time.

use core::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm512_add_epi8, _mm512_add_epi32, _mm512_and_si512,
    _mm512_andnot_si512, _mm512_cmpeq_epi8_mask, _mm512_cmpgt_epi32_mask, _mm512_cmpgt_epu8_mask,
    _mm512_cvtepu8_epi32, _mm512_loadu_si512, _mm512_mask_add_epi32, _mm512_mask_blend_epi8,
    _mm512_mask_mov_epi32, _mm512_maskz_loadu_epi32, _mm512_maskz_mov_epi8, _mm512_or_si512,
    _mm512_packus_epi16, _mm512_packus_epi32, _mm512_permutex2var_epi8, _mm512_permutex2var_epi16,
    _mm512_permutex2var_epi32, _mm512_popcnt_epi8, _mm512_reduce_add_epi32, _mm512_set1_epi8,
    _mm512_set1_epi16, _mm512_set1_epi32, _mm512_set4_epi32, _mm512_setzero_si512,
    _mm512_shuffle_epi8, _mm512_slli_epi16, _mm512_sllv_epi16, _mm512_srli_epi16,
    _mm512_srlv_epi16, _mm512_storeu_si512, _mm512_test_epi32_mask,
};
use core::array;

use super::{BLOCK, Block, Bytes, GROUP, Packed};

/// The two variants differ in two steps. An attribute cannot be generic, so the text is.
macro_rules! variant {
    ($score:ident, $leaves:ident, $instructions:literal, $look_up:expr, $count_ones:expr) => {
        impl Packed {
            /// The score. There are at least as many features as the forest has.
            #[target_feature(enable = $instructions)]
            pub(super) fn $score(&self, features: &[i32]) -> i32 {
                let ranks = match features.len() {
                    0..=32 => self.ranks_512::<1>(features),
                    33..=64 => self.ranks_512::<2>(features),
                    _ => self.ranks_512::<4>(features),
                };
                let sum = self.blocks.iter().fold(_mm512_setzero_si512(), |sum, block| {
                    let more = match block.planes {
                        1 => self.values_512::<8>(block, &self.$leaves::<1>(block, ranks)),
                        2 => self.values_512::<16>(block, &self.$leaves::<2>(block, ranks)),
                        4 => self.values_512::<32>(block, &self.$leaves::<4>(block, ranks)),
                        _ => self.values_512::<64>(block, &self.$leaves::<8>(block, ranks)),
                    };
                    _mm512_add_epi32(sum, more)
                });
                self.base + _mm512_reduce_add_epi32(sum)
            }

            /// The leaf of each tree of a block that has `P` planes.
            #[inline]
            #[target_feature(enable = $instructions)]
            fn $leaves<const P: usize>(&self, block: &Block, ranks: [__m512i; 2]) -> Bytes {
                let mut out = [_mm512_setzero_si512(); P];
                for (slot, planes) in self.slots::<P>(block) {
                    let rank = $look_up(ranks, load(&slot.lane));
                    let right = _mm512_cmpgt_epu8_mask(rank, load(&slot.rank));
                    for (out, more) in out.iter_mut().zip(planes) {
                        *out = _mm512_or_si512(*out, _mm512_maskz_mov_epi8(right, load(&more.0)));
                    }
                }
                // The leaf is as many places from the left as leaves are out there: all of
                // a plane, and then those of the next.
                let mut leaf = _mm512_setzero_si512();
                for &out in out.iter().rev() {
                    let all = _mm512_cmpeq_epi8_mask(out, _mm512_set1_epi8(-1));
                    let from_left =
                        _mm512_andnot_si512(_mm512_add_epi8(out, _mm512_set1_epi8(1)), out);
                    let count = $count_ones(from_left);
                    leaf = _mm512_add_epi8(count, _mm512_maskz_mov_epi8(all, leaf));
                }
                let mut leaves = [0; BLOCK];
                // SAFETY: 64 bytes that can be written.
                unsafe { _mm512_storeu_si512(leaves.as_mut_ptr().cast(), leaf) };
                leaves
            }
        }
    };
}

variant!(avx512, leaves_bw, "avx512f,avx512bw", look_up, count_ones);
variant!(
    avx512_vbmi,
    leaves_vbmi,
    "avx512f,avx512bw,avx512vbmi,avx512bitalg",
    |ranks: [__m512i; 2], lanes| _mm512_permutex2var_epi8(ranks[0], lanes, ranks[1]),
    _mm512_popcnt_epi8
);

impl Packed {
    /// The ranks of all lanes. There are up to 32 × `Q` features.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn ranks_512<const Q: usize>(&self, features: &[i32]) -> [__m512i; 2] {
        let features: [[__m512i; 2]; Q] = array::from_fn(|q| {
            array::from_fn(|half| load_some(features.get((2 * q + half) * GROUP..).unwrap_or(&[])))
        });
        let mut ranks = [_mm512_setzero_si512(); 8];
        for (ranks, group) in ranks.iter_mut().zip(&self.groups) {
            let x = choose(&features, load_i32(&group.features));
            for thresholds in &self.thresholds[group.thresholds.clone()] {
                let greater = _mm512_cmpgt_epi32_mask(x, load_i32(&thresholds.0));
                *ranks = _mm512_mask_add_epi32(*ranks, greater, *ranks, _mm512_set1_epi32(1));
            }
        }
        let [a, b, c, d, e, f, g, h] = ranks;
        let narrow =
            |a, b, c, d| _mm512_packus_epi16(_mm512_packus_epi32(a, b), _mm512_packus_epi32(c, d));
        [narrow(a, b, c, d), narrow(e, f, g, h)]
    }

    /// The sums of the values of a block's leaves, in sixteen parts. Each bit of a
    /// leaf's number halves the values that it can have, which is faster than
    /// gathering.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn values_512<const W: usize>(&self, block: &Block, leaves: &Bytes) -> __m512i {
        let mut sum = _mm512_setzero_si512();
        for (values, leaves) in self.values::<W>(block).zip(leaves.as_chunks::<GROUP>().0) {
            let leaves = load_bytes(leaves);
            let mut values: [__m512i; W] = array::from_fn(|leaf| load_i32(&values[leaf].0));
            for bit in 0..W.ilog2() {
                let odd = _mm512_test_epi32_mask(leaves, _mm512_set1_epi32(1 << bit));
                for pair in 0..W >> (bit + 1) {
                    values[pair] =
                        _mm512_mask_mov_epi32(values[2 * pair], odd, values[2 * pair + 1]);
                }
            }
            sum = _mm512_add_epi32(sum, values[0]);
        }
        sum
    }
}

/// For each byte the rank of that lane. What chooses bytes came later (VBMI); two ranks are a
/// word, and words can be chosen: for trees in even places, and for those in odd ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn look_up(ranks: [__m512i; 2], lanes: __m512i) -> __m512i {
    const ODD_BYTES: u64 = 0xaaaa_aaaa_aaaa_aaaa;
    // The choice looks at six bits, and not at what the neighbour has above them.
    let words = |number| _mm512_permutex2var_epi16(ranks[0], number, ranks[1]);
    let even = words(_mm512_srli_epi16::<1>(lanes));
    let odd = words(_mm512_srli_epi16::<9>(lanes));
    // A lane with an odd number is a word's upper byte: down with it by 8 bits for a tree in
    // an even place, up with the lower one for a tree in an odd place.
    let is_odd = _mm512_and_si512(lanes, _mm512_set1_epi16(0x0001));
    let even = _mm512_srlv_epi16(even, _mm512_slli_epi16::<3>(is_odd));
    let is_even = _mm512_andnot_si512(lanes, _mm512_set1_epi16(0x0100));
    let odd = _mm512_sllv_epi16(odd, _mm512_srli_epi16::<5>(is_even));
    _mm512_mask_blend_epi8(ODD_BYTES, even, odd)
}

/// For each byte how many of its bits are set.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn count_ones(bytes: __m512i) -> __m512i {
    // Of 0 to 15, from the lowest byte on.
    let table = _mm512_set4_epi32(0x0403_0302, 0x0302_0201, 0x0302_0201, 0x0201_0100);
    let nibble = _mm512_set1_epi8(0x0f);
    let low = _mm512_shuffle_epi8(table, _mm512_and_si512(bytes, nibble));
    let high = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), nibble);
    _mm512_add_epi8(low, _mm512_shuffle_epi8(table, high))
}

/// The features at these places: of each 32 by the lower five bits of the place,
/// and of those by the bits above.
#[inline]
#[target_feature(enable = "avx512f")]
fn choose<const Q: usize>(features: &[[__m512i; 2]; Q], places: __m512i) -> __m512i {
    let of_32 = features.map(|[low, high]| _mm512_permutex2var_epi32(low, places, high));
    let bit = |bit| _mm512_test_epi32_mask(places, _mm512_set1_epi32(1 << bit));
    match of_32[..] {
        [a] => a,
        [a, b] => _mm512_mask_mov_epi32(a, bit(5), b),
        [a, b, c, d] => {
            let low = _mm512_mask_mov_epi32(a, bit(5), b);
            let high = _mm512_mask_mov_epi32(c, bit(5), d);
            _mm512_mask_mov_epi32(low, bit(6), high)
        }
        _ => unreachable!("one, two or four times 32"),
    }
}

/// The first 16, or as many as there are.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_some(from: &[i32]) -> __m512i {
    let there = if from.len() < GROUP { (1 << from.len()) - 1 } else { u16::MAX };
    // SAFETY: only what is there is read.
    unsafe { _mm512_maskz_loadu_epi32(there, from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_bytes(from: &[u8; GROUP]) -> __m512i {
    // SAFETY: 16 bytes that can be read.
    _mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(from.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(from: &Bytes) -> __m512i {
    // SAFETY: 64 bytes that can be read.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_i32(from: &[i32; GROUP]) -> __m512i {
    // SAFETY: 64 bytes that can be read.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}
