//! Sixteen thresholds, or 32 trees, at a time.
//!
//! Words instead of bytes: byte permutation (VBMI) is newer than word permutation, and a feature's
//! leading bits do not fit a byte.

use core::arch::x86_64::{
    __m512i, __mmask32, _MM_FROUND_NO_EXC, _MM_FROUND_TO_ZERO, _mm256_loadu_si256, _mm512_add_epi8,
    _mm512_add_epi16, _mm512_add_epi32, _mm512_and_si512, _mm512_andnot_si512, _mm512_castps_si512,
    _mm512_cmpeq_epi16_mask, _mm512_cmpgt_epi32_mask, _mm512_cmpgt_epu16_mask,
    _mm512_cvt_roundepi32_ps, _mm512_cvtepu16_epi32, _mm512_loadu_si512, _mm512_madd_epi16,
    _mm512_mask_add_epi32, _mm512_mask_mov_epi16, _mm512_mask_mov_epi32, _mm512_mask_srlv_epi16,
    _mm512_maskz_loadu_epi32, _mm512_maskz_mov_epi16, _mm512_or_si512, _mm512_packus_epi32,
    _mm512_permutex2var_epi16, _mm512_permutex2var_epi32, _mm512_reduce_add_epi32,
    _mm512_set1_epi8, _mm512_set1_epi16, _mm512_set1_epi32, _mm512_set4_epi32,
    _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_srai_epi32, _mm512_srli_epi16,
    _mm512_storeu_si512, _mm512_sub_epi32, _mm512_test_epi16_mask, _mm512_test_epi32_mask,
};
use core::array;

use super::blocks::{Block, Slot, Small};
use super::lanes::{LANES, Lanes};
use super::{GROUP, Line, Packed};

/// Trees per block.
pub(super) const BLOCK: usize = 32;

/// One word per tree of a block.
type Words = [u16; BLOCK];

/// Position of a lane's, or a feature's, number: narrowing two registers to one takes four numbers
/// from each in turn.
pub(super) const fn place(lane: usize) -> usize {
    let (register, half, lane) = (lane / 32, lane / GROUP % 2, lane % GROUP);
    register * 32 + lane / 4 * 8 + half * 4 + lane % 4
}

