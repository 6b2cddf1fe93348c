//! Eight thresholds, or 32 trees, at a time. By rank a block is 64 trees, two registers.

use core::arch::x86_64::{
    __m256i, _mm_add_epi32, _mm_cvtsi128_si32, _mm_extract_epi32, _mm_hadd_epi32, _mm256_add_epi8,
    _mm256_add_epi32, _mm256_and_si256, _mm256_andnot_si256, _mm256_blendv_epi8,
    _mm256_castps_si256, _mm256_castsi256_si128, _mm256_cmpeq_epi8, _mm256_cmpgt_epi8,
    _mm256_cmpgt_epi32, _mm256_cvtepi8_epi16, _mm256_cvtepi32_ps, _mm256_extracti128_si256,
    _mm256_hadd_epi32, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_or_si256, _mm256_packus_epi16,
    _mm256_packus_epi32, _mm256_permute2x128_si256, _mm256_set1_epi8, _mm256_set1_epi16,
    _mm256_set1_epi32, _mm256_setr_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_slli_epi16, _mm256_srai_epi32, _mm256_srli_epi16, _mm256_srli_epi32,
    _mm256_storeu_si256, _mm256_sub_epi32, _mm256_subs_epu8, _mm256_xor_si256,
};
use core::array;

use super::blocks::{Block, Slot, Small};
use super::compact::{Compact, LEAVES, SIGN, Split, TREES};
use super::lanes::{Group, Lanes};
use super::{GROUP, Line, Packed};

/// Trees per block.
pub(super) const BLOCK: usize = 64;

/// One byte per tree of a block.
type Bytes = [u8; BLOCK];

/// Position of a lane's rank. Narrowing four registers to one takes four numbers from each in turn.
pub(super) const fn place(lane: usize) -> usize {
    let (half, group, lane) = (lane / 64, lane / GROUP % 4, lane % GROUP);
    half * 64 + lane / 4 * 16 + group * 4 + lane % 4
}

/// Position of a feature's leading bits among bytes: packing four registers of eight to one takes
/// four numbers from each in turn.
pub(super) const fn byte_place(feature: usize) -> usize {
    let (register, number) = (feature / 8, feature % 8);
    register / 4 * 32 + number / 4 * 16 + register % 4 * 4 + number % 4
}

impl Packed {
    /// The score. `features` has at least the forest's number of features.
    #[target_feature(enable = "avx2")]
    pub(super) fn avx2(&self, features: &[i32]) -> i32 {
        if let Some(blocks) = &self.compact {
            return self.base + sum_of(compact_sum(blocks, &LeadingBits::new(features)));
        }
        match self.lanes.groups.len() {
            0..=4 => self.sum_256(ranks::<4>(&self.lanes, features)),
            _ => self.sum_256(ranks::<8>(&self.lanes, features)),
        }
    }

    /// The scores of two forests that compare leading bits.
    #[target_feature(enable = "avx2")]
    pub(super) fn both_256(&self, other: &Self, features: &[i32]) -> Option<[i32; 2]> {
        let (blocks, of_other) = self.compact.as_ref().zip(other.compact.as_ref())?;
        let numbers = LeadingBits::new(features);
        let sums = sums_of(compact_sum(blocks, &numbers), compact_sum(of_other, &numbers));
        Some([self.base + sums[0], other.base + sums[1]])
    }

