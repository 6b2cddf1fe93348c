//! Helper processes that access a device on behalf of its server.
//!
//! A process that uses a device which it serves itself may wait in the kernel for its own answer,
//! uninterruptibly: killed at that moment, it would never end, nor would any other user of the
//! device. So a server never opens its device, nor the file below it. Attaching, setting a
//! scheduler, reading and detaching are jobs, each done by another process, within a time limit.
//! That process inherits no file of the server. When the server is killed, its FUSE connection
//! ends, and so does every wait of the helper.
//!
//! ```text
//!   server ── job, as a file on standard input ──> helper ──> device
//!          <── outcome, a line on standard output ──
//! ```
//!
//! The file is locked, and the helper inherits that lock: while it is held, a helper may still
//! attach a device, even if its server is dead.

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
use super::protect;
use super::transfers::{self, Pace, Transfer};
use super::ublk::{self, Control};
use trimtab_io::monotonic;

/// Time limit of a job: far above the usual, on a busy machine too.
const JOB_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a killed process may take to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a dead server's helper may take to end. It has nothing to wait for.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of the reads of a measurement.
const READ_TIMEOUT: Nanos = Nanos::from_millis(500);

/// The program that runs servers' jobs: with these arguments it calls [`assist`].
#[derive(Clone, Debug)]
pub struct Helper {
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// A job.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Job {
    /// Attaches a loop device to a file.
    Attach { file: PathBuf, block_bytes: u32, scheduler: String, rotational: bool },
    /// Makes the block device of a ublk device that is served; or, without a scheduler, hands what
    /// waits for a killed server's to the server that has taken it over.
    Start { device: u32, server: u32, scheduler: Option<String> },
    /// Writes back what the kernel holds of a ublk device, and removes the block device.
    Stop { device: u32 },
    /// Reads at these offsets of a device, one after the other.
    Read {
        device: PathBuf,
        #[serde(rename = "places")]
        offsets: Vec<u64>,
    },
    /// Checks whether a device is in use.
    Look { device: PathBuf },
    /// Restores a device's scheduler, and detaches it.
    Detach { device: PathBuf, scheduler_before: Option<String> },
}

impl Job {
    fn name(&self) -> &'static str {
        match self {
            Self::Attach { .. } => "attach a loop device",
            Self::Start { .. } => "start a ublk device",
            Self::Stop { .. } => "stop a ublk device",
            Self::Read { .. } => "read from the device",
            Self::Look { .. } => "check whether the device is in use",
            Self::Detach { .. } => "detach the device",
        }
    }
}

/// The result of a job.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    Attached {
        device: PathBuf,
        scheduler_before: Option<String>,
    },
    /// Offset and latency of each read; latency in ns.
    Read(Vec<(u64, u64)>),
    /// How the device is used, if it is.
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
    /// A program, and the arguments with which it calls [`assist`].
    #[must_use]
    pub fn new<A: Into<OsString>>(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { program: program.into(), arguments }
    }

    /// Runs a job in a helper process; `file` carries the job.
    pub(crate) fn run(&self, file: &Path, job: &Job) -> Result<Outcome, Error> {
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
            // Ctrl-C is for the foreground process, whose server then runs the detach job.
            .process_group(0);
        let what = || format!("start the device's helper, {}", self.program.display());
        let mut child = command.spawn().map_err(Error::system(what()))?;
        // Closes this process's copy of the locked input.
        drop(command);
        let output = read_output(&mut child, Instant::now() + JOB_TIMEOUT);
        end(&mut child, if output.is_ok() { EXIT_TIMEOUT } else { Duration::ZERO });
        let output =
            output.map_err(|why| Error::Failed(format!("cannot {}: {why}", job.name())))?;
        // The program may print other lines too.
        match output.split(|&byte| byte == b'\n').find_map(|line| serde_json::from_slice(line).ok())
        {
            Some(Outcome::BadInput(why)) => Err(Error::BadInput(why)),
            Some(Outcome::Failed(why)) => Err(Error::Failed(why)),
            Some(Outcome::NeedsRoot) => Err(Error::Privilege),
            Some(outcome) => Ok(outcome),
            None => Err(Error::Failed(format!(
                "cannot {}: the helper process ended without an answer",
                job.name()
            ))),
        }
    }
}

