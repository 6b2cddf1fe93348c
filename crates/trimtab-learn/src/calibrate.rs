//! Calibration: from scores to probabilities.
//!
//! A model's score ranks requests, but is no probability. Calibration learns the mapping from
//! samples that the model has not seen. A [`Table`] holds the result in integers.

#[cfg(feature = "train")]
mod isotonic;
#[cfg(feature = "train")]
mod platt;

#[cfg(feature = "train")]
pub use isotonic::isotonic;
#[cfg(feature = "train")]
pub use platt::Platt;

use alloc::boxed::Box;

use crate::Error;
use crate::error::same;

/// A non-decreasing step function: from integer scores to probabilities in units of 2⁻¹⁶ (or to any
/// other quantity that rises with a score).
///
/// ```
/// use trimtab_learn::calibrate::Table;
///
/// // 0.1 up to a score of 9, then 0.5, from 20 on 0.9.
/// let table = Table::new([10, 20].into(), [6_554, 32_768, 58_982].into())?;
/// assert_eq!(table.value(9), 6_554);
/// assert_eq!(table.value(10), 32_768);
/// assert_eq!(table.value(1_000), 58_982);
/// # Ok::<(), trimtab_learn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    starts: Box<[i32]>,
    values: Box<[i32]>,
    index: StepIndex,
}

/// An index into the steps: for each of a few hundred equal ranges of scores, the number of steps
/// that begin before it. A binary search mispredicts every other branch, and costs a tenth of a
/// decision.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StepIndex {
    /// Start of the first range.
    low: i32,
    /// log2 of a range's length.
    shift: u32,
    /// Steps that begin before each range.
    before: Box<[u32]>,
}

impl StepIndex {
    /// Maximum number of ranges.
    const MAX_RANGES: i64 = 512;

    fn new(starts: &[i32]) -> Self {
        let (Some(&low), Some(&high)) = (starts.first(), starts.last()) else {
            return Self { low: 0, shift: 0, before: [0].into() };
        };
        let range = i64::from(high) - i64::from(low);
        let shift = (range / Self::MAX_RANGES + 1).ilog2() + 1;
        let begin = |stretch: i64| i64::from(low) + (stretch << shift);
        let steps = |score: i64| starts.partition_point(|&start| i64::from(start) < score) as u32;
        let before = (0..=range >> shift).map(|stretch| steps(begin(stretch))).collect();
        Self { low, shift, before }
    }

    /// A lower bound of the number of steps that begin before a score.
    #[inline]
    fn before(&self, score: i32) -> usize {
        let above = (i64::from(score) - i64::from(self.low)).max(0) as u64;
        let stretch = (above >> self.shift).min(self.before.len() as u64 - 1);
        self.before[stretch as usize] as usize
    }
}

impl Table {
    /// A table of the steps' values, whose steps except the first begin at `starts`.
    ///
    /// # Errors
    /// If there is not one value more than starts; if starts do not rise or values fall.
    pub fn new(starts: Box<[i32]>, values: Box<[i32]>) -> Result<Self, Error> {
        same("values of a table", starts.len() + 1, values.len())?;
        if let Some(pair) = starts.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(Error::Value { what: "the starts of steps rise", found: pair[1].into() });
        }
        if let Some(pair) = values.windows(2).find(|pair| pair[0] > pair[1]) {
            return Err(Error::Value { what: "values do not fall", found: pair[1].into() });
        }
        let index = StepIndex::new(&starts);
        Ok(Self { starts, values, index })
    }

    /// Starts of the steps, except the first.
    #[must_use]
    pub fn starts(&self) -> &[i32] {
        &self.starts
    }

    /// The value of each step.
    #[must_use]
    pub fn values(&self) -> &[i32] {
        &self.values
    }

    /// The value at a score.
    #[must_use]
    pub fn value(&self, score: i32) -> i32 {
        let before = self.index.before(score);
        let more = self.starts[before..].iter().take_while(|&&start| start <= score).count();
        self.values[before + more]
    }

    /// The lowest score with at least this value, for decisions without the table. `None` if there
    /// is none.
    #[must_use]
    pub fn first_score_with(&self, value: i32) -> Option<i32> {
        match self.values.partition_point(|&v| v < value) {
            0 => Some(i32::MIN),
            step => self.starts.get(step - 1).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The index only saves time.
        #[test]
        fn index_agrees_with_a_search(
            mut starts in prop_oneof![
                prop::collection::vec(any::<i32>(), 0..40),
                prop::collection::vec(-1000..1000, 0..400),
            ],
            asked in prop::collection::vec(any::<i32>(), 1..20),
        ) {
            starts.sort_unstable();
            starts.dedup();
            let values: Vec<i32> = (0..=starts.len() as i32).collect();
            let table = Table::new(starts.clone().into(), values.into()).unwrap();
            let edges = starts.iter().flat_map(|&s| [s.saturating_sub(1), s, s.saturating_add(1)]);
            let near = asked.iter().map(|&score| score % 1100);
            for score in asked.iter().copied().chain(near).chain(edges).chain([i32::MIN, i32::MAX]) {
                let step = starts.partition_point(|&start| start <= score);
                prop_assert_eq!(table.value(score), step as i32);
            }
        }
    }
}
