//! The kernel's shared state, seen through memory maps.

use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{NonNull, read_volatile};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::abi::{Control, Counters, SLOTS, STATE_ARRIVED, Slot};
use super::error::Error;

/// A BPF map's memory.
struct Mapping<T> {
    start: NonNull<T>,
    bytes: usize,
}

impl<T> Mapping<T> {
    /// Maps `count` values of a memory-mappable array map.
    fn new(map: BorrowedFd<'_>, count: usize, protection: ProtFlags) -> Result<Self, Error> {
        let bytes = count * size_of::<T>();
        // SAFETY: a new mapping at an address of the kernel's choice; nothing
        // else can refer to it.
        let start =
            unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, map, 0) };
        let start = start.map_err(Error::system("map the recorder's state"))?;
        let start = NonNull::new(start.cast()).expect("a mapping is never at address 0");
        Ok(Self { start, bytes })
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: `new` mapped just this range, and every use of it borrows
        // `self`.
        _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The table of requests on their way.
pub(super) struct Table(Mapping<Slot>);

/// What a look at the table shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OnTheirWay {
    /// Requests that have arrived and not been issued.
    pub(super) queued: u64,
    /// Requests that have been issued and not completed.
    pub(super) issued: u64,
    /// When the oldest of them arrived (`CLOCK_MONOTONIC` ns).
    pub(super) oldest: Option<u64>,
}

impl Table {
    pub(super) fn new(map: BorrowedFd<'_>) -> Result<Self, Error> {
        Ok(Self(Mapping::new(map, SLOTS, ProtFlags::READ)?))
    }

    /// Looks through all slots: 4 MB, some 200 µs. Requests that arrived before
    /// `since` and were never issued are passed over: now and then the kernel
    /// drops one on a path that no tracepoint tells of.
    pub(super) fn scan(&self, since: u64) -> OnTheirWay {
        let mut seen = OnTheirWay::default();
        self.for_each(|slot| {
            if slot.state == STATE_ARRIVED {
                if slot.arrival_ns < since {
                    return;
                }
                seen.queued += 1;
            } else {
                seen.issued += 1;
            }
            let oldest = seen.oldest.get_or_insert(slot.arrival_ns);
            *oldest = slot.arrival_ns.min(*oldest);
        });
        seen
    }

    /// Calls `each` with every request that has been issued and not completed.
    pub(super) fn for_each_issued(&self, mut each: impl FnMut(&Slot)) {
        self.for_each(|slot| {
            if slot.state != STATE_ARRIVED {
                each(slot);
            }
        });
    }

    fn for_each(&self, mut each: impl FnMut(&Slot)) {
        for i in 0..SLOTS {
            // SAFETY: `i` is within the mapping, which lives as long as `self`.
            // The kernel writes concurrently, so the key is read atomically and
            // the rest as volatile: it may be that of a request that has just
            // ended, or begun, which makes arrival times older, never younger.
            // All fields are plain numbers, for which any bits are a value.
            let slot = unsafe {
                let slot = self.0.start.as_ptr().add(i);
                if AtomicU64::from_ptr(&raw mut (*slot).key).load(Ordering::Acquire) == 0 {
                    continue;
                }
                read_volatile(slot)
            };
            each(&slot);
        }
    }
}

/// The switch and the counters.
pub(super) struct Switchboard(Mapping<Control>);

impl Switchboard {
    pub(super) fn new(map: impl AsFd) -> Result<Self, Error> {
        Ok(Self(Mapping::new(map.as_fd(), 1, ProtFlags::READ | ProtFlags::WRITE)?))
    }

    /// Whether new requests are taken up.
    pub(super) fn set_active(&self, active: bool) {
        // SAFETY: within the mapping; only ever accessed atomically here, and
        // only read by the kernel.
        let switch = unsafe { AtomicU64::from_ptr(&raw mut (*self.0.start.as_ptr()).active) };
        switch.store(active.into(), Ordering::SeqCst);
    }

    pub(super) fn counters(&self) -> Counters {
        // SAFETY: within the mapping. The kernel adds to the counters
        // concurrently; each is read whole, being an aligned 64-bit number.
        unsafe { read_volatile(&raw const (*self.0.start.as_ptr()).counters) }
    }
}
