//! A device of a scenario: what it is, and the drive that it describes.

use std::ops::{ControlFlow, Range};
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::DeValue;
use trimtab_device::scheduler::SchedulerKind;
use trimtab_device::{Disk, Drive, DriveProfile, FillProgress, Profile, Ssd};
use trimtab_io::{DeviceId, derived_seed};

use super::text::Text;
use super::workload::WorkloadSpec;
use super::{RawDevice, drive, workloads};
use crate::cached::{CacheSpec, Cached};
use crate::error::Error;
use crate::host::HostInterface;
use crate::hosted::HostedDrive;
use crate::scheduled::{MaybeScheduled, Scheduled};
use crate::server::Server;

/// A device of a scenario, parsed and checked: a flash drive, or with [`DriveProfile`] any.
#[derive(Clone, Debug)]
pub struct DeviceSpec<P = Profile> {
    /// Its name in reports.
    pub name: String,
    /// Its profile, with the scenario's overrides.
    pub profile: P,
    /// Its initial content, if it is flash.
    pub fill: Fill,
    /// The host interface.
    pub host: HostInterface,
    /// The I/O scheduler above it, if there is one.
    pub scheduler: Option<SchedulerSpec>,
    /// The page cache above that, if there is one.
    pub cache: Option<CacheSpec>,
    /// Its workloads.
    pub workloads: Vec<WorkloadSpec>,
}

/// The I/O scheduler above a device.
#[derive(Clone, Debug)]
pub struct SchedulerSpec {
    /// Which one, with its keys.
    pub kind: SchedulerKind,
    /// Requests that the device has at a time.
    pub device_depth: u32,
    /// Its position in the text.
    pub span: Range<usize>,
}

/// The initial content of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    /// Share of the drive that holds data, 0 to 1, from offset 0 on.
    pub share: f64,
    /// How it was filled.
    #[serde(default)]
    pub kind: FillKind,
    /// For an aged drive: how often that share has been overwritten since.
    #[serde(default = "thrice")]
    pub overwrites: f64,
}

const fn thrice() -> f64 {
    3.0
}

/// How a drive was filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FillKind {
    /// Written once, sequentially.
    #[default]
    Sequential,
    /// Overwritten since, at random, in whole units.
    Aged,
}

impl Default for Fill {
    fn default() -> Self {
        Self { share: 1.0, kind: FillKind::default(), overwrites: thrice() }
    }
}

/// More has no effect: after ten overwrites a drive is in its steady state.
const MOST_OVERWRITES: f64 = 100.0;

impl DeviceSpec<DriveProfile> {
    pub(super) fn new(
        name: String,
        raw: RawDevice,
        overrides: Option<Spanned<DeValue<'_>>>,
        text: Text<'_>,
        directory: &Path,
    ) -> Result<Self, Error> {
        let profile = drive::profile(&raw, overrides, text, directory)?;
        if let (Some(fill), DriveProfile::Disk(_)) = (&raw.fill, &profile) {
            return Err(text.wrong(&fill.span(), "`fill` has no meaning for a disk: leave it out"));
        }
        if let Some(fill) = &raw.fill {
            text.within("fill", &fill.span(), fill.get_ref().share, 0.0..=1.0)?;
            let overwrites = fill.get_ref().overwrites;
            text.within("fill.overwrites", &fill.span(), overwrites, 0.0..=MOST_OVERWRITES)?;
        }
        let host = raw.host.map_or(Ok(HostInterface::default()), |host| {
            let (at, host) = (host.span(), host.into_inner());
            let depths = 1..=HostInterface::MOST_DEPTH;
            text.within("host.queue_depth", &at, host.queue_depth, depths)?;
            let queues = 1..=HostInterface::MOST_QUEUES;
            text.within("host.submission_queues", &at, host.submission_queues, queues)?;
            Ok::<_, Error>(host)
        })?;
        let fill = raw.fill.map(Spanned::into_inner).unwrap_or_default();
        let scheduler = scheduler(raw.scheduler, raw.device_depth, text)?;
        let cache = raw.cache.map(|cache| {
            let (at, cache) = (cache.span(), cache.into_inner());
            cache.check().map_err(|what| text.wrong(&at, what))?;
            Ok::<_, Error>(cache)
        });
        let cache = cache.transpose()?;
        Ok(Self { name, profile, fill, host, scheduler, cache, workloads: Vec::new() })
    }

    /// The drive, filled if it is flash.
    #[must_use]
    pub fn drive(&self, number: u32, seed: u64) -> Drive {
        match self.drive_watched(number, seed, &mut |_| ControlFlow::Continue(())) {
            ControlFlow::Continue(drive) => drive,
            ControlFlow::Break(()) => unreachable!("it is not ended"),
        }
    }

