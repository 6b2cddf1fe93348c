//! Partitions without a partition table: the ioctl `BLKPG` (include/uapi/linux/blkpg.h). Programs
//! for that are not installed everywhere.

use std::ffi::c_void;
use std::fs;
use std::io;

use rustix::ioctl::{self, Opcode, Setter, opcode};

use crate::LoopDisk;

const BLKPG: Opcode = opcode::none(0x12, 105);
const ADD: i32 = 1;
const REMOVE: i32 = 2;

/// `struct blkpg_ioctl_arg`
#[repr(C)]
struct Argument {
    what: i32,
    flags: i32,
    length: i32,
    partition: *mut c_void,
}

/// `struct blkpg_partition`
#[repr(C)]
struct Partition {
    start: i64,
    length: i64,
    number: i32,
    names: [[u8; 64]; 2],
}

impl LoopDisk {
    /// Adds a partition with this number, removed with the disk. Start and length are in bytes.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn add_partition(&self, number: i32, start: u64, length: u64) -> io::Result<()> {
        self.partition(ADD, number, start, length)
    }

    /// Removes the partition.
    ///
    /// # Errors
    /// The kernel's error, such as `EBUSY`.
    pub fn remove_partition(&self, number: i32) -> io::Result<()> {
        self.partition(REMOVE, number, 0, 0)
    }

    /// Removes all partitions: the kernel keeps them beyond the attachment, for the next user of
    /// the loop device. Partitions in use stay.
    pub(crate) fn remove_partitions(&self) {
        let disk = format!("/sys/block/{}", self.name());
        let entries = fs::read_dir(disk).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| {
            fs::read_to_string(entry.path().join("partition")).ok()?.trim().parse().ok()
        });
        for number in numbers {
            _ = self.remove_partition(number);
        }
    }

    fn partition(&self, what: i32, number: i32, start: u64, length: u64) -> io::Result<()> {
        let (start, length) = (start.cast_signed(), length.cast_signed());
        let mut partition = Partition { start, length, number, names: [[0; 64]; 2] };
        let argument = Argument {
            what,
            flags: 0,
            length: size_of::<Partition>() as i32,
            partition: (&raw mut partition).cast(),
        };
        // SAFETY: the kernel reads an argument of this layout, and the partition that it points to.
        Ok(unsafe { ioctl::ioctl(&self.open, Setter::<BLKPG, _>::new(argument)) }?)
    }
}