impl Packed {
    /// The score. `features` has at least the forest's number of features.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn avx512(&self, features: &[i32]) -> i32 {
        if self.leading_bits {
            return self.sum_512(leading_bits(features));
        }
        let ranks = match features.len() {
            0..=32 => ranks::<1>(&self.lanes, features),
            33..=64 => ranks::<2>(&self.lanes, features),
            _ => ranks::<4>(&self.lanes, features),
        };
        match ranks {
            [a, b, ..] if self.lanes.groups.len() <= 4 => self.sum_512([a, b]),
            ranks => self.sum_512(ranks),
        }
    }

    /// The scores of two forests that compare leading bits, interleaved.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn both_512(&self, other: &Self, features: &[i32]) -> Option<[i32; 2]> {
        if !self.leading_bits || !other.leading_bits {
            return None;
        }
        let numbers = leading_bits(features);
        Some([self.sum_512(numbers), other.sum_512(numbers)])
    }

    /// The score from `R` registers of numbers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn sum_512<const R: usize>(&self, numbers: [__m512i; R]) -> i32 {
        let sum = match self.words.small() {
            Some(small) => small_sum(small, numbers),
            None => self.sum_of_blocks(numbers),
        };
        self.base + sum
    }

    /// The sum over the blocks of any forest.
    #[target_feature(enable = "avx512f,avx512bw")]
    fn sum_of_blocks<const R: usize>(&self, numbers: [__m512i; R]) -> i32 {
        let sum = self.words.blocks.iter().fold(_mm512_setzero_si512(), |sum, block| {
            let more = match (block.leaves, block.is_short) {
                (8, true) => self.short_values_512::<8>(block, self.out_512(block, numbers)),
                (16, true) => self.short_values_512::<16>(block, self.out_512(block, numbers)),
                (8, false) => self.values_512::<8, 1>(block, self.out_512(block, numbers)),
                (16, false) => self.values_512::<16, 1>(block, self.out_512(block, numbers)),
                (32, _) => self.values_512::<32, 2>(block, self.out_512(block, numbers)),
                _ => self.values_512::<64, 4>(block, self.out_512(block, numbers)),
            };
            _mm512_add_epi32(sum, more)
        });
        _mm512_reduce_add_epi32(sum)
    }

    /// The excluded leaves of each tree in a block with `P` planes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn out_512<const R: usize, const P: usize>(
        &self,
        block: &Block,
        numbers: [__m512i; R],
    ) -> [__m512i; P] {
        let mut out = [_mm512_setzero_si512(); P];
        for (slot, planes) in self.words.slots::<P>(block) {
            let right = goes_right(numbers, slot);
            for (out, Line(more)) in out.iter_mut().zip(planes) {
                *out = _mm512_or_si512(*out, _mm512_maskz_mov_epi16(right, load(more)));
            }
        }
        out
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn short_values_512<const W: usize>(&self, block: &Block, [out]: [__m512i; 1]) -> __m512i {
        short_values(self.words.short::<W>(block), out)
    }

    /// Sums of a block's leaf values, in sixteen parts. Each bit of a leaf's number halves the
    /// candidates, which is faster than a gather.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn values_512<const W: usize, const P: usize>(
        &self,
        block: &Block,
        out: [__m512i; P],
    ) -> __m512i {
        let leaves = leaves(out);
        let mut sum = _mm512_setzero_si512();
        let leaves = leaves.as_chunks::<GROUP>().0;
        for (values, leaves) in self.words.values::<W>(block).zip(leaves) {
            let leaves = load_words(leaves);
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

/// The sum of a small forest: as for any, without loops.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn small_sum<const R: usize>(
    Small { slots, out, values, .. }: Small<'_, u16, BLOCK>,
    numbers: [__m512i; R],
) -> i32 {
    let mut all = _mm512_setzero_si512();
    for (slot, Line(more)) in slots.iter().zip(out) {
        let more = _mm512_maskz_mov_epi16(goes_right(numbers, slot), load(more));
        all = _mm512_or_si512(all, more);
    }
    _mm512_reduce_add_epi32(short_values(values, all))
}

/// Sums of leaf values, in sixteen parts: of `W` leaves the left half is dropped if all of it is
/// excluded, otherwise the right half; and so on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn short_values<const W: usize>(values: &[Line<[i16; BLOCK]>; W], mut out: __m512i) -> __m512i {
    let mut values: [__m512i; W] = array::from_fn(|leaf| load_i16(&values[leaf].0));
    let mut half = W / 2;
    while half > 0 {
        let left = _mm512_set1_epi16((1 << half) - 1);
        let right = _mm512_cmpeq_epi16_mask(_mm512_and_si512(out, left), left);
        for leaf in 0..half {
            values[leaf] = _mm512_mask_mov_epi16(values[leaf], right, values[leaf + half]);
        }
        let by = _mm512_set1_epi16(half as i16);
        out = _mm512_mask_srlv_epi16(out, right, out, by);
        half /= 2;
    }
    _mm512_madd_epi16(values[0], _mm512_set1_epi16(1))
}

/// The resulting leaf: its index is the number of leading excluded leaves, over all planes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn leaves<const P: usize>(out: [__m512i; P]) -> Words {
    let mut leaf = _mm512_setzero_si512();
    for &out in out.iter().rev() {
        let all = _mm512_cmpeq_epi16_mask(out, _mm512_set1_epi16(-1));
        let from_left = _mm512_andnot_si512(_mm512_add_epi16(out, _mm512_set1_epi16(1)), out);
        leaf = _mm512_add_epi16(count_ones(from_left), _mm512_maskz_mov_epi16(all, leaf));
    }
    let mut leaves = [0; BLOCK];
    // SAFETY: 64 bytes that can be written.
    unsafe { _mm512_storeu_si512(leaves.as_mut_ptr().cast(), leaf) };
    leaves
}

