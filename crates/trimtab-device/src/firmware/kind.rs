//! Firmware described in TOML.

use serde::{Deserialize, Serialize};
use trimtab_io::{Nanos, within};

use super::{
    Firmware, Harmonia, Ideal, PlIo, Standard, TinyTail, WindowFormula, WindowSchedule, Windows,
};
use crate::error::Error;
use crate::profile::{CopyMode, Profile, Scope};

/// A firmware, as a scenario names it: `kind` and the keys of that kind.
///
/// ```
/// use trimtab_device::{ArrayPosition, FirmwareKind, Profile};
///
/// let kind = FirmwareKind::parse("kind = \"ioda\"\nwindow_ms = 100")?;
/// let profile = kind.profile(&Profile::builtin("femu").unwrap())?;
/// let firmware = kind.firmware(&profile, ArrayPosition { position: 2, drives: 4 })?;
/// # _ = firmware;
/// # Ok::<(), trimtab_device::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FirmwareKind {
    /// The ordinary firmware: [`Standard`].
    Standard {},
    /// Cleaning takes no time: [`Ideal`].
    Ideal {},
    /// Refuses flagged reads that cleaning blocks: [`PlIo`] around [`Standard`]. Both of the
    /// paper's PL_IO and PL_BRT (its configurations IOD1 and IOD2): the busy time is always
    /// reported, and the host uses it or not.
    PlIo(PlIoOptions),
    /// Cleans in windows: [`Windows`]. The paper's PL_Win (IOD3).
    Windows(WindowOptions),
    /// Both: [`PlIo`] around [`Windows`].
    Ioda(WindowOptions),
    /// The same with windows for each LBA range: [`Windows::by_range`]. The drive's profile has as
    /// many ranges (`ftl.ranges`) as the array has drives.
    IodaRanges(WindowOptions),
    /// Cleans together with the array's other drives: [`Harmonia`].
    Harmonia(HarmoniaOptions),
    /// Circumvents its own cleaning: [`TinyTail`].
    TinyTail(TinyTailOptions),
}

/// Keys of [`FirmwareKind::PlIo`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlIoOptions {
    /// How long a refusal takes, µs. 1 by default (IODA, §4.2.1).
    pub refuse_us: f64,
}

/// Keys of [`FirmwareKind::Windows`], [`FirmwareKind::Ioda`] and [`FirmwareKind::IodaRanges`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WindowOptions {
    /// Length of a window, ms; by default TW_burst of [`WindowFormula`] for this drive and array, but
    /// long enough for one cleaning ([`TimeWindow::least`](super::TimeWindow::least)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<f64>,
    /// When the first drive's first window begins, ms.
    pub start_ms: f64,
    /// Share of the over-provisioned blocks that are free when a window's cleaning is done; by
    /// default, and at least, the profile's high watermark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clean_to: Option<f64>,
    /// Cleanings at a time on a channel, at most; by default as many as it can move data for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanings_per_channel: Option<u32>,
    /// Dirty share of the write buffer that is flushed outside a window (IODA, §7.1). By default
    /// windows do not affect flushes. The buffer has to hold what is written in a cycle. Not for
    /// `ioda-ranges`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush_at: Option<f64>,
    /// How long a refusal takes, µs; not for `windows`, which refuses nothing. 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuse_us: Option<f64>,
}

/// Keys of [`FirmwareKind::Harmonia`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HarmoniaOptions {
    /// Free blocks of each plane, beyond the high watermark, that a round of cleaning makes. 4 by
    /// default: then drives that differ by a block still join.
    pub ahead: u32,
}

/// Keys of [`FirmwareKind::TinyTail`]: its parts, all on by default.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TinyTailOptions {
    /// Cleaning blocks only its plane.
    pub plane_blocking: bool,
    /// With plane-blocking: cleaning moves data by copyback, within the plane. Without it data
    /// passes through the controller, and other planes' requests wait for the channel.
    pub copyback: bool,
    /// One page of each stripe is parity. Without it no page can be regenerated.
    pub parity: bool,
    /// At most one plane of a plane group is cleaned at a time.
    pub rotating: bool,
    /// Blocked pages are regenerated.
    pub tolerant_reads: bool,
    /// Pages are written around planes being cleaned.
    pub tolerant_flush: bool,
}

impl Default for PlIoOptions {
    fn default() -> Self {
        Self { refuse_us: 1.0 }
    }
}

impl Default for HarmoniaOptions {
    fn default() -> Self {
        Self { ahead: 4 }
    }
}

impl Default for TinyTailOptions {
    fn default() -> Self {
        Self {
            plane_blocking: true,
            copyback: true,
            parity: true,
            rotating: true,
            tolerant_reads: true,
            tolerant_flush: true,
        }
    }
}

/// A drive's place in its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayPosition {
    /// Its position, from 0.
    pub position: u32,
    /// Drives in the array.
    pub drives: u32,
}

