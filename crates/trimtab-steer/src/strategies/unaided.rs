//! Strategies without state: the primary replica alone, and two replicas at once.

use crate::action::Reason;
use crate::strategy::Strategy;
use crate::turn::Turn;

/// Every read goes to its primary replica only.
///
/// On drives whose firmware takes no time for itself this is also the ideal that the others
/// are compared with, under that name.
#[derive(Debug)]
pub struct Base {
    name: &'static str,
}

impl Base {
    /// The strategy under this name.
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
        turn.send(turn.primary(), turn.now(), Reason::Chosen);
    }
}

/// Every read goes to its primary replica and to one other at once; the first completion
/// counts (LinnOS, §5.3).
#[derive(Debug)]
pub struct Clone;

impl Strategy for Clone {
    fn name(&self) -> &'static str {
        "clone"
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        turn.send(turn.primary(), turn.now(), Reason::Chosen);
        if let Some(other) = turn.untried() {
            turn.send(other, turn.now(), Reason::Duplicate);
        }
    }
}
