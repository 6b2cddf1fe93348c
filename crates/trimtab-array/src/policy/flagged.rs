//! Drives that say that a read will be late (IODA, Li et al., §4.2).

use trimtab_io::Nanos;

use super::{Asks, ReadPolicy, StripeRead};
use crate::members::{Member, Members};

/// What a refusal's expected wait is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyTime {
    /// Nothing: the strips of members that refuse are computed, and those from which they are
    /// computed come without the flag, late or not (PL_IO, §4.2.1; with windows in the drives, §4.4).
    Ignored,
    /// The other members are flagged too. Where more refuse than can be gone around, those that are
    /// busy for the shortest time are waited for (PL_BRT, §4.2.2).
    Shortest,
}

/// Reads are flagged, and members that refuse are gone around.
#[derive(Clone, Copy, Debug)]
pub struct Flagged {
    busy_time: BusyTime,
}

impl Flagged {
    /// The policy.
    #[must_use]
    pub const fn new(busy_time: BusyTime) -> Self {
        Self { busy_time }
    }
}

impl ReadPolicy for Flagged {
    fn begin(&mut self, _: Nanos, read: &StripeRead<'_>, asks: &mut Asks) {
        asks.flagged(read.wanted());
    }

    fn refused(
        &mut self,
        _: Nanos,
        read: &StripeRead<'_>,
        member: Member,
        _: Nanos,
        asks: &mut Asks,
    ) {
        if read.refused.count() <= read.spare() {
            let flagged = match self.busy_time {
                BusyTime::Ignored => Members::NONE,
                BusyTime::Shortest => read.members,
            };
            asks.around(read.refused, Members::NONE, flagged);
            return;
        }
        match self.busy_time {
            BusyTime::Ignored => asks.directly(Members::one(member)),
            BusyTime::Shortest => {
                // The others of them are still gone around, from this one too.
                let shortest = read.refused.iter().min_by_key(|&member| read.busy_until(member));
                let waits = shortest.map_or(Members::NONE, Members::one);
                asks.directly(waits);
                asks.around(read.refused.without(waits), Members::NONE, Members::NONE);
            }
        }
    }
}
