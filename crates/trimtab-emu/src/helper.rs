//! The process that touches a drive's device in its server's stead.
//!
//! What a process asks of a device that it serves itself may wait for its own answer, in
//! the kernel, where nothing can interrupt it: one that is killed just then would never
//! end, nor would what else waits for the device. So a server never opens its device, nor
//! the file below it: attaching, setting a scheduler, reading and detaching are jobs, each
//! done by another process, which may take only so long. It has nothing of the server's
//! open. When the server is killed, FUSE's connection ends with it, and so does whatever
//! the helper waits for.
//!
//! ```text
//!   server ── job, as a file on standard input ──> helper ──> device
//!          <── outcome, a line on standard output ──
//! ```
//!
//! The file is locked, and the helper inherits that lock: as long as it is held, a helper
//! may still attach a device, though its server is dead.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FlockOperation;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use trimtab_io::Nanos;

use super::error::Error;
use super::loopdev::{self, LoopDevice};
use super::{check, clock};

/// How long a job may take: much longer than any does, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(20);
/// How long a process that was killed may take to end.
const DYING: Duration = Duration::from_secs(2);
/// How long a dead server's helper may take to end. Nothing keeps it waiting.
const ORPHANED: Duration = Duration::from_secs(10);
/// How long the reads of a measurement may take.
const READING: Nanos = Nanos::from_millis(500);

/// The program that does the jobs of servers: one that calls [`assist`] when it is given
/// these arguments.
#[derive(Clone, Debug)]
pub struct Helper {
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// What is to be done.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Job {
    /// Make a block device of a file.
    Attach { file: PathBuf, block_bytes: u32, scheduler: String },
    /// Read from so many places of a device, one after the other.
    Read { device: PathBuf, places: Vec<u64> },
    /// Say whether a device is used.
    Look { device: PathBuf },
    /// Give a device its scheduler back, and detach it.
    Detach { device: PathBuf, scheduler_before: Option<String> },
}

impl Job {
    fn name(&self) -> &'static str {
        match self {
            Self::Attach { .. } => "attach a loop device",
            Self::Read { .. } => "read from the device",
            Self::Look { .. } => "look whether the device is in use",
            Self::Detach { .. } => "detach the device",
        }
    }
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    Attached {
        device: PathBuf,
        scheduler_before: Option<String>,
    },
    /// What was read, and how long each took, ns.
    Read(Vec<(u64, u64)>),
    /// How it is used, if it is.
    InUse(Option<String>),
    Detached,
    BadInput(String),
    Failed(String),
    NeedsRoot,
}

impl From<Error> for Outcome {
    fn from(error: Error) -> Self {
        match error {
            Error::BadInput(why) => Self::BadInput(why),
            Error::Privilege => Self::NeedsRoot,
            error => Self::Failed(error.to_string()),
        }
    }
}

impl Helper {
    /// A program, and the arguments by which it knows that it is to call [`assist`].
    #[must_use]
    pub fn new<A: Into<OsString>>(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { program: program.into(), arguments }
    }

    /// Has a job done, for which `file` is made.
    pub(super) fn run(&self, file: &Path, job: &Job) -> Result<Outcome, Error> {
        let failed = |what: &str| Error::system(format!("{what} {}", file.display()));
        let line = serde_json::to_vec(job).expect("plain data has a form in JSON");
        let mut options = File::options();
        let input = options.create(true).truncate(false).read(true).write(true).open(file);
        let mut input = input.map_err(failed("make"))?;
        rustix::fs::flock(&input, FlockOperation::NonBlockingLockExclusive)
            .map_err(|e| failed("lock")(e.into()))?;
        input.set_len(0).map_err(failed("write"))?;
        input.write_all(&line).and_then(|()| input.rewind()).map_err(failed("write"))?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .stdin(Stdio::from(input))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C is for whoever is in the foreground, who then has the device detached.
            .process_group(0);
        let what = || format!("start the drive's helper, {}", self.program.display());
        let mut child = command.spawn().map_err(Error::system(what()))?;
        // It has the input to itself.
        drop(command);
        let told = listen(&mut child, Instant::now() + LIMIT);
        end(&mut child, if told.is_ok() { DYING } else { Duration::ZERO });
        let told = told.map_err(|why| Error::Failed(format!("cannot {}: {why}", job.name())))?;
        // A program may say something of its own, too, on other lines.
        match told.split(|&byte| byte == b'\n').find_map(|line| serde_json::from_slice(line).ok()) {
            Some(Outcome::BadInput(why)) => Err(Error::BadInput(why)),
            Some(Outcome::Failed(why)) => Err(Error::Failed(why)),
            Some(Outcome::NeedsRoot) => Err(Error::Privilege),
            Some(outcome) => Ok(outcome),
            None => Err(Error::Failed(format!(
                "cannot {}: the process for it ended without an answer",
                job.name()
            ))),
        }
    }
}

