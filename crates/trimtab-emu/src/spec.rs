//! The specification of a drive.

use std::ops::ControlFlow;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use trimtab_device::{DiskProfile, Drive, DriveProfile, Fault, FillProgress, Ssd};
use trimtab_io::{DeviceId, Nanos};

use trimtab_serve::{BackendChoice, Error};

use super::info::bad_fault;

/// Everything that defines a drive. The same specification behaves the same, if requests arrive at
/// the same times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Its name: letters, digits, `-` and `_`, at most 32.
    pub name: String,
    /// Its hardware and firmware, capacity included.
    pub profile: DriveProfile,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Initial state of the flash; [`Fill::NONE`] for a disk.
    pub fill: Fill,
    /// Where its content is stored.
    pub data: Data,
    /// How the kernel reaches it.
    #[serde(default)]
    pub backend: BackendChoice,
    /// Its I/O scheduler, as in `/sys/block/…/queue/scheduler`.
    pub scheduler: String,
    /// Logical block size, bytes: 512, 1024, 2048 or 4096.
    pub block_bytes: u32,
    /// A fixed latency compensation: how much earlier than the model says to answer. `None`:
    /// measured, and corrected in use.
    #[serde(default, rename = "lead")]
    pub compensation: Option<Nanos>,
    /// Whether processors may enter idle states while it is in use: saves power, and adds tens of
    /// microseconds to sparse requests.
    #[serde(default)]
    pub may_sleep: bool,
    /// Capacity of the volatile write cache, bytes: what a power cut can take. `None`: the
    /// profile's write buffer (of a disk, `cache.write_kib`).
    #[serde(default)]
    pub write_cache: Option<u64>,
    /// Faults; times count from when the drive is ready.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// The largest [`Spec::compensation`]. Only a busy machine's path takes longer, and not constantly.
pub(super) const MAX_COMPENSATION: Nanos = Nanos::from_micros(200);

/// Filled part of a [stand-in](Spec::stand_in), bytes.
const STAND_IN: u64 = 1 << 30;

/// Initial state of the flash. Independent of content: blocks never written to the block device
/// read as zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fill {
    /// Share of the drive that is mapped, 0 (fresh) to 1, from offset 0 on.
    pub share: f64,
    /// How often that share has been overwritten at random. 0: written once, sequentially.
    pub overwrites: f64,
}

impl Fill {
    /// A fresh drive.
    pub const NONE: Self = Self { share: 0.0, overwrites: 0.0 };
}

impl Default for Fill {
    /// Half full, overwritten three times: a drive in use.
    fn default() -> Self {
        Self { share: 0.5, overwrites: 3.0 }
    }
}

/// Where a drive's content is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Data {
    /// Not stored: writes are discarded, reads return zeroes.
    None,
    /// In memory, allocated in chunks of 64 KiB as they are written.
    Memory {
        /// Cap, bytes; a write beyond it fails with `ENOSPC`.
        cap_bytes: u64,
    },
    /// In a sparse file that outlives the drive.
    File {
        /// Its path.
        path: PathBuf,
        /// The effect of a flush.
        #[serde(default)]
        flush: Flush,
    },
}

/// The effect of a flush, for content in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flush {
    /// Takes the model's time, and leaves the file to the page cache.
    #[default]
    Fast,
    /// Completes when everything written before it is also on the disk below.
    Durable,
}

impl Data {
    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Memory { .. } => "memory",
            Self::File { .. } => "file",
        }
    }
}

impl Spec {
    /// A drive in use, without content, with measured latency compensation.
    #[must_use]
    pub fn new(name: impl Into<String>, profile: impl Into<DriveProfile>) -> Self {
        let profile = profile.into();
        let fill = match profile {
            DriveProfile::Flash(_) => Fill::default(),
            DriveProfile::Disk(_) => Fill::NONE,
        };
        Self {
            name: name.into(),
            profile,
            seed: 1,
            fill,
            data: Data::None,
            backend: BackendChoice::Auto,
            scheduler: "none".to_owned(),
            block_bytes: 512,
            compensation: None,
            may_sleep: false,
            write_cache: None,
            faults: Vec::new(),
        }
    }

    /// Checks the specification.
    ///
    /// # Errors
    /// One line that says what is invalid.
    pub fn check(&self) -> Result<(), Error> {
        trimtab_serve::check_name("drive", &self.name)?;
        if !(0.0..=1.0).contains(&self.fill.share) {
            return bad(format!("the fill must be a share from 0 to 1, not {}", self.fill.share));
        }
        if !(0.0..=100.0).contains(&self.fill.overwrites) {
            return bad(format!(
                "the overwrites must be from 0 to 100, not {}",
                self.fill.overwrites
            ));
        }
        if matches!(self.profile, DriveProfile::Disk(_)) && self.fill != Fill::NONE {
            let name = self.profile.name();
            return bad(format!(
                "{name} is a disk, which has no flash to fill or age: leave out --fill and \
                 --overwrites"
            ));
        }
        if ![512, 1024, 2048, 4096].contains(&self.block_bytes) {
            let found = self.block_bytes;
            return bad(format!("the block size must be 512, 1024, 2048 or 4096, not {found}"));
        }
        if !self.capacity().is_multiple_of(u64::from(self.block_bytes)) {
            return bad(format!("{} bytes are not a whole number of blocks", self.capacity()));
        }
        if self.compensation.is_some_and(|compensation| compensation > MAX_COMPENSATION) {
            return bad(format!(
                "the latency compensation (lead) must be at most {MAX_COMPENSATION}"
            ));
        }
        let capacity = self.capacity();
        self.faults.iter().try_for_each(|fault| fault.check_on(capacity)).map_err(bad_fault)
    }

