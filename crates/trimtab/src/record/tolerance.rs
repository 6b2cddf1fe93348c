//! How much may be lost before a recording counts as incomplete.

use trimtab_report::count;

use crate::decimal::Decimal;

/// Ten in a million: far too few to move a p99.99.
pub(super) const DEFAULT: &str = "0.001%";

/// A share of requests that may be lost, exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tolerance {
    parts: u64,
    of: u64,
}

impl Tolerance {
    /// Reads `0.1%` or `0.001`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("expected a share from 0 to 1, or 0% to 100%, such as 0.1%, found `{text}`");
        let (number, by) = text.strip_suffix('%').map_or((text, 1), |number| (number, 100));
        let number: Decimal = number.parse().map_err(|_| wrong())?;
        let of = number.denominator.checked_mul(by).ok_or_else(wrong)?;
        if number.numerator > of {
            return Err(wrong());
        }
        Ok(Self { parts: number.numerator, of })
    }

    /// Whether this many of that many requests may be lost.
    pub(super) fn covers(self, lost: u64, requests: u64) -> bool {
        u128::from(lost) * u128::from(self.of) <= u128::from(self.parts) * u128::from(requests)
    }
}

/// `3 of 1,000,000 (0.0003%)`
pub(super) fn share(lost: u64, requests: u64) -> String {
    let percent = 100.0 * lost as f64 / requests.max(1) as f64;
    // Two significant digits, however small the share is.
    let decimals = (1.0 - percent.max(1e-9).log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{percent:.decimals$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{} of {} ({text}%)", count(lost), count(requests))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact() {
        let default = Tolerance::parse(DEFAULT).unwrap();
        assert!(default.covers(10, 1_000_000) && !default.covers(11, 1_000_000));
        assert!(default.covers(0, 0) && !default.covers(1, 500));
        assert!(Tolerance::parse("0").unwrap().covers(0, 9));
        assert!(!Tolerance::parse("0").unwrap().covers(1, u64::MAX));
        assert!(Tolerance::parse("100%").unwrap().covers(9, 9));
        assert_eq!(Tolerance::parse("0.1%").unwrap(), Tolerance { parts: 1, of: 1000 });
        assert_eq!(Tolerance::parse("0.001").unwrap(), Tolerance { parts: 1, of: 1000 });
        for text in ["", "%", "2", "101%", "-1%", "0,1%", "a", "0.1 %"] {
            let error = Tolerance::parse(text).unwrap_err();
            assert!(
                error.contains("such as 0.1%") && error.contains(&format!("`{text}`")),
                "{error}"
            );
        }
    }

    #[test]
    fn small_shares_keep_two_digits() {
        assert_eq!(share(3, 1_000_000), "3 of 1,000,000 (0.0003%)");
        assert_eq!(share(57, 57_260), "57 of 57,260 (0.1%)");
        assert_eq!(share(259, 51_182), "259 of 51,182 (0.51%)");
        assert_eq!(share(5, 10), "5 of 10 (50%)");
        assert_eq!(share(0, 0), "0 of 0 (0%)");
    }
}
