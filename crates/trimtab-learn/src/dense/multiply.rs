//! Matrix multiplication, the loop that dominates training.

/// Rows and columns of the result in registers.
const ROWS: usize = 4;
const COLUMNS: usize = 16;

/// A matrix with strides: traversed by row, or transposed by column.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub(super) values: &'a [f32],
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_stride: usize,
    pub(super) column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix stored by rows.
    pub(super) fn of_rows(values: &'a [f32], columns: usize) -> Self {
        let rows = values.len() / columns;
        Self { values, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// The transposed matrix.
    pub(super) fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }
}

/// Adds `a` × `b` to `sum`. Every variant adds the terms of each element in the order of `a`'s
/// columns.
pub(super) fn add_product(a: Matrix<'_>, b: &[f32], sum: &mut [f32]) {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    {
        #[target_feature(enable = "avx512f")]
        fn avx512(a: Matrix<'_>, b: &[f32], sum: &mut [f32]) {
            tiles(a, b, sum);
        }
        #[target_feature(enable = "avx2")]
        fn avx2(a: Matrix<'_>, b: &[f32], sum: &mut [f32]) {
            tiles(a, b, sum);
        }
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512.
            return unsafe { avx512(a, b, sum) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has it.
            return unsafe { avx2(a, b, sum) };
        }
    }
    tiles(a, b, sum);
}

#[inline(always)]
fn tiles(a: Matrix<'_>, b: &[f32], sum: &mut [f32]) {
    let width = sum.len() / a.rows;
    let mut column = 0;
    while column + COLUMNS <= width {
        strip::<COLUMNS>(a, b, sum, width, column);
        column += COLUMNS;
    }
    while column < width {
        strip::<1>(a, b, sum, width, column);
        column += 1;
    }
}

/// A strip of columns of the result.
#[inline(always)]
fn strip<const C: usize>(a: Matrix<'_>, b: &[f32], sum: &mut [f32], width: usize, column: usize) {
    let mut row = 0;
    while row + ROWS <= a.rows {
        tile::<ROWS, C>(a, b, sum, width, row, column);
        row += ROWS;
    }
    while row < a.rows {
        tile::<1, C>(a, b, sum, width, row, column);
        row += 1;
    }
}

#[inline(always)]
fn tile<const R: usize, const C: usize>(
    a: Matrix<'_>,
    b: &[f32],
    sum: &mut [f32],
    width: usize,
    row: usize,
    column: usize,
) {
    let mut sums = [[0.0; C]; R];
    for (r, sums) in sums.iter_mut().enumerate() {
        sums.copy_from_slice(&sum[(row + r) * width + column..][..C]);
    }
    for (k, b) in b.chunks_exact(width).take(a.columns).enumerate() {
        let b: &[f32; C] = b[column..][..C].try_into().expect("C values");
        for (r, sums) in sums.iter_mut().enumerate() {
            let x = a.values[(row + r) * a.row_stride + k * a.column_stride];
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum += x * b;
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        sum[(row + r) * width + column..][..C].copy_from_slice(sums);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    proptest! {
        #[test]
        fn product_sums_in_column_order(
            rows in 1_usize..10, terms in 1_usize..40, width in 1_usize..40, flip in any::<bool>(),
        ) {
            let number = |i: usize| ((i * 2_654_435_761) % 1_000) as f32 / 7.0 - 71.0;
            let a: Vec<f32> = (0..rows * terms).map(number).collect();
            let b: Vec<f32> = (0..terms * width).map(|i| number(i + 99)).collect();
            let matrix = if flip {
                Matrix::of_rows(&a, rows).transposed()
            } else {
                Matrix::of_rows(&a, terms)
            };
            let mut sum = vec![0.5; rows * width];
            add_product(matrix, &b, &mut sum);
            for r in 0..rows {
                for c in 0..width {
                    let mut expected = 0.5_f32;
                    for k in 0..terms {
                        let x = if flip { a[k * rows + r] } else { a[r * terms + k] };
                        expected += x * b[k * width + c];
                    }
                    prop_assert_eq!(sum[r * width + c].to_bits(), expected.to_bits());
                }
            }
        }
    }
}
