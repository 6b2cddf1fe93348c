//! Doing what is planned, in the kernel's configfs.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::configured::{Configured, Exported};
use crate::error::Error;
use crate::export::{Export, Transport};
use crate::id::Uuid;
use crate::plan::{self, Step};

/// Where configfs is mounted by convention.
const CONFIGFS: &str = "/sys/kernel/config";

/// The kernel's NVMe target.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its directory in configfs.
    root: PathBuf,
}

impl Target {
    /// That of this machine.
    #[must_use]
    pub fn system() -> Self {
        Self { root: Path::new(CONFIGFS).join("nvmet") }
    }

    /// All that trimtab exports, and what is left of exports that were cut short. None where the
    /// kernel's target is not loaded.
    ///
    /// # Errors
    /// configfs cannot be read.
    pub fn list(&self) -> Result<Vec<Exported>, Error> {
        Ok(Configured::read(&self.root)?.exported())
    }

    /// Exports a volume.
    ///
    /// # Errors
    /// The kernel's target is not loaded, the volume is exported already, or the kernel refuses. Then
    /// nothing is left of it.
    pub fn export(&self, export: &Export) -> Result<(), Error> {
        let _lock = self.lock()?;
        let steps = plan::set_up(export, &self.read()?)?;
        for step in &steps {
            let Err(error) = step.run(&self.root) else { continue };
            let error = explained(step, export.transport, error);
            self.remove(&[export.nqn()]).map_err(|undo| {
                let (noun, name) = (&export.volume.noun, &export.volume.name);
                Error::Failed(format!(
                    "{error}; then {undo}: `trimtab {noun} unexport {name}` tries again"
                ))
            })?;
            return Err(error);
        }
        Ok(())
    }

    /// Takes away the export of a volume of this name, or of this id, and what crashes left of it.
    /// Hosts that are connected lose the drive. Returns what was taken away.
    ///
    /// # Errors
    /// The kernel does not release something.
    pub fn unexport(
        &self,
        noun: &str,
        name: &str,
        uuid: Option<Uuid>,
    ) -> Result<Vec<Exported>, Error> {
        self.unexport_where(|exported| {
            let is_named = exported.name.as_deref() == Some(name);
            exported.noun == noun && (is_named || uuid.is_some() && exported.uuid == uuid)
        })
    }

    /// Takes away the export of this qualified name.
    ///
    /// # Errors
    /// The kernel does not release something.
    pub fn unexport_nqn(&self, nqn: &str) -> Result<Vec<Exported>, Error> {
        self.unexport_where(|exported| exported.nqn == nqn)
    }

    /// Takes away all exports of a kind of volume.
    ///
    /// # Errors
    /// The kernel does not release something.
    pub fn unexport_all(&self, noun: &str) -> Result<Vec<Exported>, Error> {
        self.unexport_where(|exported| exported.noun == noun)
    }

    fn unexport_where(&self, goes: impl Fn(&Exported) -> bool) -> Result<Vec<Exported>, Error> {
        if !self.root.exists() {
            return Ok(Vec::new());
        }
        let _lock = self.lock()?;
        let gone: Vec<_> = self.read()?.exported().into_iter().filter(goes).collect();
        let nqns: Vec<_> = gone.iter().map(|exported| exported.nqn.clone()).collect();
        self.remove(&nqns)?;
        Ok(gone)
    }

    /// Removes subsystems of ours. What cannot be removed does not keep the rest.
    fn remove(&self, nqns: &[String]) -> Result<(), Error> {
        let mut first = Ok(());
        for step in plan::take_down(nqns, &self.read()?) {
            let done = step.run(&self.root).map_err(|e| failed(&step, e));
            first = first.and(done);
        }
        first
    }

    fn read(&self) -> Result<Configured, Error> {
        Configured::read(&self.root)
    }

    /// Keeps other processes of trimtab from changing anything meanwhile. The lock goes with the
    /// process, and leaves nothing behind.
    fn lock(&self) -> Result<File, Error> {
        let directory = self.root.join("subsystems");
        let opened = File::open(&directory).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
                Error::Failed(lacking(&mounts, Path::new(CONFIGFS).exists()).to_owned())
            }
            _ => Error::system(format!("open {}", directory.display()))(error),
        })?;
        rustix::fs::flock(&opened, FlockOperation::LockExclusive)
            .map_err(|e| Error::system(format!("lock {}", directory.display()))(e.into()))?;
        Ok(opened)
    }
}

