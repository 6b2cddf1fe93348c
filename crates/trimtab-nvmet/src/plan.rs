//! Which directories, attributes and links make an export, and which of them to remove: planned from
//! what there is, without a change to anything.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::configured::{Configured, Exported, Namespace, Port, Subsystem};
use crate::error::Error;
use crate::export::{Export, Transport};
use crate::id::PREFIX;

/// Numbers of the ports that trimtab makes: high, so that those who number by hand do not meet them.
/// A port of these numbers without subsystems is what a crash left.
pub const PORTS: RangeInclusive<u16> = 29_184..=29_439;

/// The only namespace of our subsystems that hosts see. The others record hosts.
pub(crate) const NAMESPACE: &str = "1";
/// The number of the first namespace that records a host.
const FIRST_RECORD: usize = 2;

/// A change, with paths below the directory `nvmet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Makes a directory; the kernel fills it with attributes.
    Make(PathBuf),
    /// Writes an attribute.
    Write(PathBuf, String),
    /// Makes a symbolic link.
    Link { at: PathBuf, to: PathBuf },
    /// Removes a symbolic link.
    Unlink(PathBuf),
    /// Removes a directory with its attributes.
    Remove(PathBuf),
}

fn subsystem(nqn: &str) -> PathBuf {
    Path::new("subsystems").join(nqn)
}

fn port(number: impl ToString) -> PathBuf {
    Path::new("ports").join(number.to_string())
}

fn host(nqn: &str) -> PathBuf {
    Path::new("hosts").join(nqn)
}

/// The steps that set an export up. The link to the port is the last one: until then no host sees
/// anything of it. What a crash left of the same export is removed first.
///
/// # Errors
/// It is exported already, or the address belongs to a port that others have set up.
pub(crate) fn set_up(export: &Export, there: &Configured) -> Result<Vec<Step>, Error> {
    let nqn = export.nqn();
    let volume = &export.volume;
    let others = others_at(export.transport, there);
    if let Some(number) = others {
        return Err(Error::BadInput(format!(
            "{}: the NVMe target's port {number}, which trimtab has not set up, has this address: \
             choose another one by --listen",
            export.transport
        )));
    }
    let mut steps = match there.exported().into_iter().find(|exported| exported.nqn == nqn) {
        Some(Exported { is_complete: true, transport, .. }) => {
            let (noun, name, by) = (&volume.noun, &volume.name, transport.join(", "));
            return Err(Error::BadInput(format!(
                "`{name}`: the {noun} is exported already ({by}): `trimtab {noun} unexport {name}` first"
            )));
        }
        _ => take_down(std::slice::from_ref(&nqn), there),
    };
    let at = subsystem(&nqn);
    let write = |path: PathBuf, value: &str| Step::Write(path, value.to_owned());
    steps.push(Step::Make(at.clone()));
    // The name first: by it the rest is found after a crash.
    steps.push(write(at.join("attr_model"), &volume.model()));
    steps.push(write(at.join("attr_serial"), &volume.serial()));
    let namespace = at.join("namespaces").join(NAMESPACE);
    steps.push(Step::Make(namespace.clone()));
    steps.push(write(namespace.join("device_path"), &volume.device.to_string_lossy()));
    steps.push(write(namespace.join("device_uuid"), &volume.uuid.to_string()));
    steps.push(write(namespace.join("enable"), "1"));
    let any_host = if export.hosts.is_none() { "1" } else { "0" };
    steps.push(write(at.join("attr_allow_any_host"), any_host));
    for (number, allowed) in (FIRST_RECORD..).zip(export.hosts.iter().flatten()) {
        let entry = host(allowed);
        // A removed one is one that the same plan removes.
        let is_there = there.hosts.iter().any(|host| host.nqn == *allowed)
            && !steps.contains(&Step::Remove(entry.clone()));
        let is_ours =
            there.subsystems.iter().flat_map(Subsystem::recorded).any(|one| one == allowed);
        if !is_there || is_ours {
            // Before it is made: what a crash leaves is known by it.
            let record = at.join("namespaces").join(number.to_string());
            steps.push(Step::Make(record.clone()));
            steps.push(write(record.join("device_path"), allowed));
        }
        if !is_there {
            steps.push(Step::Make(entry.clone()));
        }
        steps.push(Step::Link { at: at.join("allowed_hosts").join(allowed), to: entry });
    }
    let number = port_for(export.transport, there, &mut steps)?;
    steps.push(Step::Link { at: number.join("subsystems").join(&nqn), to: at });
    Ok(steps)
}