impl FirmwareKind {
    /// Parses a description.
    ///
    /// # Errors
    /// One line that names the key.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let kind: Self = toml::from_str(text)
            .map_err(|e| Error::Profile(e.message().trim().replace('\n', " ")))?;
        kind.check()?;
        Ok(kind)
    }

    /// Whether all values are within their ranges.
    ///
    /// # Errors
    /// One line that names the key and the range.
    pub fn check(&self) -> Result<(), Error> {
        let number = |key: &str, value: f64, least: f64, most: f64| {
            within(key, value, least..=most).map_err(|e| Error::Profile(e.to_string()))
        };
        let windows = |options: &WindowOptions| {
            let WindowOptions { window_ms, start_ms, clean_to, flush_at, .. } = *options;
            number("window_ms", window_ms.unwrap_or(1.0), 0.001, 1e8)?;
            number("start_ms", start_ms, 0.0, 1e12)?;
            number("clean_to", clean_to.unwrap_or(1.0), 0.0, 1.0)?;
            number("flush_at", flush_at.unwrap_or(1.0), 0.0, 1.0)?;
            number("refuse_us", options.refuse_us.unwrap_or(1.0), 0.0, 1e6)?;
            match options.cleanings_per_channel {
                Some(0) => Error::profile("cleanings_per_channel must be at least 1, not 0"),
                _ => Ok(()),
            }
        };
        match self {
            Self::TinyTail(TinyTailOptions { tolerant_reads: true, parity: false, .. }) => {
                Error::profile("tolerant_reads needs parity: without it nothing can be regenerated")
            }
            Self::Standard {} | Self::Ideal {} | Self::TinyTail(_) => Ok(()),
            Self::PlIo(options) => number("refuse_us", options.refuse_us, 0.0, 1e6),
            Self::Windows(WindowOptions { refuse_us: Some(_), .. }) => {
                Error::profile("refuse_us is a key of pl-io, ioda and ioda-ranges, not of windows")
            }
            Self::IodaRanges(WindowOptions { flush_at: Some(_), .. }) => Error::profile(
                "flush_at is a key of the kinds windows and ioda, not of ioda-ranges",
            ),
            Self::Windows(options) | Self::Ioda(options) | Self::IodaRanges(options) => {
                windows(options)
            }
            Self::Harmonia(HarmoniaOptions { ahead }) => {
                number("ahead", f64::from(*ahead), 1.0, 1e6)
            }
        }
    }

    /// The profile of a drive with this firmware: that of Tiny-Tail Flash sets some keys.
    ///
    /// # Errors
    /// Such a drive is not possible: the line names the key.
    pub fn profile(&self, profile: &Profile) -> Result<Profile, Error> {
        let mut profile = profile.clone();
        if let Self::TinyTail(options) = self {
            if options.plane_blocking {
                profile.gc.blocks = Scope::Plane;
                if options.copyback {
                    profile.gc.copy = CopyMode::Copyback;
                }
            }
            profile.ftl.parity |= options.parity;
        }
        profile.check()?;
        Ok(profile)
    }

    /// The firmware of one drive. `profile` is the drive's own.
    ///
    /// # Errors
    /// A value is out of range, or the formula gives no window: the line names the key.
    pub fn firmware(
        &self,
        profile: &Profile,
        at: ArrayPosition,
    ) -> Result<Box<dyn Firmware>, Error> {
        self.check()?;
        let us = |us: f64| Nanos((us * 1e3) as u64);
        Ok(match self {
            Self::Standard {} => Box::new(Standard::new(profile)),
            Self::Ideal {} => Box::new(Ideal::new(profile)),
            Self::PlIo(options) => {
                let ordinary = Standard::new(profile);
                Box::new(PlIo::with_refusal_time(ordinary, us(options.refuse_us)))
            }
            Self::Windows(options) => Box::new(options.firmware(profile, at)?),
            Self::Ioda(options) => {
                let refusal_time = us(options.refuse_us.unwrap_or(1.0));
                let windows = options.firmware(profile, at)?;
                Box::new(PlIo::with_refusal_time(windows, refusal_time))
            }
            Self::IodaRanges(options) => {
                let (ranges, drives) = (profile.ftl.ranges, at.drives);
                if ranges != drives {
                    return Error::profile(format!(
                        "ftl.ranges must be the number of the array's drives, {drives}, for the \
                         firmware ioda-ranges; it is {ranges}"
                    ));
                }
                let refusal_time = us(options.refuse_us.unwrap_or(1.0));
                let windows = options.firmware(profile, at)?.by_range(profile);
                Box::new(PlIo::with_refusal_time(windows, refusal_time))
            }
            Self::Harmonia(options) => Box::new(Harmonia::new(profile, options.ahead)),
            Self::TinyTail(options) => {
                let firmware = TinyTail::new(profile)
                    .rotating(options.rotating)
                    .tolerant_reads(options.tolerant_reads)
                    .tolerant_flush(options.tolerant_flush);
                Box::new(firmware)
            }
        })
    }
}

