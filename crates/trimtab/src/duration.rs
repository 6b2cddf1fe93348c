//! Lengths of time on the command line: `500us`, `10ms`, `1.5s`, `5m`, `1h`.

use trimtab_io::Nanos;

use crate::decimal::Decimal;

/// Units and their nanoseconds.
const UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a length of time: a number, and its unit right after it.
pub(crate) fn parse(text: &str) -> Result<Nanos, String> {
    let wrong = || {
        format!(
            "expected a length of time such as 500us, 10ms, 1.5s, 5m or 1h (units: ns, us, ms, s, \
             m for minutes, h), found `{text}`"
        )
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(end);
    let number: Decimal = number.parse().map_err(|_| wrong())?;
    let (_, unit_ns) = UNITS.into_iter().find(|&(name, _)| name == unit).ok_or_else(wrong)?;
    let ns = u128::from(number.numerator) * u128::from(unit_ns) / u128::from(number.denominator);
    u64::try_from(ns).map(Nanos).map_err(|_| format!("`{text}` is longer than 584 years"))
}

/// Reads a length of time above zero.
pub(crate) fn parse_positive(text: &str) -> Result<Nanos, String> {
    match parse(text)? {
        Nanos::ZERO => Err(format!("expected a length of time above zero, found `{text}`")),
        time => Ok(time),
    }
}

/// The longest deadline. A longer one is a wrong unit: it would refuse nothing.
const LONGEST_DEADLINE: Nanos = Nanos::from_secs(60);

/// Reads a deadline of reads.
pub(crate) fn parse_deadline(text: &str) -> Result<Nanos, String> {
    let time = parse_positive(text)?;
    if time > LONGEST_DEADLINE {
        return Err(format!("no read takes as long as `{text}`: expected at most 1m"));
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit() {
        for (text, ns) in [
            ("0s", 0),
            ("7ns", 7),
            ("500us", 500_000),
            ("10ms", 10_000_000),
            ("10s", 10_000_000_000),
            ("1.5s", 1_500_000_000),
            ("0.1us", 100),
            ("5m", 300_000_000_000),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(Nanos(ns)), "{text}");
        }
    }

    #[test]
    fn zero_is_rejected() {
        for text in ["0s", "0ms", "0.0h", "0.1ns"] {
            let error = parse_positive(text).unwrap_err();
            assert!(error.contains("above zero") && error.contains(text), "{error}");
        }
        assert_eq!(parse_positive("1ns"), Ok(Nanos(1)));
    }

    #[test]
    fn errors_give_an_example() {
        for text in ["", "10", "s", "10 s", "10sec", "-1s", "1.s", "1e3s", "10S", "1h30m"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("such as 500us") && error.contains(&format!("`{text}`")));
        }
        assert!(parse("999999999999h").unwrap_err().contains("584 years"));
    }

    #[test]
    fn deadlines_have_bounds() {
        assert_eq!(parse_deadline("2ms"), Ok(Nanos::from_millis(2)));
        assert_eq!(parse_deadline("1m"), Ok(LONGEST_DEADLINE));
        for (text, said) in [
            ("0ms", "above zero"),
            ("-1ms", "such as 500us"),
            ("2", "such as 500us"),
            ("61s", "at most 1m"),
            ("999999999999h", "584 years"),
        ] {
            let error = parse_deadline(text).unwrap_err();
            assert!(error.contains(said) && error.contains(text), "{error}");
        }
    }
}
