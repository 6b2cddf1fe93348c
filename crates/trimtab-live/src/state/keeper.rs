//! Loading and attaching the programs that keep the state.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore, MapHandle, Object, ProgramMut};
use trimtab_predict::units::UnitFunction;
use trimtab_predict::{DIGITS, Trained};

use super::PATIENCE;
use super::abi::{self, Control, MAX_DEVICES};
use super::calls::{self, Calls, Pretended};
use super::desk::Desk;
use super::drive::{LiveDrive, Memory};
use super::log::{Log, Step};
use super::network::{Ask, Networks};
use super::pin_place::PinPlace;
use super::pins::Pins;
use super::tend::Tender;
use crate::bpf::mapping::Mapping;
use crate::bpf::{self, available, check_privilege};
use crate::record::{Arrival, BlockDevice, Error, Overhead, overhead};

/// The programs, compiled.
pub(super) static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/state.bpf.o"));

/// How to keep the state.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which tracepoint tells that a request is sent: where there is no
    /// `block_io_start`, or another is asked for, it is its issue.
    pub arrival: Arrival,
    /// By which functions each drive's units are told apart from the start: as
    /// [`Keeper::set_functions`] sets them later. Drives beyond have none.
    pub functions: Vec<Vec<UnitFunction>>,
    /// A request that has not been answered for so long has ended unseen.
    pub age_limit: Duration,
    /// Whether the kernel may decide by itself ([`Keeper::set_network`]). Otherwise
    /// nothing of that is in the programs, and it costs nothing.
    pub in_kernel: bool,
    /// Whether the kernel shall measure the handlers' run time (which costs
    /// some itself).
    pub measure_overhead: bool,
    /// For tests: keep a log of `1 << log_bits` steps; 0: none.
    pub log_bits: u32,
}

impl Default for Options {
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

/// The programs, attached: they keep the state of some drives as long as this
/// lives.
pub struct Keeper {
    // Fields drop in this order: say that it is over, detach, unmap, unload.
    tender: Tender,
    pins: Option<Pins>,
    /// Where the file was pinned.
    pinned_at: Option<PinPlace>,
    links: Vec<(OsString, Link)>,
    calls: Arc<Calls>,
    desk: Desk,
    control: Mapping<Control>,
    networks: Option<Networks>,
    memory: Arc<Memory>,
    log: Option<Log>,
    object: Object,
    devices: Vec<BlockDevice>,
    _statistics: Option<OwnedFd>,
}

impl Keeper {
    /// Loads and attaches the programs for these drives. Nothing is known of
    /// them yet, and no units are told apart.
    ///
    /// # Errors
    /// The kernel lacks something, or the process may not do it.
    pub fn load(devices: &[BlockDevice], options: &Options) -> Result<Self, Error> {
        if devices.len() > MAX_DEVICES {
            return Err(Error::TooManyDevices(devices.len()));
        }
        check_privilege()?;
        let by_issue = match available(options.arrival) {
            Ok(arrival) => arrival == Arrival::GetRq,
            // It is not needed here.
            Err(_) if options.arrival == Arrival::Auto => true,
            Err(error) => return Err(error),
        };
        let object = load(devices, options, by_issue)?;
        let map = |name: &str| {
            object.maps().find(|m| m.name() == name).expect("bpf/state.bpf.c defines it")
        };
        // From here on nobody but programs can write it: see `Pins`.
        let shared = handle(&object, "st_devices")?;
        shared.freeze().map_err(Error::bpf("close the state for writing"))?;
        let memory = Arc::new(Memory {
            devices: Mapping::new(shared.as_fd(), devices.len().max(1), false)?,
        });
        let control = Mapping::new(map(".data.control").as_fd(), 1, true)?;
        let networks = options
            .in_kernel
            .then(|| Mapping::new(map("st_networks").as_fd(), devices.len().max(1), true))
            .transpose()?
            .map(Networks);
        let log = (options.log_bits > 0)
            .then(|| Mapping::new(map("st_log").as_fd(), 1 << options.log_bits, false))
            .transpose()?
            .map(|entries| Log { entries, bits: options.log_bits });
        announce(&control, devices);
        let calls = Arc::new(Calls::of(&object)?);
        let desk = Desk::new(Mapping::new(map("st_desk").as_fd(), 1, true)?);
        for (index, functions) in options.functions.iter().enumerate().take(devices.len()) {
            desk.configure(&calls, index, functions)?;
        }
        let statistics = options.measure_overhead.then(overhead::measure).transpose()?;
        let mut links = Vec::new();
        let traced =
            |p: &ProgramMut<'_>| p.autoload() && !calls::is_one(&p.name().to_string_lossy());
        for program in object.progs_mut().filter(traced) {
            links.push(attach(&program)?);
        }
        let devices = devices.to_vec();
        Ok(Self {
            tender: Tender::start(Arc::clone(&memory), devices.clone(), Arc::clone(&calls)),
            pins: None,
            pinned_at: None,
            links,
            calls,
            desk,
            control,
            networks,
            memory,
            log,
            object,
            devices,
            _statistics: statistics,
        })
    }

