//! Serves an array until it is stopped.

use std::cell::RefCell;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use trimtab_md::Uuid;
use trimtab_serve::{
    Backend, Claimed, Device, Error, Helper, Serve, Served, ServedDisk, next_client, read_command,
    serve_io, write_line,
};

use crate::assemble::{Found, assemble};
use crate::control::{Command, Reply};
use crate::create::{New, create, random_uuid, unused};
use crate::engine::{Engine, Inbox, Mailbox, warn};
use crate::member::{MemberDevice, overlap};
use crate::predictable::{self, Leases};
use crate::spec::{ArrayInfo, Origin, PolicyKind, RunDirectory, Spec};
use crate::zeroes;

/// The engine answers commands within this, if it is not stuck.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long a device that is to be let go of may take to answer.
const LET_GO_WITHIN: Duration = Duration::from_secs(1);

/// A running array. Dropping it takes everything down, in the order of the fields.
///
/// No thread of the process may touch the device or the mount (trimtab-serve, helper.rs).
pub struct Server {
    /// Detached first, while it is still served.
    device: Device,
    control: UnixListener,
    /// Its end waits for what is in flight, and notes that the members agree.
    _served: Served,
    mailbox: Mailbox,
    name: String,
    members: usize,
    /// With the policy `ioda`.
    leases: RefCell<Option<Leases>>,
    lacking: Vec<String>,
    lines: Vec<String>,
    /// The engine could not go on.
    has_failed: Arc<AtomicBool>,
    _claimed: Claimed,
}

