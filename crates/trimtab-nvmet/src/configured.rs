//! What configfs has of the NVMe target: read, not changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::Error;
use crate::export::MODEL;
use crate::id::{PREFIX, Uuid};
use crate::plan::NAMESPACE;

/// A subsystem: one NVMe drive, as hosts see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subsystem {
    pub(crate) nqn: String,
    pub(crate) model: String,
    pub(crate) any_host: bool,
    /// Hosts that may connect, if not any.
    pub(crate) allowed: Vec<String>,
    pub(crate) namespaces: Vec<Namespace>,
}

/// A namespace: one block device of a subsystem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Namespace {
    /// Its number, as its directory is named.
    pub(crate) number: String,
    pub(crate) device: String,
    pub(crate) uuid: String,
    pub(crate) enabled: bool,
}

/// A port: an address at which the target listens while subsystems are linked to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Port {
    /// Its number, as its directory is named.
    pub(crate) number: String,
    /// `addr_trtype`, `addr_adrfam`, `addr_traddr`, `addr_trsvcid`.
    pub(crate) address: [String; 4],
    /// The subsystems that are linked to it.
    pub(crate) subsystems: Vec<String>,
}

/// An entry for a host that some subsystem may allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) nqn: String,
    /// It must prove its name by a key that is kept here.
    pub(crate) has_key: bool,
}

/// Everything that the target is configured to do, by trimtab and others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    pub(crate) subsystems: Vec<Subsystem>,
    pub(crate) ports: Vec<Port>,
    pub(crate) hosts: Vec<Host>,
}

/// A volume that trimtab has exported, or had begun to when it was killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// The subsystem's qualified name, by which hosts connect.
    pub nqn: String,
    /// What the volume is: `array`, `drive`.
    #[serde(skip)]
    pub noun: String,
    /// The volume's name; `None` if the export was killed before it had one.
    #[serde(skip)]
    pub name: Option<String>,
    /// The volume's id, which is the namespace's.
    pub uuid: Option<Uuid>,
    /// The volume's block device.
    pub device: Option<PathBuf>,
    /// How hosts reach it: `loop`, `tcp 127.0.0.1:4420`. Empty if it is not linked to a port.
    pub transport: Vec<String>,
    /// The hosts that may connect; `None`: any.
    pub hosts: Option<Vec<String>>,
    /// Whether hosts can connect: otherwise setting it up, or taking it down, was cut short.
    pub is_complete: bool,
}

impl Configured {
    /// Reads it from the directory `nvmet` of configfs. A kernel without NVMe target has nothing.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(root: &Path) -> Result<Self, Error> {
        let failed = || Error::system(format!("read {}", root.display()));
        Ok(Self {
            subsystems: each(&root.join("subsystems"), subsystem).map_err(failed())?,
            ports: each(&root.join("ports"), port).map_err(failed())?,
            hosts: each(&root.join("hosts"), host).map_err(failed())?,
        })
    }

    /// What trimtab exports.
    #[must_use]
    pub fn exported(&self) -> Vec<Exported> {
        self.subsystems.iter().filter_map(|subsystem| self.exported_as(subsystem)).collect()
    }

    fn exported_as(&self, subsystem: &Subsystem) -> Option<Exported> {
        let (noun, uuid) = subsystem.nqn.strip_prefix(PREFIX)?.split_once(':')?;
        let ports = self.ports.iter().filter(|port| port.subsystems.contains(&subsystem.nqn));
        let transport: Vec<_> = ports.map(Port::shown).collect();
        let device = subsystem.namespaces.iter().find(|one| one.number == NAMESPACE);
        let device = device.filter(|namespace| !namespace.device.is_empty());
        let is_enabled = subsystem.namespaces.iter().any(|namespace| namespace.enabled);
        Some(Exported {
            nqn: subsystem.nqn.clone(),
            noun: noun.to_owned(),
            name: subsystem.model.strip_prefix(MODEL).map(str::to_owned),
            uuid: uuid.parse().ok(),
            device: device.map(|namespace| PathBuf::from(&namespace.device)),
            is_complete: is_enabled && !transport.is_empty(),
            transport,
            hosts: (!subsystem.any_host).then(|| subsystem.allowed.clone()),
        })
    }
}

impl Subsystem {
    /// The hosts of ours whose entries trimtab has made, or was about to: each is recorded as the device
    /// of a namespace that is not enabled.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = &str> {
        let others = self.namespaces.iter().filter(|one| one.number != NAMESPACE);
        others.map(|one| one.device.as_str()).filter(|_| self.nqn.starts_with(PREFIX))
    }

    /// Whether it refers to a host, or is about to.
    pub(crate) fn refers_to(&self, host: &str) -> bool {
        self.allowed.iter().any(|one| one == host) || self.recorded().any(|one| one == host)
    }
}

impl Port {
    /// Its address as `--listen` takes it, after its transport.
    pub(crate) fn shown(&self) -> String {
        let [kind, family, address, service] = &self.address;
        match (kind.as_str(), family.as_str()) {
            ("loop", _) => kind.clone(),
            (_, "ipv6") => format!("{kind} [{address}]:{service}"),
            _ => format!("{kind} {address}:{service}"),
        }
    }
}

/// The entries of a directory, by name; none if there is no such directory, or if one goes meanwhile.
fn each<T>(directory: &Path, read: impl Fn(&Path, String) -> T) -> io::Result<Vec<T>> {
    let mut names = names(directory)?;
    names.sort();
    Ok(names.into_iter().map(|name| read(&directory.join(&name), name)).collect())
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect()
}

fn sorted_names(directory: &Path) -> Vec<String> {
    let mut names = names(directory).unwrap_or_default();
    names.sort();
    names
}

fn attribute(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).unwrap_or_default().trim().to_owned()
}

fn subsystem(directory: &Path, nqn: String) -> Subsystem {
    Subsystem {
        nqn,
        model: attribute(directory, "attr_model"),
        any_host: attribute(directory, "attr_allow_any_host") == "1",
        allowed: sorted_names(&directory.join("allowed_hosts")),
        namespaces: each(&directory.join("namespaces"), namespace).unwrap_or_default(),
    }
}

fn namespace(directory: &Path, number: String) -> Namespace {
    let device = attribute(directory, "device_path");
    Namespace {
        number,
        // As the kernel shows a path that has not been set.
        device: if device == "(null)" { String::new() } else { device },
        uuid: attribute(directory, "device_uuid"),
        enabled: attribute(directory, "enable") == "1",
    }
}

fn port(directory: &Path, number: String) -> Port {
    let address = ["addr_trtype", "addr_adrfam", "addr_traddr", "addr_trsvcid"];
    Port {
        number,
        address: address.map(|name| attribute(directory, name)),
        subsystems: sorted_names(&directory.join("subsystems")),
    }
}

fn host(directory: &Path, nqn: String) -> Host {
    Host { nqn, has_key: !attribute(directory, "dhchap_key").is_empty() }
}
