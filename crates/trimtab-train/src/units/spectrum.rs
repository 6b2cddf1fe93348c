//! Which bits of two addresses have to agree for two requests to meet?

/// The Walsh–Hadamard transform, in place: element m becomes the sum of all
/// elements x, each with the sign + if `m & x` has an even number of ones, and
/// − otherwise.
///
/// With the excess latency of all pairs of requests summed by the exclusive or
/// of their addresses, this gives at once, for every mask there is, how much
/// longer those pairs take that agree in its parity than those that do not.
///
/// # Panics
/// The length is no power of two.
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
    fn agrees_with_the_definition() {
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
