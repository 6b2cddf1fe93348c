//! Loading and attaching the programs.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::{Link, MapCore, Object, ObjectBuilder, PrintLevel};
use trimtab_io::DeviceId;
use trimtab_trace::Names;

use super::abi::{Config, Event, MAX_DEVICES};
use super::device::BlockDevice;
use super::error::Error;
use super::overhead;
use super::recording::Recording;
use super::ring::{Ring, Switchboard};
use super::table::Table;

/// The programs, compiled.
static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/record.bpf.o"));

/// How to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of the ring between kernel and user space, in bytes; rounded up to
    /// a power of two. An event takes 64 bytes.
    pub ring_bytes: u32,
    /// Which tracepoint tells a request's arrival.
    pub arrival: Arrival,
    /// Whether the kernel shall measure the handlers' run time (which costs
    /// some itself).
    pub measure_overhead: bool,
}

impl Default for Options {
    /// 16 MiB: four seconds at 60,000 requests per second.
    fn default() -> Self {
        Self { ring_bytes: 16 << 20, arrival: Arrival::Auto, measure_overhead: false }
    }
}

/// Which tracepoint tells a request's arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrival {
    /// `block_io_start` where the kernel has it, otherwise `block_getrq`.
    #[default]
    Auto,
    /// `block_io_start` (Linux 6.5 and newer).
    IoStart,
    /// `block_getrq`: knows the bio, not the request.
    GetRq,
}

/// The programs, loaded and attached, but recording nothing yet.
pub struct Recorder {
    // Fields drop in this order: detach, unmap, unload.
    pub(super) links: Vec<Link>,
    pub(super) table: Table,
    pub(super) ring: Ring,
    pub(super) switchboard: Switchboard,
    pub(super) object: Object,
    pub(super) devices: Vec<BlockDevice>,
    pub(super) names: Names,
    /// How arrivals are told: settled, never `Auto`.
    pub(super) arrival: Arrival,
    pub(super) _statistics: Option<OwnedFd>,
}

impl Recorder {
    /// Loads and attaches the programs for these devices.
    ///
    /// # Errors
    /// The kernel lacks something, or the process may not do it.
    pub fn load(devices: &[BlockDevice], options: &Options) -> Result<Self, Error> {
        if devices.len() > MAX_DEVICES {
            return Err(Error::TooManyDevices(devices.len()));
        }
        let mut names = Names::default();
        let mut config = Config { device_count: devices.len() as u32, ..Config::default() };
        for (device, (number, i)) in devices.iter().zip(config.devices.iter_mut().zip(0..)) {
            *number = device.kernel_number();
            let id = names.add_device(&device.name);
            let id =
                id.map_err(|e| Error::Device { name: device.name.clone(), why: e.to_string() })?;
            if id != DeviceId(i) {
                let why = "is named twice".to_owned();
                return Err(Error::Device { name: device.name.clone(), why });
            }
        }
        check_privilege()?;
        let arrival = available(options.arrival)?;
        config.arrival_by_bio = u32::from(arrival == Arrival::GetRq);
        (config.ring_bits, config.ring_reserve) = ring_size(options.ring_bytes)?;

        let object = load(config, devices, arrival)?;
        let map = |name: &str| {
            object.maps().find(|m| m.name() == name).expect("bpf/record.bpf.c defines it")
        };
        let table = Table::new(map("rec_table").as_fd())?;
        let ring = Ring::new(map("rec_ring").as_fd(), config.ring_bits)?;
        let switchboard = Switchboard::new(map(".data.control").as_fd())?;
        let statistics = options.measure_overhead.then(overhead::measure).transpose()?;
        let mut links = Vec::new();
        for program in object.progs_mut().filter(|p| p.autoload()) {
            links.push(program.attach().map_err(Error::bpf("attach to the block tracepoints"))?);
        }
        Ok(Self {
            links,
            table,
            ring,
            switchboard,
            object,
            devices: devices.to_vec(),
            names,
            arrival,
            _statistics: statistics,
        })
    }

    /// Begins to record.
    #[must_use]
    pub fn start(self) -> Recording {
        Recording::start(self)
    }
}

