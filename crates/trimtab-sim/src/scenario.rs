//! A simulation in TOML; docs/scenario.md describes every key.

mod count;
mod device;
mod drive;
mod text;
mod values;
mod workload;

use std::ops::{ControlFlow, Range};
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use trimtab_device::DriveProfile;
use trimtab_device::scheduler::SchedulerKind;
use trimtab_io::{Nanos, WholeFile, derived_seed};

pub use self::count::expand_counts;
use self::device::HasCapacity;
pub use self::device::{DeviceSpec, Fill, FillKind, SchedulerSpec};
pub use self::text::Text;
pub use self::values::Bytes;
pub use self::workload::{WorkloadSpec, read};

use crate::cached::CacheSpec;
use crate::error::Error;
use crate::host::HostInterface;
use crate::hosted::HostedDrive;
use crate::lane::{Device, Span};
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
