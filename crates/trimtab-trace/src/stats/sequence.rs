//! Sequentiality: whether a request begins where an earlier one ended.

use trimtab_io::DeviceId;

use super::report::Sequential;

/// Earlier requests considered.
const RECENT: usize = 32;
/// Devices tracked at once. Numbers are assigned in order of appearance, so this many devices never
/// collide; beyond it, colliding devices evict each other and look less sequential.
const SLOTS: usize = 1 << 15;

/// End offsets of each device's last requests.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    /// By device number modulo [`SLOTS`].
    slots: Vec<Slot>,
    requests: u64,
    after_last: u64,
    after_recent: u64,
}

#[derive(Clone, Debug)]
struct Slot {
    device: DeviceId,
    /// A ring; `u64::MAX`, where nothing can begin, marks an empty entry.
    ends: [u64; RECENT],
    last: usize,
}

impl Slot {
    const fn new(device: DeviceId) -> Self {
        Self { device, ends: [u64::MAX; RECENT], last: 0 }
    }
}

impl Sequences {
    pub(super) fn add(&mut self, device: DeviceId, offset: u64, end: u64) {
        let index = device.0 as usize % SLOTS;
        while self.slots.len() <= index {
            self.slots.push(Slot::new(DeviceId(self.slots.len() as u32)));
        }
        let slot = &mut self.slots[index];
        if slot.device != device {
            *slot = Slot::new(device);
        }
        self.requests += 1;
        if slot.ends[slot.last] == offset {
            self.after_last += 1;
            self.after_recent += 1;
        } else {
            self.after_recent += u64::from(slot.ends.contains(&offset));
        }
        slot.last = (slot.last + 1) % RECENT;
        slot.ends[slot.last] = end;
    }

    pub(super) fn shares(&self) -> Option<Sequential> {
        Some(Sequential {
            share: super::share(self.after_last, self.requests)?,
            share_of_last_32: super::share(self.after_recent, self.requests)?,
        })
    }
}
