//! Probes: reads that are sent to an avoided drive.
//!
//! A predictor gets no information about a drive that completes nothing, so an avoided drive
//! is probed: once reads have been refused for the probe interval, a read that is forecast to
//! be late is sent, and then one in each interval. The same holds for each part of a drive
//! that is avoided while others are read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use trimtab_io::Nanos;
use trimtab_predict::units::UnitFunction;

use crate::outstanding::Count;

/// The number of divisions of a drive into parts, corresponding to a model's divisions into
/// units.
const WAYS: usize = 3;
/// Parts of each division. A function with more units, such as one of pages, is left out:
/// probing each of its units would take too many reads.
const PARTS: usize = 256;

/// The reads that share a forecast with this one, in each division: a forecast depends on the
/// parallel units of a read, and on its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part([u8; WAYS]);

impl Part {
    /// The part of reads of this many pages that start in these units by these functions.
    /// Without functions the whole drive is one part.
    pub(super) fn new<'a>(
        units: impl Iterator<Item = (&'a UnitFunction, u16)>,
        pages: u32,
    ) -> Self {
        // Reads of up to twice the size are treated alike.
        let size = (u32::BITS - pages.leading_zeros()) as u8;
        // Spread widely, so that few units collide with those of another size.
        let mut parts = [size.wrapping_mul(37); WAYS];
        let units = units.filter(|(function, _)| function.units() <= PARTS as u32);
        for (part, (_, unit)) in parts.iter_mut().zip(units) {
            *part = part.wrapping_add(unit as u8);
        }
        Self(parts)
    }

    /// The part of reads of this many pages at an unknown place.
    pub(super) fn anywhere(pages: u32) -> Self {
        Self::new(std::iter::empty(), pages)
    }
}

/// A time of 0: not avoided.
#[derive(Debug)]
pub(super) struct Probes {
    every: Nanos,
    /// Since when reads have been predicted late.
    avoided_since: AtomicU64,
    /// Since when all reads of a part have been. Reads of other parts carry no information
    /// about it; and a part in use needs no probes, however often the drive has trouble: if
    /// troubles were short and reads few, each late read would be a probe.
    parts: [[AtomicU64; PARTS]; WAYS],
    /// When a read was last predicted late.
    last_late: AtomicU64,
    /// When the last probe was sent.
    last_probe: AtomicU64,
}

impl Probes {
    /// Probes with this interval.
    pub(super) fn new(every: Nanos) -> Self {
        Self {
            every,
            avoided_since: AtomicU64::new(0),
            parts: [const { [const { AtomicU64::new(0) }; PARTS] }; WAYS],
            last_late: AtomicU64::new(0),
            last_probe: AtomicU64::new(0),
        }
    }

    /// A read of this part is sent that was forecast to be in time. If all were for a whole
    /// interval, the drive needs no probe: without this rule, the first read of each short
    /// busy period would be one.
    pub(super) fn sent(&self, part: Part, now: Nanos) {
        // Read first: a cache line that is not written stays in every core's cache.
        for since in self.times(part) {
            if since.load(Relaxed) != 0 {
                since.store(0, Relaxed);
            }
        }
        if self.avoided_since.load(Relaxed) != 0
            && now.since(Nanos(self.last_late.load(Relaxed))) >= self.every
        {
            self.avoided_since.store(0, Relaxed);
        }
    }

    /// Whether a read of this part, which is forecast to be late, becomes a probe. One thread
    /// at a time gets a probe, and it is counted, up to a bound: a drive that completes no
    /// probe gets no further one.
    pub(super) fn is_due(&self, part: Part, now: Nanos, (out, most): (&Count, u32)) -> bool {
        self.last_late.store(now.0, Relaxed);
        let mut is_avoided = self.is_long_avoided(&self.avoided_since, now);
        // Starts the times that are not running.
        for since in self.times(part) {
            is_avoided |= self.is_long_avoided(since, now);
        }
        let last = self.last_probe.load(Relaxed);
        if !is_avoided || now.since(Nanos(last)) < self.every || !out.add_up_to(most) {
            return false;
        }
        let is_ours = self.last_probe.compare_exchange(last, now.0, Relaxed, Relaxed).is_ok();
        if !is_ours {
            out.end();
        }
        is_ours
    }

