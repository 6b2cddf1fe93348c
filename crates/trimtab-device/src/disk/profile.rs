//! Disk profiles: geometry, seek curve, cache and queue, from TOML.
//!
//! docs/device-profile.md documents every key for users, in the same words as the fields here.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Mechanics and firmware of a disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskProfile {
    /// Its name in tables.
    pub name: String,
    /// Origin of its figures.
    #[serde(default)]
    pub about: String,
    /// The platters.
    pub disk: Platters,
    /// Movements of the arm.
    pub seek: Seek,
    /// Time of the electronics.
    pub interface: Interface,
    /// The buffer.
    #[serde(default)]
    pub cache: Cache,
    /// The device's queue.
    #[serde(default)]
    pub queue: Queue,
}

/// The platters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platters {
    /// Speed of the spindle, revolutions per minute.
    pub rpm: f64,
    /// Recorded surfaces; tracks of a cylinder.
    pub heads: u32,
    /// Bytes per sector.
    #[serde(default = "sector")]
    pub sector_bytes: u32,
    /// Cylinders of each zone, from offset 0 on.
    pub zone_cylinders: Vec<u32>,
    /// Sectors per track of each zone.
    pub zone_sectors_per_track: Vec<u32>,
    /// Angle between the first sectors of a cylinder's consecutive tracks, as time, µs. Absent:
    /// `seek.head_switch_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub track_skew_us: Option<f64>,
    /// The same from a cylinder's last track to the next cylinder's first, µs. Absent: the time
    /// of a seek of one cylinder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cylinder_skew_us: Option<f64>,
}

/// Movements of the arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seek {
    /// Distances with a known time, cylinders, ascending, the first 1. Between them time is linear
    /// in the root of the distance, beyond the last in the distance.
    pub cylinders: Vec<u32>,
    /// Seek times for these distances, settling included, µs.
    pub us: Vec<f64>,
    /// Time to change to another track of the cylinder, µs.
    #[serde(default)]
    pub head_switch_us: f64,
    /// Additional settling before a write, µs.
    #[serde(default)]
    pub write_settle_us: f64,
}

/// Time of the electronics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// From a command's arrival to the arm's movement, µs; requests overlap in it.
    pub command_us: f64,
    /// From the arrival of a read that the buffer holds to its transfer, µs.
    pub hit_us: f64,
    /// The same where the read continues the last one, µs. Absent: `hit_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequential_hit_us: Option<f64>,
    /// Of a write into the buffer, beside its transfer, µs.
    #[serde(default)]
    pub write_us: f64,
    /// The same where the write is further than a segment from the last request, µs. Absent:
    /// `write_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distant_write_us: Option<f64>,
    /// The same where the write is not that far, and the last request was a read, µs. Absent:
    /// `write_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_after_read_us: Option<f64>,
    /// Bandwidth to the host, MB/s (10⁶ bytes).
    pub bus_mb_s: f64,
}

/// The buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cache {
    /// Segments for reads and written data, replaced least recently used first. 0: no read finds
    /// its data in the buffer.
    pub segments: u32,
    /// Size of a segment, KiB: a read fills it with what follows, until another request needs the
    /// arm.
    pub segment_kib: u32,
    /// Whether reading begins with the sector under the head, so that data before the request is
    /// buffered too.
    pub read_on_arrival: bool,
    /// Whether data that was sent to the host stays in its segment.
    pub keep_sent: bool,
    /// Buffer for writes, KiB: they complete when they are in it. 0: on the platter.
    pub write_kib: u32,
    /// Time without requests before buffered data is written to the platters, ms.
    pub write_back_after_ms: f64,
}

/// The device's queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Queue {
    /// Requests that the device chooses from, 1 to 32. Others wait in order of arrival.
    pub depth: u32,
    /// How it chooses.
    pub order: Order,
    /// A request that has waited in the device for this long is next, ms. 0: no bound.
    pub starvation_ms: f64,
}

/// How a device chooses from its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// First come, first served.
    Fifo,
    /// The nearest cylinder (shortest seek time first).
    Sstf,
    /// The shortest time until the head is at the first sector, seek and rotation together.
    #[default]
    Ncq,
}

