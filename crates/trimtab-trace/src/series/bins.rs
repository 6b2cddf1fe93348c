//! Histogram bins over a range that is not known in advance.
//!
//! Bins begin narrow; whenever there would be too many, their width doubles and neighbours merge.
//! Bin borders are multiples of the width, so the result does not depend on the order of events: it
//! equals bins of the final width from the start.

use rustc_hash::FxHashMap;

/// Content of bins that merge.
pub(super) trait Merge: Default {
    /// Adds a neighbour's content.
    fn merge(&mut self, other: Self);
}

/// The range of the bins. A bin's number is `x >> shift`.
#[derive(Clone, Debug)]
struct Axis {
    /// log2 of the width.
    shift: u32,
    /// Numbers of the first and the last bin.
    used: Option<(u64, u64)>,
    /// Maximum number of bins from first to last; at least two.
    max: u64,
}

impl Axis {
    const fn new(max: usize) -> Self {
        assert!(max >= 2);
        Self { shift: 0, used: None, max: max as u64 }
    }

    /// Extends the range to `x`, and returns how often the width doubled.
    fn admit(&mut self, x: u64) -> u32 {
        let (low, high) = self.used.unwrap_or((x >> self.shift, x >> self.shift));
        let mut doublings = 0;
        loop {
            let bin = x >> self.shift;
            let (first, last) = (bin.min(low >> doublings), bin.max(high >> doublings));
            // With a width of 2^63 there are two bins, so this ends.
            if last - first < self.max {
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

/// At most `max` bins of equal width, over everything added.
#[derive(Clone, Debug)]
pub(super) struct AdaptiveBins<T> {
    axis: Axis,
    bins: Vec<T>,
}

impl<T: Merge> AdaptiveBins<T> {
    /// No bins yet, and never more than `max`, at least two.
    pub(super) const fn new(max: usize) -> Self {
        Self { axis: Axis::new(max), bins: Vec::new() }
    }

    /// The bin of `x`.
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
            return; // 2^64 does not fit into a u64.
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

    /// Width of the bins.
    pub(super) const fn width(&self) -> u64 {
        1 << self.axis.shift
    }

    /// Start of the first bin.
    pub(super) fn start(&self) -> u64 {
        self.axis.first() << self.axis.shift
    }

    /// The bins in order; some may be empty.
    pub(super) fn bins(&self) -> &[T] {
        &self.bins
    }
}

/// Counts over two such ranges.
#[derive(Clone, Debug)]
pub(super) struct AdaptiveGrid {
    columns: Axis,
    rows: Axis,
    /// By bin numbers. Few cells of a trace's map are non-empty, and doubling maps each to a new
    /// key.
    cells: FxHashMap<(u64, u64), u64>,
}

impl AdaptiveGrid {
    /// No cells yet, and never more than this many columns and rows.
    pub(super) fn new(columns: usize, rows: usize) -> Self {
        let (columns, rows) = (Axis::new(columns), Axis::new(rows));
        Self { columns, rows, cells: FxHashMap::default() }
    }

    /// Counts one at (`x`, `y`).
    pub(super) fn add(&mut self, x: u64, y: u64) {
        let (wider, higher) = (self.columns.admit(x), self.rows.admit(y));
        if wider > 0 || higher > 0 {
            for ((column, row), count) in std::mem::take(&mut self.cells) {
                *self.cells.entry((column >> wider, row >> higher)).or_default() += count;
            }
        }
        *self.cells.entry((x >> self.columns.shift, y >> self.rows.shift)).or_default() += 1;
    }

    /// Start of the first column and of the first row.
    pub(super) fn start(&self) -> (u64, u64) {
        (self.columns.first() << self.columns.shift, self.rows.first() << self.rows.shift)
    }

    /// A column's width and a row's height.
    pub(super) const fn widths(&self) -> (u64, u64) {
        (1 << self.columns.shift, 1 << self.rows.shift)
    }

    /// The non-empty cells: column, row (from the first) and count.
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
        fn adaptive_bins_equal_fixed_bins(
            values in prop::collection::vec(anywhere(), 1..200),
            max in 2_usize..20,
            coarser in 0_usize..3,
        ) {
            let mut adaptive = AdaptiveBins::<Vec<u64>>::new(max);
            for &x in &values {
                adaptive.at(x).push(x);
                prop_assert!(adaptive.bins().len() <= max);
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
        fn bin_width_is_minimal(
            values in prop::collection::vec(anywhere(), 1..50),
            max in 2_u64..20,
        ) {
            let mut axis = Axis::new(max as usize);
            for &x in &values {
                axis.admit(x);
            }
            let (low, high) = (values.iter().min().unwrap(), values.iter().max().unwrap());
            if let Some(narrower) = axis.shift.checked_sub(1) {
                prop_assert!((high >> narrower) - (low >> narrower) >= max);
            }
        }

        #[test]
        fn adaptive_grid_equals_fixed_grid(
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
