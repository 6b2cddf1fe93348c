//! The spectrum of address differences: which bits must agree for two requests to meet?

/// The Walsh–Hadamard transform, in place: element m becomes the sum of all
/// elements x, each with the sign + if `m & x` has an even number of ones, and
/// − otherwise.
///
/// With the excess of all pairs summed by the exclusive or of their addresses, it gives for
/// every mask at once the excess of the pairs that agree in its parity minus that of the
/// others.
///
/// # Panics
/// If the length is no power of two.
pub(super) fn walsh(values: &mut [f64]) {
    assert!(values.len().is_power_of_two());
    let mut half = 1;
    while half < values.len() {
        for block in values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walsh_equals_its_definition() {
        let values: Vec<f64> = (0..32_u32).map(|i| f64::from(i * i % 23)).collect();
        let mut fast = values.clone();
        walsh(&mut fast);
        for (m, found) in fast.iter().enumerate() {
            let sign = |x: usize| if (m & x).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
            let sum: f64 = values.iter().enumerate().map(|(x, value)| sign(x) * value).sum();
            assert_eq!(*found, sum);
        }
    }
}
