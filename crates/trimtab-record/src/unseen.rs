//! Requests that have ended unseen: the kernel may skip the programs that would tell, and
//! until it uses such a request's structure again the table shows it as in flight.
//!
//! A recording that has an end waits for that. A monitor, which has no end, must not: all
//! later requests would wait too. But the kernel counts what is with its drivers, and
//! while it counts nothing for a device, whatever was issued before has ended.

use trimtab_block::BlockDevice;
use trimtab_io::Op;

use crate::abi::{STATE_ARRIVED, Slot};

/// From the driver's answer to the completion's tracepoint it is one soft interrupt. So
/// long after the kernel had counted nothing, an answer that has not been seen will not be.
const SURE_AFTER_NS: u64 = 100_000_000;

/// What is known of each device's having had nothing to do.
#[derive(Default)]
pub(crate) struct Unseen(Vec<Idle>);

/// Times are `CLOCK_MONOTONIC`, ns.
#[derive(Clone, Copy, Default)]
struct Idle {
    /// The kernel counted nothing then; answers may still come.
    lately: Option<u64>,
    /// What was issued before has ended.
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
    /// Asks the kernel what it counts.
    pub(crate) fn look(&mut self, devices: &[BlockDevice], now: u64) {
        self.0.resize(devices.len(), Idle::default());
        for (idle, device) in self.0.iter_mut().zip(devices) {
            idle.saw(device.is_idle(), now);
        }
    }

    /// Whether a request that the table shows has ended. Of flush commands it is not
    /// known: the kernel does not count them.
    pub(crate) fn has_ended(&self, slot: &Slot) -> bool {
        let surely = self.0.get(usize::from(slot.device)).map_or(0, |idle| idle.surely);
        slot.state != STATE_ARRIVED && slot.op != Op::Flush as u8 && slot.issue_ns < surely
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_moment_counts_when_it_has_been_for_a_while() {
        const MS: u64 = 1_000_000;
        let mut idle = Idle::default();
        for (at, is_idle, surely) in [
            (1, true, 0),
            (50, true, 0),
            (100, false, 0),
            // Busy since: but at the first millisecond it was not.
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
