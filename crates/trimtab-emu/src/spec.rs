//! What a drive is made of.

use std::ops::ControlFlow;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use trimtab_device::{FillWatch, Profile, Ssd};
use trimtab_io::{DeviceId, Nanos};

use super::error::Error;
use super::faults::Fault;

/// All that is to be known to make a drive. The same one behaves alike each time,
/// as far as requests come at the same times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What it is called: letters, digits, `-` and `_`, at most 32.
    pub name: String,
    /// How it is built; its capacity too.
    pub profile: Profile,
    /// For all that is random in it.
    pub seed: u64,
    /// What the flash holds when it begins.
    pub fill: Fill,
    /// Where its content is kept.
    pub data: Data,
    /// The kernel's scheduler for it, as in `/sys/block/…/queue/scheduler`.
    pub scheduler: String,
    /// Bytes of the smallest request: 512, 1024, 2048 or 4096.
    pub block_bytes: u32,
    /// How much earlier than the model says answers are given, because they and the
    /// requests take their time on the way; measured if it is not said.
    #[serde(default)]
    pub lead: Option<Nanos>,
    /// Whether idle processors may sleep while it is in use: that saves power, and adds
    /// tens of microseconds to requests that come one at a time.
    #[serde(default)]
    pub may_sleep: bool,
    /// The most that may be written and not flushed, in bytes: what a power cut can take.
    /// The profile's write buffer if it is not said.
    #[serde(default)]
    pub write_cache: Option<u64>,
    /// Faults, with times from when it is ready.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// The longest [`Spec::lead`]: no machine's way to a drive takes longer, but for
/// waiting on a busy one, which comes and goes.
pub(super) const MOST_LEAD: Nanos = Nanos::from_micros(200);

/// The filled part of a [stand-in](Spec::stand_in), bytes.
const STAND_IN: u64 = 1 << 30;

/// What the flash holds when a drive begins. It has nothing to do with content:
/// what was never written to the block device reads as zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fill {
    /// Share of the drive that is mapped, 0 (fresh) to 1, from its front on.
    pub share: f64,
    /// How often that share has been overwritten at random since. 0: written once,
    /// in order.
    pub overwrites: f64,
}

impl Default for Fill {
    /// Half full, and overwritten three times: a drive in use.
    fn default() -> Self {
        Self { share: 0.5, overwrites: 3.0 }
    }
}

/// Where a drive's content is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Data {
    /// Nowhere: writes are forgotten, reads are zeroes.
    None,
    /// In memory, in pieces of 64 KiB, as far as it is written.
    Memory {
        /// The most it may take; a write beyond it fails with `ENOSPC`.
        cap_bytes: u64,
    },
    /// In a sparse file, which outlives the drive.
    File {
        /// Its path.
        path: PathBuf,
        /// What a flush does.
        #[serde(default)]
        flush: Flush,
    },
}

/// What a flush does, where content is in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flush {
    /// It takes the model's time, and leaves the file to the page cache.
    #[default]
    Fast,
    /// It is answered when what was written before it is on the disk below, too.
    Durable,
}

impl Data {
    /// The word for it.
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
    /// A drive in use, without content, whose lead is measured.
    #[must_use]
    pub fn new(name: impl Into<String>, profile: Profile) -> Self {
        Self {
            name: name.into(),
            profile,
            seed: 1,
            fill: Fill::default(),
            data: Data::None,
            scheduler: "none".to_owned(),
            block_bytes: 512,
            lead: None,
            may_sleep: false,
            write_cache: None,
            faults: Vec::new(),
        }
    }

    /// Whether it can be.
    ///
    /// # Errors
    /// One line that says what cannot.
    pub fn check(&self) -> Result<(), Error> {
        check_name(&self.name)?;
        if !(0.0..=1.0).contains(&self.fill.share) {
            return bad(format!("the fill must be a share from 0 to 1, not {}", self.fill.share));
        }
        if !(0.0..=100.0).contains(&self.fill.overwrites) {
            return bad(format!(
                "the overwrites must be from 0 to 100, not {}",
                self.fill.overwrites
            ));
        }
        if ![512, 1024, 2048, 4096].contains(&self.block_bytes) {
            let found = self.block_bytes;
            return bad(format!("the block size must be 512, 1024, 2048 or 4096, not {found}"));
        }
        if !self.capacity().is_multiple_of(u64::from(self.block_bytes)) {
            return bad(format!("{} bytes are no whole blocks", self.capacity()));
        }
        if self.lead.is_some_and(|lead| lead > MOST_LEAD) {
            return bad(format!("the lead must be at most {MOST_LEAD}"));
        }
        self.faults.iter().try_for_each(Fault::check)
    }

    /// Bytes of the block device.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.profile.capacity_bytes()
    }

    /// The most that may be written and not flushed, in bytes.
    #[must_use]
    pub fn write_cache_bytes(&self) -> u64 {
        match self.data {
            Data::None => 0,
            _ => self.write_cache.unwrap_or((self.profile.buffer.size_mb * 1e6) as u64),
        }
    }

    /// A flash like it, of which only a part at the front, of so many bytes, is filled as the
    /// drive will be: it is made at once, and takes little memory.
    pub(super) fn stand_in(&self) -> (Ssd, u64) {
        let mut ssd = Ssd::new(&self.profile, DeviceId(0), self.seed);
        let part = self.capacity().min(STAND_IN);
        ssd.fill_in_order(self.fill.share * part as f64 / self.capacity() as f64);
        (ssd, part)
    }

    /// Whether there is memory for the model of its flash.
    ///
    /// # Errors
    /// There is not: how much it takes, and how much there is.
    pub(super) fn check_memory(&self, available: Option<u64>) -> Result<(), Error> {
        let needed = Ssd::memory_bytes(&self.profile);
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

    /// The flash, filled, unless `watch` ends that.
    pub(super) fn flash(&self, watch: &mut FillWatch<'_>) -> ControlFlow<(), Ssd> {
        let mut ssd = Ssd::new(&self.profile, DeviceId(0), self.seed);
        let Fill { share, overwrites } = self.fill;
        if share > 0.0 && overwrites > 0.0 {
            ssd.age_watched(&self.profile, share, overwrites, watch)?;
        } else if share > 0.0 {
            ssd.fill_in_order_watched(share, watch)?;
        }
        ControlFlow::Continue(ssd)
    }
}

/// Whether a drive may be called that: it names a directory.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=32).contains(&name.len()) && name.chars().all(fits) && !name.starts_with('-') {
        return Ok(());
    }
    bad(format!("`{name}`: a drive's name is 1 to 32 letters, digits, - and _, no - first"))
}

fn bad(why: String) -> Result<(), Error> {
    Err(Error::BadInput(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_that_memory_has_no_room_for_is_refused_before_it_is_made() {
        let profile = Profile::builtin("consumer-a").unwrap().with_capacity(3 << 40).unwrap();
        let spec = Spec::new("large", profile);
        // Four bytes for each 4 KiB, in each direction, and some spare.
        let why = spec.check_memory(Some(5 << 30)).unwrap_err().to_string();
        assert!(why.contains("takes 6.") && why.contains("and 5.0 GiB are available"), "{why}");
        spec.check_memory(Some(9 << 30)).unwrap();
        spec.check_memory(None).unwrap();
    }
}
