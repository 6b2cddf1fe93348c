//! Tables of samples.

use crate::Error;
use crate::error::same;

/// A table of samples: row by row, all of the same width.
///
/// The numbers are borrowed; this adds the width of a row.
///
/// ```
/// use trimtab_learn::Rows;
///
/// let rows = Rows::new(&[1, 2, 3, 4, 5, 6], 3)?;
/// assert_eq!(rows.len(), 2);
/// assert_eq!(rows.row(1), [4, 5, 6]);
/// # Ok::<(), trimtab_learn::Error>(())
/// ```
#[derive(Debug)]
pub struct Rows<'a, T> {
    values: &'a [T],
    width: usize,
}

impl<'a, T> Rows<'a, T> {
    /// Rows of `width` values each.
    ///
    /// # Errors
    /// If the values do not fill whole rows.
    pub fn new(values: &'a [T], width: usize) -> Result<Self, Error> {
        if width == 0 {
            return Err(Error::Value { what: "a row has at least one value", found: 0.0 });
        }
        let whole = values.len() / width * width;
        same("values of a table", whole, values.len())?;
        Ok(Self { values, width })
    }

    /// Number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.values.len() / self.width
    }

    /// Whether there are no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Number of values in a row.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    /// One row.
    ///
    /// # Panics
    /// If the index is out of bounds.
    #[must_use]
    pub fn row(&self, row: usize) -> &'a [T] {
        &self.values[row * self.width..][..self.width]
    }

    /// All rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [T]> + Clone + use<'a, T> {
        self.values.chunks_exact(self.width)
    }
}

impl<T> Clone for Rows<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Rows<'_, T> {}
