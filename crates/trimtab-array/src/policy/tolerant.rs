//! Tail-tolerant RAID for drives that help with nothing ("Tail at Store", Hao et al.; §3.3.1 of the
//! dissertation).

use trimtab_io::{Nanos, Outcome};

use super::{Asks, MemberEnded, ReadPolicy, StripeRead};
use crate::MOST_MEMBERS;
use crate::members::{Member, Members};

/// The parameters of [`Tolerant`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// A member is late after this many times the median latency of the members of its read.
    pub threshold: f64,
    /// A member that was late so often becomes a reason to read parity from the beginning. None:
    /// always wait first.
    pub repeats: Option<u32>,
}

impl Tolerance {
    /// Parity is read when a member is late. The threshold is the published one.
    pub const REACTIVE: Self = Self { threshold: 2.0, repeats: None };
    /// Parity is read from the beginning while members are late again and again. How often is not
    /// published; here it is three times.
    pub const ADAPTIVE: Self = Self { threshold: 2.0, repeats: Some(3) };
}

/// Computes the strips of members that are late compared with the others of the read.
#[derive(Clone, Debug)]
pub struct Tolerant {
    tolerance: Tolerance,
    /// How often each member was late, since it last was not.
    late: [u32; MOST_MEMBERS],
    /// Moving average of the reads' medians, ns: for reads of a single member.
    median: f64,
}

impl Tolerant {
    /// The policy.
    #[must_use]
    pub const fn new(tolerance: Tolerance) -> Self {
        Self { tolerance, late: [0; MOST_MEMBERS], median: 0.0 }
    }

    fn late_after(&self, median: f64) -> Nanos {
        Nanos((median * self.tolerance.threshold) as u64)
    }

    /// The members among these that are late again and again.
    fn persistently_late(&self, of: Members) -> u32 {
        let Some(repeats) = self.tolerance.repeats else { return 0 };
        of.iter().filter(|member| self.late[member.index()] >= repeats).count() as u32
    }
}

impl ReadPolicy for Tolerant {
    fn begin(&mut self, now: Nanos, read: &StripeRead<'_>, asks: &mut Asks) {
        let wanted = read.wanted();
        asks.directly(wanted);
        match self.persistently_late(wanted.without(read.failed)).min(read.spare()) {
            0 if wanted.count() == 1 && self.median > 0.0 => {
                asks.timer(now + self.late_after(self.median), 0);
            }
            0 => {}
            extra => asks.strips(read.needed + extra),
        }
    }

    fn arrived(&mut self, now: Nanos, read: &StripeRead<'_>, member: Member, asks: &mut Asks) {
        let missing = read.missing().without(read.failed);
        // Strips that were read beside those that are wanted do not change who is late.
        if !read.wanted().has(member) || missing.has(member) {
            return;
        }
        let wanted = read.wanted().without(read.failed).count();
        let there = wanted - missing.count();
        // The middle one of the members.
        if there == wanted.div_ceil(2) {
            let median = now.since(read.begun);
            let weight = if self.median == 0.0 { 1.0 } else { 1.0 / 64.0 };
            self.median += (median.0 as f64 - self.median) * weight;
            asks.timer(read.begun + self.late_after(median.0 as f64), 0);
        }
    }

    fn timer(&mut self, _: Nanos, read: &StripeRead<'_>, _: u8, asks: &mut Asks) {
        let missing = read.missing().without(read.failed);
        for member in missing.iter() {
            self.late[member.index()] += 1;
        }
        if missing.count() <= read.spare() {
            asks.around(missing, Members::NONE, Members::NONE);
        } else {
            // The parities take the place of as many as they can: the first of the late ones suffice.
            asks.strips(read.needed + read.spare());
        }
    }

    fn ended(&mut self, now: Nanos, read: &StripeRead<'_>) {
        if self.median == 0.0 && read.wanted().count() == 1 {
            self.median = now.since(read.begun).0 as f64;
        }
    }

    fn member_ended(&mut self, now: Nanos, ended: &MemberEnded) {
        let took = now.since(ended.sent);
        if ended.is_read
            && ended.outcome == Some(Outcome::Done)
            && took < self.late_after(self.median)
        {
            self.late[ended.member.index()] = 0;
        }
    }
}