    /// A device below its scheduler, if it has one.
    #[must_use]
    pub fn scheduled<S: Server>(&self, server: S) -> MaybeScheduled<S> {
        match &self.scheduler {
            None => MaybeScheduled::Direct(server),
            Some(SchedulerSpec { kind, device_depth, .. }) => {
                MaybeScheduled::Scheduled(Box::new(Scheduled::new(server, kind, *device_depth)))
            }
        }
    }

    /// A drive below its scheduler and page cache. The seed is that of neighbours which take memory.
    #[must_use]
    pub fn hosted(&self, drive: Drive, seed: u64) -> HostedDrive {
        let scheduled = self.scheduled(drive);
        match &self.cache {
            None => HostedDrive::Uncached(scheduled),
            Some(cache) => {
                let seed = derived_seed(seed, u64::MAX);
                HostedDrive::Cached(Box::new(Cached::new(scheduled, cache, seed)))
            }
        }
    }

    /// The drive, filled if it is flash, unless `watch` ends the work.
    pub(super) fn drive_watched(
        &self,
        number: u32,
        seed: u64,
        watch: &mut FillProgress<'_>,
    ) -> ControlFlow<(), Drive> {
        let device = DeviceId(number);
        ControlFlow::Continue(match &self.profile {
            DriveProfile::Flash(profile) => {
                Drive::Flash(filled(profile, self.fill, device, seed, watch)?)
            }
            DriveProfile::Disk(profile) => Drive::Disk(Disk::new(profile, device, seed)),
        })
    }
}

impl DeviceSpec {
    /// Its profile with some of its keys replaced.
    ///
    /// # Errors
    /// A key is unknown, or a value out of range.
    pub fn overridden(
        &self,
        overrides: Spanned<DeValue<'_>>,
        text: Text<'_>,
    ) -> Result<Profile, Error> {
        drive::overridden(&self.profile, overrides, text, Profile::to_toml, Profile::parse)
    }

    /// The drive, filled.
    #[must_use]
    pub fn drive(&self, number: u32, seed: u64) -> Ssd {
        let mut go_on = |_| ControlFlow::Continue(());
        match filled(&self.profile, self.fill, DeviceId(number), seed, &mut go_on) {
            ControlFlow::Continue(ssd) => ssd,
            ControlFlow::Break(()) => unreachable!("it is not ended"),
        }
    }
}

#[expect(private_bounds, reason = "both kinds of profiles implement it")]
impl<P: HasCapacity> DeviceSpec<P> {
    /// The same device with another workload, or several.
    ///
    /// # Errors
    /// A key of the workload is unknown, missing or out of range.
    pub fn with_workload(
        self,
        workload: Spanned<DeValue<'_>>,
        text: Text<'_>,
        directory: &Path,
    ) -> Result<Self, Error> {
        let queues = self.host.submission_queues;
        let workloads = workloads(workload, self.profile.bytes(), queues, text, directory)?;
        Ok(Self { workloads, ..self })
    }
}

/// A profile, of which only the size is needed.
pub(super) trait HasCapacity {
    /// User capacity.
    fn bytes(&self) -> u64;
}

impl HasCapacity for Profile {
    fn bytes(&self) -> u64 {
        self.capacity_bytes()
    }
}

impl HasCapacity for DriveProfile {
    fn bytes(&self) -> u64 {
        self.capacity_bytes()
    }
}

/// A filled flash drive, unless `watch` ends the work.
fn filled(
    profile: &Profile,
    Fill { share, kind, overwrites }: Fill,
    device: DeviceId,
    seed: u64,
    watch: &mut FillProgress<'_>,
) -> ControlFlow<(), Ssd> {
    let mut ssd = Ssd::new(profile, device, seed);
    match kind {
        FillKind::Sequential => ssd.fill_in_order_watched(share, watch)?,
        FillKind::Aged => ssd.age_watched(profile, share, overwrites, watch)?,
    }
    ControlFlow::Continue(ssd)
}

/// Requests that a device has below a scheduler, if nothing else is said: those of NCQ.
const DEVICE_DEPTH: u32 = 32;

fn scheduler(
    kind: Option<Spanned<SchedulerKind>>,
    depth: Option<Spanned<u32>>,
    text: Text<'_>,
) -> Result<Option<SchedulerSpec>, Error> {
    let Some(kind) = kind else {
        return match depth {
            Some(depth) => Err(text.wrong(&depth.span(), "`device_depth` needs a `scheduler`")),
            None => Ok(None),
        };
    };
    let (span, kind) = (kind.span(), kind.into_inner());
    kind.check().map_err(|e| text.wrong(&span, format!("`scheduler`: {e}")))?;
    let device_depth = depth.map_or(Ok(DEVICE_DEPTH), |depth| {
        let depths = 1..=HostInterface::MOST_DEPTH;
        text.within("device_depth", &depth.span(), *depth.get_ref(), depths)?;
        Ok::<_, Error>(depth.into_inner())
    })?;
    Ok(Some(SchedulerSpec { kind, device_depth, span }))
}
