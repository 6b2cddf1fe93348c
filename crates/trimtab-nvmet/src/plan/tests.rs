//! Plans, carried out in a directory that stands for configfs: with the attributes and default groups
//! that the kernel makes, and its rules about what may be done when. The kernel itself is asked by
//! crates/trimtab/tests/array_nvme.rs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path};

use proptest::prelude::*;

use super::*;
use crate::export::{Access, Volume};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:host";
const OTHER_HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:other";
const UNUSED_HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:unused";
const FOREIGN: &str = "nqn.2014-08.org.nvmexpress:uuid:foreign";

/// A directory that stands for `nvmet` of configfs.
struct StandIn(tempfile::TempDir);

fn kind(path: &Path) -> Vec<&str> {
    path.components()
        .map(|part| match part {
            Component::Normal(part) => part.to_str().unwrap(),
            _ => panic!("{path:?}"),
        })
        .collect()
}

impl StandIn {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["subsystems", "ports", "hosts"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        Self(directory)
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn there(&self) -> Configured {
        Configured::read(self.root()).unwrap()
    }

    fn run(&self, steps: &[Step]) {
        steps.iter().for_each(|step| self.step(step));
    }

    fn step(&self, step: &Step) {
        let root = self.root();
        match step {
            Step::Make(path) => self.make(path),
            Step::Write(path, value) => self.write(path, value),
            Step::Link { at, to } => {
                assert!(root.join(to).is_dir(), "{to:?} is not there");
                if let ["subsystems", nqn, "allowed_hosts", _] = kind(at)[..] {
                    let subsystem = self.subsystem(nqn);
                    assert!(!subsystem.any_host, "hosts are not added where any may connect");
                }
                symlink(root.join(to), root.join(at)).unwrap();
            }
            Step::Unlink(path) => fs::remove_file(root.join(path)).unwrap(),
            Step::Remove(path) => self.remove(path),
        }
    }

    fn subsystem(&self, nqn: &str) -> Subsystem {
        self.there().subsystems.into_iter().find(|one| one.nqn == nqn).unwrap()
    }

    fn is_listening(&self, number: &str) -> bool {
        let there = self.there();
        there.ports.iter().any(|port| port.number == number && !port.subsystems.is_empty())
    }

    fn make(&self, path: &Path) {
        let (attributes, groups): (&[(&str, &str)], &[&str]) = match kind(path)[..] {
            ["subsystems", _] => (
                &[("attr_model", "Linux"), ("attr_serial", "1"), ("attr_allow_any_host", "0")],
                &["namespaces", "allowed_hosts"],
            ),
            ["subsystems", _, "namespaces", _] => {
                (&[("device_path", "(null)"), ("device_uuid", "0"), ("enable", "0")], &[])
            }
            ["ports", _] => (
                &[
                    ("addr_trtype", ""),
                    ("addr_adrfam", ""),
                    ("addr_traddr", ""),
                    ("addr_trsvcid", ""),
                ],
                &["subsystems", "referrals"],
            ),
            ["hosts", _] => (&[("dhchap_key", "")], &[]),
            _ => panic!("the kernel has no {path:?}"),
        };
        let path = self.root().join(path);
        fs::create_dir(&path).unwrap();
        attributes.iter().for_each(|(name, value)| fs::write(path.join(name), value).unwrap());
        groups.iter().for_each(|name| fs::create_dir(path.join(name)).unwrap());
    }

    fn write(&self, path: &Path, value: &str) {
        let file = self.root().join(path);
        assert!(file.is_file(), "there is no attribute {path:?}");
        match kind(path)[..] {
            ["subsystems", _, "namespaces", _, "enable"] => {
                let device = fs::read_to_string(file.with_file_name("device_path")).unwrap();
                assert_ne!(device, "(null)", "a namespace is enabled without a device");
            }
            ["subsystems", _, "namespaces", _, _] => {
                let enabled = fs::read_to_string(file.with_file_name("enable")).unwrap();
                assert_eq!(enabled, "0", "{path:?} is written while the namespace is enabled");
            }
            ["subsystems", nqn, "attr_allow_any_host"] => {
                assert!(self.subsystem(nqn).allowed.is_empty() || value == "0");
            }
            ["ports", number, _] => assert!(!self.is_listening(number), "{path:?}: in use"),
            _ => {}
        }
        fs::write(file, value).unwrap();
    }

    /// rmdir of configfs: attributes and default groups go too, anything else stands in the way.
    fn remove(&self, path: &Path) {
        let at = self.root().join(path);
        match kind(path)[..] {
            ["subsystems", nqn] => {
                let linked = |port: &Port| port.subsystems.iter().any(|one| one == nqn);
                assert!(!self.there().ports.iter().any(linked), "{nqn} is linked");
            }
            ["hosts", nqn] => {
                let allows = |one: &Subsystem| one.allowed.iter().any(|host| host == nqn);
                assert!(!self.there().subsystems.iter().any(allows), "{nqn} is allowed");
            }
            _ => {}
        }
        for entry in fs::read_dir(&at).unwrap().flatten() {
            if entry.path().is_dir() {
                fs::remove_dir(entry.path()).unwrap();
            } else {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        fs::remove_dir(at).unwrap();
    }

    /// What others have set up.
    fn foreign(&self) {
        let namespace = Path::new("subsystems").join(FOREIGN).join("namespaces/1");
        self.run(&[
            Step::Make(subsystem(FOREIGN)),
            Step::Make(host(OTHER_HOST)),
            Step::Link {
                at: subsystem(FOREIGN).join("allowed_hosts").join(OTHER_HOST),
                to: host(OTHER_HOST),
            },
            Step::Make(namespace.clone()),
            Step::Write(namespace.join("device_path"), "/dev/sdz".to_owned()),
            Step::Write(namespace.join("enable"), "1".to_owned()),
            Step::Make(port(1)),
            Step::Write(port(1).join("addr_trtype"), "tcp".to_owned()),
            Step::Write(port(1).join("addr_adrfam"), "ipv4".to_owned()),
            Step::Write(port(1).join("addr_traddr"), "127.0.0.1".to_owned()),
            Step::Write(port(1).join("addr_trsvcid"), "4000".to_owned()),
            Step::Link { at: port(1).join("subsystems").join(FOREIGN), to: subsystem(FOREIGN) },
        ]);
    }
}

fn export(number: u8, transport: Transport, hosts: &[&str]) -> Export {
    let volume = Volume {
        noun: "array".to_owned(),
        name: format!("volume-{number}"),
        uuid: format!("{:032x}", u128::from(number) + 1).parse().unwrap(),
        device: format!("/dev/loop{number}").into(),
    };
    let access = match hosts {
        [] => Access::Any,
        hosts => Access::Hosts(hosts.iter().map(|&host| host.to_owned()).collect()),
    };
    Export::new(volume, transport, access).unwrap()
}

fn tcp(port: u16) -> Transport {
    Transport::Tcp(([127, 0, 0, 1], port).into())
}

#[test]
fn an_export_is_set_up_and_taken_down_completely() {
    for (transport, hosts) in [(Transport::Loop, &[][..]), (tcp(4420), &[HOST, OTHER_HOST][..])] {
        let machine = StandIn::new();
        machine.foreign();
        let before = machine.there();
        let export = export(1, transport, hosts);
        let steps = set_up(&export, &before).unwrap();
        assert!(matches!(steps.last(), Some(Step::Link { at, .. }) if at.starts_with("ports")));
        machine.run(&steps);
        let exported = machine.there().exported();
        let [exported] = &exported[..] else { panic!("{exported:?}") };
        assert!(exported.is_complete);
        assert_eq!(exported.transport, [transport.to_string()]);
        assert_eq!(exported.name.as_deref(), Some("volume-1"));
        assert_eq!(exported.uuid, Some(export.volume.uuid));
        assert_eq!(exported.hosts.as_ref().map(Vec::len), (!hosts.is_empty()).then_some(2));
        machine.run(&take_down(&[export.nqn()], &machine.there()));
        assert_eq!(machine.there(), before);
    }
}

#[test]
fn exports_at_one_address_share_a_port_until_the_last_goes() {
    let machine = StandIn::new();
    let [one, two] = [1, 2].map(|number| export(number, tcp(4420), &[HOST]));
    for export in [&one, &two] {
        machine.run(&set_up(export, &machine.there()).unwrap());
    }
    machine.run(&set_up(&export(3, tcp(4421), &[]), &machine.there()).unwrap());
    assert_eq!(machine.there().ports.len(), 2);
    machine.run(&take_down(&[one.nqn()], &machine.there()));
    // The other one refers to the host, and uses the port.
    assert_eq!((machine.there().ports.len(), machine.there().hosts.len()), (2, 1));
    machine.run(&take_down(&[two.nqn()], &machine.there()));
    assert_eq!((machine.there().ports.len(), machine.there().hosts.len()), (1, 0));
}

#[test]
fn what_is_there_already_is_refused() {
    let machine = StandIn::new();
    machine.foreign();
    let one = export(1, Transport::Loop, &[]);
    machine.run(&set_up(&one, &machine.there()).unwrap());
    let again = set_up(&export(1, tcp(4420), &[]), &machine.there()).unwrap_err();
    assert!(again.is_bad_input() && again.to_string().contains("exported already (loop)"));
    let occupied = set_up(&export(2, tcp(4000), &[]), &machine.there()).unwrap_err();
    assert!(occupied.is_bad_input() && occupied.to_string().contains("port 1"), "{occupied}");
}

#[test]
fn what_others_made_stays() {
    let machine = StandIn::new();
    machine.foreign();
    // Even if it is asked for.
    assert_eq!(take_down(&[FOREIGN.to_owned()], &machine.there()), []);
    // A port of ours to which others have linked theirs stays with that.
    let one = export(1, Transport::Loop, &[]);
    machine.run(&set_up(&one, &machine.there()).unwrap());
    let number = *PORTS.start();
    let link = port(number).join("subsystems").join(FOREIGN);
    machine.run(&[Step::Link { at: link, to: subsystem(FOREIGN) }]);
    machine.run(&take_down(&[one.nqn()], &machine.there()));
    let there = machine.there();
    assert_eq!(there.subsystems.len(), 1);
    assert!(there.ports.iter().any(|port| port.number == number.to_string()));
    // As an entry of a host does, also one that nothing refers to, ...
    machine.run(&[Step::Make(host(HOST))]);
    let shared = export(2, tcp(4420), &[HOST]);
    machine.run(&set_up(&shared, &machine.there()).unwrap());
    machine.run(&take_down(&[shared.nqn()], &machine.there()));
    assert!(machine.there().hosts.iter().any(|host| host.nqn == HOST));
    machine.run(&[Step::Remove(host(HOST))]);
    // ... and one that was made here, and must prove its name since.
    let keyed = export(2, tcp(4420), &[HOST]);
    machine.run(&set_up(&keyed, &machine.there()).unwrap());
    fs::write(machine.root().join(host(HOST)).join("dhchap_key"), "DHHC-1:00:x:").unwrap();
    machine.run(&take_down(&[keyed.nqn()], &machine.there()));
    assert!(machine.there().hosts.iter().any(|host| host.nqn == HOST));
}

#[test]
fn ports_run_out_with_a_clear_error() {
    let machine = StandIn::new();
    let mut there = machine.there();
    there.ports = PORTS
        .map(|number| Port {
            number: number.to_string(),
            subsystems: vec![FOREIGN.to_owned()],
            ..Port::default()
        })
        .collect();
    let error = set_up(&export(1, Transport::Loop, &[]), &there).unwrap_err();
    assert!(!error.is_bad_input() && error.to_string().contains("taken"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// However an export, or its end, is cut short: taking it down leaves what was there before, and
    /// exporting again works.
    #[test]
    fn nothing_is_left_of_what_was_cut_short(
        cut in 0_usize..30,
        cut_again in 0_usize..20,
        is_loop: bool,
        beside: bool,
        hosts in prop::sample::subsequence(vec![HOST, OTHER_HOST, UNUSED_HOST], 0..=3),
        hosts_beside in prop::sample::subsequence(vec![HOST, OTHER_HOST, UNUSED_HOST], 0..=3),
    ) {
        let machine = StandIn::new();
        machine.foreign();
        // No subsystem refers to it yet.
        machine.run(&[Step::Make(host(UNUSED_HOST))]);
        let transport = if is_loop { Transport::Loop } else { tcp(4420) };
        if beside {
            machine.run(&set_up(&export(2, transport, &hosts_beside), &machine.there()).unwrap());
        }
        let before = machine.there();
        let one = export(1, transport, &hosts);
        let steps = set_up(&one, &before).unwrap();
        machine.run(&steps[..cut.min(steps.len())]);
        let down = take_down(&[one.nqn()], &machine.there());
        machine.run(&down[..cut_again.min(down.len())]);
        machine.run(&take_down(&[one.nqn()], &machine.there()));
        prop_assert_eq!(&machine.there(), &before);
        machine.run(&set_up(&one, &machine.there()).unwrap());
        machine.run(&take_down(&[one.nqn()], &machine.there()));
        prop_assert_eq!(&machine.there(), &before);
        if beside {
            // Whichever goes last takes along what both have made.
            machine.run(&set_up(&one, &before).unwrap());
            machine.run(&take_down(&[export(2, transport, &[]).nqn()], &machine.there()));
            machine.run(&take_down(&[one.nqn()], &machine.there()));
        }
        prop_assert_eq!(machine.there().hosts.len(), if beside { 2 } else { before.hosts.len() });
    }
}
