//! Loading and attaching the programs.

use std::os::fd::OwnedFd;

use libbpf_rs::{Link, MapCore as _, Object, OpenMapMut};
use trimtab_block::{BlockDevice, DeviceError};
use trimtab_bpf::{
    Arrival, ChosenDevice, DeviceTable, Error as BpfError, available, check_privilege,
    measure_run_time,
};
use trimtab_io::DeviceId;
use trimtab_trace::Names;
use zerocopy::IntoBytes as _;

use crate::abi::{Config, Event, MAX_DEVICES};
use crate::error::Error;
use crate::recording::Recording;
use crate::ring::{Ring, Switchboard};
use crate::table::Table;

/// How to record.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    /// Size of the ring between kernel and user space, in bytes; rounded up to
    /// a power of two. An event takes 64 bytes.
    pub ring_bytes: u32,
    /// The tracepoint that marks a request's arrival.
    pub arrival: Arrival,
    /// Whether the kernel measures the handlers' run time, which costs some time itself.
    pub measure_overhead: bool,
    /// Whether later requests are released although an earlier one may still appear, whose
    /// completion was not seen; it then has no completion time and is out of order. Otherwise
    /// they wait until the kernel reuses that request's structure.
    pub pass_unseen: bool,
}

impl Default for RecorderOptions {
    /// 16 MiB: four seconds at 60,000 requests per second.
    fn default() -> Self {
        Self {
            ring_bytes: 16 << 20,
            arrival: Arrival::Auto,
            measure_overhead: false,
            pass_unseen: false,
        }
    }
}

/// The programs, loaded and attached, but recording nothing yet.
pub struct Recorder {
    // Fields drop in this order: detach, unmap, unload.
    pub(crate) links: Vec<Link>,
    pub(crate) table: Table,
    pub(crate) ring: Ring,
    pub(crate) switchboard: Switchboard,
    pub(crate) object: Object,
    pub(crate) devices: Vec<BlockDevice>,
    pub(crate) names: Names,
    /// The tracepoint in use; never `Auto`.
    pub(crate) arrival: Arrival,
    pub(crate) pass_unseen: bool,
    pub(crate) _statistics: Option<OwnedFd>,
}

impl Recorder {
    /// Loads and attaches the programs for these devices.
    ///
    /// # Errors
    /// The kernel lacks something, or the process may not do it.
    pub fn load(devices: &[BlockDevice], options: &RecorderOptions) -> Result<Self, Error> {
        if devices.len() > MAX_DEVICES {
            return Err(Error::TooManyDevices(devices.len()));
        }
        let mut names = Names::default();
        let mut chosen = Vec::with_capacity(devices.len());
        for (device, i) in devices.iter().zip(0..) {
            let number = device.kernel_number();
            chosen.push(ChosenDevice { number, diskseq: device.sequence() });
            let id = names.add_device(&device.name);
            let id = id.map_err(|e| DeviceError::new(&device.name, e.to_string()))?;
            if id != DeviceId(i) {
                return Err(DeviceError::new(&device.name, "is named twice").into());
            }
        }
        check_privilege()?;
        let arrival = available(options.arrival)?;
        let table = DeviceTable::new(&chosen);
        let (ring_bits, ring_reserve) = ring_size(options.ring_bytes)?;
        let config = Config {
            devices: table.hash(),
            arrival_by_bio: u32::from(arrival == Arrival::GetRq),
            ring_bits,
            ring_reserve,
            reserved: 0,
        };

        let object = load(config, &table, devices, arrival)?;
        let map = |name: &str| {
            object.maps().find(|m| m.name() == name).expect("bpf/record.bpf.c defines it")
        };
        let table = Table::new(&map("rec_table"))?;
        let ring = Ring::new(&map("rec_ring"), config.ring_bits)?;
        let switchboard = Switchboard::new(&map(".data.control"))?;
        let statistics = options.measure_overhead.then(measure_run_time).transpose()?;
        let mut links = Vec::new();
        for program in object.progs_mut().filter(|p| p.autoload()) {
            links.push(program.attach().map_err(BpfError::bpf("attach to the block tracepoints"))?);
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
            pass_unseen: options.pass_unseen,
            _statistics: statistics,
        })
    }

    /// Starts recording.
    #[must_use]
    pub fn start(self) -> Recording {
        Recording::start(self)
    }
}

/// The capacity of a ring of this many bytes, in events as a power of two, and the number of
/// entries reserved for handlers that have checked for space and not yet taken it: on each CPU
/// one for each kind of interrupt.
fn ring_size(bytes: u32) -> Result<(u32, u32), Error> {
    let cpus = libbpf_rs::num_possible_cpus().map_err(BpfError::bpf("count the CPUs"))?;
    let reserve = 4 * cpus as u32;
    let events = (bytes / size_of::<Event>() as u32).max(2 * reserve);
    Ok((events.next_power_of_two().ilog2(), reserve))
}

fn load(
    config: Config,
    table: &DeviceTable,
    devices: &[BlockDevice],
    arrival: Arrival,
) -> Result<Object, Error> {
    let wanted = |program: &str| match program {
        "on_start" => arrival == Arrival::IoStart,
        "on_getrq" => arrival == Arrival::GetRq,
        "on_complete_again" => devices.iter().any(BlockDevice::completions_may_nest),
        _ => true,
    };
    let configure = |name: &str, map: &mut OpenMapMut<'_>| match name {
        ".rodata.config" => map.set_initial_value(config.as_bytes()),
        "rec_ring" => map.set_max_entries(1 << config.ring_bits),
        _ => Ok(()),
    };
    Ok(trimtab_bpf::load(trimtab_bpf::RECORD, table, wanted, configure)?)
}
