//! A drive, served until someone wants it gone.

use std::io;
use std::ops::ControlFlow;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::awake::{Awake, LATENCY};
use super::control::{Command, Reply, read_line, write_line};
use super::device::Device;
use super::drive_directory::Claimed;
use super::engine::{Engine, SPIN_ASLEEP, SPIN_AWAKE};
use super::error::Error;
use super::fuse::{Mounted, Ticket};
use super::helper::Helper;
use super::path::PathMeter;
use super::power::PowerSwitch;
use super::run_directory::{Info, RunDirectory};
use super::spec::Spec;
use super::stat::Stat;
use super::state::State;
use super::store::Store;
use super::{clock, lead, machine, protect, tune};

/// How often it is looked whether it shall end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Commands are one line, sent at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// A drive that is up. Dropping it takes everything down again, in this order.
///
/// No thread of it may touch the device or the mount (helper.rs).
pub struct Server {
    /// First the device is detached, while all that serves it still does.
    device: Device,
    control: UnixListener,
    path: PathMeter,
    _mounted: Mounted,
    power: PowerSwitch<Ticket>,
    _awake: Option<Awake>,
    engine: Arc<Engine<Ticket>>,
    store: Arc<Store>,
    spec: Spec,
    /// What the machine refuses, in words.
    lacking: Vec<String>,
    _claimed: Claimed,
}

impl Server {
    /// Makes a drive. `helper` does what its server must not do itself. `progress` is told
    /// now and then what share of the flash has been filled, and may end it.
    ///
    /// # Errors
    /// It cannot be, or the machine lacks something. Nothing is left behind then.
    pub fn start(
        home: &RunDirectory,
        spec: Spec,
        helper: Helper,
        progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Result<Self, Error> {
        spec.check()?;
        machine::check(&spec)?;
        spec.check_memory(protect::available_memory())?;
        let claimed = home.claim(&spec.name)?;
        // Before there are threads, which inherit it.
        let mut lacking = protect::serve_io();
        let store = Arc::new(Store::open(&spec)?);
        let ControlFlow::Continue(flash) = spec.flash(progress) else {
            return Err(Error::Failed("ended before it was made".to_owned()));
        };
        let awake = if spec.may_sleep { None } else { keep_awake(&mut lacking) };
        let spin = if awake.is_some() { SPIN_AWAKE } else { SPIN_ASLEEP };
        // The lead is measured with a flash that may be read from and forgotten.
        let (first, to_measure) = match spec.lead {
            Some(_) => (flash, None),
            None => {
                let (stand_in, filled) = spec.stand_in();
                (stand_in, Some((flash, filled)))
            }
        };
        let engine = Arc::new(Engine::new(State::new(&spec, first, clock::now()), spin)?);
        let power = PowerSwitch::start(&engine, &store, spec.seed)?;
        let (place, capacity) = (&claimed.place, spec.capacity());
        let waker = awake.as_ref().map(Awake::waker);
        let (model, content) = (Arc::clone(&engine), Arc::clone(&store));
        let mounted = Mounted::new(place, capacity, model, content, waker)?;
        let device = Device::attach(helper, place, &spec)?;
        if let Some((flash, filled)) = to_measure {
            match lead::measure(&device, filled, &engine, flash)? {
                Ok(lead) => engine.state().begin_compensation(lead),
                Err(why) => lacking.push(format!("its lead is not measured, and 0: {why}")),
            }
        }
        let control = UnixListener::bind(claimed.place.control());
        let control = control.map_err(Error::system("make the control socket"))?;
        claimed.publish(&Info {
            name: spec.name.clone(),
            device: device.path.clone(),
            pid: std::process::id(),
            capacity,
            profile: spec.profile.name.clone(),
            seed: spec.seed,
            data: spec.data.name().to_owned(),
            scheduler_before: device.scheduler_before.clone(),
        })?;
        let path = PathMeter::start(device.name(), &engine)?;
        // Not earlier: attaching a device flushes the file.
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

    /// Obeys commands until one of them, or the flag, ends it.
    ///
    /// # Errors
    /// The control socket fails.
    pub fn serve(self, end: &AtomicBool) -> Result<(), Error> {
        while !end.load(Ordering::Relaxed) {
            let mut waiting = [PollFd::new(&self.control, PollFlags::IN)];
            match poll(&mut waiting, Some(&LOOK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(e) => return Err(Error::system("wait for commands")(e)),
            }
            let Ok((stream, _)) = self.control.accept() else { continue };
            // Whoever sends nonsense, or hangs up, is not our trouble.
            if let Ok(Some(stream)) = self.obey(stream) {
                self.end(stream);
                return Ok(());
            }
        }
        self.finish();
        Ok(())
    }

    /// Obeys one command. The one that ends it gives the stream back, to be answered
    /// when all is gone.
    fn obey(&self, mut stream: UnixStream) -> io::Result<Option<UnixStream>> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let command = read_line(&stream)?;
        if has_hung_up(&stream) {
            // Whoever got no answer for long, from a server that was stopped, say, believes
            // that nothing was done, and may have done something else since.
            return Ok(None);
        }
        if let Command::Remove { force } = command {
            match self.may_end(force) {
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
                stat.lacking.extend(self.path.trouble());
                return Ok(Reply::Stat(Box::new(stat)));
            }
            Command::EndLog => return Ok(Reply::Log(state.figures.end_log())),
            Command::BeginLog => state.figures.begin_log(),
            Command::Set { settings } => {
                let tuned = tune::tuned(state.profile(), &settings)?;
                state.retune(tuned.profile, now)?;
                if let Some(lead) = tuned.lead {
                    state.fix_lead(lead.fixed());
                }
            }
            Command::Fault { fault } => {
                fault.check()?;
                state.add_fault(&fault, now);
            }
            Command::ClearFaults => state.clear_faults(now),
            Command::Snapshot => state.take_snapshot(now)?,
            Command::Restore => state.restore(now)?,
            Command::Idealise => state.idealise(now)?,
            Command::Remove { .. } => unreachable!("is not asked here"),
        }
        drop(state);
        self.power.turn();
        // What comes next may be something else now.
        self.engine.call();
        Ok(Reply::Done)
    }

    fn may_end(&self, force: bool) -> Result<(), Error> {
        let why = if force { None } else { self.device.in_use()? };
        why.map_or(Ok(()), |why| Err(Error::Failed(format!("{why}, or use --force"))))
    }

    /// Takes everything down, and then tells so.
    fn end(self, mut stream: UnixStream) {
        self.finish();
        _ = write_line(&mut stream, &Reply::Done);
    }

    fn finish(self) {
        // A stalled drive would let nobody go.
        self.engine.state().clear_faults(clock::now());
        self.engine.call();
        // Content of a file: what is not written now is by the kernel, later.
        _ = self.store.sync();
    }
}

/// Whether nobody waits for an answer any more.
fn has_hung_up(stream: &UnixStream) -> bool {
    let mut peer = [PollFd::new(stream, PollFlags::RDHUP)];
    let seen = poll(&mut peer, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    seen.is_ok() && peer[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP)
}

fn keep_awake(missing: &mut Vec<String>) -> Option<Awake> {
    match Awake::start() {
        Ok(awake) => Some(awake),
        Err(e) => {
            missing.push(format!("processors may sleep while it is in use ({LATENCY}): {e}"));
            None
        }
    }
}
