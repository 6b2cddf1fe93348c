//! The kernel's side of the contract: bpf/record.h, mirrored.

use std::mem::offset_of;

pub(super) const MAX_DEVICES: usize = 16;
pub(super) const SLOTS: usize = (1 << 16) + 4;

pub(super) const STATE_ARRIVED: u8 = 1;

/// `struct rec_config`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Config {
    pub(super) device_count: u32,
    pub(super) devices: [u32; MAX_DEVICES],
    pub(super) arrival_by_bio: u32,
    pub(super) ring_bits: u32,
    pub(super) ring_reserve: u32,
    pub(super) diskseq: [u64; MAX_DEVICES],
}

/// `struct rec_slot`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) key: u64,
    pub(super) arrival_ns: u64,
    pub(super) issue_ns: u64,
    pub(super) sector: u64,
    pub(super) bytes: u32,
    pub(super) pid: u32,
    pub(super) comm: [u8; 16],
    pub(super) flags: u16,
    pub(super) device: u8,
    pub(super) op: u8,
    pub(super) state: u8,
    reserved: [u8; 3],
}

/// `struct rec_event`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Event {
    pub(super) complete_ns: u64,
    pub(super) arrival_ns: u64,
    pub(super) issue_ns: u64,
    pub(super) sector: u64,
    pub(super) bytes: u32,
    pub(super) pid: u32,
    pub(super) comm: [u8; 16],
    pub(super) end: u64,
}

/// `struct rec_counters`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) ring_full: u64,
    pub(super) table_full: u64,
    pub(super) never_completed: u64,
    pub(super) abandoned: u64,
    pub(super) absorbed: u64,
    pub(super) empty_flushes: u64,
    pub(super) passthrough: u64,
    pub(super) rescued: u64,
}

/// `struct rec_control`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Control {
    pub(super) active: u64,
    pub(super) ring_read: u64,
    reserved1: [u64; 6],
    pub(super) ring_taken: u64,
    reserved2: [u64; 7],
    pub(super) counters: Counters,
}

const _: () = {
    assert!(size_of::<Config>() == 208);
    assert!(size_of::<Slot>() == 64);
    assert!(size_of::<Event>() == 64);
    assert!(size_of::<Control>() == 192);
};

impl Config {
    /// As the kernel takes it.
    pub(super) fn to_bytes(self) -> [u8; size_of::<Self>()] {
        let mut bytes = [0; size_of::<Self>()];
        let words = [self.device_count].into_iter().chain(self.devices).chain([
            self.arrival_by_bio,
            self.ring_bits,
            self.ring_reserve,
        ]);
        let (numbers, sequence) = bytes.split_at_mut(offset_of!(Self, diskseq));
        for (bytes, word) in numbers.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *bytes = word.to_ne_bytes();
        }
        for (bytes, word) in sequence.as_chunks_mut::<8>().0.iter_mut().zip(self.diskseq) {
            *bytes = word.to_ne_bytes();
        }
        bytes
    }
}

impl Event {
    /// The event of a request whose completion was not seen.
    pub(super) const fn unanswered(slot: &Slot) -> Self {
        Self {
            complete_ns: 0,
            arrival_ns: slot.arrival_ns,
            issue_ns: slot.issue_ns,
            sector: slot.sector,
            bytes: slot.bytes,
            pid: slot.pid,
            comm: slot.comm,
            end: (slot.op as u64) << 24 | (slot.device as u64) << 16 | slot.flags as u64,
        }
    }

    /// The bits of `enum rec_flag`.
    pub(super) const fn flags(&self) -> u16 {
        self.end as u16
    }

    /// Index into [`Config::devices`].
    pub(super) const fn device(&self) -> u8 {
        (self.end >> 16) as u8
    }

    /// The number of an `enum rec_op`.
    pub(super) const fn op(&self) -> u8 {
        (self.end >> 24) as u8
    }

    /// The command's name, up to its terminating zero.
    pub(super) fn command(&self) -> &[u8] {
        self.comm.split(|&b| b == 0).next().unwrap_or_default()
    }
}
