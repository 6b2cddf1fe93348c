//! Serves a drive until it is removed.

use std::io;
use std::ops::ControlFlow;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use trimtab_device::DriveProfile;
use trimtab_serve::{
    Attachment, Claimed, Device, Error, FlagTable, Helper, Mounted, available_memory, next_client,
    read_command, serve_io, write_line,
};

use super::control::{Command, Reply};
use super::cpu_idle::{IdleInhibitor, PM_QOS_FILE};
use super::engine::{Engine, SPIN_ASLEEP, SPIN_AWAKE};
use super::fuse::{self, Ticket};
use super::info::{DriveInfo, RunDirectory, bad_fault};
use super::path::PathMeter;
use super::power::PowerSwitch;
use super::spec::Spec;
use super::stat::Stat;
use super::state::State;
use super::store::Store;
use super::{clock, machine, path_latency, tune};

/// A running drive. Dropping it takes everything down, in the order of the fields.
///
/// No thread of the process may touch the device or the mount (helper.rs).
pub struct Server {
    /// Detached first, while its file is still served.
    device: Device,
    control: UnixListener,
    path: PathMeter,
    _mounted: Mounted,
    power: PowerSwitch<Ticket>,
    _awake: Option<IdleInhibitor>,
    engine: Arc<Engine<Ticket>>,
    store: Arc<Store>,
    spec: Spec,
    /// Protections that the machine refused, in words.
    lacking: Vec<String>,
    _claimed: Claimed,
}

impl Server {
    /// Makes a drive. `helper` runs the jobs that access its device. `progress` is called with the
    /// share of the flash that has been filled, and may stop the work.
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
        machine::check(&spec)?;
        spec.check_memory(available_memory())?;
        let claimed = run_directory.claim(&spec.name)?;
        // Before threads are started, which inherit it.
        let mut lacking = serve_io();
        let store = Arc::new(Store::open(&spec)?);
        let ControlFlow::Continue(model) = spec.model(progress) else {
            return Err(Error::Failed("stopped before it was made".to_owned()));
        };
        let awake = if spec.may_sleep { None } else { inhibit_idle(&mut lacking) };
        let spin = if awake.is_some() { SPIN_AWAKE } else { SPIN_ASLEEP };
        // The path is measured on a stand-in, which is then discarded.
        let (first, to_measure) = match spec.compensation {
            Some(_) => (model, None),
            None => {
                let (stand_in, filled) = spec.stand_in();
                (stand_in, Some((model, filled)))
            }
        };
        let mut state = State::new(&spec, first, clock::now());
        let flags = Arc::new(FlagTable::create(&claimed.directory().flags())?);
        state.flags = Some(Arc::clone(&flags));
        let engine = Arc::new(Engine::new(state, spin)?);
        let power = PowerSwitch::start(&engine, &store, spec.seed)?;
        let (directory, capacity) = (claimed.directory(), spec.capacity());
        let waker = awake.as_ref().map(IdleInhibitor::waker);
        let (requests, content) = (Arc::clone(&engine), Arc::clone(&store));
        let mounted = fuse::mounted(directory, capacity, requests, content, flags, waker)?;
        let device = Device::attach(helper, directory, &attachment(&spec))?;
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
        claimed.publish(&DriveInfo {
            name: spec.name.clone(),
            device: device.path.clone(),
            pid: std::process::id(),
            capacity,
            profile: spec.profile.name().to_owned(),
            seed: spec.seed,
            data: spec.data.name().to_owned(),
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
            _mounted: mounted,
            power,
            _awake: awake,
            engine,
            store,
            spec,
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
                fault.check().map_err(bad_fault)?;
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
        let why = if force { None } else { self.device.in_use()? };
        why.map_or(Ok(()), |why| Err(Error::Failed(format!("{why}, or use --force"))))
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

fn attachment(spec: &Spec) -> Attachment {
    Attachment {
        block_bytes: spec.block_bytes,
        scheduler: spec.scheduler.clone(),
        rotational: matches!(spec.profile, DriveProfile::Disk(_)),
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