    /// The state of a drive, by its place among those that it was loaded for.
    ///
    /// # Errors
    /// The kernel writes without a pause.
    ///
    /// # Panics
    /// If there is no such drive.
    pub fn drive(&self, index: usize) -> Result<LiveDrive, Error> {
        assert!(index < self.devices.len());
        LiveDrive::new(Arc::clone(&self.memory), index)
    }

    /// Tells a drive's units apart by these functions from now on: at most three,
    /// the others are left out. What was known of the drive is forgotten, and what
    /// is in flight is not watched.
    ///
    /// # Errors
    /// A function is none, or the kernel writes without a pause.
    ///
    /// # Panics
    /// If there is no such drive.
    pub fn set_functions(&self, index: usize, functions: &[UnitFunction]) -> Result<(), Error> {
        assert!(index < self.devices.len());
        self.desk.configure(&self.calls, index, functions)?;
        self.say(index);
        Ok(())
    }

    /// From now on the kernel decides about reads of this drive by the network of
    /// LinnOS that was trained, after each change, for both
    /// [`SizeClass`](super::SizeClass)es: see [`LiveDrive::verdict`]. `None`: it does
    /// so no more.
    ///
    /// # Errors
    /// It was not asked for ([`Options::in_kernel`]), or the model is not LinnOS's.
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
                return Err(Error::Model(format!(
                    "the kernel decides by models of the predictor `linnos` only, and this is \
                     of `{name}`: train one with --predictor linnos"
                )));
            }
        };
        let Some(networks) = &self.networks else {
            let why = "deciding in the kernel was not asked for when the programs were loaded";
            return Err(Error::Kernel(why.to_owned()));
        };
        networks.set(index, network)?;
        self.say(index);
        Ok(())
    }

    /// Says that we live, upon which the programs bring verdicts up to date, or take
    /// them back. What is at work meanwhile is soon done.
    fn say(&self, index: usize) {
        let until = Instant::now() + PATIENCE;
        let kept = !self.devices[index].is_replaced();
        while !self.calls.say(index, kept, self.devices[index].kernel_number()) {
            if Instant::now() > until {
                return;
            }
            thread::yield_now();
        }
    }

    /// For tests: what the network in the kernel makes of some digits, and of the same
    /// with other digits for the queue: both margins, and the sums of the first layer.
    #[doc(hidden)]
    #[must_use]
    pub fn ask_network(
        &self,
        index: usize,
        digits: &[u8; DIGITS],
        other: [u8; 3],
    ) -> Option<([i64; 2], [i32; 256])> {
        let mut ask = Ask::new(index, digits, other);
        self.calls.ask(&mut ask).then(|| (ask.margins, ask.sums()))
    }

    /// For tests: does something while no completion is seen.
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

    /// For tests, with a log: has the programs believe that something happened to a read,
    /// which is known by a number that is not 0.
    #[doc(hidden)]
    pub fn pretend(&self, index: usize, what: Pretended, key: u64) {
        self.calls.pretend(index, what, key);
    }

    /// Lets all other processes read the state, by a file in a directory of a BPF file
    /// system (`/sys/fs/bpf/trimtab`), with which it is gone. If the keeper is killed,
    /// the next one replaces it. [`LiveDrive::open`] has who may read it, and how;
    /// only a BPF program can write it.
    ///
    /// # Errors
    /// It is no such directory, or another keeper is at work there.
    pub fn pin(&mut self, directory: &Path) -> Result<(), Error> {
        self.pins = Some(Pins::make(directory, handle(&self.object, "st_devices")?)?);
        self.pinned_at = Some(PinPlace::of(directory)?);
        Ok(())
    }

    /// Pins the state anew if its file has gone, as when the BPF file system was unmounted,
    /// which is then mounted again where it was; whether that was needed. Without a file,
    /// processes that open the state from then on find none; those that have it open keep
    /// it. To be called now and then.
    ///
    /// # Errors
    /// The file has gone and cannot be made: mounting takes `CAP_SYS_ADMIN`.
    pub fn pin_again(&mut self) -> Result<bool, Error> {
        let Some(place) = &self.pinned_at else { return Ok(false) };
        if self.pins.as_ref().is_some_and(Pins::is_there) {
            return Ok(false);
        }
        // Before there is a new file of the same name, which it would remove.
        self.pins = None;
        place.mount()?;
        self.pins = Some(Pins::make(place.directory(), handle(&self.object, "st_devices")?)?);
        Ok(true)
    }

    /// The handlers' runs so far and, if asked for, their time.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn overhead(&self) -> Result<Overhead, Error> {
        overhead::of(&self.object)
    }

    /// What was done to a drive's state, step by step; `None` if there is no log,
    /// or more has been done than it holds.
    #[must_use]
    pub fn steps(&self, index: usize) -> Option<Vec<Step>> {
        self.log.as_ref()?.read(&self.control.read(0), index as u8)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(networks) = &self.networks {
            for index in 0..self.devices.len() {
                _ = networks.set(index, None);
                self.say(index);
            }
        }
        self.tender.stop();
    }
}

