//! The kernel's side of the contract: bpf/record.h, mirrored.

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
    pub(super) device: u16,
    pub(super) flags: u16,
    pub(super) op: u8,
    pub(super) state: u8,
    reserved: u16,
    pub(super) comm: [u8; 16],
}

/// `struct rec_event`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Event {
    pub(super) complete_ns: u64,
    pub(super) request: Slot,
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
    pub(super) counters: Counters,
}

const _: () = {
    assert!(size_of::<Config>() == 72);
    assert!(size_of::<Slot>() == 64);
    assert!(size_of::<Event>() == 72);
    assert!(size_of::<Control>() == 72);
};

impl Config {
    /// As the kernel takes it.
    pub(super) fn to_bytes(self) -> [u8; size_of::<Self>()] {
        let mut bytes = [0; size_of::<Self>()];
        let words =
            [self.device_count].into_iter().chain(self.devices).chain([self.arrival_by_bio]);
        for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *bytes = word.to_ne_bytes();
        }
        bytes
    }
}

impl Event {
    /// Reads an event as it comes from the ring buffer; `None` if it has
    /// another size.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; size_of::<Self>()] = bytes.try_into().ok()?;
        let u64_at = |i: usize| u64::from_ne_bytes(bytes[i..i + 8].try_into().expect("8 bytes"));
        let u32_at = |i: usize| u32::from_ne_bytes(bytes[i..i + 4].try_into().expect("4 bytes"));
        let u16_at = |i: usize| u16::from_ne_bytes(bytes[i..i + 2].try_into().expect("2 bytes"));
        let request = Slot {
            key: u64_at(8),
            arrival_ns: u64_at(16),
            issue_ns: u64_at(24),
            sector: u64_at(32),
            bytes: u32_at(40),
            pid: u32_at(44),
            device: u16_at(48),
            flags: u16_at(50),
            op: bytes[52],
            state: bytes[53],
            reserved: 0,
            comm: bytes[56..72].try_into().expect("16 bytes"),
        };
        Some(Self { complete_ns: u64_at(0), request })
    }
}

impl Slot {
    /// The command's name, up to its terminating zero.
    pub(super) fn command(&self) -> &[u8] {
        self.comm.split(|&b| b == 0).next().unwrap_or_default()
    }
}
