//! Stacked devices for tests: removed when dropped, before the devices below.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Feature, REAL_DISKS, requires, run, skip};

/// A name that no other test has.
fn unused_name(kind: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("trimtab-{kind}-{}-{}", process::id(), NUMBER.fetch_add(1, Relaxed))
}

/// Whether devices of this kind can be made here: with these programs, and these modules of
/// the kernel, which are loaded. If not, the test is skipped.
#[must_use]
#[track_caller]
pub fn can_make(programs: &[&'static str], modules: &[&str]) -> bool {
    let programs: Vec<_> = programs.iter().map(|&program| Feature::Program(program)).collect();
    if !requires(&[REAL_DISKS, &programs].concat()) {
        return false;
    }
    let missing = modules.iter().find(|module| !has_module(module));
    if let Some(module) = missing {
        skip(Feature::Kernel, &format!("needs the kernel module {module}"));
    }
    missing.is_none()
}

/// Whether the kernel has a module, which is loaded.
#[must_use]
pub fn has_module(module: &str) -> bool {
    let loaded = Command::new("modprobe").arg(module).output();
    loaded.is_ok_and(|output| output.status.success())
}

fn wait_for(path: &str) {
    let begun = Instant::now();
    while !Path::new(path).exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{path} does not appear");
        thread::sleep(Duration::from_millis(20));
    }
    // What udev reads of it is not to be counted.
    _ = Command::new("udevadm").args(["settle", "--timeout=30"]).output();
}

