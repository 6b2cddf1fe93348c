//! A simulation in TOML; docs/scenario.md describes every key.

mod count;
mod drive;
mod text;
mod values;
mod workload;

use std::ops::{ControlFlow, Range};
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use trimtab_device::scheduler::SchedulerKind;
use trimtab_device::{Disk, Drive, DriveProfile, FillProgress, Profile, Ssd};
use trimtab_io::{DeviceId, Nanos, WholeFile, derived_seed};

pub use self::count::expand_counts;
pub use self::text::Text;
pub use self::values::Bytes;
pub use self::workload::{WorkloadSpec, read};

use crate::cached::{CacheSpec, Cached};
use crate::error::Error;
use crate::host::HostInterface;
use crate::hosted::HostedDrive;
use crate::lane::{Device, Span};
use crate::scheduled::{MaybeScheduled, Scheduled};
use crate::server::Server;
use crate::simulation::Simulation;

/// A simulation, parsed and checked.
///
/// ```
/// let scenario = trimtab_sim::Scenario::parse(
///     "seed = 1
///      requests = 1000
///      [[device]]
///      profile = 'reference'
///      capacity = '12G'
///      [device.workload]
///      read_share = 1
///      arrivals = { kind = 'poisson', iops = 10 }
///      offsets = { kind = 'uniform' }
///      sizes = [{ bytes = 4096, weight = 1 }]",
///     ".".as_ref(),
/// )?;
/// let mut simulation = scenario.simulation()?;
/// simulation.run()?;
/// assert_eq!(simulation.report().devices[0].requests, 1000);
/// # Ok::<(), trimtab_sim::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scenario {
    text: String,
    seed: u64,
    span: Span,
    devices: Vec<DeviceSpec<DriveProfile>>,
}

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

/// The scenario without its devices' [`DependentKeys`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    seed: u64,
    warm_up_requests: Option<Spanned<u64>>,
    warm_up_s: Option<Spanned<f64>>,
    requests: Option<Spanned<u64>>,
    duration_s: Option<Spanned<f64>>,
    device: Vec<Spanned<RawDevice>>,
}

/// A device in TOML, without its [`DependentKeys`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawDevice {
    name: Option<Spanned<String>>,
    profile: Spanned<String>,
    capacity: Option<Spanned<Bytes>>,
    #[serde(default, deserialize_with = "values::fill")]
    fill: Option<Spanned<Fill>>,
    host: Option<Spanned<HostInterface>>,
    scheduler: Option<Spanned<SchedulerKind>>,
    device_depth: Option<Spanned<u32>>,
    cache: Option<Spanned<CacheSpec>>,
}

/// The parts of a device whose keys depend on each other, which are parsed after the rest.
#[derive(Clone, Default)]
pub struct DependentKeys<'i> {
    overrides: Option<Spanned<DeValue<'i>>>,
    /// One workload or a list of them.
    pub workload: Option<Spanned<DeValue<'i>>>,
}

/// More has no effect: after ten overwrites a drive is in its steady state.
const MOST_OVERWRITES: f64 = 100.0;
/// The most devices of a simulation.
const MOST_DEVICES: usize = 1024;
/// The most requests that a simulation may count.
const MOST_REQUESTS: u64 = 1 << 47;

/// The default size of a drive.
const CAPACITY: u64 = 64 << 30;

/// Sets the most bytes for copies of the traces of all workloads.
pub fn set_max_spool<P>(devices: &mut [DeviceSpec<P>], bytes: u64) {
    let workloads = devices.iter_mut().flat_map(|device| &mut device.workloads);
    workloads.for_each(|workload| workload.set_max_spool(bytes));
}

/// Reads a TOML file with `parse`, which gets its text and its directory. Errors of the text
/// start with the file's name; `what` names the expected content in errors.
///
/// # Errors
/// As `parse`, or the file cannot be read.
pub fn load<T>(
    path: &Path,
    what: &'static str,
    parse: impl FnOnce(&str, &Path) -> Result<T, Error>,
) -> Result<T, Error> {
    let text = WholeFile::toml(what)
        .read_text(path)
        .map_err(|source| Error::Open { path: path.to_owned(), source })?;
    let directory = path.parent().unwrap_or(Path::new(""));
    parse(&text, directory).map_err(|error| match error {
        Error::Scenario(what) => Error::Scenario(format!("{}: {what}", path.display())),
        other => other,
    })
}

impl Scenario {
    /// Reads a scenario from a file.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), with the file's name; or it cannot be read.
    pub fn load(path: &Path) -> Result<Self, Error> {
        load(path, "a scenario", Self::parse)
    }

    /// Sets the most bytes for a copy of a trace that is compressed or not a regular file.
    pub fn set_max_spool(&mut self, bytes: u64) {
        set_max_spool(&mut self.devices, bytes);
    }

