//! Sixteen thresholds, or 64 trees, at a time.

use core::arch::x86_64::{
    __m512i, _mm512_add_epi8, _mm512_andnot_si512, _mm512_cmpeq_epi8_mask, _mm512_cmpgt_epi32_mask,
    _mm512_cmpgt_epu8_mask, _mm512_i32gather_epi32, _mm512_loadu_si512, _mm512_mask_add_epi32,
    _mm512_maskz_mov_epi8, _mm512_or_si512, _mm512_packus_epi16, _mm512_packus_epi32,
    _mm512_permutex2var_epi8, _mm512_popcnt_epi8, _mm512_set1_epi8, _mm512_set1_epi32,
    _mm512_setzero_si512, _mm512_storeu_si512,
};

use super::{BLOCK, Block, Bytes, GROUP, Group, Packed};

impl Packed {
    /// The score. There are at least as many features as the forest has.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512bitalg")]
    pub(in crate::forest) fn avx512(&self, features: &[i32]) -> i32 {
        let ranks = self.ranks_512(features);
        self.blocks.iter().fold(self.base, |sum, block| {
            let leaves = match block.planes {
                1 => self.leaves_512::<1>(block, ranks),
                2 => self.leaves_512::<2>(block, ranks),
                4 => self.leaves_512::<4>(block, ranks),
                _ => self.leaves_512::<8>(block, ranks),
            };
            sum + self.add_values(block, &leaves)
        })
    }

    /// The ranks of all lanes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn ranks_512(&self, features: &[i32]) -> [__m512i; 2] {
        let mut ranks = [_mm512_setzero_si512(); 8];
        for (ranks, group) in ranks.iter_mut().zip(&self.groups) {
            *ranks = self.ranks_of_group_512(group, features);
        }
        let [a, b, c, d, e, f, g, h] = ranks;
        let narrow =
            |a, b, c, d| _mm512_packus_epi16(_mm512_packus_epi32(a, b), _mm512_packus_epi32(c, d));
        [narrow(a, b, c, d), narrow(e, f, g, h)]
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn ranks_of_group_512(&self, group: &Group, features: &[i32]) -> __m512i {
        let places = load_i32(&group.features);
        // SAFETY: the group's features are among those that there are.
        let x = unsafe { _mm512_i32gather_epi32::<4>(places, features.as_ptr()) };
        let mut rank = _mm512_setzero_si512();
        for thresholds in &self.thresholds[group.thresholds.clone()] {
            let greater = _mm512_cmpgt_epi32_mask(x, load_i32(thresholds));
            rank = _mm512_mask_add_epi32(rank, greater, rank, _mm512_set1_epi32(1));
        }
        rank
    }

    /// The leaf of each tree of a block that has `P` planes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512bitalg")]
    fn leaves_512<const P: usize>(&self, block: &Block, ranks: [__m512i; 2]) -> Bytes {
        let mut out = [_mm512_setzero_si512(); P];
        for slot in &self.slots[block.slots.clone()] {
            let rank = _mm512_permutex2var_epi8(ranks[0], load(&slot.lane), ranks[1]);
            let right = _mm512_cmpgt_epu8_mask(rank, load(&slot.rank));
            for (out, more) in out.iter_mut().zip(&self.out[slot.out..slot.out + P]) {
                *out = _mm512_or_si512(*out, _mm512_maskz_mov_epi8(right, load(more)));
            }
        }
        // The leaf is as many places from the left as leaves are out there: all of
        // a plane, and then those of the next.
        let mut leaf = _mm512_setzero_si512();
        for &out in out.iter().rev() {
            let all = _mm512_cmpeq_epi8_mask(out, _mm512_set1_epi8(-1));
            let from_left = _mm512_andnot_si512(_mm512_add_epi8(out, _mm512_set1_epi8(1)), out);
            let count = _mm512_popcnt_epi8(from_left);
            leaf = _mm512_add_epi8(count, _mm512_maskz_mov_epi8(all, leaf));
        }
        let mut leaves = [0; BLOCK];
        // SAFETY: 64 bytes that can be written.
        unsafe { _mm512_storeu_si512(leaves.as_mut_ptr().cast(), leaf) };
        leaves
    }
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
