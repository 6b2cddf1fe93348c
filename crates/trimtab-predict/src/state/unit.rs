//! The state of a parallel unit: a cache line.

use trimtab_io::Nanos;
use zerocopy::FromBytes;

use crate::share::share;

/// The state of a parallel unit, as seen from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes)]
#[repr(C, align(64))]
pub struct Unit {
    /// Reads in flight, each as often as it has pieces here.
    pub reads: u32,
    /// 4 KiB pages of these reads, each counted whole.
    pub read_pages: u32,
    /// Writes in flight, likewise.
    pub writes: u32,
    /// 4 KiB pages of these writes.
    pub write_pages: u32,
    /// The last read's latency, in ticks of 1024 ns.
    pub latency: u32,
    /// A moving mean of the latencies of the last few reads, in such ticks.
    pub mean_latency: u32,
    /// How long a read occupies the unit, ns: a moving mean over about ten reads.
    pub service_ns: u32,
    /// Zero.
    pub reserved: u32,
    /// The sum of the times at which the reads in flight were sent, ns. It wraps around;
    /// only its difference to `reads` times now has a meaning.
    pub sent: u64,
    /// When a read completed last.
    pub last_done: Nanos,
    /// Bytes written to the drive by the time that this unit was written last, plus one;
    /// 0: it has not been written.
    pub written: u64,
    /// Zero.
    pub reserved2: u64,
}

const _: () = assert!(size_of::<Unit>() == 64);

/// KiB written since: a unit that was not written lately, or not at all.
const LONG_AGO: i32 = i32::MAX;

impl Unit {
    pub(crate) const fn read_sent(&mut self, now: Nanos, pages: u32) {
        self.reads += 1;
        self.read_pages = self.read_pages.saturating_add(pages);
        self.sent = self.sent.wrapping_add(now.0);
    }

    pub(crate) const fn write_sent(&mut self, pages: u32, written: u64) {
        self.writes += 1;
        self.write_pages = self.write_pages.saturating_add(pages);
        self.written = written + 1;
    }

    pub(crate) const fn write_done(&mut self, pages: u32) {
        self.writes -= 1;
        self.write_pages = self.write_pages.saturating_sub(pages);
    }

    pub(crate) fn read_done(&mut self, now: Nanos, sent: Nanos, pages: u32, data: bool) {
        self.reads -= 1;
        self.read_pages = self.read_pages.saturating_sub(pages);
        self.sent = self.sent.wrapping_sub(sent.0);
        if !data {
            return;
        }
        self.latency = u32::try_from(now.since(sent).0 >> 10).unwrap_or(u32::MAX);
        follow(&mut self.mean_latency, self.latency, 2);
        // The unit served it from when it was sent, or from when the read before it completed.
        // Of completions at one instant, such as a read's pieces, the first counts.
        let service = now.since(self.last_done.max(sent)).0;
        if service > 0 {
            follow(&mut self.service_ns, u32::try_from(service).unwrap_or(u32::MAX), 3);
        }
        self.last_done = now;
    }

    /// Of several units, the first of those with the most reads in flight.
    pub fn busiest<'a>(units: impl IntoIterator<Item = &'a Self>) -> Option<&'a Self> {
        units.into_iter().reduce(|most, unit| if unit.reads > most.reads { unit } else { most })
    }

    /// The mean age of its reads in flight, in ticks of 1024 ns.
    #[must_use]
    pub fn mean_age(&self, now: Nanos) -> u32 {
        let sum = now.0.wrapping_mul(self.reads.into()).wrapping_sub(self.sent);
        // Below zero if they were sent on a processor whose clock is ahead.
        let ticks = sum.cast_signed().max(0).cast_unsigned() >> 10;
        share(u32::try_from(ticks).unwrap_or(u32::MAX), self.reads)
    }

    /// KiB written to the drive since the unit was written last, where `written`
    /// bytes have been written by now; [`i32::MAX`] if that was long ago.
    #[must_use]
    pub fn written_ago(&self, written: u64) -> i32 {
        match self.written {
            0 => LONG_AGO,
            then => i32::try_from((written - (then - 1)) >> 10).unwrap_or(LONG_AGO),
        }
    }
}

/// Moves a mean towards a new value by `2^-shift` of the distance.
fn follow(mean: &mut u32, value: u32, shift: u32) {
    if *mean == 0 {
        *mean = value;
        return;
    }
    let difference = (i64::from(value) - i64::from(*mean)) >> shift;
    *mean = (i64::from(*mean) + difference) as u32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_time_counts_from_submission_or_last_completion() {
        let mut unit = Unit::default();
        unit.read_sent(Nanos(1_000), 1);
        unit.read_sent(Nanos(3_000), 2);
        assert_eq!(unit.mean_age(Nanos(3 << 20)), (3 << 10) - 2);
        unit.read_done(Nanos(51_000), Nanos(1_000), 1, true);
        assert_eq!((unit.latency, unit.service_ns), (50_000 >> 10, 50_000));
        unit.read_done(Nanos(91_000), Nanos(3_000), 2, true);
        // The second was served for 40 µs.
        assert_eq!(unit.service_ns, 50_000 - 10_000 / 8);
        assert_eq!((unit.reads, unit.read_pages), (0, 0));
        assert_eq!(unit.mean_age(Nanos(99_000)), 0);
        assert_eq!(unit.written_ago(1 << 20), LONG_AGO);
        unit.write_sent(1, 1 << 20);
        assert_eq!(unit.written_ago(3 << 20), 2048);
    }
}
