//! Values that have several notations.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::Fill;

/// A number of bytes: a whole number, or text with a binary unit (`"64G"`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BytesVisitor)
    }
}

struct BytesVisitor;

impl Visitor<'_> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes, as a whole number or with a binary unit: \"512M\", \"64G\", \"1T\"")
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<Bytes, E> {
        let wrong = |_| E::invalid_value(serde::de::Unexpected::Signed(bytes), &self);
        u64::try_from(bytes).map(Bytes).map_err(wrong)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
        parse(text)
            .map(Bytes)
            .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

fn parse(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.trim_start().trim_end_matches("iB") {
        "" if unit.is_empty() => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A share alone, or a table with further keys.
pub(super) fn fill<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Spanned<Fill>>, D::Error> {
    struct Either(Fill);

    impl<'de> Deserialize<'de> for Either {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(FillVisitor).map(Either)
        }
    }

    let either = Spanned::<Either>::deserialize(deserializer)?;
    let span = either.span();
    Ok(Some(Spanned::new(span, either.into_inner().0)))
}

struct FillVisitor;

impl<'de> Visitor<'de> for FillVisitor {
    type Value = Fill;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a share from 0 to 1, or a table such as { share = 1.0, kind = \"aged\" }")
    }

    fn visit_f64<E: Error>(self, share: f64) -> Result<Fill, E> {
        Ok(Fill { share, ..Fill::default() })
    }

    fn visit_i64<E: Error>(self, share: i64) -> Result<Fill, E> {
        self.visit_f64(share as f64)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Fill, A::Error> {
        Fill::deserialize(MapAccessDeserializer::new(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_with_units() {
        assert_eq!(parse("4096"), Some(4096));
        assert_eq!(parse("64G"), Some(64 << 30));
        assert_eq!(parse("64 GiB"), Some(64 << 30));
        assert_eq!(parse("1T"), Some(1 << 40));
        for wrong in ["", "G", "64GB", "1.5G", "-1G", "64g", "64 ", "99999999999T"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