const fn sector() -> u32 {
    512
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            segments: 16,
            segment_kib: 256,
            read_on_arrival: false,
            keep_sent: true,
            write_kib: 0,
            write_back_after_ms: 0.0,
        }
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self { depth: 32, order: Order::default(), starvation_ms: 0.0 }
    }
}

crate::profile::builtin! { DiskProfile:
    "disk-7200",
    "disk-atlas10k",
    "disk-barracuda",
    "disk-cheetah9lp",
}

impl DiskProfile {
    /// Parses a profile.
    ///
    /// # Errors
    /// One line that names the line or the key, and the range.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let profile: Self = toml::from_str(text).map_err(|e| Error::of_toml(&e, text))?;
        profile.check()?;
        Ok(profile)
    }

    /// The profile as TOML.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every profile has a form in TOML")
    }

    /// User capacity, bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        let Platters { heads, sector_bytes, .. } = self.disk;
        let zones = self.disk.zone_cylinders.iter().zip(&self.disk.zone_sectors_per_track);
        let rows = zones.map(|(&cylinders, &track)| u64::from(cylinders) * u64::from(track));
        rows.sum::<u64>() * u64::from(heads) * u64::from(sector_bytes)
    }

    /// Cylinders of all zones.
    #[must_use]
    pub fn cylinders(&self) -> u32 {
        self.disk.zone_cylinders.iter().sum()
    }

    /// The same disk with about `bytes` bytes: the cylinders change, and with them the distances of
    /// the seek curve, so that a seek over the same share of the disk takes the same time.
    ///
    /// # Errors
    /// The disk would have too few cylinders, or too many.
    pub fn with_capacity(mut self, bytes: u64) -> Result<Self, Error> {
        let factor = bytes as f64 / self.capacity_bytes() as f64;
        let scaled = |n: u32| (f64::from(n) * factor).round().min(f64::from(u32::MAX)) as u32;
        self.disk.zone_cylinders.iter_mut().for_each(|n| *n = scaled(*n).max(1));
        let mut last = 0;
        for distance in &mut self.seek.cylinders {
            // Distances stay ascending, from 1 on.
            *distance = if last == 0 { 1 } else { scaled(*distance).max(last + 1) };
            last = *distance;
        }
        self.check()?;
        Ok(self)
    }

    fn check(&self) -> Result<(), Error> {
        for (key, text) in [("name", &self.name), ("about", &self.about)] {
            if text.contains(char::is_control) {
                return Error::profile(format!("{key} must have no control characters: {text:?}"));
            }
        }
        self.check_platters()?;
        self.check_seek()?;
        self.check_electronics()
    }

    fn check_platters(&self) -> Result<(), Error> {
        let disk = &self.disk;
        within("disk.rpm", disk.rpm, 100.0..=1e6)?;
        within("disk.heads", disk.heads, 1..=64)?;
        if !matches!(disk.sector_bytes, 512 | 4096) {
            let found = disk.sector_bytes;
            return Error::profile(format!("disk.sector_bytes must be 512 or 4096, not {found}"));
        }
        within("zones (disk.zone_cylinders)", disk.zone_cylinders.len(), 1..=1000)?;
        if disk.zone_cylinders.len() != disk.zone_sectors_per_track.len() {
            return Error::profile(format!(
                "disk.zone_cylinders and disk.zone_sectors_per_track must be of equal length, not \
                 {} and {}",
                disk.zone_cylinders.len(),
                disk.zone_sectors_per_track.len()
            ));
        }
        for (&cylinders, &sectors) in disk.zone_cylinders.iter().zip(&disk.zone_sectors_per_track) {
            within("disk.zone_cylinders", cylinders, 1..=10_000_000)?;
            within("disk.zone_sectors_per_track", sectors, 1..=100_000)?;
        }
        let cylinders: u64 = disk.zone_cylinders.iter().map(|&n| u64::from(n)).sum();
        within("cylinders of all zones", cylinders, 1..=10_000_000)?;
        let period = 60e6 / disk.rpm;
        within("disk.track_skew_us", disk.track_skew_us.unwrap_or(0.0), 0.0..=period)?;
        within("disk.cylinder_skew_us", disk.cylinder_skew_us.unwrap_or(0.0), 0.0..=period)
    }

    fn check_seek(&self) -> Result<(), Error> {
        let seek = &self.seek;
        within("entries of seek.cylinders", seek.cylinders.len(), 1..=1000)?;
        if seek.cylinders.len() != seek.us.len() {
            return Error::profile(format!(
                "seek.cylinders and seek.us must be of equal length, not {} and {}",
                seek.cylinders.len(),
                seek.us.len()
            ));
        }
        if seek.cylinders[0] != 1 || !seek.cylinders.is_sorted_by(|a, b| a < b) {
            return Error::profile("seek.cylinders must begin with 1 and ascend");
        }
        if !seek.us.is_sorted() {
            return Error::profile("seek.us must not descend: a longer seek takes no less time");
        }
        for &us in &seek.us {
            within("seek.us", us, 0.0..=1e6)?;
        }
        within("seek.head_switch_us", seek.head_switch_us, 0.0..=1e6)?;
        within("seek.write_settle_us", seek.write_settle_us, 0.0..=1e6)
    }

    fn check_electronics(&self) -> Result<(), Error> {
        let of = &self.interface;
        for (key, us) in [
            ("interface.command_us", of.command_us),
            ("interface.hit_us", of.hit_us),
            ("interface.sequential_hit_us", of.sequential_hit_us.unwrap_or(0.0)),
            ("interface.write_us", of.write_us),
            ("interface.distant_write_us", of.distant_write_us.unwrap_or(0.0)),
            ("interface.write_after_read_us", of.write_after_read_us.unwrap_or(0.0)),
        ] {
            within(key, us, 0.0..=1e6)?;
        }
        within("interface.bus_mb_s", of.bus_mb_s, 0.1..=1e6)?;
        within("cache.segments", self.cache.segments, 0..=1024)?;
        within("cache.segment_kib", self.cache.segment_kib, 1..=1 << 20)?;
        within("cache.write_kib", self.cache.write_kib, 0..=1 << 22)?;
        within("cache.write_back_after_ms", self.cache.write_back_after_ms, 0.0..=1e6)?;
        within("queue.depth", self.queue.depth, 1..=32)?;
        within("queue.starvation_ms", self.queue.starvation_ms, 0.0..=1e6)
    }
}

