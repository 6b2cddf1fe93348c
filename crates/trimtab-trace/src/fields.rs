//! Parsing of numbers and columns in text formats; errors name the column.

use trimtab_io::Nanos;

use crate::error::Malformed;

/// Name of the device in formats for a single device.
pub(crate) const SOLE_DEVICE: &[u8] = b"0";

/// Larger than any device; sums of offset and length cannot overflow.
pub(crate) const MAX_OFFSET: u64 = 1 << 60;
/// The largest request: the block layer counts a request's bytes in 32 bits,
/// other tools' discards may be a whole device.
pub(crate) const MAX_LENGTH: u64 = 1 << 50;
/// 146 years in nanoseconds; any time beyond is a misread column. Small enough
/// that two of them can be added.
pub(crate) const MAX_TIME_NS: u64 = 1 << 62;

/// A column of a text format: its number and name, for errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) number: usize,
    pub(crate) name: &'static str,
}

pub(crate) const fn column(number: usize, name: &'static str) -> Column {
    Column { number, name }
}

impl Column {
    /// "column 3 (size): expected …, found `-5`".
    pub(crate) fn expected(self, what: &str, found: &[u8]) -> Malformed {
        let Self { number, name } = self;
        let found = show(found);
        Malformed::new(format!("column {number} ({name}): expected {what}, found {found}"))
    }

    /// A whole number from 0 to `max`.
    pub(crate) fn integer(self, text: &[u8], max: u64) -> Result<u64, Malformed> {
        match parse_u64(text) {
            Some(n) if n <= max => Ok(n),
            Some(_) => Err(self.expected(&format!("at most {max}"), text)),
            None => Err(self.expected("a whole number", text)),
        }
    }

    /// A non-negative decimal number of units, as nanoseconds, where one unit
    /// is `unit_ns`. Digits finer than a nanosecond are cut off.
    pub(crate) fn time(self, text: &[u8], unit_ns: u64) -> Result<u64, Malformed> {
        match parse_decimal(text, unit_ns) {
            Some(ns) if ns <= MAX_TIME_NS => Ok(ns),
            Some(_) => Err(self.expected("a time of at most 146 years", text)),
            None => Err(self.expected("a non-negative number", text)),
        }
    }

    /// An offset in units of `unit` bytes, in bytes.
    pub(crate) fn offset(self, text: &[u8], unit: u64) -> Result<u64, Malformed> {
        Ok(self.integer(text, MAX_OFFSET / unit)? * unit)
    }

    /// A length in units of `unit` bytes, in bytes.
    pub(crate) fn length(self, text: &[u8], unit: u64) -> Result<u64, Malformed> {
        Ok(self.integer(text, MAX_LENGTH / unit)? * unit)
    }
}

/// Checks the order of times in formats whose records are in arrival order.
#[derive(Default)]
pub(crate) struct Ascending {
    latest: u64,
}

impl Ascending {
    /// Accepts a time that is not before earlier ones.
    pub(crate) fn check(&self, column: Column, text: &[u8], ns: u64) -> Result<Nanos, Malformed> {
        if ns < self.latest {
            let latest = self.latest;
            let (s, ns) = (latest / 1_000_000_000, latest % 1_000_000_000);
            return Err(column.expected(&format!("a time not before {s}.{ns:09} s"), text));
        }
        Ok(Nanos(ns))
    }

    /// Records the time of a valid record: later ones must not be before it.
    pub(crate) fn passed(&mut self, time: Nanos) {
        self.latest = time.0;
    }
}

/// Whether these fields are a header line with these names.
pub(crate) fn is_header(fields: &[&[u8]], names: &[&str]) -> bool {
    // Runs for every line, so the first letter must decide for data.
    fields[0].first().is_some_and(u8::is_ascii_alphabetic)
        && fields.len() == names.len()
        && fields.iter().zip(names).all(|(f, name)| f.eq_ignore_ascii_case(name.as_bytes()))
}

