//! The one check that every number from outside goes through.
//!
//! Descriptions, configurations and options are full of numbers, and a floating-point one
//! may be negative, infinite or not a number at all. Each reader states a closed range for
//! each key, and this decides and words the error; the reader adds the file and the line.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;

/// Whether a value is in its range; not-a-number is in none.
///
/// ```
/// use trimtab_io::within;
///
/// assert_eq!(within("fill.share", 0.5, 0.0..=1.0), Ok(()));
/// let wrong = within("fill.share", f64::NAN, 0.0..=1.0).unwrap_err();
/// assert_eq!(wrong.to_string(), "fill.share must be from 0 to 1, not NaN");
/// ```
///
/// # Errors
/// A line that names the key, what is allowed and what was found.
pub fn within<T: PartialOrd + Display>(
    key: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), OutOfRange> {
    if range.contains(&value) {
        return Ok(());
    }
    let text = format!("{key} must be from {} to {}, not {value}", range.start(), range.end());
    Err(OutOfRange(text))
}

/// A number is out of its range. Displays as one line: the key, what is allowed and
/// what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfRange(String);

impl Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OutOfRange {}

impl From<OutOfRange> for String {
    fn from(error: OutOfRange) -> Self {
        error.0
    }
}
