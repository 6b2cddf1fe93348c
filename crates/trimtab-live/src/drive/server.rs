//! A drive, served until someone wants it gone.

use std::io;
use std::ops::ControlFlow;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::awake::{Awake, LATENCY};
use super::control::{Command, Reply, read_line, write_line};
use super::engine::{Engine, SPIN_ASLEEP, SPIN_AWAKE};
use super::error::Error;
use super::fuse::{Mounted, Ticket};
use super::home::{Claimed, Home, Info};
use super::loopdev::{self, LoopDevice};
use super::spec::Spec;
use super::stat::Stat;
use super::state::State;
use super::store::Store;
use super::{clock, lead, protect, tune};

/// How often it is looked whether it shall end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Commands are one line, sent at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// A drive that is up. Dropping it takes everything down again, in this order.
pub struct Server {
    /// First the device is detached, while all that serves it still does.
    device: LoopDevice,
    control: UnixListener,
    _mounted: Mounted,
    _timer: Timer,
    _awake: Option<Awake>,
    engine: Arc<Engine<Ticket>>,
    store: Arc<Store>,
    spec: Spec,
    /// What the machine refuses, in words.
    lacking: Vec<String>,
    _claimed: Claimed,
}

impl Server {
    /// Makes a drive. `progress` is told now and then what share of the flash has
    /// been filled, and may end it.
    ///
    /// # Errors
    /// It cannot be, or the machine lacks something. Nothing is left behind then.
    pub fn start(
        home: &Home,
        spec: Spec,
        progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Result<Self, Error> {
        spec.check()?;
        if !rustix::process::geteuid().is_root() {
            return Err(Error::Privilege);
        }
        let claimed = home.claim(&spec.name)?;
        // Before there are threads, which inherit it.
        let mut lacking = protect::serve_io();
        let store = Arc::new(Store::open(&spec.data, spec.capacity())?);
        let ControlFlow::Continue(flash) = spec.flash(progress) else {
            return Err(Error::Failed("ended before it was made".to_owned()));
        };
        let awake = if spec.may_sleep { None } else { keep_awake(&mut lacking) };
        let spin = if awake.is_some() { SPIN_AWAKE } else { SPIN_ASLEEP };
        let engine = Arc::new(Engine::new(State::new(&spec, flash, clock::now()), spin));
        let timer = Timer::start(&engine)?;
        let (mount, capacity) = (claimed.place.mount(), spec.capacity());
        let waker = awake.as_ref().map(Awake::waker);
        let (model, content) = (Arc::clone(&engine), Arc::clone(&store));
        let mounted = Mounted::new(&mount, capacity, model, content, waker)?;
        let file = mounted.open()?;
        let mut device = LoopDevice::attach(&file, spec.block_bytes)?;
        drop(file);
        device.set_scheduler(&spec.scheduler)?;
        if spec.lead.is_none() {
            let lead = lead::measure(&device.path, capacity, &engine)?;
            engine.state().lead = lead;
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
            scheduler_before: device.scheduler_before().map(str::to_owned),
        })?;
        // Not earlier: attaching a device flushes the file.
        let now = clock::now();
        spec.faults.iter().for_each(|fault| engine.state().add_fault(fault, now));
        Ok(Self {
            device,
            control,
            _mounted: mounted,
            _timer: timer,
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
                return Ok(Reply::Stat(Box::new(stat)));
            }
            Command::EndLog => return Ok(Reply::Log(state.figures.end_log())),
            Command::BeginLog => state.figures.begin_log(),
            Command::Set { settings } => {
                let tuned = tune::tuned(state.profile(), state.lead, &settings)?;
                state.retune(tuned.profile, now)?;
                state.lead = tuned.lead;
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
        // What comes next may be something else now.
        self.engine.call();
        Ok(Reply::Done)
    }

    fn may_end(&self, force: bool) -> Result<(), Error> {
        if force || !self.device.is_claimed() {
            return Ok(());
        }
        let name = self.device.name();
        let why = match loopdev::mounted_at(&self.device.path) {
            Some(at) => format!("{name} is mounted at {at}: unmount it first"),
            None => format!("{name} is in use (mounted elsewhere, or by another device): end that"),
        };
        Err(Error::Failed(format!("{why}, or use --force")))
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

fn keep_awake(missing: &mut Vec<String>) -> Option<Awake> {
    match Awake::start() {
        Ok(awake) => Some(awake),
        Err(e) => {
            missing.push(format!("processors may sleep while it is in use ({LATENCY}): {e}"));
            None
        }
    }
}

/// The thread that lets the model's time pass. Ended when dropped.
struct Timer {
    engine: Arc<Engine<Ticket>>,
    thread: Option<JoinHandle<()>>,
}

impl Timer {
    fn start(engine: &Arc<Engine<Ticket>>) -> Result<Self, Error> {
        let runs = Arc::clone(engine);
        let thread = std::thread::Builder::new().name("timer".to_owned()).spawn(move || runs.run());
        let thread = Some(thread.map_err(Error::system("start a thread"))?);
        Ok(Self { engine: Arc::clone(engine), thread })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.engine.end();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}