/// One to `N` fields separated by `separator`, untrimmed, and their number.
pub(crate) fn split_up_to<const N: usize>(
    line: &[u8],
    separator: u8,
) -> Result<([&[u8]; N], usize), Malformed> {
    let mut fields = [&line[..0]; N];
    let mut count = 0;
    for field in line.split(|&b| b == separator) {
        if let Some(place) = fields.get_mut(count) {
            *place = field;
        }
        count += 1;
    }
    if count > N {
        return Err(wrong_count(N, count, line));
    }
    Ok((fields, count))
}

/// The first `N` fields separated by `separator`, trimmed; the rest is ignored.
pub(crate) fn split_first<const N: usize>(
    line: &[u8],
    separator: u8,
) -> Result<[&[u8]; N], Malformed> {
    match memchr::memchr_iter(separator, line).nth(N - 1) {
        Some(end) => split(&line[..end], separator),
        None => split(line, separator),
    }
}

/// Exactly `N` fields separated by `separator`, trimmed.
pub(crate) fn split<const N: usize>(line: &[u8], separator: u8) -> Result<[&[u8]; N], Malformed> {
    let mut fields = [&line[..0]; N];
    let mut rest = line;
    for (i, field) in fields.iter_mut().enumerate() {
        let end = memchr::memchr(separator, rest);
        match (end, i + 1 == N) {
            (Some(end), false) => {
                *field = rest[..end].trim_ascii();
                rest = &rest[end + 1..];
            }
            (None, true) => *field = rest.trim_ascii(),
            _ => {
                let found = memchr::memchr_iter(separator, line).count() + 1;
                return Err(wrong_count(N, found, line));
            }
        }
    }
    Ok(fields)
}

/// Exactly `N` fields separated by runs of blanks.
pub(crate) fn split_blank<const N: usize>(line: &[u8]) -> Result<[&[u8]; N], Malformed> {
    let mut fields = [&line[..0]; N];
    let mut words = words(line);
    for field in &mut fields {
        match words.next() {
            Some(word) => *field = word,
            None => return Err(wrong_count(N, self::words(line).count(), line)),
        }
    }
    if words.next().is_some() {
        return Err(wrong_count(N, self::words(line).count(), line));
    }
    Ok(fields)
}

/// The words of a line.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

pub(crate) fn wrong_count(expected: usize, found: usize, line: &[u8]) -> Malformed {
    if line.iter().any(|&b| b == 0 || (b < b' ' && !b.is_ascii_whitespace())) {
        return Malformed::new(format!("expected {expected} columns of text, found binary data"));
    }
    Malformed::new(format!("expected {expected} columns, found {found}: {}", show(line)))
}

/// Input for an error message: short, with `�` for control characters and for invalid UTF-8.
pub(crate) fn show(text: &[u8]) -> String {
    const MAX: usize = 40;
    if text.is_empty() {
        return "nothing".to_owned();
    }
    // A character takes at most four bytes; one cut in two lies behind MAX.
    let lossy = String::from_utf8_lossy(&text[..text.len().min(4 * MAX + 4)]);
    let printable = |c: char| if is_unprintable(c) { char::REPLACEMENT_CHARACTER } else { c };
    let mut characters = lossy.chars().map(printable);
    let shown: String = characters.by_ref().take(MAX).collect();
    let more = if characters.next().is_some() { "…" } else { "" };
    format!("`{shown}{more}`")
}

/// Control characters, bidirectional overrides and invisible characters.
fn is_unprintable(c: char) -> bool {
    let invisible = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}');
    c.is_control() || invisible || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Parses decimal digits: no sign, no blanks. `None` on overflow.
