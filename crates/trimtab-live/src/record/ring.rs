//! The ring of events, and the switchboard that says how far it is written and
//! read.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use super::abi::{Control, Counters, Event};
use super::error::Error;
use crate::bpf::mapping::Mapping;

/// The switch, the ring's positions, and the counters.
pub(super) struct Switchboard(Mapping<Control>);

impl Switchboard {
    pub(super) fn new(map: BorrowedFd<'_>) -> Result<Self, Error> {
        Ok(Self(Mapping::new(map, 1, true)?))
    }

    /// Whether new requests are taken up.
    pub(super) fn set_active(&self, active: bool) {
        // SAFETY: only the address of a field is taken.
        let switch = self.0.number(0, |control| unsafe { &raw mut (*control).active });
        switch.store(active.into(), Ordering::SeqCst);
    }

    pub(super) fn counters(&self) -> Counters {
        self.0.read(0).counters
    }

    /// How many places of the ring the kernel has taken, since the start.
    fn taken(&self) -> &AtomicU64 {
        // SAFETY: only the address of a field is taken.
        self.0.number(0, |control| unsafe { &raw mut (*control).ring_taken })
    }

    /// How many of them have been read.
    fn read(&self) -> &AtomicU64 {
        // SAFETY: only the address of a field is taken.
        self.0.number(0, |control| unsafe { &raw mut (*control).ring_read })
    }
}

/// The reading end of the ring.
pub(super) struct Ring {
    events: Mapping<Event>,
    bits: u32,
    /// The place to read next; places count up for ever.
    next: u64,
}

impl Ring {
    /// Maps a ring of `1 << bits` events.
    pub(super) fn new(map: BorrowedFd<'_>, bits: u32) -> Result<Self, Error> {
        Ok(Self { events: Mapping::new(map, 1 << bits, false)?, bits, next: 0 })
    }

    /// How many events the kernel has begun to write.
    pub(super) fn begun(&self, switchboard: &Switchboard) -> u64 {
        switchboard.taken().load(Ordering::Acquire)
    }

    /// How many events have been read.
    pub(super) const fn read(&self) -> u64 {
        self.next
    }

    /// The next event; none if it has not been written, or not to its end: its
    /// CPU may have been interrupted just then.
    pub(super) fn next(&mut self) -> Option<Event> {
        let index = (self.next & ((1 << self.bits) - 1)) as usize;
        // SAFETY: only the address of a field is taken.
        let end = self.events.number(index, |event| unsafe { &raw mut (*event).end });
        let lap = (self.next >> self.bits) as u32 + 1;
        if (end.load(Ordering::Acquire) >> 32) as u32 != lap {
            return None;
        }
        self.next += 1;
        // The kernel writes this place again only after `free`.
        Some(self.events.read(index))
    }

    /// Gives the places that have been read back to the kernel.
    pub(super) fn free(&self, switchboard: &Switchboard) {
        switchboard.read().store(self.next, Ordering::Release);
    }
}
