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
    /// Faults, with times from when it is ready.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// The longest [`Spec::lead`]: no machine's way to a drive takes longer, but for
/// waiting on a busy one, which comes and goes.
pub(super) const MOST_LEAD: Nanos = Nanos::from_micros(200);

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
    },
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