pub(crate) fn parse_u64(text: &[u8]) -> Option<u64> {
    // 19 digits cannot overflow: the common case needs no checks.
    if text.is_empty() {
        return None;
    }
    let mut n = 0_u64;
    let (head, tail) = text.split_at(text.len().min(19));
    for &b in head {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        n = n * 10 + u64::from(digit);
    }
    for &b in tail {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        n = n.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(n)
}

/// A non-negative decimal number times `scale`, in integers: a float would lose nanoseconds after a
/// few days.
pub(crate) fn parse_decimal(text: &[u8], scale: u64) -> Option<u64> {
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        None => return parse_u64(text)?.checked_mul(scale),
        Some(point) => (&text[..point], &text[point + 1..]),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { parse_u64(whole)?.checked_mul(scale)? };
    let mut value = 0_u64;
    let mut unit = scale;
    for &b in fraction {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        unit /= 10;
        value += u64::from(digit) * unit;
    }
    whole.checked_add(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_parse_exactly() {
        assert_eq!(parse_u64(b"0"), Some(0));
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b""[..], b"-1", b"+1", b"1 ", b"1.0", b"18446744073709551616", b"x"] {
            assert_eq!(parse_u64(bad), None, "{}", show(bad));
        }
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(parse_decimal(b"0.551706", 1_000_000_000), Some(551_706_000));
        assert_eq!(parse_decimal(b"54022.609", 1_000_000), Some(54_022_609_000));
        assert_eq!(parse_decimal(b"12", 1_000), Some(12_000));
        assert_eq!(parse_decimal(b".5", 1_000), Some(500));
        assert_eq!(parse_decimal(b"5.", 1_000), Some(5_000));
        assert_eq!(parse_decimal(b"1.23456789", 1_000), Some(1_234));
        for bad in [&b"."[..], b"", b"-1.0", b"1e5", b"1.2.3", b"nan"] {
            assert_eq!(parse_decimal(bad, 1_000), None, "{}", show(bad));
        }
    }

    #[test]
    fn error_text_is_printable() {
        for (text, shown) in [
            ("5µs".as_bytes(), "`5µs`"),
            ("日本".as_bytes(), "`日本`"),
            (b"a\xb5b\xff", "`a�b�`"),
            (b"a\tb\x1b[2J", "`a�b�[2J`"),
            ("a\u{202e}b".as_bytes(), "`a�b`"),
            (b"", "nothing"),
        ] {
            assert_eq!(show(text), shown);
        }
        assert_eq!(show("µ".repeat(41).as_bytes()), format!("`{}…`", "µ".repeat(40)));
        assert_eq!(show("𝄞".repeat(40).as_bytes()), format!("`{}`", "𝄞".repeat(40)));
    }

    #[test]
    fn headers_match_as_a_whole() {
        assert!(is_header(&[b"Time", b"SIZE"], &["time", "size"]));
        assert!(!is_header(&[b"time", b"4096"], &["time", "size"]));
        assert!(!is_header(&[b""], &[""]));
    }

    #[test]
    fn descending_times_are_errors() {
        let mut order = Ascending::default();
        order.passed(order.check(column(1, "time"), b"5", 5_000_000_000).unwrap());
        assert!(order.check(column(1, "time"), b"5", 5_000_000_000).is_ok());
        let message = order.check(column(1, "time"), b"4", 4_000_000_000).unwrap_err().0;
        assert_eq!(message, "column 1 (time): expected a time not before 5.000000000 s, found `4`");
    }

    #[test]
    fn wrong_column_counts_are_errors() {
        assert!(split::<3>(b"a,b,c", b',').is_ok());
        assert!(split::<3>(b"a,b", b',').unwrap_err().0.contains("expected 3 columns, found 2"));
        assert!(split::<3>(b"a,b,c,d", b',').unwrap_err().0.contains("found 4"));
        assert!(split_first::<2>(b"a,b,c", b',').is_ok());
        assert!(split_first::<4>(b"a,b,c", b',').unwrap_err().0.contains("found 3"));
        assert_eq!(split_up_to::<4>(b"a, b,", b',').unwrap(), ([&b"a"[..], b" b", b"", b""], 3));
        assert!(split_up_to::<2>(b"a,b,c", b',').unwrap_err().0.contains("found 3"));
        assert_eq!(split_blank::<2>(b"  a \t b ").unwrap(), [b"a", b"b"]);
        assert!(split_blank::<2>(b"a b c").unwrap_err().0.contains("found 3"));
        assert!(split_blank::<2>(b"\x00\x01").unwrap_err().0.contains("binary"));
    }
}