    /// Reads a scenario. Files that it names are looked for in `directory`.
    ///
    /// # Errors
    /// It is not TOML, or a key is unknown, missing or out of range, or a profile cannot be
    /// read.
    pub fn parse(text: &str, directory: &Path) -> Result<Self, Error> {
        let (whole, text) = (text, Text(text));
        let mut root = DeTable::parse(text.0).map_err(|e| text.error(&e))?;
        expand_counts(root.get_mut(), MOST_DEVICES, text)?;
        let dependent = take_dependent(root.get_mut());
        let raw =
            Raw::deserialize(toml::de::Deserializer::from(root)).map_err(|e| text.error(&e))?;
        let span = span(&raw, text)?;
        if raw.device.is_empty() {
            return Err(Error::Scenario("there must be at least one `[[device]]`".to_owned()));
        }
        let devices = loaded(raw.device, dependent, text, directory, drives_of_any_kind)?;
        let mut workloads = devices.iter().flat_map(|device| &device.workloads);
        if let Some(noise) = workloads.clone().find(|workload| workload.is_noise()) {
            let what = "`noise` is for `trimtab compare`: here each workload has its own figures";
            return Err(text.wrong(&noise.span, what));
        }
        if let (None, None, Some(endless)) =
            (span.requests, span.duration, workloads.find(|workload| !workload.ends()))
        {
            let what = "`requests` or `duration_s` must set where the simulation ends";
            return Err(text.wrong(&endless.span, what));
        }
        Ok(Self { text: whole.to_owned(), seed: raw.seed, span, devices })
    }

    /// Makes the devices, fills them, and opens the traces.
    ///
    /// # Errors
    /// A trace cannot be read.
    pub fn simulation(&self) -> Result<Simulation<HostedDrive>, Error> {
        let made = self.simulation_watched(&mut |_, _| ControlFlow::Continue(()))?;
        Ok(made.expect("it is not ended"))
    }

    /// As [`simulation`](Self::simulation): filling large drives takes seconds. `watch` is
    /// called periodically with the device that is being filled and the share done, 0 to 1; it
    /// may end the work, and then the result is `None`.
    ///
    /// # Errors
    /// A trace cannot be read.
    pub fn simulation_watched(
        &self,
        watch: &mut dyn FnMut(&str, f64) -> ControlFlow<()>,
    ) -> Result<Option<Simulation<HostedDrive>>, Error> {
        let mut devices = Vec::with_capacity(self.devices.len());
        for (number, spec) in (0..).zip(&self.devices) {
            let seed = derived_seed(self.seed, number.into());
            let filled = spec.drive_watched(number, seed, &mut |share| watch(&spec.name, share));
            let ControlFlow::Continue(drive) = filled else { return Ok(None) };
            let build = |workload: &WorkloadSpec| workload.build(drive.capacity(), seed, None);
            let workloads = spec.workloads.iter().map(build);
            let workloads = workloads.collect::<Result<Vec<_>, _>>()?;
            devices.push(Device {
                name: spec.name.clone(),
                host: spec.host,
                server: spec.hosted(drive, seed),
                workloads,
            });
        }
        Ok(Some(Simulation::new(self.seed, self.span, devices)))
    }

    /// The TOML text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Each device's name, and its profile after overrides.
    pub fn profiles(&self) -> impl Iterator<Item = (&str, &DriveProfile)> {
        self.devices.iter().map(|device| (device.name.as_str(), &device.profile))
    }
}

/// Builds and checks devices. Files that they name are looked for in `directory`.
///
/// # Errors
/// A key is missing or out of range, or a profile cannot be read.
pub fn devices(
    raw: Vec<Spanned<RawDevice>>,
    dependent: Vec<DependentKeys<'_>>,
    text: Text<'_>,
    directory: &Path,
) -> Result<Vec<DeviceSpec<DriveProfile>>, Error> {
    loaded(raw, dependent, text, directory, drives_of_any_kind)
}

/// Devices from `drives`, with their workloads.
fn loaded<'i, P: HasCapacity>(
    raw: Vec<Spanned<RawDevice>>,
    dependent: Vec<DependentKeys<'i>>,
    text: Text<'_>,
    directory: &Path,
    drives: impl FnOnce(
        Vec<Spanned<RawDevice>>,
        Vec<DependentKeys<'i>>,
        Text<'_>,
        &Path,
    ) -> Result<Vec<DeviceSpec<P>>, Error>,
) -> Result<Vec<DeviceSpec<P>>, Error> {
    let lines: Vec<_> = raw.iter().map(Spanned::span).collect();
    let (mut overrides, mut loads) = (Vec::new(), Vec::new());
    for DependentKeys { overrides: keys, workload } in dependent {
        overrides.push(DependentKeys { overrides: keys, workload: None });
        loads.push(workload);
    }
    let drives = drives(raw, overrides, text, directory)?;
    let with_load = |((drive, load), line): ((DeviceSpec<P>, Option<_>), &Range<usize>)| match load
    {
        Some(load) => drive.with_workload(load, text, directory),
        None => Err(text.wrong(line, "missing field `workload`")),
    };
    drives.into_iter().zip(loads).zip(&lines).map(with_load).collect()
}

