//! What an array and its members are called, and when something happened.

use std::fmt;
use std::str::FromStr;

/// The 128 bits that tell an array or a device from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Uuid(pub [u8; 16]);

/// As mdadm prints it: `3aaa0122:29827cfa:5331ad66:ca767371`.
impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if index > 0 && index % 4 == 0 {
                f.write_str(":")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// The text is no UUID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no UUID: 32 hexadecimal digits are expected, as in 3aaa0122:29827cfa:5331ad66:ca767371", .0.escape_default())]
pub struct NoUuid(pub String);

/// With `:` or `-` anywhere between the digits.
impl FromStr for Uuid {
    type Err = NoUuid;

    fn from_str(text: &str) -> Result<Self, NoUuid> {
        let no_uuid = || NoUuid(text.to_owned());
        let mut bytes = [0; 16];
        let mut count = 0;
        for character in text.chars().filter(|&c| c != ':' && c != '-') {
            let digit = character.to_digit(16).ok_or_else(no_uuid)?;
            let byte = bytes.get_mut(count / 2).ok_or_else(no_uuid)?;
            *byte = *byte << 4 | digit as u8;
            count += 1;
        }
        if count == 32 { Ok(Self(bytes)) } else { Err(no_uuid()) }
    }
}

/// An array's name: at most 32 bytes, `HOST:NAME` if a host owns it. md does not interpret it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ArrayName(pub(crate) [u8; Self::MOST_BYTES]);

impl ArrayName {
    /// The most bytes of a name.
    pub const MOST_BYTES: usize = 32;

    /// The name, if it is short enough and has no zero byte.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let mut bytes = [0; Self::MOST_BYTES];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        (!name.contains('\0')).then_some(Self(bytes))
    }

    fn text(&self) -> &[u8] {
        let end = self.0.iter().position(|&byte| byte == 0);
        &self.0[..end.unwrap_or(Self::MOST_BYTES)]
    }
}

/// What a terminal can show: other bytes are escaped.
impl fmt::Display for ArrayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.text().escape_ascii())
    }
}

impl fmt::Debug for ArrayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// A time in a superblock: 40 bits of seconds since 1970, 24 bits of microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970: below 2⁴⁰.
    pub seconds: u64,
    /// Microseconds of the second: below 2²⁴.
    pub microseconds: u32,
}

impl Timestamp {
    const SECONDS_BITS: u32 = 40;

    pub(crate) const fn from_word(word: u64) -> Self {
        let seconds = word & ((1 << Self::SECONDS_BITS) - 1);
        Self { seconds, microseconds: (word >> Self::SECONDS_BITS) as u32 }
    }

    pub(crate) const fn to_word(self) -> u64 {
        let seconds = self.seconds & ((1 << Self::SECONDS_BITS) - 1);
        seconds | (self.microseconds as u64) << Self::SECONDS_BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_read_as_mdadm_prints_them() {
        let text = "3aaa0122:29827cfa:5331ad66:ca767371";
        let uuid: Uuid = text.parse().unwrap();
        assert_eq!(uuid.to_string(), text);
        assert_eq!("3aaa0122-2982-7cfa-5331-ad66ca767371".parse(), Ok(uuid));
        for wrong in ["", "3aaa0122", "3aaa0122:29827cfa:5331ad66:ca76737", &format!("{text}0")] {
            assert!(wrong.parse::<Uuid>().is_err(), "{wrong}");
        }
        assert!("\u{1b}[0m".parse::<Uuid>().unwrap_err().to_string().contains("\\u{1b}"));
    }

    #[test]
    fn names_have_32_bytes_and_are_escaped() {
        assert_eq!(ArrayName::new("host:7").unwrap().to_string(), "host:7");
        assert!(ArrayName::new(&"x".repeat(32)).is_some());
        assert!(ArrayName::new(&"x".repeat(33)).is_none());
        assert!(ArrayName::new("a\0b").is_none());
        assert_eq!(ArrayName::new("a\n").unwrap().to_string(), "a\\n");
    }

    #[test]
    fn times_have_40_and_24_bits() {
        let time = Timestamp { seconds: 1_790_000_000, microseconds: 999_999 };
        assert_eq!(Timestamp::from_word(time.to_word()), time);
    }
}
