//! The table of requests on their way, seen from user space.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use trimtab_io::Op;

use super::abi::{SLOTS, STATE_ARRIVED, Slot};
use super::error::Error;
use super::unseen::Unseen;
use crate::bpf::mapping::Mapping;

/// The table of requests on their way.
pub(super) struct Table(Mapping<Slot>);

/// What a look at the table shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OnTheirWay {
    /// Requests that have arrived and not been issued.
    pub(super) queued: u64,
    /// Requests that have been issued and not completed.
    pub(super) issued: u64,
    /// Flush commands among them.
    pub(super) flushes: u64,
    /// When the oldest of them arrived (`CLOCK_MONOTONIC` ns).
    pub(super) oldest: Option<u64>,
}

impl Table {
    pub(super) fn new(map: BorrowedFd<'_>) -> Result<Self, Error> {
        Ok(Self(Mapping::new(map, SLOTS, false)?))
    }

    /// Looks through all slots: 4 MB, some 200 µs. Requests that arrived before
    /// `since` and were never issued are passed over: now and then the kernel
    /// drops one on a path that no tracepoint tells of. So are those that have ended
    /// unseen.
    pub(super) fn scan(&self, since: u64, unseen: &Unseen) -> OnTheirWay {
        let mut seen = OnTheirWay::default();
        self.for_each(|slot| {
            if unseen.has_ended(slot) {
                return;
            }
            if slot.state == STATE_ARRIVED {
                if slot.arrival_ns < since {
                    return;
                }
                seen.queued += 1;
            } else {
                seen.issued += 1;
                seen.flushes += u64::from(slot.op == Op::Flush as u8);
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
            // What is read of a taken slot may be that of a request that has
            // just ended, or begun, which makes arrival times older, never
            // younger.
            let key = self.0.number(i, |slot| {
                // SAFETY: only the address of a field is taken.
                unsafe { &raw mut (*slot).key }
            });
            if key.load(Ordering::Acquire) != 0 {
                each(&self.0.read(i));
            }
        }
    }
}
