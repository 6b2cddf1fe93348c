//! Does a request begin where an earlier one ended?

use trimtab_io::DeviceId;

use super::report::Sequential;

/// How far back "recently" reaches.
const RECENT: usize = 32;
/// Devices followed at the same time. Numbers are given in order of
/// appearance, so up to this many devices never meet in a slot; beyond it, two
/// that do drive each other out and look less sequential than they are.
const SLOTS: usize = 1 << 15;

/// Where the last requests of each device ended.
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
    /// A ring; `u64::MAX`, where nothing can begin, stands for nothing yet.
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
