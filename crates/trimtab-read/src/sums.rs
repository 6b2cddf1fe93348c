//! What all readers of a drive have done together, also those that are gone.

use std::collections::BTreeMap;
use std::path::Path;

use crate::figures::Figures;
use crate::published::{Published, published};

/// Adds up what readers publish. A plain state machine: each look at the readers that
/// live is passed in, and sums never go back when readers end. What a reader does
/// between the last look and its end is missed.
#[derive(Clone, Debug, Default)]
pub struct ReaderSums {
    /// As they were at the last look, by the name of their file.
    seen: BTreeMap<String, Figures>,
    devices: BTreeMap<(u32, u32), Sum>,
}

/// What the readers of a drive have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Those that live.
    pub readers: u64,
    /// What all have done since the first look.
    pub figures: Figures,
}

impl ReaderSums {
    /// Looks at the readers that publish in a directory ([`readers`](super::readers)).
    /// One that cannot be read has none.
    pub fn look(&mut self, directory: &Path) {
        self.add(&published(directory).unwrap_or_default());
    }

    /// Takes in those that live. What they have done before the first look counts too.
    pub fn add(&mut self, all: &[Published]) {
        self.devices.values_mut().for_each(|sum| sum.readers = 0);
        let seen = std::mem::take(&mut self.seen);
        for reader in all {
            let before = seen.get(&reader.name).copied().unwrap_or_default();
            // Another of the same name begins at nothing.
            let is_same = before.asked <= reader.figures.asked;
            let before = if is_same { before } else { Figures::default() };
            let sum = self.devices.entry(reader.device).or_default();
            sum.readers += 1;
            sum.figures = sum.figures.plus(&reader.figures.since(&before));
            self.seen.insert(reader.name.clone(), reader.figures);
        }
    }

    /// What the readers of a drive have done; none if there was never one.
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

    fn reader(name: &str, asked: u64, refused: u64) -> Published {
        let figures = Figures { asked, refused, admitted: asked - refused, ..Figures::default() };
        Published { name: name.to_owned(), pid: 1, device: DISK, path: PathBuf::new(), figures }
    }

    #[test]
    fn sums_never_go_back() {
        let mut sums = ReaderSums::default();
        sums.add(&[reader("1-0", 100, 10), reader("1-1", 50, 5)]);
        let now = |sums: &ReaderSums| {
            let sum = sums.of(DISK).unwrap();
            (sum.readers, sum.figures.asked, sum.figures.refused, sum.figures.admitted)
        };
        assert_eq!(now(&sums), (2, 150, 15, 135));
        // One has ended, the other gone on.
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
