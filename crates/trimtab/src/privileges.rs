//! Giving up privileges that a command does not need.
//!
//! A command that is started as root has all capabilities, and keeps them for as long as it
//! runs. What it reads from drives, models and the network must not be able to use them.

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

/// Loading and running BPF programs. dist/trimtab-agent.service grants the same, and a test
/// compares the two.
pub(crate) const BPF: CapabilitySet = CapabilitySet::BPF.union(CapabilitySet::PERFMON);

/// Recording: the trace gets its name at the end, wherever root may write, and the command
/// that is recorded, under whatever user, is told to end.
pub(crate) const RECORD: CapabilitySet =
    BPF.union(CapabilitySet::DAC_OVERRIDE).union(CapabilitySet::FOWNER).union(CapabilitySet::KILL);

/// Gives up all capabilities but these, for good: in the bounding set too, and no program
/// that is executed from here on gains any (`no_new_privs`).
///
/// Capabilities belong to threads, and threads have those of the thread that began them: so
/// this comes before any other thread.
///
/// # Errors
/// The kernel refuses it, which it should do to nobody.
pub(crate) fn keep_only(kept: CapabilitySet) -> Result<()> {
    reduce(kept).context("cannot give up privileges")
}

fn reduce(kept: CapabilitySet) -> rustix::io::Result<()> {
    let CapabilitySets { effective, permitted, inheritable } = capabilities(None)?;
    // Without this one the bounding set stays as it is; no_new_privs makes it ineffective.
    if effective.contains(CapabilitySet::SETPCAP) {
        bound(kept)?;
    }
    clear_ambient_capability_set()?;
    // Not where there is nothing to give up: the systemd unit denies this call.
    if !kept.contains(effective | permitted | inheritable) {
        set_capabilities(
            None,
            CapabilitySets {
                effective: effective & kept,
                permitted: permitted & kept,
                inheritable: CapabilitySet::empty(),
            },
        )?;
    }
    set_no_new_privs(true)
}

/// Takes all others out of the bounding set, those too that only the kernel knows.
fn bound(kept: CapabilitySet) -> rustix::io::Result<()> {
    for capability in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        match capability_is_in_bounding_set(capability) {
            Ok(true) if !kept.contains(capability) => {
                remove_capability_from_bounding_set(capability)?;
            }
            Ok(_) => {}
            // Beyond the last one.
            Err(Errno::INVAL) => break,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
