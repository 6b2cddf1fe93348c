//! Detection of requests that completed unseen. The kernel may skip the programs that would
//! report a completion, and the table shows such a request as in flight until the kernel
//! reuses its structure.
//!
//! A finite recording can wait for that; a monitor must not, since all later requests would
//! wait too. But the kernel counts the requests at its drivers, and while a device's count is
//! zero, all requests issued before have completed.

use trimtab_block::BlockDevice;
use trimtab_io::Op;

use crate::abi::{STATE_ARRIVED, Slot};

/// Between the driver's completion and the tracepoint there is one soft interrupt. A
/// completion that is still unseen this long after the count was zero will not be seen.
const SURE_AFTER_NS: u64 = 100_000_000;

/// What is known about each device's idle moments.
#[derive(Default)]
pub(crate) struct Unseen(Vec<Idle>);

/// Times are `CLOCK_MONOTONIC`, ns.
#[derive(Clone, Copy, Default)]
struct Idle {
    /// The kernel counted zero then; completions may still be reported.
    lately: Option<u64>,
    /// Requests issued before this time have completed.
    surely: u64,
}

impl Idle {
    fn saw(&mut self, is_idle: bool, now: u64) {
        if let Some(then) = self.lately.take_if(|then| now - *then >= SURE_AFTER_NS) {
            self.surely = then;
        }
        if is_idle && self.lately.is_none() {
            self.lately = Some(now);
        }
    }
}

impl Unseen {
    /// Reads the kernel's counts.
    pub(crate) fn look(&mut self, devices: &[BlockDevice], now: u64) {
        self.0.resize(devices.len(), Idle::default());
        for (idle, device) in self.0.iter_mut().zip(devices) {
            idle.saw(device.is_idle(), now);
        }
    }

    /// Whether a request in the table has completed. Unknown for flush commands, which the
    /// kernel does not count.
    pub(crate) fn has_ended(&self, slot: &Slot) -> bool {
        let surely = self.0.get(usize::from(slot.device)).map_or(0, |idle| idle.surely);
        slot.state != STATE_ARRIVED && slot.op != Op::Flush as u8 && slot.issue_ns < surely
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_moment_counts_after_a_delay() {
        const MS: u64 = 1_000_000;
        let mut idle = Idle::default();
        for (at, is_idle, surely) in [
            (1, true, 0),
            (50, true, 0),
            (100, false, 0),
            // Busy since; but idle at the first millisecond.
            (101, false, 1),
            (300, false, 1),
            (400, true, 1),
            (500, true, 400),
            (599, true, 400),
            (600, true, 500),
        ] {
            idle.saw(is_idle, at * MS);
            assert_eq!(idle.surely, surely * MS, "at {at} ms");
        }
    }
}
