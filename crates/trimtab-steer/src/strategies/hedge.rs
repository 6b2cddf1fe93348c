//! Waiting a while, and asking another.

use trimtab_io::Nanos;

use crate::action::Why;
use crate::replica::Replica;
use crate::strategy::Strategy;
use crate::turn::Turn;

/// When to stop waiting for the first answer: a latency by home drive.
#[derive(Clone, Debug)]
pub struct Patience(Box<[Nanos]>);

impl Patience {
    /// By number of the drive.
    #[must_use]
    pub fn new(by_drive: &[Nanos]) -> Self {
        Self(by_drive.into())
    }

    /// For reads whose home is this drive.
    pub(crate) fn of(&self, home: Replica) -> Nanos {
        self.0[home.index()]
    }

    /// The least of all drives.
    pub(crate) fn least(&self) -> Nanos {
        self.0.iter().copied().min().unwrap_or_default()
    }

    /// Sets the timer for a read that comes now.
    pub(super) fn start(&self, turn: &mut Turn<'_>, purpose: u8) {
        turn.timer(turn.now() + self.of(turn.home()), purpose);
    }
}

/// A read that its home has not answered after a while goes to another drive as
/// well, once; the first answer counts (Dean and Barroso, "The Tail at Scale",
/// CACM 56(2), 2013, "hedged requests"). How long a while is, is what hedging at
/// p95 and at the inflection point (LinnOS, §5.3) differ in.
#[derive(Debug)]
pub struct Hedge {
    name: &'static str,
    patience: Patience,
}

impl Hedge {
    /// With so much patience, by this name.
    #[must_use]
    pub const fn new(name: &'static str, patience: Patience) -> Self {
        Self { name, patience }
    }
}

impl Strategy for Hedge {
    fn name(&self) -> &'static str {
        self.name
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        turn.send(turn.home(), turn.now(), Why::Chosen);
        self.patience.start(turn, 0);
    }

    fn timer(&mut self, turn: &mut Turn<'_>, _: u8) {
        if let Some(other) = turn.untried() {
            turn.send(other, turn.now(), Why::Duplicate);
        }
    }
}
