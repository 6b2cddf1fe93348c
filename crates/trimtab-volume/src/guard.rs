//! Keeps a policy from computing where that may give wrong data, and from writing where the driver
//! works itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trimtab_array::policy::{Asks, MemberEnded, ReadPolicy, Standing, StripeRead, TurnsStanding};
use trimtab_array::{Layout, Level, Member, Members};
use trimtab_io::{Nanos, Request};

use crate::regions::Regions;

/// What the driver and its policy share. One thread uses it at a time.
#[derive(Debug)]
pub(crate) struct Shared {
    regions: Mutex<Regions>,
    /// No strip may be written again.
    pub(crate) keeps_still: AtomicBool,
    /// Reads without the policy, by reason.
    pub(crate) unsynced: AtomicU64,
    pub(crate) no_spare: AtomicU64,
}

impl Shared {
    pub(crate) fn new(regions: Regions) -> Arc<Self> {
        Arc::new(Self {
            regions: Mutex::new(regions),
            keeps_still: AtomicBool::new(false),
            unsynced: AtomicU64::new(0),
            no_spare: AtomicU64::new(0),
        })
    }

    pub(crate) fn regions(&self) -> MutexGuard<'_, Regions> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A policy that fails open: to asking the members that hold the data.
///
/// Where members may differ, what is computed from the others may never have been written. So nothing
/// is computed there, and of copies the first is read. Without a spare member nothing can be computed.
#[derive(Debug)]
pub(crate) struct Guarded {
    inner: Box<dyn ReadPolicy>,
    layout: Layout,
    shared: Arc<Shared>,
}

impl Guarded {
    pub(crate) fn new(inner: Box<dyn ReadPolicy>, layout: Layout, shared: Arc<Shared>) -> Self {
        Self { inner, layout, shared }
    }

    fn is_unsynced(&self, read: &StripeRead<'_>) -> bool {
        let regions = self.shared.regions();
        !regions.is_synced() && regions.is_unsynced(self.layout.member_offset(read.stripe, 0))
    }

    /// The reads that hold without the others.
    fn plainly(&self, read: &StripeRead<'_>, asks: &mut Asks) {
        let wanted = read.wanted();
        let usable = read.members.without(read.failed);
        let first = usable.iter().next().map_or(Members::NONE, Members::one);
        if self.layout.level() == Level::Raid1 && wanted.both(first).is_empty() {
            asks.around(wanted, read.members.without(first), Members::NONE);
        } else {
            asks.directly(wanted);
        }
    }
}

impl ReadPolicy for Guarded {
    fn begin(&mut self, now: Nanos, read: &StripeRead<'_>, asks: &mut Asks) {
        if self.is_unsynced(read) {
            self.shared.unsynced.fetch_add(1, Ordering::Relaxed);
            self.plainly(read, asks);
        } else if read.spare() == 0 && self.layout.level() != Level::Raid0 {
            self.shared.no_spare.fetch_add(1, Ordering::Relaxed);
            asks.directly(read.wanted());
        } else {
            self.inner.begin(now, read, asks);
        }
    }

    fn refused(
        &mut self,
        now: Nanos,
        read: &StripeRead<'_>,
        member: Member,
        expected_wait: Nanos,
        asks: &mut Asks,
    ) {
        if !self.is_unsynced(read) {
            self.inner.refused(now, read, member, expected_wait, asks);
        }
    }

    fn arrived(&mut self, now: Nanos, read: &StripeRead<'_>, member: Member, asks: &mut Asks) {
        if !self.is_unsynced(read) {
            self.inner.arrived(now, read, member, asks);
        }
    }

    fn timer(&mut self, now: Nanos, read: &StripeRead<'_>, mark: u8, asks: &mut Asks) {
        if !self.is_unsynced(read) {
            self.inner.timer(now, read, mark, asks);
        }
    }

    fn ended(&mut self, now: Nanos, read: &StripeRead<'_>) {
        self.inner.ended(now, read);
    }

    fn wrote(&mut self, now: Nanos, begun: Nanos, members: u32) {
        self.inner.wrote(now, begun, members);
    }

    fn member_sent(&mut self, now: Nanos, member: Member, request: &Request) -> u32 {
        self.inner.member_sent(now, member, request)
    }

    fn member_ended(&mut self, now: Nanos, ended: &MemberEnded) {
        self.inner.member_ended(now, ended);
    }

    fn refresh(&mut self, now: Nanos, bytes: u64) -> Option<Member> {
        // It writes the same bytes: no bit of the bitmap is needed.
        let keeps_still = self.shared.keeps_still.load(Ordering::Relaxed);
        if keeps_still { None } else { self.inner.refresh(now, bytes) }
    }

    fn turns(&self) -> Option<TurnsStanding> {
        let mut turns = self.inner.turns()?;
        if turns.standing == Standing::Wanted && self.shared.keeps_still.load(Ordering::Relaxed) {
            turns.standing = Standing::Waits;
        }
        Some(turns)
    }
}
