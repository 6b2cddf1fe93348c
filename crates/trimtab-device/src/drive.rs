//! A drive of any kind.

use trimtab_io::{DeviceId, Nanos, Request};

use crate::disk::{Disk, DiskProfile};
use crate::error::Error;
use crate::profile::Profile;
use crate::ssd::{Served, Ssd};

/// The profile of a flash drive or of a disk.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum DriveProfile {
    /// A flash drive.
    Flash(Profile),
    /// A disk.
    Disk(DiskProfile),
}

impl DriveProfile {
    /// Names of the built-in profiles, flash drives first.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        Profile::builtin_names().chain(DiskProfile::builtin_names())
    }

    /// A built-in profile.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        let flash = Profile::builtin(name).map(Self::Flash);
        flash.or_else(|| DiskProfile::builtin(name).map(Self::Disk))
    }

    /// Parses a profile: one with a table `[disk]` is a disk's.
    ///
    /// # Errors
    /// One line that names the line or the key, and the range.
    pub fn parse(text: &str) -> Result<Self, Error> {
        // A text that is no TOML gets the same error from either parser.
        let is_disk = text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("disk"));
        match is_disk {
            true => DiskProfile::parse(text).map(Self::Disk),
            false => Profile::parse(text).map(Self::Flash),
        }
    }

    /// The profile as TOML.
    #[must_use]
    pub fn to_toml(&self) -> String {
        match self {
            Self::Flash(profile) => profile.to_toml(),
            Self::Disk(profile) => profile.to_toml(),
        }
    }

    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Flash(profile) => &profile.name,
            Self::Disk(profile) => &profile.name,
        }
    }

    /// User capacity, bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        match self {
            Self::Flash(profile) => profile.capacity_bytes(),
            Self::Disk(profile) => profile.capacity_bytes(),
        }
    }

    /// The same drive with about `bytes` bytes of user capacity.
    ///
    /// # Errors
    /// Such a drive would be too small or too large.
    pub fn with_capacity(self, bytes: u64) -> Result<Self, Error> {
        Ok(match self {
            Self::Flash(profile) => Self::Flash(profile.with_capacity(bytes)?),
            Self::Disk(profile) => Self::Disk(profile.with_capacity(bytes)?),
        })
    }
}

impl From<Profile> for DriveProfile {
    fn from(profile: Profile) -> Self {
        Self::Flash(profile)
    }
}

impl From<DiskProfile> for DriveProfile {
    fn from(profile: DiskProfile) -> Self {
        Self::Disk(profile)
    }
}

/// A flash drive or a disk.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there are as many as a simulation has devices")]
pub enum Drive {
    /// A flash drive.
    Flash(Ssd),
    /// A disk.
    Disk(Disk),
}

/// Calls the same method of either.
macro_rules! either {
    ($drive:expr, $it:ident => $call:expr) => {
        match $drive {
            Drive::Flash($it) => $call,
            Drive::Disk($it) => $call,
        }
    };
}

impl Drive {
    /// A new drive: erased flash, or a disk at rest.
    #[must_use]
    pub fn new(profile: &DriveProfile, device: DeviceId, seed: u64) -> Self {
        match profile {
            DriveProfile::Flash(profile) => Self::Flash(Ssd::new(profile, device, seed)),
            DriveProfile::Disk(profile) => Self::Disk(Disk::new(profile, device, seed)),
        }
    }

    /// Memory that the model of such a drive takes, bytes. A disk's is small.
    #[must_use]
    pub fn memory_bytes(profile: &DriveProfile) -> u64 {
        match profile {
            DriveProfile::Flash(profile) => Ssd::memory_bytes(profile),
            DriveProfile::Disk(_) => 0,
        }
    }

    /// A lower bound of a request's latency if it were submitted now. Zero for a disk: its buffer
    /// may hold the data.
    #[must_use]
    pub fn min_latency(&self, request: &Request) -> Nanos {
        match self {
            Self::Flash(ssd) => ssd.min_latency(request),
            Self::Disk(_) => Nanos::ZERO,
        }
    }

    /// Changes parameters that the firmware reads anew for each decision, from those of `before`
    /// to those of `profile`.
    ///
    /// # Errors
    /// The profiles differ in more than that, or one of them is not of this kind of drive.
    pub fn retune(&mut self, profile: &DriveProfile, before: &DriveProfile) -> Result<(), Error> {
        match (self, profile, before) {
            (Self::Flash(ssd), DriveProfile::Flash(profile), DriveProfile::Flash(before)) => {
                ssd.retune(profile, before)
            }
            (Self::Disk(disk), DriveProfile::Disk(profile), DriveProfile::Disk(before)) => {
                disk.retune(profile, before)
            }
            _ => Error::profile("a flash drive cannot become a disk, nor a disk a flash drive"),
        }
    }

    /// User capacity, bytes.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        either!(self, drive => drive.capacity())
    }

    /// The drive's time.
    #[must_use]
    pub const fn now(&self) -> Nanos {
        either!(self, drive => drive.now())
    }

    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        either!(self, drive => drive.in_flight())
    }

    /// The time of the next event, unless a request is submitted before.
    #[must_use]
    #[inline]
    pub fn next_event(&self) -> Option<Nanos> {
        either!(self, drive => drive.next_event())
    }

    /// Submits a request at time `now`. All events up to then happen first.
    ///
    /// # Errors
    /// The request reaches beyond the drive's end, or `now` is in the past. The request is not
    /// accepted.
    #[inline]
    pub fn submit(&mut self, now: Nanos, request: &Request) -> Result<(), Error> {
        either!(self, drive => drive.submit(now, request))
    }

    /// Advances time through all events up to and including `until`.
    #[inline]
    pub fn advance(&mut self, until: Nanos) {
        either!(self, drive => drive.advance(until));
    }

    /// Advances time until a request completes, or up to and including `until`; returns the time
    /// reached. Without an event before a distant `until`, time does not advance.
    #[inline]
    pub fn advance_to_answer(&mut self, until: Nanos) -> Nanos {
        either!(self, drive => drive.advance_to_answer(until))
    }

    /// Passes on the requests completed since the last call.
    #[inline]
    pub fn drain(&mut self, take: impl FnMut(&Served)) {
        either!(self, drive => drive.drain(take));
    }

    /// Announces a request at this offset. Affects speed only.
    #[inline]
    pub fn prefetch(&mut self, offset: u64) {
        if let Self::Flash(ssd) = self {
            ssd.prefetch(offset);
        }
    }
}