    /// The score from `T` tables of ranks.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn sum_256<const T: usize>(&self, tables: [__m256i; T]) -> i32 {
        let sum = match self.bytes.small() {
            Some(small) => small_sum(small, tables),
            None => self.sum_of_blocks_256(tables),
        };
        self.base + sum
    }

    /// The sum over the blocks of any forest.
    #[target_feature(enable = "avx2")]
    fn sum_of_blocks_256<const T: usize>(&self, tables: [__m256i; T]) -> i32 {
        self.bytes.blocks.iter().fold(0, |sum, block| {
            let more = match (block.leaves, block.is_short) {
                (8, true) => self.short_256::<8, 1, T>(block, tables),
                (16, true) => self.short_256::<16, 2, T>(block, tables),
                (8, false) => self.long_256::<8, 1, T>(block, tables),
                (16, false) => self.long_256::<16, 2, T>(block, tables),
                (32, _) => self.long_256::<32, 4, T>(block, tables),
                _ => self.long_256::<64, 8, T>(block, tables),
            };
            sum + more
        })
    }

    /// The sum of a block with `P` planes and `W` leaves with short values.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn short_256<const W: usize, const P: usize, const T: usize>(
        &self,
        block: &Block,
        tables: [__m256i; T],
    ) -> i32 {
        let values = self.bytes.short::<W>(block);
        let sum = halves(block.trees).fold(_mm256_setzero_si256(), |sum, half| {
            let leaf = leaf(self.out_256::<P, T>(block, tables, half));
            _mm256_add_epi32(sum, short_values(values, leaf, half))
        });
        sum_of(sum)
    }

    /// The sum of a block with long values.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn long_256<const W: usize, const P: usize, const T: usize>(
        &self,
        block: &Block,
        tables: [__m256i; T],
    ) -> i32 {
        let mut leaves = [0; BLOCK];
        for half in halves(block.trees) {
            let leaf = leaf(self.out_256::<P, T>(block, tables, half));
            store(&mut leaves.as_chunks_mut().0[half], leaf);
        }
        self.values_256::<W>(block, &leaves)
    }

    /// The excluded leaves of each tree in half a block with `P` planes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn out_256<const P: usize, const T: usize>(
        &self,
        block: &Block,
        tables: [__m256i; T],
        half: usize,
    ) -> [__m256i; P] {
        let mut out = [_mm256_setzero_si256(); P];
        for (slot, planes) in self.bytes.slots::<P>(block) {
            let left = goes_left(tables, slot, half);
            for (out, Line(more)) in out.iter_mut().zip(planes) {
                *out = _mm256_or_si256(*out, _mm256_andnot_si256(left, load(more, half)));
            }
        }
        out
    }

    /// The sum of the values of a block's leaves.
    ///
    /// Not inlined, and compiled without vector gathers: plain loads are twice as fast.
    #[inline(never)]
    fn values_256<const W: usize>(&self, block: &Block, leaves: &Bytes) -> i32 {
        let mut sum = 0;
        for (values, leaves) in self.bytes.values::<W>(block).zip(leaves.as_chunks::<GROUP>().0) {
            for (tree, &leaf) in leaves.iter().enumerate() {
                // A leaf is always below W; this tells the compiler.
                sum += values[usize::from(leaf) % W].0[tree];
            }
        }
        sum
    }
}

/// The halves of a block that contain trees.
fn halves(trees: usize) -> core::ops::Range<usize> {
    0..trees.div_ceil(BLOCK / 2)
}

/// Leading bits of up to 64 features, as `coarse` in coarse.rs, as bytes with [`SIGN`]: tables of
/// 16, each in both halves of a register.
struct LeadingBits {
    low: [__m256i; 4],
    high: [__m256i; 4],
}

impl LeadingBits {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(features: &[i32]) -> Self {
        let (registers, rest) = features.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let words: [__m256i; 4] = array::from_fn(|pair| {
            let [low, high] = [2 * pair, 2 * pair + 1].map(|register| {
                // SAFETY: 32 bytes that can be read.
                let x = unsafe {
                    let from = registers.get(register).unwrap_or(&last);
                    _mm256_loadu_si256(from.as_ptr().cast())
                };
                leading_bits(x)
            });
            // Negative numbers become 0.
            _mm256_packus_epi32(low, high)
        });
        let sign = _mm256_set1_epi8(SIGN as i8);
        let tables = |bytes: [__m256i; 4]| {
            let [a, b] = [[bytes[0], bytes[1]], [bytes[2], bytes[3]]]
                .map(|[a, b]| _mm256_xor_si256(_mm256_packus_epi16(a, b), sign));
            [
                _mm256_permute2x128_si256::<0x00>(a, a),
                _mm256_permute2x128_si256::<0x11>(a, a),
                _mm256_permute2x128_si256::<0x00>(b, b),
                _mm256_permute2x128_si256::<0x11>(b, b),
            ]
        };
        Self {
            low: tables(words.map(|word| _mm256_and_si256(word, _mm256_set1_epi16(0xff)))),
            high: tables(words.map(|word| _mm256_srli_epi16::<8>(word))),
        }
    }
}

