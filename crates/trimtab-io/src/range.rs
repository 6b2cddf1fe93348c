//! The range check for numbers from outside.
//!
//! Descriptions, configurations and options contain numbers, and a floating-point one may be
//! negative, infinite or not a number. Each reader states a closed range for each key; this check
//! decides and words the error; the reader adds the file and the line.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// A number outside its range. Displays as one line that names the key, the range and the number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} must be from {least} to {most}, not {found}")]
pub struct OutOfRange {
    /// The key, as the user wrote it.
    pub key: String,
    /// The smallest valid number.
    pub least: String,
    /// The largest valid number.
    pub most: String,
    /// The number found.
    pub found: String,
}

/// Checks that a value is in its range; NaN is in none.
///
/// ```
/// use trimtab_io::within;
///
/// assert_eq!(within("fill.share", 0.5, 0.0..=1.0), Ok(()));
/// let error = within("fill.share", f64::NAN, 0.0..=1.0).unwrap_err();
/// assert_eq!(error.to_string(), "fill.share must be from 0 to 1, not NaN");
/// ```
///
/// # Errors
/// The value is outside the range.
pub fn within<T: PartialOrd + Display>(
    key: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), OutOfRange> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(OutOfRange {
        key: key.to_owned(),
        least: range.start().to_string(),
        most: range.end().to_string(),
        found: value.to_string(),
    })
}
