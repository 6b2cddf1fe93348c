//! The ring of events, and the control block with its write and read positions.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use trimtab_shm::{Mapping, WritableMapping, field};

use crate::abi::{Control, Counters, Event};
use crate::error::Error;

/// The switch, the ring's positions, and the counters.
pub(crate) struct Switchboard(WritableMapping<Control>);

impl Switchboard {
    pub(crate) fn new(map: &impl AsFd) -> Result<Self, Error> {
        let control = WritableMapping::new(map, 1).map_err(trimtab_bpf::Error::from)?;
        Ok(Self(control))
    }

    /// Whether new requests are recorded.
    pub(crate) fn set_active(&self, active: bool) {
        self.0.word(0, field!(Control.active)).store(active.into(), Ordering::SeqCst);
    }

    pub(crate) fn counters(&self) -> Counters {
        self.0.part(0, field!(Control.counters))
    }

    /// How many entries of the ring the kernel has taken, since the start.
    fn taken(&self) -> &AtomicU64 {
        self.0.word(0, field!(Control.ring_taken))
    }

    /// How many of them have been read.
    fn read(&self) -> &AtomicU64 {
        self.0.word(0, field!(Control.ring_read))
    }
}

/// The reading end of the ring.
pub(crate) struct Ring {
    events: Mapping<Event>,
    bits: u32,
    /// The entry to read next; entries are numbered without wrapping.
    next: u64,
}

impl Ring {
    /// Maps a ring of `1 << bits` events.
    pub(crate) fn new(map: &impl AsFd, bits: u32) -> Result<Self, Error> {
        let events = Mapping::new(map, 1 << bits).map_err(trimtab_bpf::Error::from)?;
        Ok(Self { events, bits, next: 0 })
    }

    /// How many events the kernel has begun to write.
    pub(crate) fn begun(&self, switchboard: &Switchboard) -> u64 {
        switchboard.taken().load(Ordering::Acquire)
    }

    /// How many events have been read.
    pub(crate) const fn read(&self) -> u64 {
        self.next
    }

    /// The next event; `None` if it has not been written completely: its CPU may have been
    /// interrupted.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let index = (self.next & ((1 << self.bits) - 1)) as usize;
        let lap = (self.next >> self.bits) as u32 + 1;
        if (self.events.load(index, field!(Event.end)) >> 32) as u32 != lap {
            return None;
        }
        // The rest of the event was written before its end marker.
        fence(Ordering::Acquire);
        self.next += 1;
        // The kernel reuses this entry only after `free`.
        Some(self.events.read(index))
    }

    /// Returns the entries that have been read to the kernel.
    pub(crate) fn free(&self, switchboard: &Switchboard) {
        switchboard.read().store(self.next, Ordering::Release);
    }
}