impl Server {
    /// Makes or assembles an array. `helper` runs the jobs that access its device.
    ///
    /// If the server of an array of that name was killed, and programs wait for its ublk device, it
    /// is taken over when the same array is assembled.
    ///
    /// # Errors
    /// The specification is invalid, the members cannot be used, or the machine lacks something. No
    /// member has been changed if the input is bad.
    pub fn start(run_directory: &RunDirectory, spec: &Spec, helper: Helper) -> Result<Self, Error> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::Privilege);
        }
        // Checked before anything is written.
        let backend = spec.backend.resolve()?;
        let is_assembled = matches!(spec.origin, Origin::Assemble { .. });
        let (claimed, waiting) = match is_assembled && backend == Backend::Ublk {
            true => run_directory.claim_waiting(&spec.name)?,
            false => (run_directory.claim(&spec.name)?, None),
        };
        if spec.policy == PolicyKind::Ioda {
            predictable::check(&spec.members)?;
        }
        let devices = claim_members(&spec.members)?;
        let mut said = Vec::new();
        let force = match spec.origin {
            Origin::Assemble { force } => force,
            Origin::Create { level, chunk, consistency, assume_clean, force } => {
                let new = New { name: &spec.name, level, chunk, consistency, assume_clean, force };
                create(&new, &devices)?;
                said.extend(unused(&devices, chunk));
                false
            }
        };
        let is_wanted = |uuid: &str| waiting.as_ref().map_or(Ok(()), |of| check_same(of, uuid));
        let Found { array, uuid, lines } = assemble(devices, force, is_wanted)?;
        let lines = [said, lines].concat();
        let (layout, members) = (array.layout, array.layout.members());
        let disk = ServedDisk {
            capacity: layout.capacity(),
            block_bytes: array.block_bytes(),
            scheduler: "none".to_owned(),
            rotational: false,
            makes_zeroes: array.makes_zeroes(),
            discard_bytes: zeroes::granularity(&layout),
        };
        // Before threads are started, which inherit it.
        let lacking = serve_io();
        let inbox = Inbox::new()?;
        let mailbox = inbox.mailbox.clone();
        let (policy, rates) = (spec.policy, spec.rates);
        let has_failed = Arc::new(AtomicBool::new(false));
        let failed = Arc::clone(&has_failed);
        let prepare = move |requests| {
            let engine = Engine::new(array, policy, rates, backend, requests, inbox)?;
            Ok(Box::new(move || {
                if let Err(fatal) = engine.run() {
                    warn(format_args!("the array ends: {fatal}"));
                    failed.store(true, Ordering::Relaxed);
                }
            }) as Serve)
        };
        let served = match claimed.keeps() {
            true => Served::take_over(claimed.directory(), disk, prepare)?,
            false => Served::new(claimed.directory(), backend, disk, prepare)?,
        };
        let device = Device::attach(helper, &served)?;
        claimed.taken_over();
        let control = UnixListener::bind(claimed.directory().control());
        let control = control.map_err(Error::system("make the control socket"))?;
        claimed.publish(&ArrayInfo {
            name: spec.name.clone(),
            device: device.path.clone(),
            pid: std::process::id(),
            capacity: layout.capacity(),
            level: layout.level().name().to_owned(),
            members,
            uuid,
            backend,
            scheduler_before: device.scheduler_before.clone(),
        })?;
        let mut server = Self {
            device,
            control,
            _served: served,
            mailbox,
            name: spec.name.clone(),
            members,
            leases: RefCell::default(),
            lacking,
            lines,
            has_failed,
            _claimed: claimed,
        };
        server.lease(policy)?;
        if policy == PolicyKind::Ioda {
            // Spares too, which are to be members.
            server.lines.extend(predictable::cannot_help(&spec.members, members));
        }
        Ok(server)
    }

    /// The block device.
    #[must_use]
    pub fn device(&self) -> &Path {
        &self.device.path
    }

    /// What became of devices that were given and are no members now, one line each.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Handles commands until one of them, or the flag, ends it.
    ///
    /// # Errors
    /// The control socket fails. Or the array cannot go on: its device then is as that of a server that
    /// was killed, and the process must end, so that another one can take it over.
    pub fn serve(self, end: &AtomicBool) -> Result<(), Error> {
        while !end.load(Ordering::Relaxed) {
            if self.has_failed.load(Ordering::Relaxed) {
                // In order it would delete a ublk device, for which another server may come.
                std::mem::forget(self);
                return Err(Error::Failed("the array cannot go on".to_owned()));
            }
            let Some(stream) = next_client(&self.control)? else { continue };
            // A client that sends nonsense, or hangs up, is ignored.
            if let Ok(Some(mut stream)) = self.handle(stream) {
                drop(self);
                _ = write_line(&mut stream, &Reply::Done);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Handles one command. For the command that ends the array, returns the stream, to be answered
    /// when all is taken down.
    fn handle(&self, mut stream: UnixStream) -> io::Result<Option<UnixStream>> {
        let Some(command) = read_command(&stream)? else { return Ok(None) };
        let reply = match command {
            Command::Stop { force } => match self.check_stoppable(force) {
                Ok(()) => return Ok(Some(stream)),
                Err(error) => Err(error),
            },
            command => self.act(command),
        };
        write_line(&mut stream, &reply.unwrap_or_else(Reply::from))?;
        Ok(None)
    }

    fn check_stoppable(&self, force: bool) -> Result<(), Error> {
        let why = if force { None } else { self.device.in_use()? };
        why.map_or(Ok(()), |why| Err(Error::Failed(format!("{why}, or use --force"))))
    }

    fn act(&self, command: Command) -> Result<Reply, Error> {
        match command {
            Command::Stat => {
                let mut stat = self.ask(|engine| Ok(engine.stat()))?;
                stat.lacking.clone_from(&self.lacking);
                return Ok(Reply::Stat(Box::new(stat)));
            }
            Command::Fail { member } => self.ask(move |engine| engine.fail_member(&member))?,
            Command::Remove { member } => self.remove(&member)?,
            Command::Check { repairs } => self.ask(move |engine| engine.begin_check(repairs))?,
            Command::Set { policy } => {
                let set = || {
                    self.ask(move |engine| {
                        engine.set_policy(policy);
                        Ok(())
                    })
                };
                // With leases as long as reads are flagged.
                if policy == PolicyKind::Ioda {
                    let members = self.ask(|engine| Ok(engine.member_paths()))?;
                    let members: Vec<_> = members.into_iter().flatten().collect();
                    predictable::check(&members)?;
                    self.lease(policy)?;
                    set()?;
                    return Ok(Reply::Noted(predictable::cannot_help(&members, self.members)));
                } else {
                    set()?;
                    self.lease(policy)?;
                }
            }
            Command::Add { path, force } => {
                let (device, uuid) = self.claim_new(&path, force, None)?;
                self.ask(move |engine| engine.add_member(device, uuid))?;
                return Ok(self.noted(&path));
            }
            Command::Replace { member, path, force } => {
                let named = member.clone();
                let given = path.clone();
                if self.ask(move |engine| engine.replace_by_spare(&named, &given))? {
                    return Ok(self.noted(&path));
                }
                let (device, uuid) = self.claim_new(&path, force, Some(member.clone()))?;
                self.ask(move |engine| engine.replace_member(&member, device, uuid))?;
                return Ok(self.noted(&path));
            }
            Command::Stop { .. } => unreachable!("handled by the caller"),
        }
        Ok(Reply::Done)
    }

    /// Lets go of a device, as soon as it has answered.
    fn remove(&self, member: &str) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            let named = member.to_owned();
            let Some(why) = self.ask(move |engine| engine.remove_member(&named))? else {
                return Ok(());
            };
            if begun.elapsed() > LET_GO_WITHIN {
                return Err(Error::Failed(why));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// A device was taken in. With the policy `ioda` it is said if it cannot help.
    fn noted(&self, path: &PathBuf) -> Reply {
        match *self.leases.borrow() {
            Some(_) => Reply::Noted(predictable::cannot_help([path], self.members)),
            None => Reply::Done,
        }
    }

    /// Has the members' firmware help if the policy needs that, and no more if not.
    fn lease(&self, policy: PolicyKind) -> Result<(), Error> {
        let mut leases = self.leases.borrow_mut();
        match (policy, &*leases) {
            (PolicyKind::Ioda, None) => {
                let members = self.ask(|engine| Ok(engine.member_paths()))?;
                *leases = Some(Leases::begin(&self.name, members, self.mailbox.clone())?);
            }
            (PolicyKind::Ioda, Some(_)) => {}
            _ => *leases = None,
        }
        Ok(())
    }

    /// Claims a device that is none of the array's, and says what it is to be called. It is to replace a
    /// member, or to be added.
    fn claim_new(
        &self,
        path: &Path,
        force: bool,
        replaces: Option<String>,
    ) -> Result<(MemberDevice, Uuid), Error> {
        if overlap(path, self.device()) {
            let why = "is the array itself, or a part of it";
            return Err(Error::BadInput(format!("{} {why}", path.display())));
        }
        let given = path.to_owned();
        self.ask(move |engine| engine.check_new(&given))?;
        let device = MemberDevice::claim(path)?;
        if !force {
            device.check_unused()?;
        }
        let uuid = random_uuid()?;
        // A device that is refused keeps what it holds.
        let (device, like) = self.ask(move |engine| {
            match replaces {
                Some(member) => engine.role_to_replace(&member).map(drop)?,
                None => engine.check_takes_in()?,
            }
            engine.superblock_of_new(&device, uuid).map(|like| (device, like))
        })?;
        // What is written to it while the engine does not know it may block.
        let written = device.metadata.write_bad_block_log(&like);
        let written = written.and_then(|()| device.metadata.write_empty_ppl(&like, 0));
        written.map_err(|error| Error::Failed(error.to_string()))?;
        Ok((device, uuid))
    }

    /// Has the engine do something, and waits for the result.
    fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Engine) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (sender, result) = sync_channel(1);
        self.mailbox.post(move |engine| {
            _ = sender.send(what(engine));
            engine.after_command()
        });
        let ended = |_| Error::Failed("the array does not serve requests any more".to_owned());
        result.recv_timeout(PATIENCE).map_err(ended)?
    }
}

/// Checks that an array is the one whose device waits.
fn check_same(waiting: &ArrayInfo, uuid: &str) -> Result<(), Error> {
    if waiting.uuid == uuid {
        return Ok(());
    }
    let ArrayInfo { name, device, uuid: other, .. } = waiting;
    let device = device.display();
    Err(Error::BadInput(format!(
        "`{name}`: its server was killed, and {device} waits for the array {other}, which these \
         members are not: give those, or remove it with `trimtab array stop {name}`"
    )))
}

/// Claims the members; each once.
fn claim_members(paths: &[PathBuf]) -> Result<Vec<MemberDevice>, Error> {
    let mut devices: Vec<MemberDevice> = Vec::new();
    for path in paths {
        // Before it is claimed: a device that is claimed is in use.
        if let Some(other) = devices.iter().find(|other| other.is_at(path)) {
            let (one, other) = (path.display(), other.path.display());
            return Err(Error::BadInput(format!("{one} and {other} are the same device")));
        }
        devices.push(MemberDevice::claim(path)?);
    }
    Ok(devices)
}
