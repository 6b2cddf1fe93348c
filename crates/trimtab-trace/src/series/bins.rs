//! Bins over a range that is not known in advance.
//!
//! A stream does not tell how long it will be. So bins begin narrow, and
//! whenever there would be too many of them, their width doubles and
//! neighbours merge. A bin is always a multiple of its width away from zero,
//! which is why the result does not depend on the order of events: it is what
//! bins of the final width would have held from the start.

use rustc_hash::FxHashMap;

/// What can be kept in bins that merge.
pub(super) trait Merge: Default {
    /// Takes in what a neighbour holds.
    fn merge(&mut self, other: Self);
}

/// Which stretch of a line the bins cover. A bin's number is its place in
/// units of the width, counted from zero: `x >> shift`.
#[derive(Clone, Debug)]
struct Axis {
    /// The width is two to this.
    shift: u32,
    /// Number of the first bin and of the last.
    used: Option<(u64, u64)>,
    /// How many bins there may be from first to last; at least two.
    most: u64,
}

impl Axis {
    const fn new(most: usize) -> Self {
        assert!(most >= 2);
        Self { shift: 0, used: None, most: most as u64 }
    }

    /// Makes room for `x`, and returns how often the width doubled for it.
    fn admit(&mut self, x: u64) -> u32 {
        let (low, high) = self.used.unwrap_or((x >> self.shift, x >> self.shift));
        let mut doublings = 0;
        loop {
            let bin = x >> self.shift;
            let (first, last) = (bin.min(low >> doublings), bin.max(high >> doublings));
            // With a width of 2^63 there are two bins, so this ends.
            if last - first < self.most {
                self.used = Some((first, last));
                return doublings;
            }
            doublings += 1;
            self.shift += 1;
        }
    }

    fn first(&self) -> u64 {
        self.used.map_or(0, |used| used.0)
    }

    fn len(&self) -> usize {
        self.used.map_or(0, |(first, last)| (last - first + 1) as usize)
    }
}

/// A row of at most so many bins, of equal width, that covers all that was
/// ever put in.
#[derive(Clone, Debug)]
pub(super) struct AdaptiveBins<T> {
    axis: Axis,
    bins: Vec<T>,
}

impl<T: Merge> AdaptiveBins<T> {
    /// No bins yet, and never more than `most`, which is at least two.
    pub(super) const fn new(most: usize) -> Self {
        Self { axis: Axis::new(most), bins: Vec::new() }
    }

    /// The bin that `x` falls into.
    pub(super) fn at(&mut self, x: u64) -> &mut T {
        let before = self.axis.first();
        let doublings = self.axis.admit(x);
        let first = self.axis.first();
        if doublings > 0 || first != before {
            let old = std::mem::take(&mut self.bins);
            self.bins.resize_with(self.axis.len(), T::default);
            for (i, bin) in old.into_iter().enumerate() {
                let wider = (before + i as u64) >> doublings;
                self.bins[(wider - first) as usize].merge(bin);
            }
        }
        self.bins.resize_with(self.axis.len(), T::default);
        let bin = (x >> self.axis.shift) - first;
        &mut self.bins[bin as usize]
    }

    /// Doubles the width once.
    pub(super) fn coarsen(&mut self) {
        let Some((first, last)) = self.axis.used else { return };
        if self.axis.shift == 63 {
            return; // 2^64 is no width that a u64 can tell.
        }
        let old = std::mem::take(&mut self.bins);
        self.axis.shift += 1;
        self.axis.used = Some((first / 2, last / 2));
        self.bins.resize_with(self.axis.len(), T::default);
        for (i, bin) in old.into_iter().enumerate() {
            let wider = (first + i as u64) / 2;
            self.bins[(wider - first / 2) as usize].merge(bin);
        }
    }

    /// A bin's width.
    pub(super) const fn width(&self) -> u64 {
        1 << self.axis.shift
    }

    /// Where the first bin begins.
    pub(super) fn start(&self) -> u64 {
        self.axis.first() << self.axis.shift
    }

    /// The bins, in order. Those between others may be empty.
    pub(super) fn bins(&self) -> &[T] {
        &self.bins
    }
}

/// Counts over two such ranges.
#[derive(Clone, Debug)]
pub(super) struct AdaptiveGrid {
    columns: Axis,
    rows: Axis,
    /// By bin numbers. Few cells of a trace's map are ever touched at once,
    /// and doubling is a new key for each.
    cells: FxHashMap<(u64, u64), u64>,
}