/// Leading bits of eight features; below zero for those below one.
#[inline]
#[target_feature(enable = "avx2")]
fn leading_bits(x: __m256i) -> __m256i {
    // A floating-point number is its exponent plus 127, and 23 bits after the first, of which 12
    // are dropped; the lowest exponent is one above zero's. The conversion rounds to nearest. The
    // bit below the leading twelve is cleared before, so that rounding cannot carry into them.
    const LEAST: i32 = (127 << 11) - 1;
    let x = _mm256_andnot_si256(_mm256_srli_epi32::<12>(x), x);
    let leading = _mm256_srai_epi32::<12>(_mm256_castps_si256(_mm256_cvtepi32_ps(x)));
    _mm256_sub_epi32(leading, _mm256_set1_epi32(LEAST))
}

/// The sum of the blocks of a forest of small trees, in eight parts.
#[inline]
#[target_feature(enable = "avx2")]
fn compact_sum(blocks: &[Compact], numbers: &LeadingBits) -> __m256i {
    blocks.iter().fold(_mm256_setzero_si256(), |sum, Compact { splits, values }| {
        let mut out = _mm256_setzero_si256();
        for split in splits {
            let more = _mm256_and_si256(exceeds(numbers, split), load_32(&split.out));
            out = _mm256_or_si256(out, more);
        }
        _mm256_add_epi32(sum, compact_values(values, out))
    })
}

/// Which trees go right at one of their splits.
#[inline]
#[target_feature(enable = "avx2")]
fn exceeds(numbers: &LeadingBits, split: &Split) -> __m256i {
    let place = load_32(&split.place);
    let (low, high) = (load_32(&split.low), load_32(&split.high));
    let [of_low, of_high] = [&numbers.low, &numbers.high].map(|tables| look_up(*tables, place));
    let is_equal = _mm256_cmpeq_epi8(of_high, high);
    let more = _mm256_and_si256(is_equal, _mm256_cmpgt_epi8(of_low, low));
    _mm256_or_si256(_mm256_cmpgt_epi8(of_high, high), more)
}

/// Sums of leaf values, in eight parts: of the leaves left over the left half is dropped if all
/// of it is excluded, otherwise the right half; and so on.
#[inline]
#[target_feature(enable = "avx2")]
fn compact_values(values: &[[i16; TREES]; LEAVES], mut out: __m256i) -> __m256i {
    let mut values: [[__m256i; 2]; LEAVES] = array::from_fn(|leaf| {
        let [low, high] = values[leaf].as_chunks::<GROUP>().0 else { unreachable!("32 values") };
        // SAFETY: 32 bytes that can be read.
        [low, high].map(|from| unsafe { _mm256_loadu_si256(from.as_ptr().cast()) })
    });
    for (half, of_half) in [(4, 0x0f), (2, 0x03), (1, 0x01)] {
        let left = _mm256_set1_epi8(of_half);
        let right = _mm256_cmpeq_epi8(_mm256_and_si256(out, left), left);
        // Bits that come from the next byte are above those that are still needed.
        let shifted = match half {
            4 => _mm256_srli_epi16::<4>(out),
            _ => _mm256_srli_epi16::<2>(out),
        };
        out = _mm256_blendv_epi8(out, shifted, right);
        let right = [
            _mm256_cvtepi8_epi16(_mm256_castsi256_si128(right)),
            _mm256_cvtepi8_epi16(_mm256_extracti128_si256::<1>(right)),
        ];
        for leaf in 0..half {
            for (part, right) in right.into_iter().enumerate() {
                values[leaf][part] =
                    _mm256_blendv_epi8(values[leaf][part], values[leaf + half][part], right);
            }
        }
    }
    let [low, high] = values[0].map(|values| _mm256_madd_epi16(values, _mm256_set1_epi16(1)));
    _mm256_add_epi32(low, high)
}

/// The sums of eight numbers each.
#[inline]
#[target_feature(enable = "avx2")]
fn sums_of(one: __m256i, other: __m256i) -> [i32; 2] {
    let pairs = _mm256_hadd_epi32(one, other);
    let pairs = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256::<1>(pairs));
    let sums = _mm_hadd_epi32(pairs, pairs);
    [_mm_cvtsi128_si32(sums), _mm_extract_epi32::<1>(sums)]
}

