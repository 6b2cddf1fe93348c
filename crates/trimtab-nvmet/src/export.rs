//! What is to be exported, how, and to which hosts.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::error::Error;
use crate::id::{PREFIX, Uuid, check_host_nqn};

/// What the model number of our subsystems begins with; the rest is the volume's name.
pub(crate) const MODEL: &str = "trimtab ";

/// A volume: an array, or an emulated drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// What it is, which is the command of its kind too: `array`, `drive`.
    pub noun: String,
    /// Its name on this machine, at most 32 characters. Hosts see it in the model number.
    pub name: String,
    /// What tells it from all others, wherever it is served.
    pub uuid: Uuid,
    /// Its block device.
    pub device: PathBuf,
}

impl Volume {
    /// The qualified name of its subsystem.
    #[must_use]
    pub fn nqn(&self) -> String {
        format!("{PREFIX}{}:{}", self.noun, self.uuid)
    }

    /// The subsystem's model number.
    pub(crate) fn model(&self) -> String {
        format!("{MODEL}{}", self.name)
    }

    /// The subsystem's serial number: at most 20 characters.
    pub(crate) fn serial(&self) -> String {
        self.uuid.digits()[..20].to_owned()
    }
}

/// How hosts reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// From this machine only, without a network.
    Loop,
    /// NVMe over TCP, listening on this address.
    Tcp(SocketAddr),
}

impl Transport {
    /// The address by which a loop port of ours is told from others.
    pub(crate) const LOOP_ADDRESS: &str = "trimtab";

    /// `addr_trtype`, `addr_adrfam`, `addr_traddr` and `addr_trsvcid` of a port.
    pub(crate) fn attributes(self) -> [(&'static str, String); 4] {
        let [kind, family, address, service] = match self {
            Self::Loop => ["loop", "loop", Self::LOOP_ADDRESS, ""].map(str::to_owned),
            Self::Tcp(address) => {
                let family = if address.is_ipv4() { "ipv4" } else { "ipv6" };
                ["tcp".to_owned(), family.to_owned(), ip(address), address.port().to_string()]
            }
        };
        [
            ("addr_trtype", kind),
            ("addr_adrfam", family),
            ("addr_traddr", address),
            ("addr_trsvcid", service),
        ]
    }

    /// The module that the kernel needs for it.
    pub(crate) const fn module(self) -> &'static str {
        match self {
            Self::Loop => "nvme-loop",
            Self::Tcp(_) => "nvmet-tcp",
        }
    }

    /// Whether other machines may reach it.
    fn is_open(self) -> bool {
        match self {
            Self::Loop => false,
            Self::Tcp(address) => !address.ip().is_loopback(),
        }
    }
}

/// The address without the port, with the scope of a link-local one.
fn ip(address: SocketAddr) -> String {
    match address {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
        _ => address.ip().to_string(),
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loop => f.write_str("loop"),
            Self::Tcp(address) => write!(f, "tcp {address}"),
        }
    }
}

/// Which hosts may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Any host, where only this machine reaches the address; otherwise it has to be said.
    Default,
    /// Any host that reaches the address.
    Any,
    /// Hosts of these qualified names only. NVMe does not prove these names: a host could lie.
    Hosts(Vec<String>),
}

/// An export that may be set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    pub(crate) volume: Volume,
    pub(crate) transport: Transport,
    /// `None`: any.
    pub(crate) hosts: Option<Vec<String>>,
}

impl Export {
    /// Checks what is asked for, without a look at the machine.
    ///
    /// # Errors
    /// The address is open to other machines and nothing says which hosts may connect; or a host's
    /// name is none.
    pub fn new(volume: Volume, transport: Transport, access: Access) -> Result<Self, Error> {
        let hosts = match access {
            Access::Default if transport.is_open() => {
                return Err(Error::BadInput(format!(
                    "{transport}: other machines may reach this address: --host NQN says which may \
                     connect (each has its NQN in /etc/nvme/hostnqn), --any-host that all may"
                )));
            }
            Access::Default | Access::Any => None,
            Access::Hosts(mut hosts) => {
                hosts.iter().try_for_each(|host| check_host_nqn(host))?;
                hosts.sort();
                hosts.dedup();
                Some(hosts)
            }
        };
        Ok(Self { volume, transport, hosts })
    }

    /// The qualified name by which hosts connect to it.
    #[must_use]
    pub fn nqn(&self) -> String {
        self.volume.nqn()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume() -> Volume {
        Volume {
            noun: "array".to_owned(),
            name: "a".repeat(32),
            uuid: "00112233-4455-6677-8899-aabbccddeeff".parse().unwrap(),
            device: "/dev/loop0".into(),
        }
    }

    #[test]
    fn names_fit_the_kernels_limits() {
        let volume = volume();
        // NVMET_MN_MAX_SIZE and NVMET_SN_MAX_SIZE.
        assert!(volume.model().len() <= 40 && volume.serial().len() <= 20);
        assert_eq!(
            volume.nqn(),
            "nqn.2026-11.internal.trimtab:array:00112233-4455-6677-8899-aabbccddeeff"
        );
    }

    #[test]
    fn open_addresses_need_hosts_or_consent() {
        let host = || Access::Hosts(vec!["nqn.2014-08.org.nvmexpress:uuid:a".to_owned()]);
        let tcp = |address: &str| Transport::Tcp(address.parse().unwrap());
        for open in ["10.0.0.1:4420", "0.0.0.0:4420", "[::]:4420", "[fe80::1]:4420"] {
            let error = Export::new(volume(), tcp(open), Access::Default).unwrap_err();
            assert!(error.is_bad_input() && error.to_string().contains("--host"), "{error}");
            assert_eq!(Export::new(volume(), tcp(open), Access::Any).unwrap().hosts, None);
            Export::new(volume(), tcp(open), host()).unwrap();
        }
        for closed in [Transport::Loop, tcp("127.0.0.1:4420"), tcp("[::1]:4420")] {
            assert_eq!(Export::new(volume(), closed, Access::Default).unwrap().hosts, None);
            assert!(Export::new(volume(), closed, host()).unwrap().hosts.is_some());
        }
        let lie = Access::Hosts(vec!["../..".to_owned()]);
        assert!(Export::new(volume(), Transport::Loop, lie).is_err());
    }
}
