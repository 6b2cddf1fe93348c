//! Reads that fail fast: `PL_IO` and `PL_BRT` (IODA, §4.2).

use rand_pcg::Pcg64;
use trimtab_io::{Flags, Nanos};

use super::{
    Candidates, Concerns, ContentionDecision, Firmware, PlannedCleaning, ReadContention,
    WindowSchedule,
};

/// Refuses flagged reads that cleaning would delay; otherwise behaves as the firmware that it
/// wraps.
///
/// A read is flagged with [`Flags::LATENCY_CRITICAL`], the paper's PL = true. If it would wait for
/// cleaning, it completes as refused after [`refusal_time`](Firmware::refusal_time), 1 µs by
/// default (§4.2.1), and the array reconstructs the data from the other drives. Reads that are not
/// flagged wait: with these the array reconstructs, so they must not be refused again.
///
/// The refusal carries the busy remaining time (§4.2.2, `PL_BRT`) of the page of the request that
/// would wait longest. It is always there; whether it is used is up to the host, so that one
/// firmware stands for both of the paper's steps.
///
/// "Would wait for cleaning" covers cleanings in progress that hold the read's die, cleanings
/// queued at the die before it, programs that a cleaning has held up, and a stall of the whole drive
/// for free blocks. It does not cover
/// the channel: pages that cleaning moves on other dies of the channel delay a read by some
/// transfers. Where that counts as blocked too, the profile says `gc.blocks = "channel"`. A mapping
/// table that is not all in memory (`ftl.mapping_cache_mb`) is the other gap: the read of the table
/// may meet a cleaning before the location of the data is known.
#[derive(Clone, Debug)]
pub struct PlIo<F> {
    inner: F,
    refusal_time: Nanos,
}

impl<F> PlIo<F> {
    /// Refuses within 1 µs.
    #[must_use]
    pub const fn new(inner: F) -> Self {
        Self::with_refusal_time(inner, super::DEFAULT_REFUSAL)
    }

    /// Refuses within the given time.
    #[must_use]
    pub const fn with_refusal_time(inner: F, refusal_time: Nanos) -> Self {
        Self { inner, refusal_time }
    }
}

impl<F: Firmware + Clone + 'static> Firmware for PlIo<F> {
    fn concerns(&self) -> Concerns {
        Concerns { reads: true, ..self.inner.concerns() }
    }

    fn contend(&mut self, contention: &ReadContention) -> ContentionDecision {
        match contention.flags.contains(Flags::LATENCY_CRITICAL) {
            true => ContentionDecision::Refuse,
            false => self.inner.contend(contention),
        }
    }

    fn refusal_time(&self) -> Nanos {
        self.refusal_time
    }

    fn may_clean(&mut self, now: Nanos, plane: u32) -> bool {
        self.inner.may_clean(now, plane)
    }

    fn next_change(&self, now: Nanos) -> Option<Nanos> {
        self.inner.next_change(now)
    }

    fn clean_to(&self, now: Nanos, high: usize) -> usize {
        self.inner.clean_to(now, high)
    }

    fn choose(
        &mut self,
        now: Nanos,
        candidates: &Candidates<'_>,
        random: &mut Pcg64,
    ) -> Option<u32> {
        self.inner.choose(now, candidates, random)
    }

    fn may_begin(&mut self, now: Nanos, planned: &PlannedCleaning) -> bool {
        self.inner.may_begin(now, planned)
    }

    fn began(&mut self, now: Nanos) -> bool {
        self.inner.began(now)
    }

    fn ended(&mut self, now: Nanos, left: u32) {
        self.inner.ended(now, left);
    }

    fn may_flush(&mut self, now: Nanos, dirty: f64) -> bool {
        self.inner.may_flush(now, dirty)
    }

    fn cleaning_takes_time(&self) -> bool {
        self.inner.cleaning_takes_time()
    }

    fn windows(&self, now: Nanos) -> Option<WindowSchedule> {
        self.inner.windows(now)
    }

    fn is_outside_window(&self, now: Nanos, plane: u32) -> bool {
        self.inner.is_outside_window(now, plane)
    }

    fn set_windows(&mut self, now: Nanos, windows: WindowSchedule) -> bool {
        self.inner.set_windows(now, windows)
    }

    fn clean_now(&mut self, now: Nanos) -> bool {
        self.inner.clean_now(now)
    }

    fn take_cleaning_start(&mut self) -> bool {
        self.inner.take_cleaning_start()
    }

    fn forget(&mut self) {
        self.inner.forget();
    }

    fn boxed_clone(&self) -> Box<dyn Firmware> {
        Box::new(self.clone())
    }
}
