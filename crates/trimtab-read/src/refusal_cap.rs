//! The share of reads that may be refused in each second.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use trimtab_io::Nanos;

/// Shares are multiples of 1/`ONE`.
const ONE: u64 = 1 << 16;

const SECOND: u64 = 1_000_000_000;

/// Of the reads of one second of the machine's clock, at most a share is refused, at any time
/// within that second: refusals are limited by the reads so far, and unused refusals of one
/// second are no credit in the next. All state is one word, so the limit is exact for any
/// number of threads.
#[derive(Debug)]
pub(super) struct RefusalCap {
    /// In units of 1/[`ONE`].
    share: u64,
    second: AtomicU64,
}

/// A second: its number (16 bits), the number of reads before it and the number of refusals in
/// it (24 bits each). Of the first two only the low bits are kept: seconds that might be
/// confused are 18 hours apart, and no reader makes 8 million reads a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Second(u64);

impl Second {
    const COUNT_BITS: u32 = 24;
    const COUNT: u64 = (1 << Self::COUNT_BITS) - 1;

    /// Initial value: no second yet.
    const NONE: Self = Self(0);

    const fn new(number: u64, asked_before: u64) -> Self {
        let asked_before = (asked_before & Self::COUNT) << Self::COUNT_BITS;
        Self(number << (2 * Self::COUNT_BITS) | asked_before)
    }

    /// Whether the second of this number is later than this one. A thread that was not
    /// scheduled for a while may come with an earlier second: it counts in this one.
    fn is_over(self, number: u64) -> bool {
        let ahead = (number as u16).wrapping_sub((self.0 >> (2 * Self::COUNT_BITS)) as u16);
        self == Self::NONE || !matches!(ahead.cast_signed(), -8..=0)
    }

    /// The number of reads in this second, up to the one of this number. `None` if that read
    /// came before the second.
    const fn asked(self, number: u64) -> u64 {
        let asked = number.wrapping_sub(self.0 >> Self::COUNT_BITS) & Self::COUNT;
        if asked > Self::COUNT / 2 { 0 } else { asked }
    }

    const fn refused(self) -> u64 {
        self.0 & Self::COUNT
    }
}

impl RefusalCap {
    /// A share from 0 (nothing is refused) to 1 (no ceiling).
    pub(super) fn new(share: f64) -> Self {
        let share = (share.clamp(0.0, 1.0) * ONE as f64) as u64;
        Self { share, second: AtomicU64::new(Second::NONE.0) }
    }

    /// Counts the read of this number.
    pub(super) fn asked(&self, number: u64, now: Nanos) {
        let now = now.0 / SECOND;
        // Read first: a cache line that is not written stays in every core's cache.
        if Second(self.second.load(Relaxed)).is_over(now) {
            let begin = |held| Second(held).is_over(now).then(|| Second::new(now, number - 1).0);
            _ = self.second.fetch_update(Relaxed, Relaxed, begin);
        }
    }

    /// Whether the read of this number, which was [`asked`](Self::asked), may be refused: then
    /// it counts as refused.
    pub(super) fn may_refuse(&self, number: u64) -> bool {
        if self.share == ONE {
            return true;
        }
        let refuse = |held| {
            let second = Second(held);
            let (after, asked) = (second.refused() + 1, second.asked(number));
            (after * ONE <= asked * self.share).then_some(held + 1)
        };
        self.second.fetch_update(Relaxed, Relaxed, refuse).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// A read that the model would refuse. Returns whether it is refused.
    fn refuses(ceiling: &RefusalCap, number: u64, at: u64) -> bool {
        ceiling.asked(number, Nanos(at));
        ceiling.may_refuse(number)
    }

    /// In each second, for any number of reads, and independent of earlier seconds.
    #[test]
    fn refusals_of_each_second_never_exceed_share() {
        for share in [0.98, 0.75, 0.5, 0.1] {
            let ceiling = RefusalCap::new(share);
            let mut number = 0;
            for (second, reads) in (3..).zip([100_000, 1, 7, 20, 50, 51, 1000, 3, 0, 0, 4000]) {
                let mut refused = 0;
                for i in 0..reads {
                    number += 1;
                    let at = second * SECOND + i * SECOND / reads;
                    refused += u64::from(refuses(&ceiling, number, at));
                    assert!(refused as f64 <= share * (i + 1) as f64, "{share}, read {i}");
                }
                // Nor less, except for rounding to whole reads.
                assert!(refused as f64 >= share * reads as f64 - 2.0, "{share}: {refused}/{reads}");
            }
        }
    }

    /// Reads that the model would not refuse count, within their second.
    #[test]
    fn sent_reads_permit_refusals_in_the_same_second_only() {
        let ceiling = RefusalCap::new(0.5);
        (1..=1000).for_each(|i| ceiling.asked(i, Nanos(5 * SECOND + i)));
        let half = 5 * SECOND + SECOND / 2;
        assert!((1001..=2000).all(|i| refuses(&ceiling, i, half)));
        assert!(!refuses(&ceiling, 2001, half));
        (2002..=9000).for_each(|i| ceiling.asked(i, Nanos(6 * SECOND - 1)));
        let refused = (9001..=10_000).filter(|&i| refuses(&ceiling, i, 6 * SECOND)).count();
        assert_eq!(refused, 500);
    }

    #[test]
    fn share_one_is_no_ceiling_and_zero_refuses_nothing() {
        let count = |share| {
            let ceiling = RefusalCap::new(share);
            (1..=1000).filter(|&i| refuses(&ceiling, i, i * SECOND / 100)).count()
        };
        assert_eq!((count(1.0), count(0.0)), (1000, 0));
    }

    /// The stored numbers wrap long before a machine is switched off.
    #[test]
    fn counts_and_seconds_wrap_correctly() {
        let ceiling = RefusalCap::new(0.5);
        let number = Second::COUNT * 5 - 30;
        let second = (1 << 16) * 1000 - 2;
        for i in 0..100 {
            let at = second * SECOND + i * SECOND / 20;
            assert_eq!(refuses(&ceiling, number + i, at), i % 2 == 1, "{i}");
        }
        // After a pause of any length too.
        for pause in [200, 255, 256, 30_000, 40_000] {
            ceiling.asked(number + 1000 * pause, Nanos((second + 1000 * pause) * SECOND));
            assert!(!ceiling.may_refuse(number + 1000 * pause), "the first of its second");
        }
    }

    /// A thread that comes with a time of the previous second does not return to it.
    #[test]
    fn second_never_goes_back() {
        let ceiling = RefusalCap::new(0.5);
        ceiling.asked(100, Nanos(8 * SECOND));
        ceiling.asked(101, Nanos(8 * SECOND));
        assert!(refuses(&ceiling, 102, 8 * SECOND));
        assert!(!refuses(&ceiling, 99, 8 * SECOND - 1), "counted in an earlier second");
        assert!(refuses(&ceiling, 103, 8 * SECOND - 1), "2 of 4 with it");
        assert!(!refuses(&ceiling, 104, 8 * SECOND - 1), "3 of 5 with it");
    }

    #[test]
    fn threads_share_the_allowance() {
        const EACH: u64 = 50_000;
        let ceiling = RefusalCap::new(0.5);
        let (asked, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let number = asked.fetch_add(1, Relaxed) + 1;
                        let is = refuses(&ceiling, number, 7 * SECOND);
                        refused.fetch_add(is.into(), Relaxed);
                    }
                });
            }
        });
        let (most, refused) = (4 * EACH / 2, refused.into_inner());
        assert!(refused <= most && refused > most * 98 / 100, "{refused}");
    }
}
