//! Footprint: the distinct bytes that a trace touches, in bounded memory.
//!
//! Devices are divided into groups of 64 sectors (32 KiB). A table holds, for
//! each group touched, a mask of the sectors touched in it: exact, eight bytes
//! of mask for anything from one sector to 32 KiB.
//!
//! When the table is full, only a sample of the groups is kept: those whose hash ends in a zero
//! bit. When it is full again, in two zero bits, and so on (adaptive sampling: M. Wegman's method,
//! analysed by P. Flajolet, "On adaptive sampling", Computing 43, 1990). A group's membership
//! depends on its address alone, however often it is touched, so the sample is exact for its share
//! of the device, and the total is estimated as the sample times the inverse of that share.
//!
//! Advantages over the better-known `HyperLogLog` here: the exact phase and the estimate are one
//! structure. A long request costs one hash per 32 KiB instead of one per sector, and once sampling
//! has begun most hashes need no memory access. And the error is known: with k groups kept of a
//! share p, holding c₁ … c_k sectors, the estimate's relative standard error is √((1 − p) Σcᵢ²) /
//! Σcᵢ. As k is about 0.9 to 1.8 million, that is 0.1% if groups are touched evenly, and at most
//! 0.45% if a few are full and most hold one sector.
//! are full and most hold one sector.

use rustc_hash::FxHashMap;
use trimtab_io::{DeviceId, mix64};

use super::report::FootprintSize;

const SECTOR: u64 = 512;
/// Sectors per group, one bit each.
const GROUP: u64 = 64;
/// Maximum number of groups: the load of a hash table of 2²¹ slots before it grows, 17 bytes each,
/// 36 MB in all.
const MAX_GROUPS: usize = (1 << 21) / 8 * 7;
/// The longest request counted. Linux cannot express a read or write of 4 GiB or more; a damaged
/// length must not cost an hour.
const MAX_LENGTH: u64 = 1 << 32;
/// Position of the device number in a group's key. The 44 bits below cover 576 PB.
const DEVICE_SHIFT: u32 = 44;

/// The sectors touched, or a sample of them.
#[derive(Debug)]
pub(super) struct Footprint {
    /// Group to mask of sectors.
    groups: FxHashMap<u64, u64>,
    max: usize,
    /// The sample holds the groups whose hash ends in this many zeros.
    zeros: u32,
}

impl Default for Footprint {
    fn default() -> Self {
        Self::holding(MAX_GROUPS)
    }
}

impl Footprint {
    fn holding(max: usize) -> Self {
        Self { groups: FxHashMap::default(), max, zeros: 0 }
    }

    /// Adds `length` bytes (not 0) from `offset` on.
    pub(super) fn add(&mut self, device: DeviceId, offset: u64, length: u64) {
        let first = offset / SECTOR;
        let last = offset.saturating_add(length.min(MAX_LENGTH) - 1) / SECTOR;
        let device = u64::from(device.0) << DEVICE_SHIFT;
        for group in first / GROUP..=last / GROUP {
            let key = group ^ device;
            // The table's own hash is too weak for sampling.
            if mix64(key).trailing_zeros() < self.zeros {
                continue;
            }
            let base = group * GROUP;
            // Bits of the request's first to last sector in the group.
            let low = u64::MAX << first.saturating_sub(base);
            let high = u64::MAX >> (GROUP - 1 - (last - base).min(GROUP - 1));
            self.touch(key, low & high);
        }
    }

    fn touch(&mut self, key: u64, mask: u64) {
        if let Some(touched) = self.groups.get_mut(&key) {
            *touched |= mask;
            return;
        }
        if self.groups.is_empty() {
            // Reserved at once: growing would hold an old and a new table for a while. Untouched
            // memory costs nothing.
            self.groups.reserve(self.max);
        }
        while self.groups.len() >= self.max {
            self.halve();
        }
        if mix64(key).trailing_zeros() >= self.zeros {
            self.groups.insert(key, mask);
        }
    }

    /// Keeps half of the sample. The table is emptied and refilled, not thinned in place:
    /// tombstones of removed entries would take slots, until the table doubled its size.
    fn halve(&mut self) {
        self.zeros += 1;
        let kept = |key: u64| mix64(key).trailing_zeros() >= self.zeros;
        let sample: Vec<_> =
            self.groups.iter().map(|(&key, &mask)| (key, mask)).filter(|g| kept(g.0)).collect();
        self.groups.clear();
        self.groups.extend(sample);
    }