/// The sum of a small forest: as for any, without loops.
#[inline]
#[target_feature(enable = "avx2")]
fn small_sum<const T: usize>(
    Small { slots, out, values, trees }: Small<'_, u8, BLOCK>,
    tables: [__m256i; T],
) -> i32 {
    let sum = halves(trees).fold(_mm256_setzero_si256(), |sum, half| {
        let mut all = _mm256_setzero_si256();
        for (slot, Line(more)) in slots.iter().zip(out) {
            let more = _mm256_andnot_si256(goes_left(tables, slot, half), load(more, half));
            all = _mm256_or_si256(all, more);
        }
        _mm256_add_epi32(sum, short_values(values, leaf([all]), half))
    });
    sum_of(sum)
}

/// The resulting leaf: its index is the number of leading excluded leaves, over all planes.
#[inline]
#[target_feature(enable = "avx2")]
fn leaf<const P: usize>(out: [__m256i; P]) -> __m256i {
    let mut leaf = _mm256_setzero_si256();
    for &out in out.iter().rev() {
        let all = _mm256_cmpeq_epi8(out, _mm256_set1_epi8(-1));
        let from_left = _mm256_andnot_si256(_mm256_add_epi8(out, _mm256_set1_epi8(1)), out);
        leaf = _mm256_add_epi8(count_ones(from_left), _mm256_and_si256(all, leaf));
    }
    leaf
}

/// Sums of these leaves' values, of the trees in a half, in eight parts. Each bit of a leaf's
/// number halves the candidates.
#[inline]
#[target_feature(enable = "avx2")]
fn short_values<const W: usize>(
    values: &[Line<[i16; BLOCK]>; W],
    leaf: __m256i,
    half: usize,
) -> __m256i {
    let mut values: [[__m256i; 2]; W] =
        array::from_fn(|leaf| array::from_fn(|part| load_i16(&values[leaf].0, 2 * half + part)));
    for bit in 0..W.ilog2() {
        let bit_of_each = _mm256_set1_epi8(1 << bit);
        let odd = _mm256_cmpeq_epi8(_mm256_and_si256(leaf, bit_of_each), bit_of_each);
        let odd = [
            _mm256_cvtepi8_epi16(_mm256_castsi256_si128(odd)),
            _mm256_cvtepi8_epi16(_mm256_extracti128_si256::<1>(odd)),
        ];
        for pair in 0..W >> (bit + 1) {
            for (part, odd) in odd.into_iter().enumerate() {
                values[pair][part] =
                    _mm256_blendv_epi8(values[2 * pair][part], values[2 * pair + 1][part], odd);
            }
        }
    }
    let [low, high] = values[0].map(|values| _mm256_madd_epi16(values, _mm256_set1_epi16(1)));
    _mm256_add_epi32(low, high)
}

/// The sum of eight numbers.
#[inline]
#[target_feature(enable = "avx2")]
fn sum_of(parts: __m256i) -> i32 {
    sums_of(parts, parts)[0]
}

/// The ranks of all lanes, as `T` tables of 16, each in both halves of a register.
#[inline]
#[target_feature(enable = "avx2")]
fn ranks<const T: usize>(lanes: &Lanes, features: &[i32]) -> [__m256i; T] {
    assert!(features.len() >= lanes.features, "as many features as the forest has");
    let mut tables = [_mm256_setzero_si256(); T];
    for (tables, groups) in tables.as_chunks_mut::<4>().0.iter_mut().zip(lanes.groups.chunks(4)) {
        let [a, b, c, d] = array::from_fn(|i| match groups.get(i) {
            // SAFETY: `features` covers all groups.
            Some(group) => unsafe { ranks_of_group(lanes, group, features) },
            None => [_mm256_setzero_si256(); 2],
        });
        for (tables, half) in tables.as_chunks_mut::<2>().0.iter_mut().zip(0..2) {
            let ab = _mm256_packus_epi32(a[half], b[half]);
            let cd = _mm256_packus_epi32(c[half], d[half]);
            let bytes = _mm256_packus_epi16(ab, cd);
            *tables = [
                _mm256_permute2x128_si256::<0x00>(bytes, bytes),
                _mm256_permute2x128_si256::<0x11>(bytes, bytes),
            ];
        }
    }
    tables
}

