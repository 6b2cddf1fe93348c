//! The tracker's life cycle: programs loaded, configured, attached, pinned.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore as _, MapHandle, Object, OpenMapMut, ProgramMut};
use trimtab_block::{BlockDevice, DeviceError};
use trimtab_bpf::{
    Arrival, ChosenDevice, DeviceTable, Error as BpfError, Overhead, available, check_privilege,
    measure_run_time,
};
use trimtab_predict::units::UnitFunction;
use trimtab_predict::{DIGITS, Trained};
use trimtab_shm::{Mapping, WritableMapping};
use trimtab_state::{LiveDrive, StateMemory};
use zerocopy::IntoBytes as _;

use crate::abi::{Control, Setup};
use crate::bpf_mount::BpfMount;
use crate::calls::{self, Calls, InjectedEvent};
use crate::housekeeping::Housekeeper;
use crate::log::{Log, Step};
use crate::network::{Networks, Query};
use crate::pins::Pins;
use crate::staging::StagingSlot;
use crate::{Error, PATIENCE};

/// Options of the tracker.
#[derive(Clone, Debug)]
pub struct TrackerOptions {
    /// The tracepoint at which a request counts as sent: without `block_io_start`, or if
    /// requested, its issue.
    pub arrival: Arrival,
    /// Each drive's initial unit functions, as [`StateTracker::set_functions`] sets them
    /// later. Further drives have none.
    pub functions: Vec<Vec<UnitFunction>>,
    /// A request that has not completed within this time is assumed to have completed unseen.
    pub age_limit: Duration,
    /// Whether the kernel may decide by itself ([`StateTracker::set_network`]). Otherwise the
    /// programs contain no such code, and it costs nothing.
    pub in_kernel: bool,
    /// Whether the kernel measures the handlers' run time, which costs some time itself.
    pub measure_overhead: bool,
    /// For tests: keep a log of `1 << log_bits` steps, and load the programs that inject
    /// events and query the network; 0: neither.
    pub log_bits: u32,
}

impl Default for TrackerOptions {
    /// A minute: the kernel's own time limits for requests are about half of it.
    fn default() -> Self {
        Self {
            arrival: Arrival::Auto,
            functions: Vec::new(),
            age_limit: Duration::from_secs(60),
            in_kernel: false,
            measure_overhead: false,
            log_bits: 0,
        }
    }
}

/// The programs, attached: they track the state of some drives until this is dropped.
pub struct StateTracker {
    // Fields drop in this order: report the end, detach, unmap, unload.
    housekeeper: Housekeeper,
    pins: Option<Pins>,
    /// The mount of the pinned file.
    pinned_at: Option<BpfMount>,
    links: Vec<(OsString, Link)>,
    calls: Arc<Calls>,
    staging: StagingSlot,
    control: WritableMapping<Control>,
    networks: Option<Networks>,
    memory: Arc<StateMemory>,
    log: Option<Log>,
    object: Object,
    devices: Vec<BlockDevice>,
    _statistics: Option<OwnedFd>,
}

