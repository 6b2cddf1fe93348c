//! The table of requests in flight, seen from user space.

use std::os::fd::AsFd;
use std::sync::atomic::{Ordering, fence};

use trimtab_io::Op;
use trimtab_shm::{Mapping, field};

use crate::abi::{SLOTS, STATE_ARRIVED, Slot};
use crate::error::Error;
use crate::unseen::Unseen;

/// The table of requests in flight.
pub(crate) struct Table(Mapping<Slot>);

/// The result of a scan of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// Requests that have arrived and not been issued.
    pub(crate) queued: u64,
    /// Requests that have been issued and not completed.
    pub(crate) issued: u64,
    /// Flush commands among them.
    pub(crate) flushes: u64,
    /// When the oldest of them arrived (`CLOCK_MONOTONIC` ns).
    pub(crate) oldest: Option<u64>,
}

impl Table {
    pub(crate) fn new(map: &impl AsFd) -> Result<Self, Error> {
        let slots = Mapping::new(map, SLOTS).map_err(trimtab_bpf::Error::from)?;
        Ok(Self(slots))
    }

    /// Scans all slots: 4 MB, some 200 µs. Requests that arrived before `since` and were never
    /// issued are skipped: occasionally the kernel drops one on a path without a tracepoint.
    /// Requests that completed unseen are skipped too.
    pub(crate) fn scan(&self, since: u64, unseen: &Unseen) -> InFlight {
        let mut seen = InFlight::default();
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
    pub(crate) fn for_each_issued(&self, mut each: impl FnMut(&Slot)) {
        self.for_each(|slot| {
            if slot.state != STATE_ARRIVED {
                each(slot);
            }
        });
    }

    fn for_each(&self, mut each: impl FnMut(&Slot)) {
        for i in 0..SLOTS {
            // A slot may be read while its request ends and another one begins. Arrival times
            // may then appear older, never younger.
            if self.0.load(i, field!(Slot.key)) != 0 {
                fence(Ordering::Acquire);
                each(&self.0.read(i));
            }
        }
    }
}
