//! Totals over all readers of a drive, including those that have ended.

use std::collections::BTreeMap;
use std::path::Path;

use crate::figures::Figures;
use crate::published::{Published, published};

/// Adds up the counters that readers publish. A state machine: each scan of the live readers
/// is passed in, and sums never decrease when readers end. What a reader counts between the
/// last scan and its end is missed.
#[derive(Clone, Debug, Default)]
pub struct ReaderSums {
    /// Counters at the last scan, by the name of the file.
    seen: BTreeMap<String, Figures>,
    devices: BTreeMap<(u32, u32), Sum>,
}

/// Totals over the readers of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The live readers.
    pub readers: u64,
    /// Counts of all readers since the first scan.
    pub figures: Figures,
}

impl ReaderSums {
    /// Scans the readers that publish in a directory ([`readers`](super::readers)). An
    /// unreadable directory counts as empty.
    pub fn look(&mut self, directory: &Path) {
        self.add(&published(directory).unwrap_or_default());
    }

    /// Adds the live readers. Their counts from before the first scan are included.
    pub fn add(&mut self, all: &[Published]) {
        self.devices.values_mut().for_each(|sum| sum.readers = 0);
        let seen = std::mem::take(&mut self.seen);
        for reader in all {
            let before = seen.get(&reader.name).copied().unwrap_or_default();
            // Another reader of the same name starts at zero.
            let is_same = before.with_deadline <= reader.figures.with_deadline;
            let before = if is_same { before } else { Figures::default() };
            let sum = self.devices.entry(reader.device).or_default();
            sum.readers += 1;
            sum.figures = sum.figures.plus(&reader.figures.since(&before));
            self.seen.insert(reader.name.clone(), reader.figures);
        }
    }

    /// The totals of a drive's readers; `None` if there was never one.
    #[must_use]
    pub fn of(&self, device: (u32, u32)) -> Option<&Sum> {
        self.devices.get(&device)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const DISK: (u32, u32) = (259, 3);

    fn reader(name: &str, with_deadline: u64, refused: u64) -> Published {
        let figures = Figures {
            with_deadline,
            refused,
            admitted: with_deadline - refused,
            ..Figures::default()
        };
        Published { name: name.to_owned(), pid: 1, device: DISK, path: PathBuf::new(), figures }
    }

    #[test]
    fn sums_never_decrease() {
        let mut sums = ReaderSums::default();
        sums.add(&[reader("1-0", 100, 10), reader("1-1", 50, 5)]);
        let now = |sums: &ReaderSums| {
            let sum = sums.of(DISK).unwrap();
            (sum.readers, sum.figures.with_deadline, sum.figures.refused, sum.figures.admitted)
        };
        assert_eq!(now(&sums), (2, 150, 15, 135));
        // One has ended, the other continued.
        sums.add(&[reader("1-1", 60, 5)]);
        assert_eq!(now(&sums), (1, 160, 15, 145));
        // Another process with the number of the first.
        sums.add(&[reader("1-0", 7, 7), reader("1-1", 60, 5)]);
        assert_eq!(now(&sums), (2, 167, 22, 145));
        sums.add(&[reader("1-1", 3, 3)]);
        assert_eq!(now(&sums), (1, 170, 25, 145));
        sums.add(&[]);
        assert_eq!(now(&sums), (0, 170, 25, 145));
        assert_eq!(sums.of((8, 0)), None);
    }
}
