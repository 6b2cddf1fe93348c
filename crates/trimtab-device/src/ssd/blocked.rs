//! Reads that cleaning blocks: refused, or regenerated from the other channels.

use trimtab_io::{Nanos, Outcome};

use super::ops::{Op, OpKind};
use super::{Ssd, Timer};
use crate::firmware::{ContentionDecision, ReadContention};
use crate::map::Location;
use crate::slab::NONE;
use crate::stats::LatencyBreakdown;
use crate::timer_queue::NEVER;

impl Ssd {
    /// Consults the firmware for each page that cleaning blocks. If it refuses one, the whole
    /// request is refused, with the longest wait.
    pub(super) fn is_refused(&mut self, index: u32, first: u32, count: u32) -> bool {
        let flags = self.requests[index].flags;
        // While users are stalled for free blocks, cleaning blocks all reads.
        let stall = self.cleaning.stalled().then(|| self.stall_left());
        let mut longest = None;
        let mut last_plane = NONE;
        for user in first..first + count {
            let Location::Flash(unit) = self.map.location(user) else { continue };
            let plane = self.layout.plane_of_block(self.layout.block_of_unit(unit));
            if std::mem::replace(&mut last_plane, plane) == plane {
                continue;
            }
            let contention = match (self.contention(plane, flags), stall) {
                (None, None) => continue,
                (None, Some(stall)) => {
                    let (busy_for, wait, siblings) = (stall, stall, Nanos::ZERO);
                    ReadContention { now: self.now, flags, plane, busy_for, wait, siblings }
                }
                (Some(it), stall) => {
                    let stall = stall.unwrap_or_default();
                    let (busy_for, wait) = (it.busy_for.max(stall), it.wait.max(stall));
                    ReadContention { busy_for, wait, ..it }
                }
            };
            if self.firmware.contend(&contention) == ContentionDecision::Refuse {
                longest = longest.max(Some(contention.wait));
            }
        }
        let Some(expected_wait) = longest else { return false };
        self.stats.refused += 1;
        let at = self.now + self.firmware.refusal_time();
        // Another firmware may have taken longer.
        let at = self.host.refusing.back().map_or(at, |last| last.0.max(at));
        self.host.refusing.push_back((at, index, expected_wait));
        self.set(Timer::Refuse, self.host.refusing[0].0);
        true
    }

    pub(super) fn refusal_done(&mut self) {
        let (_, index, expected_wait) =
            self.host.refusing.pop_front().expect("the timer is for its head");
        let next = self.host.refusing.front().map_or(NEVER, |next| next.0);
        self.set(Timer::Refuse, next);
        self.answer(index, Outcome::Refused { expected_wait }, LatencyBreakdown::default());
    }

    /// Reads the corresponding pages of all other channels instead, if the firmware wants that.
    pub(super) fn regenerate(&mut self, index: u32, plane: u32, units: u32) -> bool {
        let flags = self.requests[index].flags;
        let Some(contention) = self.contention(plane, flags) else { return false };
        // Programs that a cleaning held up are over soon.
        if contention.busy_for == Nanos::ZERO {
            return false;
        }
        if self.firmware.contend(&contention) != ContentionDecision::Regenerate
            || self.layout.channels < 2
        {
            return false;
        }
        self.stats.regenerated += 1;
        self.requests[index].regenerated += 1;
        let per_channel = self.layout.planes / self.layout.channels;
        for k in 1..self.layout.channels {
            let plane = (plane + k * per_channel) % self.layout.planes;
            self.requests[index].left += 1;
            self.enqueue(Op { request: index, units, ..Op::new(OpKind::Sibling, plane) });
        }
        true
    }
}