/// Why there is no NVMe target, and what to do.
fn lacking(mounts: &str, has_configfs: bool) -> &'static str {
    let is_mounted = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        (fields.next(), fields.next()) == (Some(CONFIGFS), Some("configfs"))
    };
    if mounts.lines().any(is_mounted) {
        "the kernel's NVMe target is not loaded: `modprobe nvmet`, on a kernel that has it"
    } else if has_configfs {
        "configfs is not mounted: `mount -t configfs configfs /sys/kernel/config`"
    } else {
        "this kernel has no configfs: `modprobe configfs`, on a kernel that has it"
    }
}

impl Step {
    fn run(&self, root: &Path) -> io::Result<()> {
        match self {
            Self::Make(path) => fs::create_dir(root.join(path)),
            Self::Write(path, value) => fs::write(root.join(path), value),
            Self::Link { at, to } => symlink(root.join(to), root.join(at)),
            Self::Unlink(path) => gone(fs::remove_file(root.join(path))),
            Self::Remove(path) => gone(fs::remove_dir(root.join(path))),
        }
    }
}

/// What another process has removed is removed.
fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn failed(step: &Step, error: io::Error) -> Error {
    let what = match step {
        Step::Make(path) => format!("make {}", path.display()),
        Step::Write(path, value) => format!("write `{value}` to {}", path.display()),
        Step::Link { at, .. } => format!("make the link {}", at.display()),
        Step::Unlink(path) | Step::Remove(path) => format!("remove {}", path.display()),
    };
    Error::system(format!("{what} of the NVMe target"))(error)
}

/// The error of a step of an export, in the user's terms. The kernel listens when a port is linked to.
fn explained(step: &Step, transport: Transport, error: io::Error) -> Error {
    let is_listening = matches!(step, Step::Link { at, .. } if at.starts_with("ports"));
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ADDRINUSE) if is_listening => Error::Failed(format!(
            "{transport}: the address is in use by another program, or in another network namespace: \
             choose another one by --listen"
        )),
        Some(Errno::ADDRNOTAVAIL) if is_listening => Error::BadInput(format!(
            "{transport}: this machine has no such address (see `ip address`)"
        )),
        // It loads the module itself where it may.
        Some(Errno::INVAL) if is_listening => Error::Failed(format!(
            "{transport}: the kernel has no such transport of the NVMe target: `modprobe {}`",
            transport.module()
        )),
        Some(Errno::ACCESS | Errno::PERM) => {
            Error::Failed("the NVMe target needs root: run it with sudo".to_owned())
        }
        _ => failed(step, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_named() {
        let mounted = "sysfs /sys sysfs rw 0 0\nconfigfs /sys/kernel/config configfs rw 0 0\n";
        assert!(lacking(mounted, true).contains("modprobe nvmet"));
        assert!(lacking("sysfs /sys sysfs rw 0 0\n", true).contains("mount -t configfs"));
        assert!(lacking("", false).contains("modprobe configfs"));
    }

    #[test]
    fn a_machine_without_target_has_no_exports() {
        let directory = tempfile::tempdir().unwrap();
        let target = Target { root: directory.path().join("nvmet") };
        assert_eq!(target.list().unwrap(), []);
        assert_eq!(target.unexport("array", "fast", None).unwrap(), []);
        assert_eq!(target.unexport_all("array").unwrap(), []);
    }

    #[test]
    fn refused_links_say_what_to_do() {
        let link = Step::Link { at: "ports/29184/subsystems/x".into(), to: "subsystems/x".into() };
        let tcp = Transport::Tcp("10.0.0.1:4420".parse().unwrap());
        let said = |errno: Errno| explained(&link, tcp, errno.into()).to_string();
        assert!(said(Errno::ADDRINUSE).contains("--listen"));
        assert!(said(Errno::ADDRNOTAVAIL).contains("no such address"));
        assert!(said(Errno::INVAL).contains("modprobe nvmet-tcp"));
        let other = Step::Make("subsystems/x".into());
        let said = explained(&other, tcp, Errno::INVAL.into()).to_string();
        assert!(said.contains("make subsystems/x"), "{said}");
    }
}
