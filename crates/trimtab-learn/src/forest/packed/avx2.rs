//! Eight thresholds, or 32 trees, at a time: a block of 64 is two registers.

use core::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm256_add_epi8, _mm256_adds_epu8, _mm256_and_si256,
    _mm256_andnot_si256, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_cmpgt_epi32,
    _mm256_loadu_si256, _mm256_or_si256, _mm256_packus_epi16, _mm256_packus_epi32,
    _mm256_set1_epi8, _mm256_setr_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_srli_epi16, _mm256_storeu_si256, _mm256_sub_epi32, _mm256_subs_epu8, _mm256_xor_si256,
};

use super::blocks::{Block, Slot};
use super::lanes::{Group, LANES, Lanes};
use super::{GROUP, Line, Packed};

/// Trees of a block.
pub(super) const BLOCK: usize = 64;

/// A byte for each tree of a block.
type Bytes = [u8; BLOCK];

/// How many ranks one table lookup chooses from.
const TABLE: usize = 16;

/// The ranks of all lanes, as tables of 16, each in both halves of a register.
type Tables = [__m256i; LANES / TABLE];

/// Where the rank of a lane ends up. Narrowing four registers to one takes four
/// numbers from each in turn.
pub(super) const fn place(lane: usize) -> usize {
    let (half, group, lane) = (lane / 64, lane / GROUP % 4, lane % GROUP);
    half * 64 + lane / 4 * 16 + group * 4 + lane % 4
}

impl Packed {
    /// The score. There are at least as many features as the forest has.
    #[target_feature(enable = "avx2")]
    pub(super) fn avx2(&self, features: &[i32]) -> i32 {
        let (tables, used) = ranks(&self.lanes, features);
        self.bytes.blocks.iter().fold(self.base, |sum, block| {
            let tables = &tables[..used];
            let more = match block.leaves {
                8 => self.values_256::<8>(block, &self.leaves_256::<1>(block, tables)),
                16 => self.values_256::<16>(block, &self.leaves_256::<2>(block, tables)),
                32 => self.values_256::<32>(block, &self.leaves_256::<4>(block, tables)),
                _ => self.values_256::<64>(block, &self.leaves_256::<8>(block, tables)),
            };
            sum + more
        })
    }

    /// The leaf of each tree of a block that has `P` planes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn leaves_256<const P: usize>(&self, block: &Block, tables: &[__m256i]) -> Bytes {
        let mut leaves = [0; BLOCK];
        for (half, leaves) in leaves.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            if half * 32 >= block.trees {
                break;
            }
            let mut out = [_mm256_setzero_si256(); P];
            for (Slot { lane, rank }, planes) in self.bytes.slots::<P>(block) {
                let found = look_up(tables, load(lane, half));
                // Zero unless the rank is greater: compared as unsigned.
                let more = _mm256_subs_epu8(found, load(rank, half));
                let left = _mm256_cmpeq_epi8(more, _mm256_setzero_si256());
                for (out, Line(more)) in out.iter_mut().zip(planes) {
                    *out = _mm256_or_si256(*out, _mm256_andnot_si256(left, load(more, half)));
                }
            }
            // The leaf is as many places from the left as leaves are out there: all
            // of a plane, and then those of the next.
            let mut leaf = _mm256_setzero_si256();
            for &out in out.iter().rev() {
                let all = _mm256_cmpeq_epi8(out, _mm256_set1_epi8(-1));
                let from_left = _mm256_andnot_si256(_mm256_add_epi8(out, _mm256_set1_epi8(1)), out);
                leaf = _mm256_add_epi8(count_ones(from_left), _mm256_and_si256(all, leaf));
            }
            store(leaves, leaf);
        }
        leaves
    }

    /// The sum of the values of a block's leaves.
    ///
    /// Compiled apart, for a processor without vector gathers: plain loads are
    /// twice as fast as those.
    #[inline(never)]
    fn values_256<const W: usize>(&self, block: &Block, leaves: &Bytes) -> i32 {
        let mut sum = 0;
        for (values, leaves) in self.bytes.values::<W>(block).zip(leaves.as_chunks::<GROUP>().0) {
            for (tree, &leaf) in leaves.iter().enumerate() {
                // A leaf is always below W; this lets the compiler know.
                sum += values[usize::from(leaf) % W].0[tree];
            }
        }
        sum
    }
}

/// The ranks of all lanes, and how many tables they fill.
#[inline]
#[target_feature(enable = "avx2")]
fn ranks(lanes: &Lanes, features: &[i32]) -> (Tables, usize) {
    let mut ranks = [[_mm256_setzero_si256(); 2]; LANES / GROUP];
    for (ranks, group) in ranks.iter_mut().zip(&lanes.groups) {
        *ranks = ranks_of_group(lanes, group, features);
    }
    let mut bytes = [0; LANES];
    let (halves, _) = ranks.as_chunks::<4>();
    for (bytes, [a, b, c, d]) in bytes.as_chunks_mut::<64>().0.iter_mut().zip(halves) {
        for (i, bytes) in bytes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let ab = _mm256_packus_epi32(a[i], b[i]);
            let cd = _mm256_packus_epi32(c[i], d[i]);
            store(bytes, _mm256_packus_epi16(ab, cd));
        }
    }
    let mut tables = [_mm256_setzero_si256(); LANES / TABLE];
    for (table, bytes) in tables.iter_mut().zip(bytes.as_chunks::<TABLE>().0) {
        *table = _mm256_broadcastsi128_si256(load_128(bytes));
    }
    (tables, lanes.groups.len().div_ceil(4) * 4)
}

#[inline]
#[target_feature(enable = "avx2")]
fn ranks_of_group(lanes: &Lanes, group: &Group, features: &[i32]) -> [__m256i; 2] {
    let x = group.features.map(|feature| features[feature as usize]);
    let x = load_i32(&x);
    let mut ranks = [_mm256_setzero_si256(); 2];
    for thresholds in lanes.thresholds(group) {
        for ((rank, x), threshold) in ranks.iter_mut().zip(x).zip(load_i32(thresholds)) {
            // What is true is −1.
            *rank = _mm256_sub_epi32(*rank, _mm256_cmpgt_epi32(x, threshold));
        }
    }
    ranks
}

/// For each byte the rank at that place.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up(tables: &[__m256i], places: __m256i) -> __m256i {
    let mut ranks = _mm256_setzero_si256();
    for (number, &table) in tables.iter().enumerate() {
        // 0 to 15 if it is in this table. Anything more gets its highest bit set,
        // and then the table gives 0.
        let place = _mm256_xor_si256(places, _mm256_set1_epi8((number * TABLE) as i8));
        let place = _mm256_adds_epu8(place, _mm256_set1_epi8(0x70));
        ranks = _mm256_or_si256(ranks, _mm256_shuffle_epi8(table, place));
    }
    ranks
}

/// For each byte how many of its bits are set.
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

#[inline]
#[target_feature(enable = "avx2")]
fn load_128(from: &[u8; TABLE]) -> __m128i {
    // SAFETY: 16 bytes that can be read.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(to: &mut [u8; 32], from: __m256i) {
    // SAFETY: 32 bytes that can be written.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), from) };
}
