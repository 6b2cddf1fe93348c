//! Giving up on a drive.

use super::hedge::Patience;
use crate::action::Why;
use crate::strategy::Strategy;
use crate::turn::Turn;

/// A read that is not answered in time goes to the next drive, as often as there
/// are drives; the last one has all the time it needs. As where an application
/// times out and fails over, who was given up is not listened to any more, unless
/// those that were asked after it fail.
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
        turn.send(turn.home(), turn.now(), Why::Chosen);
        self.patience.start(turn, 0);
    }

    fn timer(&mut self, turn: &mut Turn<'_>, _: u8) {
        let Some(next) = turn.untried() else { return };
        turn.abandon();
        turn.send(next, turn.now(), Why::Duplicate);
        if turn.untried().is_some() {
            self.patience.start(turn, 0);
        }
    }
}
