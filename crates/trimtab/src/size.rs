//! Sizes on the command line: `512M`, `64G`, `1.5T`.
//!
//! Units are powers of two, as `fio`, `dd` and `qemu-img` read them: `64G` is
//! 64 · 2^30 bytes.

use crate::decimal::Decimal;

/// Units and their bytes.
const UNITS: [(&str, u64); 4] = [("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("T", 1 << 40)];

/// Reads a size in bytes: a number, and its unit right after it.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "expected a size such as 512M, 64G or 1.5T (units: K, M, G, T, powers of 1024), found \
             `{text}`"
        )
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(end);
    let number: Decimal = number.parse().map_err(|_| wrong())?;
    let (_, unit_bytes) = UNITS.into_iter().find(|&(name, _)| name == unit).ok_or_else(wrong)?;
    let bytes =
        u128::from(number.numerator) * u128::from(unit_bytes) / u128::from(number.denominator);
    u64::try_from(bytes).map_err(|_| format!("`{text}` is more than 64 bits can count"))
}

/// The same, or a plain number of bytes.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    text.parse().or_else(|_| parse(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit() {
        for (text, bytes) in [
            ("0G", 0),
            ("4K", 4096),
            ("512M", 536_870_912),
            ("64G", 68_719_476_736),
            ("1T", 1_099_511_627_776),
            ("1.5T", 1_649_267_441_664),
            ("0.001K", 1),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn bytes_need_no_unit() {
        assert_eq!(["0", "512", "1.5K"].map(parse_bytes), [Ok(0), Ok(512), Ok(1536)]);
        assert!(parse_bytes("-1").is_err() && parse_bytes("99999999999999999999").is_err());
    }

    #[test]
    fn errors_give_an_example() {
        for text in ["", "64", "G", "64 G", "64g", "64GB", "64GiB", "-1G", "1.G", "1e3G", "٣G"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("such as 512M") && error.contains(&format!("`{text}`")));
        }
        assert!(parse("99999999T").unwrap_err().contains("64 bits"));
    }
}