/// How many events (as a power of two) a ring of so many bytes holds, and how
/// many places are kept free for handlers that have seen that there is room and
/// not yet taken it: on each CPU one for each kind of interrupt.
fn ring_size(bytes: u32) -> Result<(u32, u32), Error> {
    let cpus = libbpf_rs::num_possible_cpus().map_err(Error::bpf("count the CPUs"))?;
    let reserve = 4 * cpus as u32;
    let events = (bytes / size_of::<Event>() as u32).max(2 * reserve);
    Ok((events.next_power_of_two().ilog2(), reserve))
}

fn load(config: Config, devices: &[BlockDevice], arrival: Arrival) -> Result<Object, Error> {
    // The library would print to standard error what is in the error anyway.
    libbpf_rs::set_print(Some((PrintLevel::Debug, |_, _| {})));
    let mut open = ObjectBuilder::default()
        .open_memory(PROGRAMS)
        .map_err(Error::bpf("read the compiled BPF programs"))?;
    for mut program in open.progs_mut() {
        let name = program.name().to_owned();
        let wanted = match name.to_str() {
            Some("on_start") => arrival == Arrival::IoStart,
            Some("on_getrq") => arrival == Arrival::GetRq,
            Some("on_complete_again") => devices.iter().any(BlockDevice::completions_may_nest),
            _ => true,
        };
        program.set_autoload(wanted);
    }
    for mut map in open.maps_mut() {
        let name = map.name().to_owned();
        match name.to_str() {
            Some(".rodata.config") => map.set_initial_value(&config.to_bytes()),
            Some("rec_ring") => map.set_max_entries(1 << config.ring_bits),
            _ => Ok(()),
        }
        .map_err(Error::bpf("configure the BPF programs"))?;
    }
    open.load().map_err(refused)
}

/// Why the kernel does not take the programs.
pub(crate) fn refused(e: libbpf_rs::Error) -> Error {
    match e.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => Error::Kernel(
            "the kernel refuses BPF programs even to root: it is locked down (see \
             /sys/kernel/security/lockdown) or the container lacks CAP_BPF and CAP_PERFMON"
                .to_owned(),
        ),
        _ => {
            Error::Bpf { what: "load the BPF programs (Linux 5.15 or newer is needed)", source: e }
        }
    }
}

/// Loading tracing programs takes `CAP_BPF` and `CAP_PERFMON`, or the older
/// `CAP_SYS_ADMIN`.
pub(crate) fn check_privilege() -> Result<(), Error> {
    const SYS_ADMIN: u64 = 1 << 21;
    const PERFMON_AND_BPF: u64 = 1 << 38 | 1 << 39;
    let status = fs::read_to_string("/proc/self/status")
        .map_err(Error::system::<io::Error>("read /proc/self/status"))?;
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    if effective & SYS_ADMIN != 0 || effective & PERFMON_AND_BPF == PERFMON_AND_BPF {
        Ok(())
    } else {
        Err(Error::Privilege)
    }
}

/// Checks that the kernel has the tracepoints, and settles how arrivals are
/// told.
pub(crate) fn available(arrival: Arrival) -> Result<Arrival, Error> {
    let btf = Btf::from_vmlinux().map_err(|_| {
        Error::Kernel(
            "this kernel has no type information (/sys/kernel/btf/vmlinux): use a distribution's \
             kernel, or build yours with CONFIG_DEBUG_INFO_BTF=y"
                .to_owned(),
        )
    })?;
    let has = |tracepoint: &str| {
        btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tracepoint}")).is_some()
    };
    for needed in ["block_rq_issue", "block_rq_complete", "block_rq_requeue", "block_rq_merge"] {
        if !has(needed) {
            return Err(missing(needed));
        }
    }
    match arrival {
        Arrival::Auto if has("block_io_start") => Ok(Arrival::IoStart),
        Arrival::Auto | Arrival::GetRq if has("block_getrq") => Ok(Arrival::GetRq),
        Arrival::IoStart if has("block_io_start") => Ok(Arrival::IoStart),
        Arrival::IoStart => Err(Error::Kernel(
            "this kernel lacks the tracepoint block:block_io_start: Linux 6.5 or newer has it"
                .to_owned(),
        )),
        _ => Err(missing("block_getrq")),
    }
}

fn missing(tracepoint: &str) -> Error {
    Error::Kernel(format!(
        "this kernel lacks the tracepoint block:{tracepoint}: Linux 5.15 or newer with \
         CONFIG_BLOCK and CONFIG_TRACEPOINTS has it"
    ))
}
