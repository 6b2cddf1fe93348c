//! Hedged requests: waiting a while, then asking another replica as well.

use trimtab_io::Nanos;

use crate::action::Reason;
use crate::replica::Replica;
use crate::strategy::Strategy;
use crate::turn::Turn;

/// How long to wait for the first completion: a latency by primary replica.
#[derive(Clone, Debug)]
pub struct Patience(Box<[Nanos]>);

impl Patience {
    /// The latencies in the order of the replicas.
    #[must_use]
    pub fn new(by_replica: &[Nanos]) -> Self {
        Self(by_replica.into())
    }

    /// For reads with this primary replica.
    pub(crate) fn of(&self, primary: Replica) -> Nanos {
        self.0[primary.index()]
    }

    /// The shortest of all replicas.
    pub(crate) fn least(&self) -> Nanos {
        self.0.iter().copied().min().unwrap_or_default()
    }

    /// Sets the timer for a read that arrives now.
    pub(super) fn start(&self, turn: &mut Turn<'_>, purpose: u8) {
        turn.timer(turn.now() + self.of(turn.primary()), purpose);
    }
}

/// A read that its primary replica has not completed after a while goes to another
/// replica as well, once; the first completion counts (Dean and Barroso, "The Tail at
/// Scale", CACM 56(2), 2013, "hedged requests"). Hedging at p95 and at the inflection
/// point (LinnOS, §5.3) differ in how long that is.
#[derive(Debug)]
pub struct Hedge {
    name: &'static str,
    patience: Patience,
}

impl Hedge {
    /// The strategy under this name, hedging after `patience`.
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
        turn.send(turn.primary(), turn.now(), Reason::Chosen);
        self.patience.start(turn, 0);
    }

    fn timer(&mut self, turn: &mut Turn<'_>, _: u8) {
        if let Some(other) = turn.untried() {
            turn.send(other, turn.now(), Reason::Duplicate);
        }
    }
}