fn attach(program: &ProgramMut<'_>) -> Result<(OsString, Link), Error> {
    let link = program.attach().map_err(Error::bpf("attach to the block tracepoints"))?;
    Ok((program.name().to_owned(), link))
}

fn handle(object: &Object, name: &str) -> Result<MapHandle, Error> {
    let map = object.maps().find(|map| map.name() == name).expect("bpf/state.bpf.c defines it");
    MapHandle::try_from(&map).map_err(Error::bpf("keep a map open"))
}

fn load(devices: &[BlockDevice], options: &Options, by_issue: bool) -> Result<Object, Error> {
    let wanted = |program: &str| match program {
        "on_start" => !by_issue,
        "on_complete_again" => devices.iter().any(BlockDevice::completions_may_nest),
        "pretend" => options.log_bits > 0,
        "ask" => options.in_kernel,
        _ => true,
    };
    let age_limit = u64::try_from(options.age_limit.as_nanos()).unwrap_or(u64::MAX);
    bpf::load(PROGRAMS, wanted, |name, map| match name {
        ".rodata.setup" => {
            let networks = options.in_kernel;
            map.set_initial_value(&abi::setup(by_issue, options.log_bits, age_limit, networks))
        }
        "st_devices" | "st_works" => map.set_max_entries(devices.len().max(1) as u32),
        "st_networks" if options.in_kernel => map.set_max_entries(devices.len().max(1) as u32),
        "st_log" => map.set_max_entries(1 << options.log_bits),
        _ => Ok(()),
    })
}

/// Says which drives are watched, before the programs are attached.
fn announce(control: &Mapping<Control>, devices: &[BlockDevice]) {
    let control = control.at(0);
    for (i, device) in devices.iter().enumerate() {
        // SAFETY: within the mapping, which is writable; the programs do not write
        // these fields.
        unsafe { (&raw mut (*control).device[i]).write_volatile(device.kernel_number()) };
    }
    // SAFETY: as above.
    unsafe { (&raw mut (*control).devices).write_volatile(devices.len() as u32) };
}
