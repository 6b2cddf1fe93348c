//! Those that neither look nor wait.

use crate::action::Why;
use crate::strategy::Strategy;
use crate::turn::Turn;

/// Every read goes to its home, and that is all.
///
/// On drives whose firmware has nothing to do inside this is also the ideal that
/// others are compared with: it goes by its name there.
#[derive(Debug)]
pub struct Base {
    name: &'static str,
}

impl Base {
    /// By this name.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name }
    }
}

impl Strategy for Base {
    fn name(&self) -> &'static str {
        self.name
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        turn.send(turn.home(), turn.now(), Why::Chosen);
    }
}

/// Every read goes to its home and to one other drive at once; the first answer
/// counts (LinnOS, §5.3).
#[derive(Debug)]
pub struct Clone;

impl Strategy for Clone {
    fn name(&self) -> &'static str {
        "clone"
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        turn.send(turn.home(), turn.now(), Why::Chosen);
        if let Some(other) = turn.untried() {
            turn.send(other, turn.now(), Why::Duplicate);
        }
    }
}