fn within<T: PartialOrd + Display>(
    key: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), Error> {
    trimtab_io::within(key, value, range).map_err(|error| Error::Profile(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_profiles_are_valid() {
        for name in DiskProfile::builtin_names() {
            let profile = DiskProfile::builtin(name).unwrap();
            assert_eq!(profile.name, name);
            assert!(!profile.about.is_empty(), "{name} does not say where it is from");
            assert_eq!(DiskProfile::parse(&profile.to_toml()), Ok(profile), "{name}");
        }
    }

    #[test]
    fn errors_name_the_key_and_the_range() {
        let text = DiskProfile::builtin("disk-7200").unwrap().to_toml();
        let error = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}: {text}");
            let error = DiskProfile::parse(&text.replacen(from, to, 1)).unwrap_err().to_string();
            assert_eq!(error.lines().count(), 1, "{error}");
            error
        };
        assert!(error("rpm = 7200.0", "rpm = nan").contains("disk.rpm must be from 100"));
        assert!(error("rpm = ", "rmp = ").contains("unknown field `rmp`"));
        assert!(error("depth = 32", "depth = 0").contains("queue.depth must be from 1 to 32"));
        assert!(error("order = \"ncq\"", "order = \"scan\"").contains("unknown variant `scan`"));
        assert!(
            error("[seek]\ncylinders = [1,", "[seek]\ncylinders = [2,").contains("begin with 1")
        );
        assert!(error("sector_bytes = 512", "sector_bytes = 520").contains("512 or 4096, not 520"));
        assert!(error("heads = 4\n", "").contains("missing field `heads`"));
    }

    #[test]
    fn capacity_keeps_times_over_shares_of_the_disk() {
        let whole = DiskProfile::builtin("disk-7200").unwrap();
        let small = whole.clone().with_capacity(whole.capacity_bytes() / 10).unwrap();
        assert!(small.capacity_bytes().abs_diff(whole.capacity_bytes() / 10) < 200_000_000);
        assert_eq!(small.seek.us, whole.seek.us);
        let last = |profile: &DiskProfile| f64::from(*profile.seek.cylinders.last().unwrap());
        assert!((last(&small) * 10.0 / last(&whole) - 1.0).abs() < 0.01);
    }
}
