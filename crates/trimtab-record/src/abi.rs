//! The contract with the kernel's programs: bpf/record.h, mirrored. A test compares each
//! field with the type information of the compiled programs.

use trimtab_bpf::DeviceHash;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A device's index has 16 bits in [`Event::end`].
pub(crate) const MAX_DEVICES: usize = u16::MAX as usize;
pub(crate) const SLOTS: usize = (1 << 16) + 4;

pub(crate) const STATE_ARRIVED: u8 = 1;

/// `struct rec_config`
#[repr(C)]
#[derive(Clone, Copy, Default, IntoBytes, Immutable)]
pub(crate) struct Config {
    pub(crate) devices: DeviceHash,
    pub(crate) arrival_by_bio: u32,
    pub(crate) ring_bits: u32,
    pub(crate) ring_reserve: u32,
    pub(crate) reserved: u32,
}

/// `struct rec_slot`
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub(crate) struct Slot {
    pub(crate) key: u64,
    pub(crate) arrival_ns: u64,
    pub(crate) issue_ns: u64,
    pub(crate) sector: u64,
    pub(crate) bytes: u32,
    pub(crate) pid: u32,
    pub(crate) comm: [u8; 16],
    pub(crate) flags: u16,
    pub(crate) device: u16,
    pub(crate) op: u8,
    pub(crate) state: u8,
    reserved: [u8; 2],
}

/// `struct rec_event`
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub(crate) struct Event {
    pub(crate) complete_ns: u64,
    pub(crate) arrival_ns: u64,
    pub(crate) issue_ns: u64,
    pub(crate) sector: u64,
    pub(crate) bytes: u32,
    pub(crate) pid: u32,
    pub(crate) comm: [u8; 16],
    pub(crate) end: u64,
}

/// `struct rec_counters`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes)]
pub(crate) struct Counters {
    pub(crate) ring_full: u64,
    pub(crate) table_full: u64,
    pub(crate) never_completed: u64,
    pub(crate) abandoned: u64,
    pub(crate) merged: u64,
    pub(crate) empty_flushes: u64,
    pub(crate) passthrough: u64,
    pub(crate) rescued: u64,
}

/// `struct rec_control`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes)]
pub(crate) struct Control {
    pub(crate) active: u64,
    pub(crate) ring_read: u64,
    reserved1: [u64; 6],
    pub(crate) ring_taken: u64,
    reserved2: [u64; 7],
    pub(crate) counters: Counters,
}

impl Event {
    /// The event of a request whose completion was not seen.
    pub(crate) const fn unfinished(slot: &Slot) -> Self {
        Self {
            complete_ns: 0,
            arrival_ns: slot.arrival_ns,
            issue_ns: slot.issue_ns,
            sector: slot.sector,
            bytes: slot.bytes,
            pid: slot.pid,
            comm: slot.comm,
            end: (slot.device as u64) << 16 | (slot.op as u64) << 13 | slot.flags as u64,
        }
    }

    /// The bits of `enum rec_flag`.
    pub(crate) const fn flags(&self) -> u16 {
        self.end as u16 & 0x1fff
    }

    /// The device's index.
    pub(crate) const fn device(&self) -> u16 {
        (self.end >> 16) as u16
    }

    /// The number of an `enum rec_op`.
    pub(crate) const fn op(&self) -> u8 {
        (self.end >> 13) as u8 & 7
    }

    /// The command's name, up to its terminating zero.
    pub(crate) fn command(&self) -> &[u8] {
        self.comm.split(|&b| b == 0).next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use trimtab_bpf::{RECORD, mirrors};

    use super::*;

    #[test]
    fn mirrors_have_the_layout_of_the_header() {
        mirrors!(RECORD, "rec_config" => Config {
            devices, arrival_by_bio, ring_bits, ring_reserve,
        });
        mirrors!(RECORD, "rec_slot" => Slot {
            key, arrival_ns, issue_ns, sector, bytes, pid, comm, flags, device, op, state,
        });
        mirrors!(RECORD, "rec_event" => Event {
            complete_ns, arrival_ns, issue_ns, sector, bytes, pid, comm, end,
        });
        mirrors!(RECORD, "rec_control" => Control { active, ring_read, ring_taken, counters });
        mirrors!(RECORD, "rec_counters" => Counters {
            ring_full, table_full, never_completed, abandoned, merged, empty_flushes, passthrough,
            rescued,
        });
    }
}