    /// Since when a part has been avoided, in each division.
    fn times(&self, part: Part) -> impl Iterator<Item = &AtomicU64> {
        self.parts.iter().zip(part.0).map(|(times, part)| &times[usize::from(part)])
    }

    /// Whether a period that starts now, if it is not running, has lasted for an interval.
    fn is_long_avoided(&self, since: &AtomicU64, now: Nanos) -> bool {
        let began = since.load(Relaxed);
        if began == 0 {
            since.store(now.0.max(1), Relaxed);
            return false;
        }
        now.since(Nanos(began)) >= self.every
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const HERE: Part = Part([7, 0, 3]);
    /// The same unit in one division, others in the rest.
    const ELSEWHERE: Part = Part([8, 0, 4]);

    fn probes() -> Probes {
        Probes::new(Nanos(10 * MS))
    }

    /// Whether a late read is a probe, which completes at once.
    fn is_probe(probes: &Probes, part: Part, at_us: u64) -> bool {
        probes.is_due(part, Nanos(at_us * 1000), (&Count::default(), 4))
    }

    #[test]
    fn refused_drive_is_probed_every_10_ms() {
        let probes = probes();
        // Ten per millisecond, all late, across the drive.
        let part = |i: u64| Part([i as u8, (i % 7) as u8, 0]);
        let sent = (1..=1000).filter(|&i| is_probe(&probes, part(i), 100 * i));
        assert_eq!(sent.collect::<Vec<_>>(), (1..10).map(|i| 1 + 100 * i).collect::<Vec<_>>());
    }

    #[test]
    fn seldom_read_drive_is_probed_at_each_read() {
        let probes = probes();
        assert!(!is_probe(&probes, HERE, 5000));
        assert!((1..10).all(|i| is_probe(&probes, HERE, i * 1_000_000)));
    }

    /// Busy periods shorter than the probe interval have no probes, whether reads are rare or
    /// frequent.
    #[test]
    fn drive_in_use_is_not_probed() {
        for every in [12, 20, 60, 1000] {
            let probes = probes();
            for i in 1..1000 {
                probes.sent(HERE, Nanos((every * i - 1) * MS));
                assert!(!is_probe(&probes, HERE, every * i * 1000));
                assert!(!is_probe(&probes, HERE, (every * i) * 1000 + 900));
            }
        }
    }

    /// Reads of other parts carry no information about an avoided part: it is probed every 10
    /// ms as well, or at each of its reads, if these are less frequent.
    #[test]
    fn avoided_part_is_probed_like_a_drive() {
        for (gap_ms, expected) in [(1, 100), (5, 500), (13, 999), (60, 999), (1000, 999)] {
            let probes = probes();
            let is = |&i: &u64| {
                (0..gap_ms).for_each(|ms| probes.sent(ELSEWHERE, Nanos((i * gap_ms + ms) * MS)));
                is_probe(&probes, HERE, ((i + 1) * gap_ms) * 1000)
            };
            let count = (1..=1000).filter(is).count();
            assert!(count.abs_diff(expected) <= 1, "every {gap_ms} ms: {count}");
        }
    }

    /// Reads of one size may be avoided while others are not, and so may a unit.
    #[test]
    fn part_depends_on_unit_and_size() {
        let functions = [
            UnitFunction::Page { shift: 12 },
            UnitFunction::Stripe { shift: 12, units: 4 },
            UnitFunction::Parity { masks: vec![1 << 14, 1 << 20] },
        ];
        let part = |of: &[UnitFunction], offset, pages| {
            Part::new(of.iter().map(|function| (function, function.unit(offset))), pages)
        };
        let here = part(&functions, 0, 4);
        assert_eq!(here, part(&functions, 8 << 12, 7));
        let other = part(&functions, 1 << 12, 4);
        assert!(here.0[0] != other.0[0] && here.0[1] == other.0[1]);
        assert!((0..3).all(|way| here.0[way] != part(&functions, 0, 64).0[way]));
        assert_eq!(Part::anywhere(1), part(&functions[..1], 1 << 12, 1));
    }

    #[test]
    fn unanswered_probes_are_bounded() {
        let (probes, out) = (probes(), Count::default());
        let sent = |from: u64| {
            let is = |&i: &u64| probes.is_due(HERE, Nanos(i * 10 * MS), (&out, 4));
            (from..from + 100).filter(is).count()
        };
        assert_eq!(sent(1), 4);
        out.end();
        assert_eq!(sent(101), 1);
    }
}