impl AdaptiveGrid {
    /// No cells yet, and never more than so many columns and rows.
    pub(super) fn new(columns: usize, rows: usize) -> Self {
        let (columns, rows) = (Axis::new(columns), Axis::new(rows));
        Self { columns, rows, cells: FxHashMap::default() }
    }

    /// Counts one at this place.
    pub(super) fn add(&mut self, x: u64, y: u64) {
        let (wider, higher) = (self.columns.admit(x), self.rows.admit(y));
        if wider > 0 || higher > 0 {
            for ((column, row), count) in std::mem::take(&mut self.cells) {
                *self.cells.entry((column >> wider, row >> higher)).or_default() += count;
            }
        }
        *self.cells.entry((x >> self.columns.shift, y >> self.rows.shift)).or_default() += 1;
    }

    /// Where the first column and the first row begin.
    pub(super) fn start(&self) -> (u64, u64) {
        (self.columns.first() << self.columns.shift, self.rows.first() << self.rows.shift)
    }

    /// A column's width and a row's height.
    pub(super) const fn widths(&self) -> (u64, u64) {
        (1 << self.columns.shift, 1 << self.rows.shift)
    }

    /// The cells that are not empty, by column, row and count; column and row
    /// count from the first.
    pub(super) fn cells(&self) -> Vec<(u32, u32, u64)> {
        let place = |bin: u64, axis: &Axis| (bin - axis.first()) as u32;
        let mut cells: Vec<_> = self
            .cells
            .iter()
            .map(|(&(x, y), &n)| (place(x, &self.columns), place(y, &self.rows), n))
            .collect();
        cells.sort_unstable();
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl Merge for Vec<u64> {
        fn merge(&mut self, mut other: Self) {
            self.append(&mut other);
        }
    }

    /// Values close together, far apart, and at the ends of the range.
    fn anywhere() -> impl Strategy<Value = u64> {
        prop_oneof![
            0_u64..100,
            1_000_000_u64..1_001_000,
            any::<u64>(),
            Just(u64::MAX),
            (0_u32..64).prop_map(|bit| 1 << bit),
        ]
    }

    proptest! {
        #[test]
        fn adaptive_bins_are_direct_bins_of_the_final_width(
            values in prop::collection::vec(anywhere(), 1..200),
            most in 2_usize..20,
            coarser in 0_usize..3,
        ) {
            let mut adaptive = AdaptiveBins::<Vec<u64>>::new(most);
            for &x in &values {
                adaptive.at(x).push(x);
                prop_assert!(adaptive.bins().len() <= most);
            }
            for _ in 0..coarser {
                adaptive.coarsen();
            }
            let mut direct: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            for &x in &values {
                direct.entry(x / adaptive.width()).or_default().push(x);
            }
            let first = adaptive.start() / adaptive.width();
            let mut found = BTreeMap::new();
            for (i, bin) in adaptive.bins().iter().enumerate().filter(|(_, bin)| !bin.is_empty()) {
                let mut bin = bin.clone();
                bin.sort_unstable();
                found.insert(first + i as u64, bin);
            }
            for bin in direct.values_mut() {
                bin.sort_unstable();
            }
            prop_assert_eq!(found, direct);
        }

        #[test]
        fn bins_are_no_wider_than_needed(
            values in prop::collection::vec(anywhere(), 1..50),
            most in 2_u64..20,
        ) {
            let mut axis = Axis::new(most as usize);
            for &x in &values {
                axis.admit(x);
            }
            let (low, high) = (values.iter().min().unwrap(), values.iter().max().unwrap());
            if let Some(narrower) = axis.shift.checked_sub(1) {
                prop_assert!((high >> narrower) - (low >> narrower) >= most);
            }
        }

        #[test]
        fn a_grid_counts_what_direct_bins_count(
            points in prop::collection::vec((anywhere(), anywhere()), 1..200),
        ) {
            let mut grid = AdaptiveGrid::new(8, 5);
            for &(x, y) in &points {
                grid.add(x, y);
            }
            let ((width, height), (left, bottom)) = (grid.widths(), grid.start());
            let mut direct: BTreeMap<(u32, u32), u64> = BTreeMap::new();
            for &(x, y) in &points {
                let cell = ((x - left) / width, (y - bottom) / height);
                prop_assert!(cell.0 < 8 && cell.1 < 5);
                *direct.entry((cell.0 as u32, cell.1 as u32)).or_default() += 1;
            }
            let found: BTreeMap<_, _> =
                grid.cells().into_iter().map(|(x, y, n)| ((x, y), n)).collect();
            prop_assert_eq!(found, direct);
        }
    }
}
