//! Which drive of an array cleans when.

use trimtab_io::Nanos;

/// The turns in which the drives of an array clean, and one drive's place among them (IODA,
/// §4.3.1, Figure 2).
///
/// ```text
///   drive 2                     ████████                    ██
///   drive 1           ████████                    ████████          TW = ████████
///   drive 0  ████████                    ████████
///            start    start+TW           start+3·TW
/// ```
///
/// Before `start` no drive has a turn.
///
/// ```
/// use trimtab_device::WindowSchedule;
/// use trimtab_io::Nanos;
///
/// let ms = Nanos::from_millis;
/// let second = WindowSchedule { start: ms(10), length: ms(100), position: 1, drives: 4 };
/// assert_eq!(second.window(ms(250)), (ms(510), ms(610)));
/// assert!(second.contains(ms(110)) && !second.contains(ms(210)));
/// assert_eq!(second.busy_drive(ms(310)), Some(3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSchedule {
    /// When the first drive's first window begins.
    pub start: Nanos,
    /// Length of each window: the paper's TW.
    pub length: Nanos,
    /// The drive's position in the array, from 0.
    pub position: u32,
    /// Drives in the array: the paper's N_ssd.
    pub drives: u32,
}

impl WindowSchedule {
    /// The time until all drives have had their turn.
    #[must_use]
    pub fn cycle(&self) -> Nanos {
        Nanos(self.length.0.saturating_mul(self.drives.max(1).into()))
    }

    /// The same turns with another length, from when all drives have had their current one. All
    /// drives of an array get the same start. (Sooner, drives at the end of the order would lose
    /// their turn, and if the length changes often, each time.)
    #[must_use]
    pub fn from_next_cycle(self, now: Nanos, length: Nanos) -> Self {
        let cycles = now.since(self.start).0.div_ceil(self.cycle().0.max(1));
        let start = self.start + Nanos(self.cycle().0.saturating_mul(cycles));
        Self { start, length, ..self }
    }

    /// The window in progress, or the next one: its start, and its end, which is not part of it.
    #[must_use]
    pub fn window(&self, now: Nanos) -> (Nanos, Nanos) {
        let first = self.start + Nanos(self.length.0.saturating_mul(self.position.into()));
        let cycle = self.cycle().0.max(1);
        // The first window that has not ended.
        let ended = now.since(first + self.length).0;
        let over = now >= first + self.length;
        let past = if over { ended / cycle + 1 } else { 0 };
        let begin = first + Nanos(past.saturating_mul(cycle));
        (begin, begin + self.length)
    }

    /// Whether it is this drive's turn.
    #[must_use]
    pub fn contains(&self, now: Nanos) -> bool {
        self.window(now).0 <= now
    }

    /// The same drive's turn at an LBA range, where each range has turns of its own (IODA, §7.4):
    /// in window n drive i cleans range (i + n) mod N.
    #[must_use]
    pub const fn for_range(self, range: u32) -> Self {
        let drives = if self.drives == 0 { 1 } else { self.drives };
        let position = (range % drives + drives - self.position % drives) % drives;
        Self { position, ..self }
    }

    /// The drive whose turn it is; `None` before the first.
    #[must_use]
    pub fn busy_drive(&self, now: Nanos) -> Option<u32> {
        if now < self.start {
            return None;
        }
        let turns = now.since(self.start).0 / self.length.0.max(1);
        Some((turns % u64::from(self.drives.max(1))) as u32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// At any time exactly one drive has its turn.
        #[test]
        fn windows_partition_time(
            start in 0_u64..1000,
            length in 1_u64..300,
            drives in 1_u32..9,
            now in 0_u64..100_000,
        ) {
            let (start, length, now) = (Nanos(start), Nanos(length), Nanos(now));
            let of = |position| WindowSchedule { start, length, position, drives };
            let busy: Vec<_> = (0..drives).filter(|&i| of(i).contains(now)).collect();
            prop_assert_eq!(&busy, &of(0).busy_drive(now).into_iter().collect::<Vec<_>>());
            for position in 0..drives {
                let (from, until) = of(position).window(now);
                prop_assert_eq!(until, from + length);
                prop_assert!(now < until && from <= (now.max(start) + of(0).cycle()));
            }
            let next = of(0).from_next_cycle(now, Nanos(7));
            prop_assert!(next.start >= now && next.start <= now.max(start) + of(0).cycle());
            prop_assert!(now < start || of(0).busy_drive(next.start) == Some(0));
            // Each range has one drive that cleans it, and each drive one range that it cleans.
            for i in 0..drives {
                let drive = (0..drives).filter(|&d| of(d).for_range(i).contains(now)).count();
                let range = (0..drives).filter(|&r| of(i).for_range(r).contains(now)).count();
                prop_assert_eq!((drive, range), (busy.len(), busy.len()));
            }
        }
    }
}
