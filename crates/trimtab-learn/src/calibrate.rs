//! From scores to probabilities.
//!
//! A model's score says which of two requests is likelier to be slow, not how
//! likely. Calibration learns that from samples that the model has not seen. A
//! [`Table`] holds the result in integers.

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

/// A function that rises in steps: from integer scores to probabilities in units
/// of 2⁻¹⁶ (or to whatever else rises with a score).
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
}

impl Table {
    /// The value of each step, of which all but the first begin at a score of
    /// `starts`.
    ///
    /// # Errors
    /// If there is not one value more than starts; if starts do not rise or
    /// values fall.
    pub fn new(starts: Box<[i32]>, values: Box<[i32]>) -> Result<Self, Error> {
        same("values of a table", starts.len() + 1, values.len())?;
        if let Some(pair) = starts.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(Error::Value { what: "the starts of steps rise", found: pair[1].into() });
        }
        if let Some(pair) = values.windows(2).find(|pair| pair[0] > pair[1]) {
            return Err(Error::Value { what: "values do not fall", found: pair[1].into() });
        }
        Ok(Self { starts, values })
    }

    /// Where the steps begin, but the first.
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
        self.values[self.starts.partition_point(|&start| start <= score)]
    }

    /// The least score whose value is at least `value`: with it a decision needs
    /// no table. `None` if no score has.
    #[must_use]
    pub fn first_score_with(&self, value: i32) -> Option<i32> {
        match self.values.partition_point(|&v| v < value) {
            0 => Some(i32::MIN),
            step => self.starts.get(step - 1).copied(),
        }
    }
}