/// Why a helper's output could not be read.
#[derive(Debug, thiserror::Error)]
enum OutputError {
    #[error("it took longer than {} s", JOB_TIMEOUT.as_secs())]
    TimedOut,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Everything that a helper prints.
fn read_output(child: &mut Child, until: Instant) -> Result<Vec<u8>, OutputError> {
    let mut stdout = child.stdout.take().expect("is piped");
    let mut output = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left =
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(OutputError::TimedOut),
            Err(rustix::io::Errno::INTR) => continue,
            Err(e) => return Err(io::Error::from(e).into()),
            Ok(_) => {}
        }
        match stdout.read(&mut piece) {
            Ok(0) => return Ok(output),
            Ok(n) => output.extend_from_slice(&piece[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Waits until a helper ends, and kills it after `by_itself`. A helper that is blocked in the
/// kernel ends when its wait does.
fn end(child: &mut Child, by_itself: Duration) {
    let begun = Instant::now();
    let mut killed = false;
    while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < by_itself + EXIT_TIMEOUT {
        if !killed && begun.elapsed() >= by_itself {
            killed = true;
            _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until no helper of a dead server runs a job any more.
pub(crate) fn wait_for_end(file: &Path) -> Result<(), Error> {
    let Ok(job) = File::open(file) else { return Ok(()) };
    let begun = Instant::now();
    while rustix::fs::flock(&job, FlockOperation::NonBlockingLockShared).is_err() {
        if begun.elapsed() > ORPHAN_TIMEOUT {
            let why = "a helper process of its device does not end: see `ps`, and end it";
            return Err(Error::Failed(why.to_owned()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Runs the job on standard input, and prints its outcome on standard output. To be called by the
/// program that the server was given as its [`Helper`].
///
/// # Errors
/// There is no valid job, or standard output is closed.
pub fn assist() -> io::Result<()> {
    // Ends with the server: what the server leaves is cleaned up by other processes.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let job: Job = serde_json::from_reader(io::stdin().lock())?;
    let outcome = act(job).unwrap_or_else(Outcome::from);
    let line = serde_json::to_string(&outcome)?;
    writeln!(io::stdout().lock(), "\n{line}")
}

fn act(job: Job) -> Result<Outcome, Error> {
    match job {
        Job::Attach { file, block_bytes, scheduler, rotational } => {
            let device = LoopDevice::attach(&file, block_bytes, &scheduler)?;
            if rotational {
                device.set_rotational();
            }
            let (device, scheduler_before) = device.keep();
            Ok(Outcome::Attached { device, scheduler_before })
        }
        Job::Start { device, server, scheduler } => {
            let path = ublk::block_device(device);
            let failed = |what: &str| Error::system(format!("{what} {}", path.display()));
            let mut control = Control::open()?;
            match scheduler {
                Some(scheduler) => {
                    control.start(device, server).map_err(failed("start"))?;
                    loopdev::set_scheduler(&path, &scheduler)?;
                    if protect::memory_is_limited() {
                        loopdev::limit_dirty(&path, true);
                    }
                }
                None => control.end_recovery(device, server).map_err(failed("take over"))?,
            }
            Ok(Outcome::Attached { device: path, scheduler_before: None })
        }
        Job::Stop { device } => {
            let path = ublk::block_device(device);
            let mut control = Control::open()?;
            // When it is stopped, the kernel has nothing to write to any more.
            if control.is_live(device) {
                _ = File::open(&path).and_then(|file| file.sync_all());
            }
            let failed = Error::system(format!("stop {}", path.display()));
            control.stop(device).map_err(failed)?;
            Ok(Outcome::Detached)
        }
        Job::Read { device, offsets } => {
            let failed = || Error::system(format!("read {}", device.display()));
            let file = transfers::open(&device, Transfer::Read).map_err(failed())?;
            let until = monotonic() + READ_TIMEOUT;
            let seen = transfers::transfer_serially(
                &file,
                Transfer::Read,
                offsets,
                until,
                Pace::UNLIMITED,
            );
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

    /// Runs a shell command as the helper.
    fn run_helper(command: &str) -> (tempfile::TempDir, Result<Outcome, Error>) {
        let directory = tempfile::tempdir().unwrap();
        let helper = Helper::new("/bin/sh", ["-c", command]);
        let job = Job::Look { device: "/dev/loop0".into() };
        let outcome = helper.run(&directory.path().join("job"), &job);
        (directory, outcome)
    }

    #[test]
    fn helper_returns_the_jobs_outcome() {
        let (directory, outcome) =
            run_helper("grep -q '^{.look.' && echo '{\"in-use\": \"mounted\"}'");
        assert!(matches!(outcome.unwrap(), Outcome::InUse(Some(why)) if why == "mounted"));
        // The lock is released.
        wait_for_end(&directory.path().join("job")).unwrap();
    }

    #[test]
    fn helper_death_is_an_error() {
        for command in ["kill -KILL $$", "exit 0", "echo nonsense"] {
            let (_directory, outcome) = run_helper(command);
            let why = outcome.unwrap_err().to_string();
            assert!(why.contains("ended without an answer"), "{command}: {why}");
        }
    }

    #[test]
    fn wait_for_end_blocks_while_a_job_runs() {
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