impl WindowOptions {
    /// The turns of one drive. `profile` is the drive's own.
    ///
    /// # Errors
    /// There is no such position, or the formula gives no window: the line names the key.
    pub fn schedule(&self, profile: &Profile, at: ArrayPosition) -> Result<WindowSchedule, Error> {
        let ArrayPosition { position, drives } = at;
        let ns = |ms: f64| Nanos((ms * 1e6) as u64);
        if position >= drives {
            return Error::profile(format!(
                "the drive's position in the array must be less than its drives, {drives}; it is \
                 {position}"
            ));
        }
        let values = WindowFormula::new(drives).of(profile);
        let length = match (self.window_ms, values.burst) {
            (Some(ms), _) => ns(ms),
            (None, Some(burst)) => burst.max(values.least()),
            (None, None) => {
                return Error::profile(
                    "window_ms is needed: cleaning keeps up with all writes, so any will do",
                );
            }
        };
        Ok(WindowSchedule { start: ns(self.start_ms), length, position, drives })
    }

    fn firmware(&self, profile: &Profile, at: ArrayPosition) -> Result<Windows, Error> {
        let schedule = self.schedule(profile, at)?;
        let mut firmware = Windows::new(profile, schedule);
        if let Some(share) = self.clean_to {
            firmware = firmware.with_clean_to(profile.spare_blocks(share));
        }
        if let Some(cleanings) = self.cleanings_per_channel {
            firmware = firmware.with_cleanings_per_channel(cleanings);
        }
        if let Some(share) = self.flush_at {
            firmware = firmware.with_flushes(share);
        }
        Ok(firmware)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<FirmwareKind, String> {
        FirmwareKind::parse(text).map_err(|e| e.to_string())
    }

    #[test]
    fn every_kind_has_a_name_and_makes_a_firmware() {
        let femu = Profile::builtin("femu").unwrap();
        for name in [
            "standard",
            "ideal",
            "pl-io",
            "windows",
            "ioda",
            "ioda-ranges",
            "harmonia",
            "tiny-tail",
        ] {
            let mut femu = femu.clone();
            femu.ftl.ranges = if name == "ioda-ranges" { 4 } else { 1 };
            let kind = parse(&format!("kind = \"{name}\"")).unwrap();
            assert_eq!(parse(&toml::to_string(&kind).unwrap()), Ok(kind), "{name}");
            let profile = kind.profile(&femu).unwrap();
            assert_eq!(profile == femu, name != "tiny-tail", "{name}");
            let at = ArrayPosition { position: 1, drives: 4 };
            let firmware = kind.firmware(&profile, at).unwrap();
            assert_eq!(
                firmware.windows(Nanos::ZERO).is_some(),
                name.contains("windows") || name.contains("ioda")
            );
        }
    }

    #[test]
    fn default_window_is_that_of_the_formula() {
        let femu = Profile::builtin("femu").unwrap();
        let at = ArrayPosition { position: 3, drives: 4 };
        let firmware = parse("kind = \"ioda\"").unwrap().firmware(&femu, at).unwrap();
        let windows = firmware.windows(Nanos::ZERO).unwrap();
        // Table 2: 97 ms.
        assert!((95..104).contains(&(windows.length.0 / 1_000_000)), "{windows:?}");
        assert_eq!((windows.position, windows.drives), (3, 4));
        // A sixteenth of the capacity absorbs a burst for 6 ms, and one cleaning takes 60.
        let small = femu.with_capacity(800 << 20).unwrap();
        let firmware = parse("kind = \"ioda\"").unwrap().firmware(&small, at).unwrap();
        let length = firmware.windows(Nanos::ZERO).unwrap().length;
        assert!((65..70).contains(&(length.0 / 1_000_000)), "{length}");
        let at = ArrayPosition { position: 4, drives: 4 };
        assert!(parse("kind = \"ioda\"").unwrap().firmware(&small, at).is_err());
    }

    #[test]
    fn errors_name_the_key() {
        for (text, key) in [
            ("kind = \"standard\"\nwindow_ms = 1", "window_ms"),
            ("kind = \"pl-io\"\nwindow_ms = 1", "window_ms"),
            ("kind = \"windows\"\nrefuse_us = 1", "refuse_us"),
            ("kind = \"windows\"\nwindow_ms = 0", "window_ms"),
            ("kind = \"ioda\"\nclean_to = 1.5", "clean_to"),
            ("kind = \"ioda\"\ncleanings_per_channel = 0", "cleanings_per_channel"),
            ("kind = \"ioda\"\nflush_at = -1", "flush_at"),
            ("kind = \"ioda-ranges\"\nflush_at = 0.5", "flush_at"),
            ("kind = \"harmonia\"\nahead = 0", "ahead"),
            ("kind = \"tiny-tail\"\nrotate = true", "rotate"),
            ("kind = \"tiny-tail\"\nparity = false", "tolerant_reads"),
            ("kind = \"tiny\"", "tiny"),
            ("window_ms = 1", "kind"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(key) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
