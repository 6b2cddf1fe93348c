//! Timeouts with failover.

use super::hedge::Patience;
use crate::action::Reason;
use crate::strategy::Strategy;
use crate::turn::Turn;

/// A read that does not complete in time goes to the next replica, and so on; the last
/// one has no time limit. As in an application that times out and fails over, data from a
/// replica that was given up is ignored, unless those that were asked after it fail.
#[derive(Debug)]
pub struct Timeout {
    patience: Patience,
}

impl Timeout {
    /// With this timeout.
    #[must_use]
    pub const fn new(patience: Patience) -> Self {
        Self { patience }
    }
}

impl Strategy for Timeout {
    fn name(&self) -> &'static str {
        "timeout"
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        turn.send(turn.primary(), turn.now(), Reason::Chosen);
        self.patience.start(turn, 0);
    }

    fn timer(&mut self, turn: &mut Turn<'_>, _: u8) {
        let Some(next) = turn.untried() else { return };
        turn.abandon();
        turn.send(next, turn.now(), Reason::Duplicate);
        if turn.untried().is_some() {
            self.patience.start(turn, 0);
        }
    }
}