/// Leading bits of up to 64 features, as `coarse` in coarse.rs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn leading_bits(features: &[i32]) -> [__m512i; 2] {
    // A floating-point number is its exponent plus 127, and 23 bits after the first, of which 12
    // are dropped; the lowest exponent is one above zero's.
    const LEAST: i32 = (127 << 11) - 1;
    array::from_fn(|register| {
        let [low, high] = array::from_fn(|half| {
            let from = (2 * register + half) * GROUP;
            let x = load_some(features.get(from..).unwrap_or(&[]));
            let x = _mm512_cvt_roundepi32_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(x);
            let leading = _mm512_srai_epi32::<12>(_mm512_castps_si512(x));
            _mm512_sub_epi32(leading, _mm512_set1_epi32(LEAST))
        });
        // Negative numbers become 0.
        _mm512_packus_epi32(low, high)
    })
}

/// The ranks of all lanes. `features` has up to 32 × `Q` elements.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn ranks<const Q: usize>(lanes: &Lanes, features: &[i32]) -> [__m512i; 4] {
    let features: [[__m512i; 2]; Q] = array::from_fn(|q| {
        array::from_fn(|half| load_some(features.get((2 * q + half) * GROUP..).unwrap_or(&[])))
    });
    let mut ranks = [_mm512_setzero_si512(); LANES / GROUP];
    for (ranks, group) in ranks.iter_mut().zip(&lanes.groups) {
        let x = choose(&features, load_i32(&group.features));
        for thresholds in lanes.thresholds(group) {
            let greater = _mm512_cmpgt_epi32_mask(x, load_i32(thresholds));
            *ranks = _mm512_mask_add_epi32(*ranks, greater, *ranks, _mm512_set1_epi32(1));
        }
    }
    array::from_fn(|i| _mm512_packus_epi32(ranks[2 * i], ranks[2 * i + 1]))
}

/// Which trees of a block go right at one of their splits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn goes_right<const R: usize>(
    numbers: [__m512i; R],
    Slot { lane, rank }: &Slot<u16, BLOCK>,
) -> __mmask32 {
    _mm512_cmpgt_epu16_mask(look_up(numbers, load(lane)), load(rank))
}

/// For each tree the number in its lane, below 32 × `R`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn look_up<const R: usize>(numbers: [__m512i; R], lanes: __m512i) -> __m512i {
    match numbers[..] {
        [a, b] => _mm512_permutex2var_epi16(a, lanes, b),
        [a, b, c, d] => {
            let low = _mm512_permutex2var_epi16(a, lanes, b);
            let high = _mm512_permutex2var_epi16(c, lanes, d);
            _mm512_mask_mov_epi16(low, _mm512_test_epi16_mask(lanes, _mm512_set1_epi16(64)), high)
        }
        _ => unreachable!("64 or 128 lanes"),
    }
}

/// Bit count of each word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn count_ones(words: __m512i) -> __m512i {
    // Of 0 to 15, from the lowest byte.
    let table = _mm512_set4_epi32(0x0403_0302, 0x0302_0201, 0x0302_0201, 0x0201_0100);
    let nibble = _mm512_set1_epi8(0x0f);
    let low = _mm512_shuffle_epi8(table, _mm512_and_si512(words, nibble));
    let high = _mm512_and_si512(_mm512_srli_epi16::<4>(words), nibble);
    let bytes = _mm512_add_epi8(low, _mm512_shuffle_epi8(table, high));
    let low = _mm512_and_si512(bytes, _mm512_set1_epi16(0xff));
    _mm512_add_epi16(low, _mm512_srli_epi16::<8>(bytes))
}

/// The features at these positions: selected from each 32 by the position's lower five bits, then
/// by the upper bits.
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

/// The first 16, or fewer.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_some(from: &[i32]) -> __m512i {
    let there = if from.len() < GROUP { (1 << from.len()) - 1 } else { u16::MAX };
    // SAFETY: only what is there is read.
    unsafe { _mm512_maskz_loadu_epi32(there, from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_words(from: &[u16; GROUP]) -> __m512i {
    // SAFETY: 32 bytes that can be read.
    _mm512_cvtepu16_epi32(unsafe { _mm256_loadu_si256(from.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(from: &Words) -> __m512i {
    // SAFETY: 64 bytes that can be read.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_i16(from: &[i16; BLOCK]) -> __m512i {
    // SAFETY: 64 bytes that can be read.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_i32(from: &[i32; GROUP]) -> __m512i {
    // SAFETY: 64 bytes that can be read.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}
