//! Exponential functions, identical on every machine.
//!
//! Built from additions and multiplications only, so results do not depend on a library's or a
//! processor's rounding. Accurate to about two units in the last place, far better than a model
//! needs.

/// eˣ; saturates beyond ±87. After Moshier's Cephes (`expf.c`): x = n ln 2 + r,
/// with a polynomial for eʳ.
pub(crate) fn exp(x: f32) -> f32 {
    /// Adding and subtracting it rounds to an integer.
    const ROUND: f32 = 12_582_912.0;
    /// ln 2 in two parts, the first of few bits: multiples of it are exact.
    const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    const POLYNOMIAL: [f32; 6] =
        [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];

    let x = x.clamp(-87.0, 88.0);
    let n = x * core::f32::consts::LOG2_E + ROUND - ROUND;
    let r = x - n * LN_2.0 - n * LN_2.1;
    let p = POLYNOMIAL.iter().fold(0.0, |sum, c| sum * r + c);
    let power_of_two = f32::from_bits(((n as i32 + 127) << 23) as u32);
    (p * r * r + r + 1.0) * power_of_two
}

/// 1 / (1 + e⁻ˣ).
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The hyperbolic tangent.
pub(crate) fn tanh(x: f32) -> f32 {
    1.0 - 2.0 / (exp(2.0 * x) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_accurate() {
        for i in -8_600..=8_600 {
            let x = i as f32 / 100.0;
            let wide = f64::from(x);
            assert!((f64::from(exp(x)) / wide.exp() - 1.0).abs() < 3e-7, "exp({x})");
            assert!((f64::from(tanh(x)) - wide.tanh()).abs() < 2e-7, "tanh({x})");
            assert!((f64::from(sigmoid(x)) - 1.0 / (1.0 + (-wide).exp())).abs() < 2e-7);
        }
        assert!(exp(1e9).is_finite() && exp(-1e9) > 0.0);
    }
}
