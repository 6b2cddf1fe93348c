//! Serves a drive until it is removed.

use std::io;
use std::ops::ControlFlow;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use trimtab_device::DriveProfile;
use trimtab_serve::{
    Backend, Claimed, Device, Error, FlagTable, Helper, Served, ServedDisk, available_memory,
    next_client, read_command, serve_io, write_line,
};

use super::control::{Command, Reply};
use super::cpu_idle::{IdleInhibitor, PM_QOS_FILE};
use super::engine::{Engine, SPIN_ASLEEP, SPIN_AWAKE};
use super::info::{DriveInfo, RunDirectory, bad_fault};
use super::kernel::{Content, Ticket};
use super::path::PathMeter;
use super::power::PowerSwitch;
use super::spec::{Data, Spec};
use super::stat::Stat;
use super::state::State;
use super::store::Store;
use super::{clock, machine, path_latency, tune, volume_id};

/// A running drive. Dropping it takes everything down, in the order of the fields.
///
/// No thread of the process may touch the device or the mount (helper.rs).
pub struct Server {
    /// Detached first, while it is still served.
    device: Device,
    control: UnixListener,
    path: PathMeter,
    _served: Served,
    power: PowerSwitch<Ticket>,
    _awake: Option<IdleInhibitor>,
    engine: Arc<Engine<Ticket>>,
    store: Arc<Store>,
    spec: Spec,
    backend: Backend,
    /// Protections that the machine refused, in words.
    lacking: Vec<String>,
    _claimed: Claimed,
}

