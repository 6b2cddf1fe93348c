//! The part of bpf/state.h that only the tracker and the kernel's programs share, mirrored.

use trimtab_bpf::DeviceHash;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// `ST_SLOTS`: requests of a drive that may be in flight.
pub(crate) const SLOTS: usize = 4096;

/// `struct st_control`
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub(crate) struct Control {
    pub(crate) log_taken: u64,
    reserved: [u64; 7],
}

/// `struct st_setup`
#[repr(C)]
#[derive(Clone, Copy, Default, IntoBytes, Immutable)]
pub(crate) struct Setup {
    pub(crate) by_issue: u32,
    pub(crate) log_bits: u32,
    pub(crate) age_limit_ns: u64,
    pub(crate) networks: u32,
    pub(crate) reserved: u32,
    pub(crate) devices: DeviceHash,
}

/// `struct st_log_entry`
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub(crate) struct LogEntry {
    pub(crate) time_ns: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) slot: u32,
    pub(crate) step: u8,
    pub(crate) op: u8,
    pub(crate) data: u8,
    pub(crate) device: u8,
    pub(crate) place: u64,
    reserved: [u64; 3],
}

#[cfg(test)]
mod tests {
    use trimtab_bpf::{STATE, mirrors};

    use super::*;

    #[test]
    fn mirrors_have_the_layout_of_the_header() {
        mirrors!(STATE, "st_control" => Control { log_taken });
        mirrors!(STATE, "st_setup" => Setup { by_issue, log_bits, age_limit_ns, networks, devices });
        mirrors!(STATE, "st_log_entry" => LogEntry {
            time_ns, offset, length, slot, step, op, data, device, place,
        });
    }
}