/// Flash drives without workloads.
///
/// # Errors
/// A key is missing or out of range, a profile cannot be read, or is a disk's.
pub fn drives(
    raw: Vec<Spanned<RawDevice>>,
    dependent: Vec<DependentKeys<'_>>,
    text: Text<'_>,
    directory: &Path,
) -> Result<Vec<DeviceSpec>, Error> {
    let lines: Vec<_> = raw.iter().map(|device| device.get_ref().profile.span()).collect();
    let drives = drives_of_any_kind(raw, dependent, text, directory)?;
    let flash = |(drive, line): (DeviceSpec<DriveProfile>, &Range<usize>)| match drive.profile {
        DriveProfile::Flash(profile) => {
            let DeviceSpec { name, fill, host, scheduler, cache, workloads, .. } = drive;
            Ok(DeviceSpec { name, profile, fill, host, scheduler, cache, workloads })
        }
        DriveProfile::Disk(disk) => {
            let what = format!("profile `{}` is a disk's; a flash drive is needed here", disk.name);
            Err(text.wrong(line, what))
        }
    };
    drives.into_iter().zip(&lines).map(flash).collect()
}

fn drives_of_any_kind(
    raw: Vec<Spanned<RawDevice>>,
    dependent: Vec<DependentKeys<'_>>,
    text: Text<'_>,
    directory: &Path,
) -> Result<Vec<DeviceSpec<DriveProfile>>, Error> {
    let mut devices: Vec<DeviceSpec<DriveProfile>> = Vec::new();
    for ((number, device), dependent) in (0_u64..).zip(raw).zip(dependent) {
        let line = device.span();
        if let Some(load) = &dependent.workload {
            return Err(text.wrong(&load.span(), "`workload` is the array's, not a device's"));
        }
        let device = device.into_inner();
        let name = device.name.clone().map_or(format!("device {number}"), Spanned::into_inner);
        if devices.iter().any(|other| other.name == name) {
            let at = device.name.as_ref().map_or(line, Spanned::span);
            return Err(text.wrong(&at, format!("there are two devices called `{name}`")));
        }
        devices.push(DeviceSpec::new(name, device, dependent.overrides, text, directory)?);
    }
    Ok(devices)
}

impl DeviceSpec<DriveProfile> {
    fn new(
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
    fn drive_watched(
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
trait HasCapacity {
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

/// Refuses devices with schedulers and page caches, where these are not simulated.
///
/// # Errors
/// A device has one.
pub fn without_hosts(devices: &[DeviceSpec], text: Text<'_>) -> Result<(), Error> {
    if let Some(cached) = devices.iter().find(|device| device.cache.is_some()) {
        let name = &cached.name;
        return Err(Error::Scenario(format!("{name}: `cache` is for replicas, not for members")));
    }
    match devices.iter().find_map(|device| device.scheduler.as_ref()) {
        Some(scheduler) => {
            let what = "`scheduler` is for replicas, not for members: leave it out here";
            Err(text.wrong(&scheduler.span, what))
        }
        None => Ok(()),
    }
}

/// The workloads of `capacity` bytes that have this many submission queues.
///
/// # Errors
/// A key of the workload is unknown, missing or out of range.
pub fn workloads(
    workload: Spanned<DeValue<'_>>,
    capacity: u64,
    queues: u32,
    text: Text<'_>,
    directory: &Path,
) -> Result<Vec<WorkloadSpec>, Error> {
    workload::parse(workload, text, &workload::About { capacity, queues, directory })
}

/// Takes its [`DependentKeys`] out of each device.
pub fn take_dependent<'i>(root: &mut DeTable<'i>) -> Vec<DependentKeys<'i>> {
    let Some(devices) = root.get_mut("device").map(Spanned::get_mut) else { return Vec::new() };
    let DeValue::Array(devices) = devices else { return Vec::new() };
    let dependent = devices.iter_mut().map(|device| match device.get_mut() {
        DeValue::Table(device) => DependentKeys {
            overrides: device.remove("override"),
            workload: device.remove("workload"),
        },
        _ => DependentKeys::default(),
    });
    dependent.collect()
}

fn span(raw: &Raw, text: Text<'_>) -> Result<Span, Error> {
    let seconds = |key: &str, value: &Option<Spanned<f64>>, least: f64| -> Result<_, Error> {
        let Some(value) = value else { return Ok(None) };
        text.within(key, &value.span(), *value.get_ref(), least..=1e9)?;
        Ok(Some(Nanos::from_secs_f64(*value.get_ref())))
    };
    if let Some(requests) = &raw.requests {
        text.within("requests", &requests.span(), *requests.get_ref(), 1..=MOST_REQUESTS)?;
    }
    let warm_up_requests = raw.warm_up_requests.as_ref().map_or(Ok(0), |requests| {
        let count = *requests.get_ref();
        text.within("warm_up_requests", &requests.span(), count, 0..=MOST_REQUESTS)?;
        Ok::<_, Error>(count)
    })?;
    Ok(Span {
        warm_up_requests,
        warm_up: seconds("warm_up_s", &raw.warm_up_s, 0.0)?.unwrap_or_default(),
        requests: raw.requests.as_ref().map(|requests| *requests.get_ref()),
        duration: seconds("duration_s", &raw.duration_s, 1e-9)?,
    })
}

#[cfg(test)]
mod tests;