    pub(super) fn size(&self) -> FootprintSize {
        let counts = || self.groups.values().map(|mask| u64::from(mask.count_ones()));
        let sectors: u64 = counts().sum();
        let squares: u64 = counts().map(|n| n * n).sum();
        let exact = self.zeros == 0;
        let left_out = 1.0 - 0.5_f64.powi(self.zeros as i32);
        FootprintSize {
            bytes: (sectors * SECTOR).saturating_mul(1 << self.zeros),
            exact,
            standard_error: if exact {
                0.0
            } else {
                (left_out * squares as f64).sqrt() / sectors as f64
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn footprint_counts_distinct_sectors(
            requests in prop::collection::vec((0_u32..3, 0_u64..200_000, 1_u64..70_000), 0..60),
        ) {
            let (mut footprint, mut naive) = (Footprint::default(), HashSet::new());
            for (device, offset, length) in requests {
                footprint.add(DeviceId(device), offset, length);
                naive.extend((offset / 512..(offset + length).div_ceil(512)).map(|s| (device, s)));
            }
            let size = footprint.size();
            prop_assert!(size.exact);
            prop_assert_eq!(size.bytes, naive.len() as u64 * 512);
        }
    }

    #[test]
    fn footprint_handles_the_ends_of_the_address_space() {
        let mut footprint = Footprint::default();
        footprint.add(DeviceId(0), 0, 1);
        footprint.add(DeviceId(0), u64::MAX - 10, 100);
        assert_eq!(footprint.size().bytes, 1024);
        footprint.add(DeviceId(0), 0, u64::MAX);
        assert_eq!(footprint.size().bytes, MAX_LENGTH + 512);
    }

    /// Relative error of the estimate against `sectors`; must agree with its claimed standard
    /// error.
    fn error(footprint: &Footprint, sectors: u64) -> f64 {
        let size = footprint.size();
        assert!(!size.exact);
        let error = (size.bytes as f64 / (sectors * 512) as f64 - 1.0).abs();
        assert!(error < 4.0 * size.standard_error, "{error} of {}", size.standard_error);
        // The table never grew.
        assert_eq!(footprint.groups.capacity(), MAX_GROUPS);
        error
    }

    #[test]
    fn sequential_beyond_the_table_is_within_one_percent() {
        let mut footprint = Footprint::default();
        // 1 TB in requests of 1 MB, and every one twice.
        for i in 0..1_000_000_u64 {
            footprint.add(DeviceId(i as u32 % 2), i / 2 * 1_048_576, 1_048_576);
            footprint.add(DeviceId(i as u32 % 2), i / 2 * 1_048_576 + 4096, 8192);
        }
        assert!(error(&footprint, 2_048_000_000) < 0.01);
    }

    #[test]
    fn random_beyond_the_table_is_within_one_percent() {
        // 4 KiB each, scattered over 64 TiB without repetition: multiplying by an
        // odd number permutes the residues of a power of two.
        for count in [2_000_000_u64, 12_000_000] {
            let mut footprint = Footprint::default();
            for i in 0..count {
                let block = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 34);
                footprint.add(DeviceId(0), block * 4096, 4096);
            }
            assert!(error(&footprint, count * 8) < 0.01);
        }
    }

    #[test]
    fn uneven_groups_are_within_one_percent() {
        // The worst case of group sampling: 64 groups of one sector for each full one.
        let mut footprint = Footprint::default();
        let groups = 10_000_000_u64;
        for group in 0..groups {
            let length = if group % 65 == 0 { 32_768 } else { 512 };
            footprint.add(DeviceId(7), group * 32_768, length);
        }
        let full = groups.div_ceil(65);
        assert!(error(&footprint, full * 64 + (groups - full)) < 0.01);
    }

    #[test]
    fn small_tables_agree_with_naive_counts_on_average() {
        let (mut sum, runs) = (0.0, 200);
        for run in 0..runs {
            let mut footprint = Footprint::holding(200);
            for i in 0..1000_u64 {
                footprint.add(DeviceId(run), i * 32_768, 4096);
            }
            sum += footprint.size().bytes as f64;
        }
        let mean = sum / f64::from(runs);
        assert!((mean / 4_096_000.0 - 1.0).abs() < 0.02, "biased: {mean}");
    }
}