impl Server {
    /// Makes a drive. `helper` runs the jobs that access its device. `progress` is called with the
    /// share of the flash that has been filled, and may stop the work.
    ///
    /// If a server of that name and file was killed, and programs wait for its ublk device, it is
    /// taken over: content in a file has all that was answered.
    ///
    /// # Errors
    /// The specification is invalid, or the machine lacks something. Nothing is left behind.
    pub fn start(
        run_directory: &RunDirectory,
        spec: Spec,
        helper: Helper,
        progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Result<Self, Error> {
        spec.check()?;
        let backend = machine::check(&spec)?;
        spec.check_memory(available_memory())?;
        let claimed = claim(run_directory, &spec, backend)?;
        // Before threads are started, which inherit it.
        let mut lacking = serve_io();
        let store = Arc::new(Store::open(&spec)?);
        let ControlFlow::Continue(model) = spec.model(progress) else {
            return Err(Error::Failed("stopped before it was made".to_owned()));
        };
        let awake = if spec.may_sleep { None } else { inhibit_idle(&mut lacking) };
        let spin = if awake.is_some() { SPIN_AWAKE } else { SPIN_ASLEEP };
        // The path is measured on a stand-in, which is then discarded; not of a device in use.
        let (first, to_measure) = match spec.compensation {
            None if !claimed.keeps() => {
                let (stand_in, filled) = spec.stand_in();
                (stand_in, Some((model, filled)))
            }
            _ => (model, None),
        };
        let mut state = State::new(&spec, first, clock::now());
        let flags = Arc::new(FlagTable::create(&claimed.directory().flags())?);
        state.flags = Some(Arc::clone(&flags));
        let engine = Arc::new(Engine::new(state, spin)?);
        let power = PowerSwitch::start(&engine, &store, spec.seed)?;
        let waker = awake.as_ref().map(IdleInhibitor::waker);
        let content =
            Content { engine: Arc::clone(&engine), store: Arc::clone(&store), flags, waker };
        let prepare = move |requests| content.serve(requests);
        let (directory, disk) = (claimed.directory(), disk(&spec));
        let served = match claimed.keeps() {
            true => Served::take_over(directory, disk, prepare)?,
            false => Served::new(directory, backend, disk, prepare)?,
        };
        let device = Device::attach(helper, &served)?;
        claimed.taken_over();
        if let Some((model, filled)) = to_measure {
            match path_latency::measure(&device, filled, &engine, model)? {
                Ok(compensation) => engine.state().begin_compensation(compensation),
                Err(why) => {
                    lacking.push(format!("its latency compensation is 0, not measured: {why}"))
                }
            }
        }
        let control = UnixListener::bind(claimed.directory().control());
        let control = control.map_err(Error::system("make the control socket"))?;
        let uuid = volume_id::of(&spec)?;
        claimed.publish(&DriveInfo {
            name: spec.name.clone(),
            device: device.path.clone(),
            pid: std::process::id(),
            capacity: spec.capacity(),
            profile: spec.profile.name().to_owned(),
            seed: spec.seed,
            data: spec.data.name().to_owned(),
            backend,
            file: file_of(&spec),
            uuid,
            scheduler_before: device.scheduler_before.clone(),
        })?;
        let path = PathMeter::start(device.name(), &engine)?;
        // After attaching, which flushes the file.
        let now = clock::now();
        spec.faults.iter().for_each(|fault| engine.state().add_fault(fault, now));
        power.turn();
        Ok(Self {
            device,
            control,
            path,
            _served: served,
            power,
            _awake: awake,
            engine,
            store,
            spec,
            backend,
            lacking,
            _claimed: claimed,
        })
    }

    /// The block device.
    #[must_use]
    pub fn device(&self) -> &std::path::Path {
        &self.device.path
    }

    /// Handles commands until one of them, or the flag, ends it.
    ///
    /// # Errors
    /// The control socket fails.
    pub fn serve(self, end: &AtomicBool) -> Result<(), Error> {
        while !end.load(Ordering::Relaxed) {
            let Some(stream) = next_client(&self.control)? else { continue };
            // A client that sends nonsense, or hangs up, is ignored.
            if let Ok(Some(stream)) = self.handle(stream) {
                self.end(stream);
                return Ok(());
            }
        }
        self.finish();
        Ok(())
    }

    /// Handles one command. For the command that ends the drive, returns the stream, to be answered
    /// when all is taken down.
    fn handle(&self, mut stream: UnixStream) -> io::Result<Option<UnixStream>> {
        let Some(command) = read_command(&stream)? else { return Ok(None) };
        if let Command::Remove { force } = command {
            match self.check_removable(force) {
                Ok(()) => return Ok(Some(stream)),
                Err(error) => write_line(&mut stream, &Reply::from(error))?,
            }
            return Ok(None);
        }
        let reply = self.act(command).unwrap_or_else(Reply::from);
        write_line(&mut stream, &reply)?;
        Ok(None)
    }

    fn act(&self, command: Command) -> Result<Reply, Error> {
        let mut state = self.engine.state();
        let now = clock::now();
        match command {
            Command::Stat => {
                let mut stat = Stat::of(&mut state, &self.store, &self.spec.data, now);
                stat.backend = self.backend.text().to_owned();
                stat.lacking.clone_from(&self.lacking);
                stat.lacking.extend(self.path.failure());
                return Ok(Reply::Stat(Box::new(stat)));
            }
            Command::EndLog => return Ok(Reply::Log(state.figures.end_log())),
            Command::BeginLog => state.figures.begin_log(),
            Command::Set { settings } => {
                let tuned = tune::tuned(state.profile(), &settings)?;
                state.retune(tuned.profile, now)?;
                if let Some(is_ideal) = tuned.is_ideal {
                    state.idealise(is_ideal, now)?;
                }
                if let Some(compensation) = tuned.compensation {
                    state.fix_compensation(compensation.fixed());
                }
            }
            Command::Fault { fault } => {
                fault.check_on(state.profile().capacity_bytes()).map_err(bad_fault)?;
                state.add_fault(&fault, now);
            }
            Command::ClearFaults => state.clear_faults(now),
            Command::Snapshot => state.take_snapshot(now)?,
            Command::Restore => state.restore(now)?,
            Command::Idealise => state.idealise(true, now)?,
            Command::Predictable(command) => {
                let reply = state.predictable(command, now)?;
                drop(state);
                self.engine.call();
                return Ok(Reply::Predictable(reply));
            }
            Command::Remove { .. } => unreachable!("handled by the caller"),
        }
        drop(state);
        self.power.turn();
        // The next event may have changed.
        self.engine.call();
        Ok(Reply::Done)
    }

    fn check_removable(&self, force: bool) -> Result<(), Error> {
        if force {
            return Ok(());
        }
        // Over ublk the kernel reads a partition table when a program has written: of a stalled drive
        // it could not be determined.
        let faults = (self.backend == Backend::Ublk).then(|| {
            let faults = self.engine.state().lift_faults(clock::now());
            self.engine.call();
            faults
        });
        let why = self.device.in_use();
        if let Some(faults) = faults.filter(|_| !matches!(why, Ok(None))) {
            self.engine.state().faults = faults;
            self.engine.call();
        }
        why?.map_or(Ok(()), |why| Err(Error::Failed(format!("{why}, or use --force"))))
    }

    /// Takes everything down, and then replies.
    fn end(self, mut stream: UnixStream) {
        self.finish();
        _ = write_line(&mut stream, &Reply::Done);
    }

    fn finish(self) {
        // A stalled drive could not be detached.
        self.engine.state().clear_faults(clock::now());
        self.engine.call();
        // For content in a file. On failure the kernel writes it later.
        _ = self.store.sync();
    }
}

/// Claims the drive's directory. A device that waits there stays if the drive can take it over: it has
/// all that was answered.
fn claim(run_directory: &RunDirectory, spec: &Spec, backend: Backend) -> Result<Claimed, Error> {
    let Some(file) = file_of(spec).filter(|_| backend == Backend::Ublk) else {
        return run_directory.claim(&spec.name);
    };
    let (claimed, info) = run_directory.claim_waiting(&spec.name)?;
    match info.and_then(|info| info.file) {
        Some(other) if claimed.keeps() && other != file => Err(Error::BadInput(format!(
            "`{0}`: its server was killed, and its device waits with content in {1}: give that \
             file, or remove it with `trimtab drive remove {0}`",
            spec.name,
            other.display()
        ))),
        None if claimed.keeps() => {
            // Content in memory is lost.
            drop(claimed);
            run_directory.claim(&spec.name)
        }
        _ => Ok(claimed),
    }
}

/// The file of a drive's content.
fn file_of(spec: &Spec) -> Option<PathBuf> {
    match &spec.data {
        Data::File { path, .. } => Some(path.clone()),
        Data::None | Data::Memory { .. } => None,
    }
}

fn disk(spec: &Spec) -> ServedDisk {
    ServedDisk {
        capacity: spec.capacity(),
        block_bytes: spec.block_bytes,
        scheduler: spec.scheduler.clone(),
        rotational: matches!(spec.profile, DriveProfile::Disk(_)),
        makes_zeroes: true,
        discard_bytes: 4096,
    }
}

fn inhibit_idle(missing: &mut Vec<String>) -> Option<IdleInhibitor> {
    match IdleInhibitor::start() {
        Ok(awake) => Some(awake),
        Err(e) => {
            missing.push(format!(
                "processors may enter idle states while it is in use ({PM_QOS_FILE}): {e}"
            ));
            None
        }
    }
}
