//! Time in nanoseconds.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};
use zerocopy::FromBytes;

/// A point in time or a duration, in nanoseconds.
///
/// A point in time counts from an origin that the context defines: the start of a recording, the
/// Unix epoch, or the start of a simulation. 64 bits last 584 years, so arithmetic saturates
/// instead of wrapping: invalid input gives an absurd time, never a small plausible one.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    FromBytes,
)]
#[serde(transparent)]
#[repr(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Zero duration, or the origin.
    pub const ZERO: Self = Self(0);
    /// Later than everything.
    pub const MAX: Self = Self(u64::MAX);

    /// `us` microseconds.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// `ms` milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// `s` seconds.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }

    /// This many seconds, to the nearest nanosecond; zero for negative numbers and NaN.
    #[must_use]
    pub fn from_secs_f64(s: f64) -> Self {
        // A float-to-integer cast saturates, and maps NaN to zero.
        Self((s * 1e9).round() as u64)
    }

    /// In seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// In microseconds.
    #[must_use]
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The time from `earlier` to `self`; zero if negative.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        self.since(rhs)
    }
}

/// Three significant digits and the unit that fits: `85.0 µs`, `1.23 ms`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => return f.pad(&format!("{} ns", self.0)),
            1_000..999_500 => (ns / 1e3, "µs"),
            999_500..999_500_000 => (ns / 1e6, "ms"),
            _ => (ns / 1e9, "s"),
        };
        let decimals = match value {
            v if v < 9.995 => 2,
            v if v < 99.95 => 1,
            _ => 0,
        };
        f.pad(&format!("{value:.decimals$} {unit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_three_significant_digits() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (85_040, "85.0 µs"),
            (999_600, "1.00 ms"),
            (1_234_567, "1.23 ms"),
            (1_500_000_000, "1.50 s"),
            (86_400_000_000_000, "86400 s"),
        ] {
            assert_eq!(Nanos(ns).to_string(), text);
        }
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Nanos(1) - Nanos(2), Nanos::ZERO);
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
        assert_eq!(Nanos::from_secs_f64(-1.0), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(1.5), Nanos(1_500_000_000));
    }
}
