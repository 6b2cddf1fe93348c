//! Members that come back: until a stripe has been rebuilt they are lost to it.

use super::Planner;
use crate::members::{Member, Members};

impl Planner {
    /// A lost member is being rebuilt, and has the first `stripes` again: those are read from it and
    /// written to it, the others not. One member at a time. To rebuild the next ones, the driver
    /// keeps writes away from them, with none in flight ([`refreshing`](Self::refreshing) included),
    /// from reading the others until it has called this again.
    ///
    /// # Panics
    /// The member is not lost, or another one is being rebuilt.
    pub fn rebuilt(&mut self, member: Member, stripes: u64) {
        assert!(self.lost.has(member), "a member that is being rebuilt is lost");
        assert!(self.rebuilding.is_none_or(|one| one.0 == member), "one at a time");
        self.rebuilding = Some((member, stripes));
    }

    /// A member that was lost has all that it must have, and is used again.
    pub fn regain(&mut self, member: Member) {
        self.lose(member);
        self.lost = self.lost.without(Members::one(member));
    }

    /// How many strips are being written again for the policy.
    #[must_use]
    pub const fn refreshing(&self) -> u32 {
        self.refreshing
    }

    /// The members that are lost to a stripe.
    pub(super) fn lost_in(&self, stripe: u64) -> Members {
        match self.rebuilding {
            Some((member, stripes)) if stripe < stripes => self.lost.without(Members::one(member)),
            _ => self.lost,
        }
    }

    /// The members that are lost to all stripes.
    pub(super) fn gone(&self) -> Members {
        let rebuilding = self.rebuilding.map_or(Members::NONE, |one| Members::one(one.0));
        self.lost.without(rebuilding)
    }
}
