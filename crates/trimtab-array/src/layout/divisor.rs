//! Division by numbers that are known when the array is.

/// Divides numbers of up to 52 bits by a number of up to 11, with a multiplication instead of a
/// division, whether the divisor is a power of two or not.
///
/// With m = ⌊2⁶³/d⌋ + 1, m·d = 2⁶³ + e where 1 ≤ e ≤ d. So n·m/2⁶³ = n/d + n·e/(d·2⁶³), which is
/// above n/d by less than 1/d if n·e < 2⁶³, and then both have the same integer part (Granlund and
/// Montgomery, "Division by Invariant Integers using Multiplication", PLDI 1994).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Divisor {
    value: u64,
    reciprocal: u64,
}

impl Divisor {
    pub(super) const fn new(value: u64) -> Self {
        assert!(value > 0 && value < 1 << 11);
        Self { value, reciprocal: (1 << 63) / value + 1 }
    }

    pub(super) const fn value(self) -> u64 {
        self.value
    }

    /// Quotient and remainder.
    #[inline]
    pub(super) const fn div_rem(self, number: u64) -> (u64, u64) {
        debug_assert!(number < 1 << 52);
        let quotient = ((number as u128 * self.reciprocal as u128) >> 63) as u64;
        (quotient, number - quotient * self.value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn multiples_and_their_neighbours_divide_exactly() {
        let most = (1 << 52) - 1;
        for value in 1..1 << 11 {
            let divisor = Divisor::new(value);
            for quotient in [0, 1, 2, most / value / 2, most / value - 1, most / value] {
                for number in [(quotient * value).saturating_sub(1), quotient * value, most] {
                    assert_eq!(divisor.div_rem(number), (number / value, number % value));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn divides_as_the_processor_does(value in 1_u64..1 << 11, number in 0_u64..1 << 52) {
            prop_assert_eq!(Divisor::new(value).div_rem(number), (number / value, number % value));
        }
    }
}
