//! Recovery from partial parity logs, before an array that was not stopped in order is used.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use trimtab_array::Layout;
use trimtab_block::DirectBuffer;
use trimtab_md::{MemberError, ParityUpdate, Superblock};
use trimtab_serve::Error;

use crate::member::MemberDevice;

/// A member and its superblock.
type Member<'a> = Option<(&'a MemberDevice, &'a Superblock)>;

/// What the logs said.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// Writes that were in the newest logs.
    pub(crate) entries: usize,
    /// What could not be used, one line each: stripes may not fit ...
    pub(crate) damaged: Vec<String>,
    /// ... of which these members have the parity.
    pub(crate) damaged_on: Vec<usize>,
}

/// The newest number of the logs of these members, and which of them has it.
pub(crate) fn generation<'a>(members: &[Member<'a>]) -> Option<(u64, &'a Path)> {
    let numbered = |(device, own): &(&'a MemberDevice, &'a Superblock)| {
        let (header, _) = device.metadata.ppl(own).ok()??;
        Some((header.generation, device.path.as_path()))
    };
    members.iter().flatten().filter_map(numbered).max()
}

/// Makes the parity fit where the logs say that writes were under way.
pub(crate) fn recover(layout: &Layout, members: &[Member<'_>]) -> Result<Recovered, Error> {
    let mut recovered = Recovered::default();
    let there = members.iter().enumerate();
    for (role, (device, own)) in there.filter_map(|(role, one)| Some((role, (*one)?))) {
        let (header, log) = match device.metadata.ppl(own) {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            Err(error @ MemberError::Ppl { .. }) => {
                recovered.damaged.push(error.to_string());
                recovered.damaged_on.push(role);
                continue;
            }
            Err(error) => return Err(Error::Failed(error.to_string())),
        };
        let plan = header.recovery(layout, &log, |member| members[member].is_some());
        recovered.entries += plan.updates.len() + plan.lost;
        let damaged =
            plan.damaged.iter().map(|error| format!("{}: {error}", device.path.display()));
        recovered.damaged.extend(damaged);
        if !plan.damaged.is_empty() {
            recovered.damaged_on.push(role);
        }
        for update in &plan.updates {
            let partial = update.partial.clone().map(|range| &log[range]);
            carry_out(update, partial, members).map_err(Error::system(format!(
                "recover from the partial parity log of {}",
                device.path.display()
            )))?;
        }
    }
    for (device, _) in members.iter().flatten() {
        let what = format!("flush {}", device.path.display());
        device.sync().map_err(Error::system(what))?;
    }
    Ok(recovered)
}

/// Makes the parity of the first stripe fit, of an array whose members are all there.
pub(crate) fn fit_first_stripe(layout: &Layout, members: &[Member<'_>]) -> Result<(), Error> {
    let Some(parity_member) = layout.p_member(0) else { return Ok(()) };
    let data = (0..layout.data_chunks()).map(|index| layout.data_member(0, index));
    let update = ParityUpdate {
        stripe: 0,
        parity_member,
        offset: 0,
        bytes: layout.chunk(),
        data_members: data.collect(),
        partial: None,
    };
    carry_out(&update, None, members).map_err(Error::system("resynchronise the first stripe"))?;
    match members[parity_member] {
        Some((device, _)) => device.sync().map_err(Error::system("flush the first stripe")),
        None => Ok(()),
    }
}

/// Parity is the partial parity and the data that the write was for, old or new as they are.
fn carry_out(
    update: &ParityUpdate,
    partial: Option<&[u8]>,
    members: &[Member<'_>],
) -> io::Result<()> {
    let length = update.bytes as usize;
    let (mut parity, mut data) = (DirectBuffer::new(length)?, DirectBuffer::new(length)?);
    let parity = parity.content(length);
    match partial {
        Some(partial) => parity.copy_from_slice(partial),
        None => parity.fill(0),
    }
    let at = |own: &Superblock| own.data_offset + update.offset;
    for (device, own) in update.data_members.iter().filter_map(|&member| members[member]) {
        let data = data.content(length);
        device.file().read_exact_at(data, at(own))?;
        parity.iter_mut().zip(data).for_each(|(parity, data)| *parity ^= *data);
    }
    match members[update.parity_member] {
        Some((device, own)) => device.file().write_all_at(parity, at(own)),
        None => Ok(()),
    }
}