/// The ranks of sixteen lanes.
///
/// # Safety
/// `features` has at least `lanes.features` elements.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn ranks_of_group(lanes: &Lanes, group: &Group, features: &[i32]) -> [__m256i; 2] {
    // SAFETY: no group reads beyond.
    let x = group.features.map(|feature| unsafe { *features.get_unchecked(feature as usize) });
    let x = load_i32(&x);
    let mut ranks = [_mm256_setzero_si256(); 2];
    for thresholds in lanes.thresholds(group) {
        for ((rank, x), threshold) in ranks.iter_mut().zip(x).zip(load_i32(thresholds)) {
            // True is −1.
            *rank = _mm256_sub_epi32(*rank, _mm256_cmpgt_epi32(x, threshold));
        }
    }
    ranks
}

/// Which trees of half a block go left at one of their splits.
#[inline]
#[target_feature(enable = "avx2")]
fn goes_left<const T: usize>(
    tables: [__m256i; T],
    Slot { lane, rank }: &Slot<u8, BLOCK>,
    half: usize,
) -> __m256i {
    // Zero unless the rank is greater; unsigned comparison.
    let more = _mm256_subs_epu8(look_up(tables, load(lane, half)), load(rank, half));
    _mm256_cmpeq_epi8(more, _mm256_setzero_si256())
}

/// For each byte the rank at that position, below 16 × `T`: looked up in each table by the
/// position's lower four bits, then selected by the upper bits, which are shifted to a byte's top.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up<const T: usize>(tables: [__m256i; T], places: __m256i) -> __m256i {
    let ranks = tables.map(|table| _mm256_shuffle_epi8(table, places));
    let bit_4 = _mm256_slli_epi16::<3>(places);
    let bit_5 = _mm256_slli_epi16::<2>(places);
    let of_four = |[a, b, c, d]: [__m256i; 4]| {
        let [low, high] = [_mm256_blendv_epi8(a, b, bit_4), _mm256_blendv_epi8(c, d, bit_4)];
        _mm256_blendv_epi8(low, high, bit_5)
    };
    match ranks[..] {
        [a, b, c, d] => of_four([a, b, c, d]),
        [a, b, c, d, e, f, g, h] => {
            let bit_6 = _mm256_slli_epi16::<1>(places);
            _mm256_blendv_epi8(of_four([a, b, c, d]), of_four([e, f, g, h]), bit_6)
        }
        _ => unreachable!("64 or 128 lanes"),
    }
}

/// Bit count of each byte.
#[inline]
#[target_feature(enable = "avx2")]
fn count_ones(bytes: __m256i) -> __m256i {
    let table = _mm256_setr_epi8(
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3,
        3, 4,
    );
    let nibble = _mm256_set1_epi8(0x0f);
    let low = _mm256_shuffle_epi8(table, _mm256_and_si256(bytes, nibble));
    let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble);
    _mm256_add_epi8(low, _mm256_shuffle_epi8(table, high))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_32(from: &[u8; 32]) -> __m256i {
    // SAFETY: 32 bytes that can be read.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(from: &Bytes, half: usize) -> __m256i {
    let from = &from.as_chunks::<32>().0[half];
    // SAFETY: 32 bytes that can be read.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_i32(from: &[i32; GROUP]) -> [__m256i; 2] {
    // SAFETY: 64 bytes that can be read.
    unsafe {
        [_mm256_loadu_si256(from.as_ptr().cast()), _mm256_loadu_si256(from[8..].as_ptr().cast())]
    }
}

/// A quarter of a block's values.
#[inline]
#[target_feature(enable = "avx2")]
fn load_i16(from: &[i16; BLOCK], quarter: usize) -> __m256i {
    let from = &from.as_chunks::<GROUP>().0[quarter];
    // SAFETY: 32 bytes that can be read.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(to: &mut [u8; 32], from: __m256i) {
    // SAFETY: 32 bytes that can be written.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), from) };
}