/// Runs a command that takes down a device; tried again while something, udev mostly, has it
/// open.
fn take_down(program: &str, args: &[&str]) {
    for _ in 0..100 {
        let output = Command::new(program).args(args).output();
        if output.is_ok_and(|output| output.status.success()) {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// A device-mapper device.
pub struct Mapped {
    /// `/dev/mapper/…`
    pub path: String,
    name: String,
}

impl Mapped {
    /// A device with this table.
    #[must_use]
    pub fn new(table: &str) -> Self {
        let name = unused_name("dm");
        run("dmsetup", &["create", &name, "--table", table]);
        Self::named(name)
    }

    /// A device with tables of one row each that follow each other: length and rule.
    #[must_use]
    pub fn of_rows(rows: &[(u64, String)]) -> Self {
        let mut start = 0;
        let mut table = String::new();
        for (sectors, rule) in rows {
            table += &format!("{start} {sectors} {rule}\n");
            start += sectors;
        }
        Self::new(&table)
    }

    /// What reads and writes this device encrypted, from this sector of it on.
    #[must_use]
    pub fn encrypted(path: &str, sector: u64) -> Self {
        let name = unused_name("crypt");
        let directory = tempfile::tempdir().expect("a temporary directory");
        let key = directory.path().join("key");
        fs::write(&key, [7; 64]).expect("it is written");
        let key = key.to_str().expect("a temporary file's name");
        let offset = format!("--offset={sector}");
        run(
            "cryptsetup",
            &[
                "open",
                "--batch-mode",
                "--type=plain",
                "--cipher=aes-xts-plain64",
                "--key-size=256",
                "--key-file",
                key,
                &offset,
                path,
                &name,
            ],
        );
        Self::named(name)
    }

    fn named(name: String) -> Self {
        let path = format!("/dev/mapper/{name}");
        wait_for(&path);
        Self { path, name }
    }

    /// Has this table from now on.
    pub fn reload(&self, table: &str) {
        run("dmsetup", &["load", &self.name, "--table", table]);
        run("dmsetup", &["resume", &self.name]);
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        take_down("dmsetup", &["remove", &self.name]);
    }
}

/// A volume group of LVM.
pub struct VolumeGroup {
    name: String,
    members: Vec<String>,
}

impl VolumeGroup {
    /// A group of these devices.
    #[must_use]
    pub fn new(members: &[&str]) -> Self {
        let name = unused_name("vg").replace('-', "_");
        let members: Vec<_> = members.iter().map(|&member| member.to_owned()).collect();
        let paths: Vec<_> = members.iter().map(String::as_str).collect();
        run("vgcreate", &[&["-y", "--physicalextentsize=1m", &name], &paths[..]].concat());
        Self { name, members }
    }

    /// A volume that lives as long as the group. Returns its path. The arguments give its size
    /// and type.
    #[must_use]
    pub fn volume(&self, name: &str, args: &[&str]) -> String {
        run("lvcreate", &[&["-y", "-Wn", "-Zn", "--name", name], args, &[&self.name]].concat());
        let path = format!("/dev/{}/{name}", self.name);
        wait_for(&path);
        path
    }
}

impl Drop for VolumeGroup {
    fn drop(&mut self) {
        take_down("vgremove", &["-f", "-y", &self.name]);
        let paths: Vec<_> = self.members.iter().map(String::as_str).collect();
        take_down("pvremove", &[&["-f", "-y"], &paths[..]].concat());
    }
}

/// An array of md.
pub struct Array {
    /// `/dev/md…`
    pub path: String,
    members: Vec<String>,
}

impl Array {
    /// An array of these devices; the arguments give its level and layout.
    #[must_use]
    pub fn new(args: &[&str], members: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(300);
        let path = format!("/dev/md{}", NUMBER.fetch_add(1, Relaxed));
        let count = format!("--raid-devices={}", members.len());
        let fixed = ["--create", &path, "--run", "--force", "--metadata=1.2", &count];
        run("mdadm", &[&fixed, args, members].concat());
        wait_for(&path);
        Self { path, members: members.iter().map(|&member| member.to_owned()).collect() }
    }

    /// Takes a member for broken.
    pub fn fail(&self, member: &str) {
        run("mdadm", &[&self.path, "--fail", member]);
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        take_down("mdadm", &["--stop", &self.path]);
        for member in &self.members {
            take_down("mdadm", &["--zero-superblock", member]);
        }
    }
}

/// What [`Multipath`] needs of the kernel.
pub const MULTIPATH_MODULES: [&str; 2] = ["nvmet-tcp", "nvme-tcp"];

/// A namespace of NVMe with a path or two, on a device of this machine.
pub struct Multipath {
    /// `/dev/nvme…`, the head.
    pub path: String,
    /// The subsystem's name.
    name: String,
    ports: Vec<String>,
}

const NVMET: &str = "/sys/kernel/config/nvmet";

fn set(path: &str, value: &str) {
    fs::write(path, value).unwrap_or_else(|e| panic!("{path} = {value}: {e}"));
}

impl Multipath {
    /// A namespace with one path to this device.
    #[must_use]
    pub fn new(device: &str) -> Self {
        if !Path::new(NVMET).exists() {
            _ = Command::new("mount")
                .args(["-t", "configfs", "none", "/sys/kernel/config"])
                .output();
        }
        let name = unused_name("nvme");
        let subsystem = format!("{NVMET}/subsystems/{name}");
        let namespace = format!("{subsystem}/namespaces/1");
        fs::create_dir(&subsystem).expect("a subsystem");
        set(&format!("{subsystem}/attr_allow_any_host"), "1");
        fs::create_dir(&namespace).expect("a namespace");
        set(&format!("{namespace}/device_path"), device);
        set(&format!("{namespace}/enable"), "1");
        let mut this = Self { path: String::new(), name, ports: Vec::new() };
        this.add_path();
        this.path = this.head();
        wait_for(&this.path);
        this
    }

    /// Another path to the same: over TCP, within this machine.
    pub fn add_path(&mut self) {
        static PORT: AtomicU32 = AtomicU32::new(24_420);
        let number = PORT.fetch_add(1, Relaxed);
        let port = format!("{NVMET}/ports/{number}");
        fs::create_dir(&port).expect("a port");
        for (what, value) in [
            ("trtype", "tcp"),
            ("adrfam", "ipv4"),
            ("traddr", "127.0.0.1"),
            ("trsvcid", &number.to_string()),
        ] {
            set(&format!("{port}/addr_{what}"), value);
        }
        let link = format!("{port}/subsystems/{}", self.name);
        std::os::unix::fs::symlink(format!("{NVMET}/subsystems/{}", self.name), link)
            .expect("the port has it");
        self.ports.push(port);
        let mut fabrics =
            OpenOptions::new().read(true).write(true).open("/dev/nvme-fabrics").expect("fabrics");
        let options = format!("transport=tcp,traddr=127.0.0.1,trsvcid={number},nqn={}", self.name);
        fabrics.write_all(options.as_bytes()).expect("a connection");
    }

    /// Says of the path with this index how good it is: `non-optimized`.
    pub fn set_state(&self, path: usize, state: &str) {
        set(&format!("{}/ana_groups/1/ana_state", self.ports[path]), state);
    }

    /// The head's name is that of the subsystem's only namespace.
    fn head(&self) -> String {
        let begun = Instant::now();
        loop {
            for controller in self.controllers() {
                for entry in fs::read_dir(controller).into_iter().flatten().flatten() {
                    let name = entry.file_name().into_string().unwrap_or_default();
                    // Of `nvme0c1n1`, `nvme0n1`.
                    let parts = name.strip_prefix("nvme").and_then(|rest| rest.split_once('c'));
                    if let Some((subsystem, rest)) = parts
                        && let Some((_, namespace)) = rest.split_once('n')
                    {
                        return format!("/dev/nvme{subsystem}n{namespace}");
                    }
                }
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "there is no path");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The directories of its controllers.
    fn controllers(&self) -> Vec<String> {
        let entries = fs::read_dir("/sys/class/nvme").into_iter().flatten().flatten();
        let paths = entries.filter_map(|entry| entry.path().to_str().map(ToOwned::to_owned));
        let is_its = |path: &String| {
            fs::read_to_string(format!("{path}/subsysnqn")).is_ok_and(|nqn| nqn.trim() == self.name)
        };
        paths.filter(is_its).collect()
    }
}

impl Drop for Multipath {
    fn drop(&mut self) {
        for controller in self.controllers() {
            _ = fs::write(format!("{controller}/delete_controller"), "1");
        }
        for port in &self.ports {
            _ = fs::remove_file(format!("{port}/subsystems/{}", self.name));
            _ = fs::remove_dir(port);
        }
        let subsystem = format!("{NVMET}/subsystems/{}", self.name);
        _ = fs::write(format!("{subsystem}/namespaces/1/enable"), "0");
        _ = fs::remove_dir(format!("{subsystem}/namespaces/1"));
        _ = fs::remove_dir(subsystem);
    }
}

/// Opens a device past the page cache.
#[must_use]
pub fn open_direct(path: &str) -> File {
    use std::os::unix::fs::OpenOptionsExt as _;
    const O_DIRECT: i32 = 0o40000;
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).custom_flags(O_DIRECT).open(path);
    opened.unwrap_or_else(|e| panic!("{path}: {e}"))
}
