//! Decimal numbers on the command line, exact.

use std::str::FromStr;

/// A number from 0 on with at most 18 digits, as a fraction: `1.25` is 125/100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub(crate) numerator: u64,
    pub(crate) denominator: u64,
}

impl FromStr for Decimal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MOST_DIGITS: usize = 18;
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = [whole, fraction].concat();
        let point_is_between = !text.contains('.') || (!whole.is_empty() && !fraction.is_empty());
        if digits.is_empty() || !point_is_between || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!("expected a number such as 2 or 0.5, found `{text}`"));
        }
        if digits.len() > MOST_DIGITS {
            return Err(format!("expected at most {MOST_DIGITS} digits, found `{text}`"));
        }
        let numerator = digits.parse().map_err(|e| format!("`{text}`: {e}"))?;
        Ok(Self { numerator, denominator: 10_u64.pow(fraction.len() as u32) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_exact() {
        for (text, numerator, denominator) in [
            ("0", 0, 1),
            ("2", 2, 1),
            ("0.5", 5, 10),
            ("1.250", 1250, 1000),
            ("100000000000000000", 100_000_000_000_000_000, 1),
        ] {
            assert_eq!(text.parse(), Ok(Decimal { numerator, denominator }));
        }
    }

    #[test]
    fn other_text_is_rejected() {
        for text in ["", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", "1.2.3", "٣", " 1"] {
            let error = text.parse::<Decimal>().unwrap_err();
            assert!(error.contains(&format!("found `{text}`")), "{error}");
        }
        assert!("1234567890.1234567890".parse::<Decimal>().is_err());
    }
}
