//! The host's side of NVMe over Fabrics, for tests: connects as `nvme connect` does, by one line to the
//! kernel. And what the target has in configfs.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use trimtab_testdisk::{Feature, skip};

pub(crate) const TARGET: &str = "/sys/kernel/config/nvmet";

/// Whether the kernel has target and host, with both transports; otherwise a note.
pub(crate) fn has_nvme() -> bool {
    for module in ["nvmet", "nvmet-tcp", "nvme-tcp", "nvme-loop"] {
        _ = Command::new("modprobe").args(["-q", module]).status();
    }
    let modules = ["nvmet_tcp", "nvme_tcp", "nvme_loop"];
    let has = |module: &&str| Path::new("/sys/module").join(module).exists();
    let is_there = Path::new(TARGET).exists() && modules.iter().all(has);
    if !is_there {
        skip(Feature::Kernel, "needs the kernel's NVMe target, and NVMe over TCP and loop");
    }
    is_there
}

/// The names of all that others and trimtab have set up.
pub(crate) fn configured() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for kind in ["subsystems", "ports", "hosts"] {
        let entries = fs::read_dir(Path::new(TARGET).join(kind)).unwrap();
        found.extend(entries.flatten().map(|entry| entry.path()));
    }
    found.sort();
    found
}

/// A host, by its number.
#[derive(Clone, Copy)]
pub(crate) struct Host(pub(crate) u8);

impl Host {
    fn id(self) -> String {
        format!("00000000-0000-4000-8000-0000000000{:02x}", self.0)
    }

    pub(crate) fn nqn(self) -> String {
        format!("nqn.2014-08.org.nvmexpress:uuid:{}", self.id())
    }

    /// Connects to a subsystem. `by`: options of the kernel, as `transport=loop`.
    pub(crate) fn connect(self, nqn: &str, by: &str) -> io::Result<Connection> {
        let mut fabrics = File::options().read(true).write(true).open("/dev/nvme-fabrics")?;
        let line = format!("nqn={nqn},{by},hostnqn={},hostid={}", self.nqn(), self.id());
        fabrics.write_all(line.as_bytes())?;
        let mut reply = [0; 256];
        let length = fabrics.read(&mut reply)?;
        let reply = String::from_utf8_lossy(&reply[..length]).into_owned();
        let instance = reply.split(',').find_map(|part| part.trim().strip_prefix("instance="));
        let controller = format!("nvme{}", instance.expect("the kernel names the controller"));
        let uuid = nqn.rsplit(':').next().unwrap().to_owned();
        Ok(Connection { controller, uuid })
    }
}

/// A connection to a target. Ended when dropped.
pub(crate) struct Connection {
    controller: String,
    /// Of the namespace.
    uuid: String,
}

impl Connection {
    /// The block device, when the kernel has made it.
    pub(crate) fn device(&self) -> String {
        let begun = Instant::now();
        loop {
            if let Some(name) = self.name() {
                return format!("/dev/{name}");
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{}: no device", self.uuid);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn name(&self) -> Option<String> {
        let disks = fs::read_dir("/sys/block").unwrap().flatten();
        let mut names = disks.filter_map(|disk| {
            let uuid = fs::read_to_string(disk.path().join("uuid")).ok()?;
            let name = disk.file_name().into_string().ok()?;
            (uuid.trim() == self.uuid && Path::new("/dev").join(&name).exists()).then_some(name)
        });
        names.find(|name| name.starts_with("nvme"))
    }

    fn disconnect(&self) {
        let path = Path::new("/sys/class/nvme").join(&self.controller);
        _ = fs::write(path.join("delete_controller"), "1");
        let begun = Instant::now();
        while path.exists() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.disconnect();
    }
}