impl StateTracker {
    /// Loads and attaches the programs for these drives. Their state is initially empty,
    /// without unit functions.
    ///
    /// # Errors
    /// The kernel lacks something, or the process may not do it.
    pub fn load(devices: &[BlockDevice], options: &TrackerOptions) -> Result<Self, Error> {
        let mut numbers: Vec<_> = devices.iter().map(|device| device.number).collect();
        numbers.sort_unstable();
        if let Some(twice) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
            let named = devices.iter().find(|device| device.number == twice[0]);
            let name = named.map_or("", |device| &device.name);
            return Err(DeviceError::new(name, "is named twice").into());
        }
        check_privilege()?;
        let by_issue = match available(options.arrival) {
            Ok(arrival) => arrival == Arrival::GetRq,
            // Not required here.
            Err(_) if options.arrival == Arrival::Auto => true,
            Err(error) => return Err(error.into()),
        };
        let object = load(devices, options, by_issue)?;
        let map = |name: &str| {
            object.maps().find(|m| m.name() == name).expect("bpf/state.bpf.c defines it")
        };
        // From here on only programs can write it: see `Pins`.
        let shared = handle(&object, "st_devices")?;
        shared.freeze().map_err(BpfError::bpf("close the state for writing"))?;
        let memory = Arc::new(StateMemory::map(&shared, devices.len().max(1))?);
        let control = WritableMapping::new(&map(".data.control"), 1)?;
        let networks = options
            .in_kernel
            .then(|| WritableMapping::new(&map("st_networks"), devices.len().max(1)))
            .transpose()?
            .map(Networks);
        let log = (options.log_bits > 0)
            .then(|| Mapping::new(&map("st_log"), 1 << options.log_bits))
            .transpose()?
            .map(|entries| Log { entries, bits: options.log_bits });
        let calls = Arc::new(Calls::of(&object)?);
        let staging = StagingSlot::new(WritableMapping::new(&map("st_staged_config"), 1)?);
        for (index, functions) in options.functions.iter().enumerate().take(devices.len()) {
            staging.configure(&calls, index, functions)?;
        }
        let statistics = options.measure_overhead.then(measure_run_time).transpose()?;
        let mut links = Vec::new();
        let traced =
            |p: &ProgramMut<'_>| p.autoload() && !calls::is_callable(&p.name().to_string_lossy());
        for program in object.progs_mut().filter(traced) {
            links.push(attach(&program)?);
        }
        let devices = devices.to_vec();
        Ok(Self {
            housekeeper: Housekeeper::start(
                Arc::clone(&memory),
                devices.clone(),
                Arc::clone(&calls),
            ),
            pins: None,
            pinned_at: None,
            links,
            calls,
            staging,
            control,
            networks,
            memory,
            log,
            object,
            devices,
            _statistics: statistics,
        })
    }

    /// The state of a drive, by its index in `devices`.
    ///
    /// # Errors
    /// The kernel writes the state continuously.
    ///
    /// # Panics
    /// If there is no such drive.
    pub fn drive(&self, index: usize) -> Result<LiveDrive, Error> {
        assert!(index < self.devices.len());
        Ok(LiveDrive::new(Arc::clone(&self.memory), index)?)
    }

    /// Sets a drive's unit functions from now on: at most three, the others are ignored. The
    /// drive's state is reset, and requests in flight are not tracked.
    ///
    /// # Errors
    /// A function is invalid, or the kernel writes the state continuously.
    ///
    /// # Panics
    /// If there is no such drive.
    pub fn set_functions(&self, index: usize, functions: &[UnitFunction]) -> Result<(), Error> {
        assert!(index < self.devices.len());
        self.staging.configure(&self.calls, index, functions)?;
        self.heartbeat(index);
        Ok(())
    }

    /// From now on the kernel decides about reads of this drive by this network of LinnOS,
    /// after each change, for both [`SizeClass`](trimtab_state::SizeClass)es: see
    /// [`LiveDrive::verdict`]. `None`: it stops deciding.
    ///
    /// # Errors
    /// Deciding was not enabled ([`TrackerOptions::in_kernel`]), or the model is not LinnOS's.
    ///
    /// # Panics
    /// If there is no such drive.
    pub fn set_network(&self, index: usize, model: Option<&Trained>) -> Result<(), Error> {
        assert!(index < self.devices.len());
        let network = match model {
            None => None,
            Some(Trained::Linnos(network)) => Some(&**network),
            Some(other) => {
                let name = other.kind().name();
                return Err(Error::Model(name));
            }
        };
        let Some(networks) = &self.networks else {
            return Err(Error::NetworksNotLoaded);
        };
        networks.set(index, network)?;
        self.heartbeat(index);
        Ok(())
    }

    /// A heartbeat, at which the programs update the decisions, or withdraw them. A busy
    /// network becomes free soon.
    fn heartbeat(&self, index: usize) {
        let until = Instant::now() + PATIENCE;
        let is_tracked = !self.devices[index].is_replaced();
        while !self.calls.heartbeat(index, is_tracked, self.devices[index].kernel_number()) {
            if Instant::now() > until {
                return;
            }
            thread::yield_now();
        }
    }

    /// For tests, with a log: the network's output in the kernel for some digits, and for the
    /// same with other digits for the queue: both margins, and the sums of the first layer.
    #[doc(hidden)]
    #[must_use]
    pub fn query_network(
        &self,
        index: usize,
        digits: &[u8; DIGITS],
        other: [u8; 3],
    ) -> Option<([i64; 2], [i32; 256])> {
        let mut query = Query::new(index, digits, other);
        self.calls.query_network(&mut query).then(|| (query.margins, query.sums()))
    }

    /// For tests: runs `f` while completions are not seen.
    ///
    /// # Errors
    /// The programs cannot be attached again.
    #[doc(hidden)]
    pub fn without_completions(&mut self, f: impl FnOnce()) -> Result<(), Error> {
        let completes = |name: &OsStr| name.to_string_lossy().starts_with("on_complete");
        self.links.retain(|(name, _)| !completes(name));
        f();
        for program in self.object.progs_mut().filter(|p| p.autoload() && completes(p.name())) {
            self.links.push(attach(&program)?);
        }
        Ok(())
    }

    /// For tests, with a log: injects an event of a fictitious read, identified by a number
    /// other than 0.
    #[doc(hidden)]
    pub fn inject_event(&self, index: usize, event: InjectedEvent, key: u64) {
        self.calls.inject_event(index, event, key);
    }

    /// Makes the state readable for other processes, by a file in a directory of a BPF file
    /// system (`/sys/fs/bpf/trimtab`), which is removed with the tracker. If the tracker is
    /// killed, the next one replaces the file. [`LiveDrive::open`] documents which processes
    /// may read it; only BPF programs can write it.
    ///
    /// # Errors
    /// The directory is not on a BPF file system, or another tracker uses it.
    pub fn pin(&mut self, directory: &Path) -> Result<(), Error> {
        self.pins = Some(Pins::make(directory, handle(&self.object, "st_devices")?)?);
        self.pinned_at = Some(BpfMount::of(directory)?);
        Ok(())
    }

    /// Pins the state again if its file was removed, for example by unmounting the BPF file
    /// system, which is then mounted again at the same place. Returns whether that was needed.
    /// Without a file, processes can no longer open the state; those that have it open keep
    /// it. Call this periodically.
    ///
    /// # Errors
    /// The file is missing and cannot be made: mounting takes `CAP_SYS_ADMIN`.
    pub fn pin_again(&mut self) -> Result<bool, Error> {
        let Some(place) = &self.pinned_at else { return Ok(false) };
        if self.pins.as_ref().is_some_and(Pins::is_there) {
            return Ok(false);
        }
        // Before there is a new file of the same name, which dropping would remove.
        self.pins = None;
        place.mount()?;
        self.pins = Some(Pins::make(place.directory(), handle(&self.object, "st_devices")?)?);
        Ok(true)
    }

    /// The handlers' runs so far and, if requested, their time.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub fn overhead(&self) -> Result<Overhead, Error> {
        Ok(Overhead::of(&self.object)?)
    }

    /// The changes of a drive's state, step by step; `None` without a log, or if more steps
    /// were made than it holds.
    #[must_use]
    pub fn steps(&self, index: usize) -> Option<Vec<Step>> {
        self.log.as_ref()?.read(&self.control.read(0), index as u8)
    }
}