/// A port of ours with this address: one that is there, or one that these steps make.
fn port_for(
    transport: Transport,
    there: &Configured,
    steps: &mut Vec<Step>,
) -> Result<PathBuf, Error> {
    let address = transport.attributes();
    let is_removed = |there: &Port| steps.contains(&Step::Remove(port(&there.number)));
    let known = there.ports.iter().filter(|port| is_ours(port) && !is_removed(port));
    if let Some(shared) = known.clone().find(|port| has_address(port, transport)) {
        return Ok(port(&shared.number));
    }
    let is_free = |number: &u16| known.clone().all(|port| port.number != number.to_string());
    let Some(number) = PORTS.into_iter().find(is_free) else {
        let why = "all ports that trimtab uses of the NVMe target are taken: unexport something";
        return Err(Error::Failed(why.to_owned()));
    };
    let at = port(number);
    steps.push(Step::Make(at.clone()));
    steps.extend(address.map(|(name, value)| Step::Write(at.join(name), value)));
    Ok(at)
}

fn is_ours(port: &Port) -> bool {
    port.number.parse().is_ok_and(|number| PORTS.contains(&number))
}

fn has_address(port: &Port, transport: Transport) -> bool {
    port.address == transport.attributes().map(|(_, value)| value)
}

/// The number of a port at the same address that is not ours.
fn others_at(transport: Transport, there: &Configured) -> Option<&str> {
    let same = there.ports.iter().find(|port| !is_ours(port) && has_address(port, transport));
    same.map(|port| port.number.as_str())
}

/// The steps that take subsystems of ours away, and what a crash left at our ports.
///
/// Hosts are cut off first. A port goes with its last subsystem, and stays if others have linked
/// theirs to it. An entry for a host goes if it was made here, no other subsystem refers to it, and others
/// have given it no key.
pub(crate) fn take_down(nqns: &[String], there: &Configured) -> Vec<Step> {
    let goes = |nqn: &String| nqns.contains(nqn) && nqn.starts_with(PREFIX);
    let mut steps = Vec::new();
    for from in &there.ports {
        let (gone, stays): (Vec<_>, Vec<_>) = from.subsystems.iter().partition(|nqn| goes(nqn));
        let links = port(&from.number).join("subsystems");
        steps.extend(gone.into_iter().map(|nqn| Step::Unlink(links.join(nqn))));
        if is_ours(from) && stays.is_empty() {
            steps.push(Step::Remove(port(&from.number)));
        }
    }
    let (gone, stay): (Vec<_>, Vec<_>) = there.subsystems.iter().partition(|one| goes(&one.nqn));
    for one in &gone {
        disconnect(one, &mut steps);
    }
    for entry in &there.hosts {
        let is_ours = gone.iter().any(|one| one.recorded().any(|host| host == entry.nqn));
        let is_used = stay.iter().any(|one| one.refers_to(&entry.nqn));
        if is_ours && !is_used && !entry.has_key {
            steps.push(Step::Remove(host(&entry.nqn)));
        }
    }
    for one in &gone {
        // Behind the hosts that they record.
        let records = one.namespaces.iter().filter(|one| one.number != NAMESPACE);
        steps.extend(records.map(|record| Step::Remove(namespace(one, record))));
        steps.push(Step::Remove(subsystem(&one.nqn)));
    }
    steps
}

fn namespace(of: &Subsystem, which: &Namespace) -> PathBuf {
    subsystem(&of.nqn).join("namespaces").join(&which.number)
}

/// Removes all that a subsystem refers to.
fn disconnect(one: &Subsystem, steps: &mut Vec<Step>) {
    let at = subsystem(&one.nqn);
    for exported in one.namespaces.iter().filter(|one| one.number == NAMESPACE) {
        let path = namespace(one, exported);
        if exported.enabled {
            steps.push(Step::Write(path.join("enable"), "0".to_owned()));
        }
        steps.push(Step::Remove(path));
    }
    let allowed = one.allowed.iter().map(|host| at.join("allowed_hosts").join(host));
    steps.extend(allowed.map(Step::Unlink));
}

#[cfg(test)]
mod tests;
