//! The table of selected devices that the programs look up with each event: the mirror of
//! bpf/devices.h, and its construction.

use libbpf_rs::{MapCore, MapFlags};
use zerocopy::{Immutable, IntoBytes};

use crate::Error;

/// `DEV_WAYS`
const WAYS: usize = 4;
/// `DEV_NONE`
const NONE: u32 = u32::MAX;
/// The map's name in every object.
pub(crate) const MAP: &str = "dev_buckets";

/// A device selected for the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenDevice {
    /// The kernel's number: major << 20 | minor.
    pub number: u32,
    /// The kernel's sequence number, to exclude another device of the same number (`None`:
    /// any).
    pub diskseq: Option<u64>,
}

/// `struct dev_hash`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
pub struct DeviceHash {
    multiplier: u32,
    shift: u32,
}

impl DeviceHash {
    const fn bucket(self, number: u32) -> usize {
        (number.wrapping_mul(self.multiplier) >> self.shift) as usize
    }
}

/// `struct dev_entry`
#[repr(C)]
#[derive(Clone, Copy, IntoBytes, Immutable)]
struct Entry {
    number: u32,
    index: u32,
    diskseq: u64,
}

/// `struct dev_bucket`
#[repr(C)]
#[derive(Clone, Copy, IntoBytes, Immutable)]
struct Bucket {
    entries: [Entry; WAYS],
}

const FREE: Bucket = Bucket { entries: [Entry { number: 0, index: NONE, diskseq: 0 }; WAYS] };

/// The table of some devices: a device's index is its position among them.
pub struct DeviceTable {
    hash: DeviceHash,
    buckets: Vec<Bucket>,
}

impl DeviceTable {
    /// Builds the table. With twice as many buckets as devices, seven of ten multipliers
    /// overflow no bucket (Poisson with mean 1/2: five or more in one of n buckets), so the
    /// search is short.
    ///
    /// # Panics
    /// A device is chosen twice.
    #[must_use]
    pub fn new(devices: &[ChosenDevice]) -> Self {
        let mut numbers: Vec<_> = devices.iter().map(|device| device.number).collect();
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]), "a device is chosen twice");
        let bits = (2 * devices.len().max(1)).next_power_of_two().ilog2();
        // Odd multiples of the golden ratio's: any odd number permutes all products.
        let multipliers = (0_u32..).map(|i| 0x9e37_79b9_u32.wrapping_mul(2 * i + 1));
        let tables = multipliers.map(|multiplier| DeviceHash { multiplier, shift: 32 - bits });
        let mut fitting = tables.filter_map(|hash| Self::with(hash, devices));
        fitting.next().expect("some multiplier spreads distinct numbers")
    }

    /// The table with one multiplier; `None` if a bucket overflows.
    fn with(hash: DeviceHash, devices: &[ChosenDevice]) -> Option<Self> {
        let mut buckets = vec![FREE; 1 << (32 - hash.shift)];
        for (device, index) in devices.iter().zip(0..) {
            let bucket = &mut buckets[hash.bucket(device.number)];
            let entry = bucket.entries.iter_mut().find(|entry| entry.index == NONE)?;
            let diskseq = device.diskseq.unwrap_or(0);
            *entry = Entry { number: device.number, index, diskseq };
        }
        Some(Self { hash, buckets })
    }

    /// The hash parameters, a part of the programs' constants.
    #[must_use]
    pub const fn hash(&self) -> DeviceHash {
        self.hash
    }

    pub(crate) const fn buckets(&self) -> u32 {
        self.buckets.len() as u32
    }

    /// Writes the table to the programs' map.
    pub(crate) fn write(&self, map: &impl MapCore) -> Result<(), Error> {
        for (i, bucket) in (0_u32..).zip(&self.buckets) {
            map.update(i.as_bytes(), bucket.as_bytes(), MapFlags::ANY)
                .map_err(Error::bpf("choose the devices"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RECORD, STATE, mirrors};

    fn chosen(number: u32) -> ChosenDevice {
        ChosenDevice { number, diskseq: None }
    }

    fn index_of(table: &DeviceTable, number: u32) -> Option<u32> {
        let bucket = &table.buckets[table.hash.bucket(number)];
        let found = bucket.entries.iter().find(|entry| entry.number == number)?;
        (found.index != NONE).then_some(found.index)
    }

    #[test]
    fn mirrors_have_the_layout_of_the_header() {
        for object in [RECORD, STATE] {
            mirrors!(object, "dev_entry" => Entry { number, index, diskseq });
            mirrors!(object, "dev_bucket" => Bucket { entries });
            mirrors!(object, "dev_hash" => DeviceHash { multiplier, shift });
        }
    }

    /// Numbers as the kernel assigns them: NVMe namespaces and partitions, SCSI disks in steps
    /// of 16 over 16 majors, loop devices.
    #[test]
    fn every_device_is_found_for_any_number_of_devices() {
        let nvme = (0..2000).map(|i| 259 << 20 | i);
        let scsi = (0..3000).map(|i| ((64 + i / 200) << 20) | (i % 200 * 16));
        let all: Vec<_> = nvme.chain(scsi).map(chosen).collect();
        for count in [0, 1, 2, 16, 17, 100, 1000, 5000] {
            let table = DeviceTable::new(&all[..count]);
            for (index, device) in (0..).zip(&all[..count]) {
                assert_eq!(index_of(&table, device.number), Some(index), "of {count}");
            }
            assert_eq!(index_of(&table, 7 << 20), None);
        }
    }
}
