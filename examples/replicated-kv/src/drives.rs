//! The drives: emulated, each with a server process of its own, a file system, and a
//! place to be mounted at that only this process sees.
//!
//! Nothing stays behind, however this ends. A server ends when the pipe to it is closed,
//! which the kernel does for a process that is killed. The mounts are in a mount
//! namespace of the thread that made them, and of those that it starts: they go with it.

use std::ffi::CStr;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use rustix::thread::UnshareFlags;
use trimtab_emu::{Drive, Helper, RunDirectory, Server, Spec};

/// The word by which this program is told to serve a drive.
pub(crate) const SERVE: &str = "serve-drive";
/// What this program is called with, to do for a drive's server what that must not do itself.
pub(crate) const ASSIST: &str = "assist-drive";

/// Where the drives are mounted, for this process alone.
const PLACE: &str = "/mnt";

/// How long a server waits for its drive to be unmounted.
const PATIENCE: Duration = Duration::from_secs(20);

/// A drive with its file system, gone when dropped.
pub(crate) struct MountedDrive {
    /// Where it is mounted.
    pub(crate) directory: PathBuf,
    pub(crate) drive: Drive,
    child: Child,
    /// Closed, it tells the server to end.
    pipe: Option<ChildStdin>,
}

/// From here on what this thread mounts, and threads that it starts, is seen by no other.
///
/// # Errors
/// It takes root.
pub(crate) fn mount_unseen() -> Result<()> {
    // SAFETY: of what can be unshared this is the mounts alone, and with them the
    // working directory; no file descriptors.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
        .context("cannot have mounts of its own (it takes root)")?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)
        .context("cannot keep mounts to itself (a chroot must be a mount point for that)")?;
    mount("none", PLACE, "tmpfs", MountFlags::empty(), None)
        .with_context(|| format!("cannot mount anything at {PLACE}"))
}

impl MountedDrive {
    /// Makes a drive with a file system.
    ///
    /// # Errors
    /// It cannot be; nothing is left then.
    pub(crate) fn new(spec: &Spec) -> Result<Self> {
        // The link itself: with mounts of its own, a program in a chroot does not know the
        // path of its file.
        let mut child = Command::new("/proc/self/exe")
            .arg(SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a drive's server")?;
        let mut pipe = child.stdin.take().expect("is piped");
        let output = child.stdout.take().expect("is piped");
        let made = begin(&mut pipe, output, spec);
        let drive =
            made.and_then(|()| Ok(Drive::find(&RunDirectory::from_environment(), &spec.name)?));
        let end = |_: &anyhow::Error| {
            _ = child.kill();
            _ = child.wait();
        };
        let drive = drive.inspect_err(end)?;
        let directory = Path::new(PLACE).join(&spec.name);
        let this = Self { directory, drive, child, pipe: Some(pipe) };
        this.mount()?;
        Ok(this)
    }

    fn mount(&self) -> Result<()> {
        let device = &self.drive.info().device;
        // The flash is full of what has been there before, as on a drive in use, and
        // stays so. All is laid out at once: nothing but the load writes later.
        let made = Command::new("mkfs.ext4")
            .args(["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"])
            .arg(device)
            .output()
            .context("cannot run mkfs.ext4")?;
        if !made.status.success() {
            let why = String::from_utf8_lossy(&made.stderr);
            bail!("mkfs.ext4 {}: {}", device.display(), why.trim());
        }
        std::fs::create_dir(&self.directory)
            .with_context(|| format!("cannot make {}", self.directory.display()))?;
        const NONE: Option<&CStr> = None;
        mount(device, &self.directory, "ext4", MountFlags::NOATIME, NONE)
            .with_context(|| format!("cannot mount {}", device.display()))
    }

    /// Puts the flash back into the state that was kept, or keeps it: `act` says which.
    /// The drive must be idle for that, which takes a moment.
    ///
    /// # Errors
    /// It did not come to rest.
    pub(crate) fn at_rest(
        &self,
        act: impl Fn(&Drive) -> Result<(), trimtab_emu::Error>,
    ) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            rustix::fs::syncfs(std::fs::File::open(&self.directory)?)?;
            match act(&self.drive) {
                Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(50)),
                done => return Ok(done?),
            }
        }
    }
}

impl Drop for MountedDrive {
    fn drop(&mut self) {
        // Nowhere is left to report a failure of these; the server waits for the mount.
        if unmount(&self.directory, UnmountFlags::empty()).is_err() {
            _ = unmount(&self.directory, UnmountFlags::DETACH);
        }
        self.pipe = None;
        _ = self.child.wait();
    }
}

/// Tells a server what to serve, and waits until it does.
fn begin(to: &mut impl io::Write, from: impl io::Read, spec: &Spec) -> Result<()> {
    let mut line = serde_json::to_vec(spec)?;
    line.push(b'\n');
    // If it has gone, it has said why.
    _ = to.write_all(&line);
    let mut said = String::new();
    BufReader::new(from).read_line(&mut said)?;
    match said.trim() {
        "ready" => Ok(()),
        "" => bail!("a drive's server ended without a word"),
        why => bail!("{why}"),
    }
}

/// Serves a drive, as described on standard input, until that is closed.
///
/// # Errors
/// Its control socket fails.
pub(crate) fn serve() -> Result<()> {
    let mut input = BufReader::new(io::stdin());
    let mut line = String::new();
    input.read_line(&mut line)?;
    let spec: Spec = serde_json::from_str(&line).context("no drive is described")?;
    // Ctrl-C is for the program that uses the drive.
    rustix::process::setsid().context("cannot begin a session of its own")?;
    let (home, name) = (RunDirectory::from_environment(), spec.name.clone());
    let helper = Helper::new("/proc/self/exe", [ASSIST]);
    let server = match Server::start(&home, spec, helper, &mut |_| ControlFlow::Continue(())) {
        Ok(server) => server,
        Err(why) => return Ok(writeln!(io::stdout(), "{why}")?),
    };
    writeln!(io::stdout(), "ready")?;
    let end = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&end);
    std::thread::spawn(move || {
        _ = io::copy(&mut input, &mut io::sink());
        // What is in memory of the mounted file system is still to be written: so the
        // drive stays until it is unmounted.
        let until = Instant::now() + PATIENCE;
        let remove = || Drive::find(&home, &name).and_then(|drive| drive.remove(false));
        while remove().is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        ends.store(true, Relaxed);
    });
    Ok(server.serve(&end)?)
}