/// All that a helper says.
fn listen(child: &mut Child, until: Instant) -> Result<Vec<u8>, String> {
    let mut output = child.stdout.take().expect("is piped");
    let mut told = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left =
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(format!("it took longer than {} s", LIMIT.as_secs())),
            Err(rustix::io::Errno::INTR) => continue,
            Err(e) => return Err(io::Error::from(e).to_string()),
            Ok(_) => {}
        }
        match output.read(&mut piece) {
            Ok(0) => return Ok(told),
            Ok(n) => told.extend_from_slice(&piece[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.to_string()),
        }
    }
}

/// Sees to it that a helper ends, by itself or killed. One that waits in the kernel ends with
/// what it waits for.
fn end(child: &mut Child, by_itself: Duration) {
    let begun = Instant::now();
    let mut killed = false;
    while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < by_itself + DYING {
        if !killed && begun.elapsed() >= by_itself {
            killed = true;
            _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until nobody does a job any more that a dead server has left.
pub(super) fn wait_for_end(file: &Path) -> Result<(), Error> {
    let Ok(job) = File::open(file) else { return Ok(()) };
    let begun = Instant::now();
    while rustix::fs::flock(&job, FlockOperation::NonBlockingLockShared).is_err() {
        if begun.elapsed() > ORPHANED {
            let why = "a process that looks after its device does not end: see `ps`, and end it";
            return Err(Error::Failed(why.to_owned()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Does the job on standard input for a drive's server, and says on standard output what
/// came of it. To be called by the program that the server was given as its [`Helper`].
///
/// # Errors
/// There is no job, or nobody who wants to know its outcome.
pub fn assist() -> io::Result<()> {
    // Not longer than it is wanted: what its server has left is cleaned up by others.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let job: Job = serde_json::from_reader(io::stdin().lock())?;
    let outcome = act(job).unwrap_or_else(Outcome::from);
    let line = serde_json::to_string(&outcome)?;
    writeln!(io::stdout().lock(), "\n{line}")
}

fn act(job: Job) -> Result<Outcome, Error> {
    match job {
        Job::Attach { file, block_bytes, scheduler } => {
            let device = LoopDevice::attach(&file, block_bytes, &scheduler)?;
            let (device, scheduler_before) = device.keep();
            Ok(Outcome::Attached { device, scheduler_before })
        }
        Job::Read { device, places } => {
            let failed = || Error::system(format!("read {}", device.display()));
            let file = check::open(&device).map_err(failed())?;
            let seen =
                check::one_by_one(&file, &places, clock::now() + READING, check::Pace::UNLIMITED);
            let seen = seen.map_err(failed())?;
            Ok(Outcome::Read(seen.into_iter().map(|(offset, time)| (offset, time.0)).collect()))
        }
        Job::Look { device } => Ok(Outcome::InUse(loopdev::use_of(&device))),
        Job::Detach { device, scheduler_before } => {
            loopdev::restore_scheduler(&device, scheduler_before.as_deref());
            loopdev::detach(&device);
            Ok(Outcome::Detached)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell command in place of a helper.
    fn helped(command: &str) -> (tempfile::TempDir, Result<Outcome, Error>) {
        let directory = tempfile::tempdir().unwrap();
        let helper = Helper::new("/bin/sh", ["-c", command]);
        let job = Job::Look { device: "/dev/loop0".into() };
        let outcome = helper.run(&directory.path().join("job"), &job);
        (directory, outcome)
    }

    #[test]
    fn a_job_goes_to_the_helper_and_its_outcome_comes_back() {
        let (directory, outcome) = helped("grep -q '^{.look.' && echo '{\"in-use\": \"mounted\"}'");
        assert!(matches!(outcome.unwrap(), Outcome::InUse(Some(why)) if why == "mounted"));
        // Nobody has the file locked any more.
        wait_for_end(&directory.path().join("job")).unwrap();
    }

    #[test]
    fn a_helper_that_dies_is_an_error() {
        for command in ["kill -KILL $$", "exit 0", "echo nonsense"] {
            let (_directory, outcome) = helped(command);
            let why = outcome.unwrap_err().to_string();
            assert!(why.contains("ended without an answer"), "{command}: {why}");
        }
    }

    #[test]
    fn a_job_that_is_being_done_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("job");
        let input = File::create(&file).unwrap();
        rustix::fs::flock(&input, FlockOperation::NonBlockingLockExclusive).unwrap();
        let mut child = Command::new("sleep").arg("0.3").stdin(Stdio::from(input)).spawn().unwrap();
        wait_for_end(&file).unwrap();
        // It has ended, or is about to: its files are closed.
        assert!(child.wait().unwrap().success());
    }
}
