//! Loading and attaching the programs that keep the state.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore, MapHandle, MapImpl, Object, ObjectBuilder, PrintLevel, ProgramMut};
use trimtab_predict::units::UnitFunction;
use trimtab_predict::{DriveState, Unit};

use super::abi::{self, BUCKETS, Config, Counters, Device, FUNCTIONS, MAX_DEVICES, UNITS};
use super::drive::{LiveDrive, Memory};
use super::log::{Log, Step};
use super::tend::Tender;
use crate::record::mapping::Mapping;
use crate::record::recorder::{available, check_privilege, refused};
use crate::record::{Arrival, BlockDevice, Error, Overhead, overhead};

/// The programs, compiled.
static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/state.bpf.o"));

/// Names of the pinned maps.
pub(super) const DEVICES: &str = "devices";
pub(super) const CONTROL: &str = "control";

/// How long the kernel may be writing while the configuration is to be changed: a
/// write takes less than a microsecond, but its processor may be taken away.
const PATIENCE: Duration = Duration::from_secs(1);

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
    pins: Vec<PathBuf>,
    links: Vec<(OsString, Link)>,
    memory: Arc<Memory>,
    log: Option<Log>,
    object: Object,
    count: usize,
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
        let memory = Memory {
            devices: Mapping::new(map("st_devices").as_fd(), devices.len().max(1), true)?,
            control: Mapping::new(map(".data.control").as_fd(), 1, true)?,
        };
        let log = (options.log_bits > 0)
            .then(|| Mapping::new(map("st_log").as_fd(), 1 << options.log_bits, false))
            .transpose()?
            .map(|entries| Log { entries, bits: options.log_bits });
        announce(&memory, devices);
        for (index, functions) in options.functions.iter().enumerate().take(devices.len()) {
            configure(&memory, index, functions)?;
        }
        let memory = Arc::new(memory);
        let statistics = options.measure_overhead.then(overhead::measure).transpose()?;
        let mut links = Vec::new();
        let traced = |p: &ProgramMut<'_>| p.autoload() && p.name() != "tend";
        for program in object.progs_mut().filter(traced) {
            links.push(attach(&program)?);
        }
        let tend = object.progs().find(|p| p.name() == "tend").expect("bpf/state.bpf.c defines it");
        let tend = tend.as_fd().try_clone_to_owned();
        let tend = tend.map_err(Error::system("keep the state's programs open"))?;
        let tender = Tender::start(Arc::clone(&memory), devices.to_vec(), tend);
        Ok(Self {
            tender,
            pins: Vec::new(),
            links,
            memory,
            log,
            object,
            count: devices.len(),
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
        assert!(index < self.count);
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
        assert!(index < self.count);
        configure(&self.memory, index, functions)
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

    /// Lets other processes read the state, by files in a directory of a BPF file
    /// system (`/sys/fs/bpf/trimtab`). They are gone with the keeper, or, if it is
    /// killed, replaced by the next one. They belong to the keeper's user alone, who
    /// may let a group use them: it must be trusted, because the kernel lets nobody
    /// map them who could not write.
    ///
    /// # Errors
    /// It is no such directory, or another keeper is at work there.
    pub fn pin(&mut self, directory: &Path) -> Result<(), Error> {
        fs::create_dir_all(directory).map_err(Error::system("make the directory for pins"))?;
        for (map, name) in [(".data.control", CONTROL), ("st_devices", DEVICES)] {
            let path = directory.join(name);
            if path.exists() {
                self.replace(&path, name)?;
            }
            let map = self.object.maps().find(|m| m.name() == map).expect("it has been mapped");
            let mut map = handle(&map)?;
            map.pin(&path).map_err(Error::bpf(
                "pin the state (the directory must be on a BPF file system: mount -t bpf bpf \
                 /sys/fs/bpf)",
            ))?;
            self.pins.push(path.clone());
        }
        Ok(())
    }

    /// Removes what a keeper has left that was killed.
    fn replace(&self, path: &Path, name: &str) -> Result<(), Error> {
        if name == CONTROL && super::drive::is_kept_at(path) {
            let why = format!("another process keeps the state at {}", path.display());
            return Err(Error::Kernel(why));
        }
        fs::remove_file(path).map_err(Error::system("remove an abandoned pin"))
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
        self.log.as_ref()?.read(&self.memory.control.read(0), index as u8)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.tender.stop();
        for pin in &self.pins {
            _ = fs::remove_file(pin);
        }
        if let Some(directory) = self.pins.first().and_then(|pin| pin.parent()) {
            // Fails, rightly, if others are there.
            _ = fs::remove_dir(directory);
        }
    }
}

fn attach(program: &ProgramMut<'_>) -> Result<(OsString, Link), Error> {
    let link = program.attach().map_err(Error::bpf("attach to the block tracepoints"))?;
    Ok((program.name().to_owned(), link))
}

fn handle(map: &MapImpl<'_>) -> Result<MapHandle, Error> {
    MapHandle::try_from(map).map_err(Error::bpf("keep a map open"))
}

fn load(devices: &[BlockDevice], options: &Options, by_issue: bool) -> Result<Object, Error> {
    // The library would print to standard error what is in the error anyway.
    libbpf_rs::set_print(Some((PrintLevel::Debug, |_, _| {})));
    let mut open = ObjectBuilder::default()
        .open_memory(PROGRAMS)
        .map_err(Error::bpf("read the compiled BPF programs"))?;
    for mut program in open.progs_mut() {
        let name = program.name().to_owned();
        let wanted = match name.to_str() {
            Some("on_start") => !by_issue,
            Some("on_complete_again") => devices.iter().any(BlockDevice::completions_may_nest),
            _ => true,
        };
        program.set_autoload(wanted);
    }
    let age_limit = u64::try_from(options.age_limit.as_nanos()).unwrap_or(u64::MAX);
    for mut map in open.maps_mut() {
        let name = map.name().to_owned();
        match name.to_str() {
            Some(".rodata.setup") => {
                map.set_initial_value(&abi::setup(by_issue, options.log_bits, age_limit))
            }
            Some("st_devices") => map.set_max_entries(devices.len().max(1) as u32),
            Some("st_log") => map.set_max_entries(1 << options.log_bits),
            _ => Ok(()),
        }
        .map_err(Error::bpf("configure the BPF programs"))?;
    }
    open.load().map_err(refused)
}

/// Says which drives are watched, before the programs are attached.
fn announce(memory: &Memory, devices: &[BlockDevice]) {
    let control = memory.control.at(0);
    for (i, device) in devices.iter().enumerate() {
        // SAFETY: within the mapping, which is writable; the programs do not write
        // these fields.
        unsafe { (&raw mut (*control).device[i]).write_volatile(device.kernel_number()) };
    }
    // SAFETY: as above.
    unsafe { (&raw mut (*control).devices).write_volatile(devices.len() as u32) };
}

/// Takes a drive's lock, as the programs do.
fn lock(seq: &AtomicU64) -> Result<(), Error> {
    let until = Instant::now() + PATIENCE;
    loop {
        let now = seq.load(Ordering::Relaxed);
        let free = now & 1 == 0;
        if free && seq.compare_exchange(now, now + 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(Error::Kernel(
                "the drive's state is being written all the time".to_owned(),
            ));
        }
        thread::yield_now();
    }
}

/// Tells a drive's units apart by these functions, and knows nothing else of it.
fn configure(memory: &Memory, index: usize, functions: &[UnitFunction]) -> Result<(), Error> {
    let functions = &functions[..functions.len().min(FUNCTIONS)];
    if !functions.iter().all(UnitFunction::is_valid) {
        return Err(Error::Kernel("a unit function of the model is not valid".to_owned()));
    }
    // SAFETY: only the address of a field is taken.
    let seq = memory.devices.number(index, |device| unsafe { &raw mut (*device).seq });
    lock(seq)?;
    // SAFETY: within the mapping, which is writable. Whoever has the lock is
    // the only writer of these fields; readers take volatile copies and see by
    // `seq` that they are of no use.
    unsafe { begin_anew(memory.devices.at(index), functions) };
    seq.fetch_add(1, Ordering::Release);
    Ok(())
}

/// Forgets everything of a drive.
///
/// # Safety
/// The pointer is valid for writing, and the drive's lock is held.
unsafe fn begin_anew(device: *mut Device, functions: &[UnitFunction]) {
    // SAFETY: so says the caller.
    unsafe {
        let config = &raw mut (*device).config;
        let generation = (*config).generation.wrapping_add(1);
        config.write_volatile(Config::new(functions, generation));
        (&raw mut (*device).drive).write_volatile(DriveState::default());
        (&raw mut (*device).counters).write_volatile(Counters::default());
        (&raw mut (*device).lists).write_volatile([0; 2]);
        (&raw mut (*device).sent).write_volatile(0);
        (&raw mut (*device).astray).write_volatile(0);
        let buckets = (&raw mut (*device).buckets).cast::<[u64; 64]>();
        for i in 0..BUCKETS {
            buckets.add(i).write_volatile([0; 64]);
        }
        let units = (&raw mut (*device).units).cast::<Unit>();
        for i in 0..FUNCTIONS * UNITS {
            units.add(i).write_volatile(Unit::default());
        }
    }
}