impl Drop for StateTracker {
    fn drop(&mut self) {
        if let Some(networks) = &self.networks {
            for index in 0..self.devices.len() {
                _ = networks.set(index, None);
                self.heartbeat(index);
            }
        }
        self.housekeeper.stop();
    }
}

fn attach(program: &ProgramMut<'_>) -> Result<(OsString, Link), Error> {
    let link = program.attach().map_err(BpfError::bpf("attach to the block tracepoints"))?;
    Ok((program.name().to_owned(), link))
}

fn handle(object: &Object, name: &str) -> Result<MapHandle, Error> {
    let map = object.maps().find(|map| map.name() == name).expect("bpf/state.bpf.c defines it");
    Ok(MapHandle::try_from(&map).map_err(BpfError::bpf("keep a map open"))?)
}

fn load(
    devices: &[BlockDevice],
    options: &TrackerOptions,
    by_issue: bool,
) -> Result<Object, Error> {
    let wanted = |program: &str| match program {
        "on_start" => !by_issue,
        "on_complete_again" => devices.iter().any(BlockDevice::completions_may_nest),
        "inject_event" => options.log_bits > 0,
        "query_network" => options.in_kernel && options.log_bits > 0,
        _ => true,
    };
    let age_limit_ns = u64::try_from(options.age_limit.as_nanos()).unwrap_or(u64::MAX);
    let chosen = |device: &BlockDevice| ChosenDevice {
        number: device.kernel_number(),
        // The heartbeat detects a replaced device.
        diskseq: None,
    };
    let table = DeviceTable::new(&devices.iter().map(chosen).collect::<Vec<_>>());
    let setup = Setup {
        by_issue: by_issue.into(),
        log_bits: options.log_bits,
        age_limit_ns,
        networks: options.in_kernel.into(),
        reserved: 0,
        devices: table.hash(),
    };
    let configure = |name: &str, map: &mut OpenMapMut<'_>| match name {
        ".rodata.setup" => map.set_initial_value(setup.as_bytes()),
        "st_devices" | "st_works" => map.set_max_entries(devices.len().max(1) as u32),
        "st_networks" if options.in_kernel => map.set_max_entries(devices.len().max(1) as u32),
        "st_log" => map.set_max_entries(1 << options.log_bits),
        _ => Ok(()),
    };
    Ok(trimtab_bpf::load(trimtab_bpf::STATE, &table, wanted, configure)?)
}