    /// Capacity of the block device, bytes.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.profile.capacity_bytes()
    }

    /// Capacity of the volatile write cache, bytes.
    #[must_use]
    pub fn write_cache_bytes(&self) -> u64 {
        match self.data {
            Data::None => 0,
            _ => self.write_cache.unwrap_or(match &self.profile {
                DriveProfile::Flash(profile) => (profile.buffer.size_mb * 1e6) as u64,
                DriveProfile::Disk(profile) => u64::from(profile.cache.write_kib) << 10,
            }),
        }
    }

    /// A model to measure the path on, and the number of bytes from offset 0 to read from. Made at
    /// once, and small: a flash of the same profile that is filled only over these bytes; or a disk
    /// of the same size without mechanics, since a real one would spend seconds on these reads.
    pub(super) fn stand_in(&self) -> (Drive, u64) {
        let part = self.capacity().min(STAND_IN);
        let profile = match &self.profile {
            DriveProfile::Flash(profile) => profile,
            DriveProfile::Disk(profile) => {
                let quick = DriveProfile::Disk(without_mechanics(profile.clone()));
                return (Drive::new(&quick, DeviceId(0), self.seed), part);
            }
        };
        let mut ssd = Ssd::new(profile, DeviceId(0), self.seed);
        ssd.fill_in_order(self.fill.share * part as f64 / self.capacity() as f64);
        (Drive::Flash(ssd), part)
    }

    /// Checks that memory suffices for the flash model.
    ///
    /// # Errors
    /// It does not: how much the model takes, and how much is available.
    pub(super) fn check_memory(&self, available: Option<u64>) -> Result<(), Error> {
        let needed = Drive::memory_bytes(&self.profile);
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        match available.filter(|&available| available < needed) {
            None => Ok(()),
            Some(available) => Err(Error::Failed(format!(
                "the model of a flash drive of {:.1} GiB takes {:.1} GiB of memory, and {:.1} GiB \
                 are available: make a smaller one",
                gib(self.capacity()),
                gib(needed),
                gib(available)
            ))),
        }
    }

    /// The model: a disk, or flash that is filled, unless `watch` stops the work.
    pub(super) fn model(&self, watch: &mut FillProgress<'_>) -> ControlFlow<(), Drive> {
        let DriveProfile::Flash(profile) = &self.profile else {
            return ControlFlow::Continue(Drive::new(&self.profile, DeviceId(0), self.seed));
        };
        let mut ssd = Ssd::new(profile, DeviceId(0), self.seed);
        let Fill { share, overwrites } = self.fill;
        if share > 0.0 && overwrites > 0.0 {
            ssd.age_watched(profile, share, overwrites, watch)?;
        } else if share > 0.0 {
            ssd.fill_in_order_watched(share, watch)?;
        }
        ControlFlow::Continue(Drive::Flash(ssd))
    }
}

/// The same disk, but that its arm moves at once and its spindle takes 60 µs per revolution: about
/// as slow as flash.
fn without_mechanics(mut profile: DiskProfile) -> DiskProfile {
    profile.disk.rpm = 1e6;
    (profile.disk.track_skew_us, profile.disk.cylinder_skew_us) = (Some(0.0), Some(0.0));
    profile.seek.us.fill(0.0);
    (profile.seek.head_switch_us, profile.seek.write_settle_us) = (0.0, 0.0);
    profile
}

fn bad(why: String) -> Result<(), Error> {
    Err(Error::BadInput(why))
}

#[cfg(test)]
mod tests {
    use trimtab_device::Profile;

    use super::*;

    #[test]
    fn disk_has_nothing_to_fill_and_needs_no_memory() {
        let profile = DiskProfile::builtin("disk-7200").unwrap();
        let mut spec = Spec::new("disk", profile);
        spec.check().unwrap();
        spec.check_memory(Some(1 << 20)).unwrap();
        spec.data = Data::Memory { cap_bytes: 1 << 20 };
        let DriveProfile::Disk(profile) = &spec.profile else { unreachable!("is a disk's") };
        assert_eq!(spec.write_cache_bytes(), u64::from(profile.cache.write_kib) << 10);
        spec.fill.share = 0.5;
        let why = spec.check().unwrap_err().to_string();
        assert!(why.contains("no flash to fill") && !why.contains('\n'), "{why}");
    }

    #[test]
    fn specification_of_either_kind_is_passed_on_unchanged() {
        for name in DriveProfile::builtin_names() {
            let spec = Spec::new("same", DriveProfile::builtin(name).unwrap());
            let text = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), spec, "{name}");
        }
    }

    #[test]
    fn drive_too_large_for_memory_is_refused() {
        let profile = Profile::builtin("consumer-a").unwrap().with_capacity(3 << 40).unwrap();
        let spec = Spec::new("large", profile);
        // Four bytes per 4 KiB, in each direction, and some spare.
        let why = spec.check_memory(Some(5 << 30)).unwrap_err().to_string();
        assert!(why.contains("takes 6.") && why.contains("and 5.0 GiB are available"), "{why}");
        spec.check_memory(Some(9 << 30)).unwrap();
        spec.check_memory(None).unwrap();
    }
}
