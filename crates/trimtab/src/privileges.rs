//! Giving up privileges that a command does not need.
//!
//! A command started as root has all capabilities for as long as it runs. A flaw in parsing
//! data from drives, models or the network must not give access to them.

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

/// For recording. The trace is renamed at the end, in any directory that root may write, and
/// the recorded command, which may run as another user, is signalled to end.
pub(crate) const RECORD: CapabilitySet =
    BPF.union(CapabilitySet::DAC_OVERRIDE).union(CapabilitySet::FOWNER).union(CapabilitySet::KILL);

/// For running a program with a deadline. Files that it opens later are looked at wherever it
/// may open them, its control group is removed from a directory that not even its owner may
/// write, and signals are passed on to it, which may run as another user.
pub(crate) const RUN: CapabilitySet =
    BPF.union(CapabilitySet::DAC_OVERRIDE).union(CapabilitySet::KILL);

/// Gives up all capabilities but these, permanently: they leave the bounding set too, and
/// programs executed from here on gain none (`no_new_privs`).
///
/// Capabilities belong to threads, and a new thread inherits them. Call this before any other
/// thread starts.
///
/// # Errors
/// The kernel refuses, which is not expected for any user.
pub(crate) fn keep_only(kept: CapabilitySet) -> Result<()> {
    reduce(kept).context("cannot give up privileges")
}

fn reduce(kept: CapabilitySet) -> rustix::io::Result<()> {
    let CapabilitySets { effective, permitted, inheritable } = capabilities(None)?;
    // Without CAP_SETPCAP the bounding set stays as it is; no_new_privs makes it ineffective.
    if effective.contains(CapabilitySet::SETPCAP) {
        bound(kept)?;
    }
    clear_ambient_capability_set()?;
    // Skipped if there is nothing to give up: the systemd unit denies this call.
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

/// Removes all others from the bounding set, including those unknown to this program.
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
