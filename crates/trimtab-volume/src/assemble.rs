//! Arrays that members have.

use std::ops::Range;
use std::sync::Arc;

use trimtab_array::Layout;
use trimtab_md::{
    Assembly, Bitmap, Candidate, Consistency, DeviceRole, MemberState, Resync, Start, Superblock,
};
use trimtab_serve::Error;

use crate::doubt;
use crate::engine::Assembled;
use crate::guard::Shared;
use crate::keeper;
use crate::logs::Logs;
use crate::member::MemberDevice;
use crate::metadata::{Metadata, region_bytes, timestamp};
use crate::recover::{fit_first_stripe, generation, recover};
use crate::regions::Regions;
use crate::slots::{Slot, SlotState};
use crate::tasks::{Rebuild, Replace};

/// An array, and what was said about its members.
pub(crate) struct Found {
    pub(crate) array: Assembled,
    pub(crate) uuid: String,
    /// What became of devices that are no members now.
    pub(crate) lines: Vec<String>,
}

/// Puts the array together that these devices have. `force`: although data may be wrong. `is_wanted` is asked,
/// by its UUID, before anything is written.
pub(crate) fn assemble(
    devices: Vec<MemberDevice>,
    force: bool,
    is_wanted: impl FnOnce(&str) -> Result<(), Error>,
) -> Result<Found, Error> {
    let candidates = devices.iter().map(|device| device.metadata.candidate());
    let candidates: Vec<Candidate> =
        candidates.collect::<Result<_, _>>().map_err(|e| Error::Failed(e.to_string()))?;
    let assembly = Assembly::of(&candidates, None).map_err(|e| Error::BadInput(e.to_string()))?;
    // The newest may only be so because it is damaged.
    let events = superblock(&candidates, assembly.newest)?.events;
    check_count("superblock: events", events, &candidates[assembly.newest].name)?;
    check_start(&assembly, &candidates, force)?;
    let newest = superblock(&candidates, assembly.newest)?.clone();
    is_wanted(&newest.array_uuid.to_string())?;
    let layout = newest.array_layout().map_err(|e| Error::BadInput(e.to_string()))?;
    if newest.ppl_at().is_some_and(|(_, area)| !Logs::has_room(&layout, area)) {
        let why = "its partial parity logs are smaller than a chunk, which is not supported";
        return Err(Error::BadInput(format!("{}: {why}", candidates[assembly.newest].name)));
    }
    let mut lines = Vec::new();
    let by_role: Vec<_> = assembly
        .members
        .iter()
        .map(|&found| {
            let found = found?;
            Some((&devices[found], candidates[found].superblock.as_ref().ok()?))
        })
        .collect();
    let newest_log = generation(&by_role);
    if let Some((generation, member)) = newest_log {
        check_count("log: generation", generation, &member.display().to_string())?;
    }
    let generation = newest_log.map_or(0, |(generation, _)| generation);
    // By the parity of which members it may be wrong what is computed: any.
    let mut parity_on = None;
    let resync = match &assembly.resync {
        Resync::Ppl => recover_from_logs(&layout, &by_role, &mut lines, &mut parity_on)?,
        other => other.clone(),
    };
    let was_clean = newest.in_sync_to.is_none();
    let in_sync_to = match resync {
        Resync::None => None,
        Resync::From(start) => Some(start),
        _ => newest.in_sync_to,
    };
    let bitmap = candidates[assembly.newest].bitmap.clone();
    if bitmap.is_none() && matches!(newest.consistency, Consistency::Bitmap { .. }) {
        lines.push(format!(
            "{}: its write-intent bitmap is damaged, and is not used: {}",
            candidates[assembly.newest].name,
            if resync == Resync::None { "nothing needs it now" } else { "all is made equal" }
        ));
    }
    let bitmap = bitmap.filter(|bitmap| bitmap.header().sync_bytes == newest.size);
    let mut regions = Regions::new(region_bytes(&newest, bitmap.as_ref()), layout.member_bytes());
    let is_missing = |role: usize| by_role[role].is_none();
    let missing = (0..layout.members()).filter(|&role| is_missing(role)).count();
    let ranges = unsynced(&resync, bitmap.as_ref(), layout.member_bytes());
    let in_doubt = doubt::bytes(&layout, is_missing, ranges.iter().cloned(), parity_on.as_deref());
    lines.extend(doubt::line(in_doubt));
    for range in &ranges {
        match missing < layout.redundancy() {
            true => regions.set_unsynced(range),
            // Nothing is left that could be compared.
            false => regions.mark(range),
        }
    }
    // Bits that were set when the array was stopped without all members.
    let set = bitmap.iter().flat_map(Bitmap::dirty);
    set.for_each(|range| regions.mark(&(range.start..range.end.min(layout.member_bytes()))));

    let mut all: Vec<Option<MemberDevice>> = devices.into_iter().map(Some).collect();
    let mut slots: Vec<Slot> = (0..layout.members()).map(|_| Slot::default()).collect();
    let mut superblocks = vec![None; slots.len()];
    for (role, candidate) in assembly.members.iter().enumerate() {
        let Some(candidate) = *candidate else { continue };
        let own = superblock(&candidates, candidate)?.clone();
        slots[role] = slot(all[candidate].take(), &own, SlotState::Active);
        superblocks[role] = Some(Superblock {
            // What the newest says of the array is true of all.
            events: newest.events,
            in_sync_to,
            roles: newest.roles.clone(),
            is_replacement: false,
            ..own
        });
    }
    let mut metadata = Metadata::new(superblocks, bitmap);
    let replace = first_replace(&assembly, &candidates, &newest, &regions, &layout)?;
    if let Some((found, own, next)) = &replace {
        let place = slots.len();
        slots.push(slot(all[found.device].take(), own, SlotState::Replacing));
        _ = metadata.admit_replacement(place, found.role, own.clone());
        _ = metadata.rebuilt(place, Some(next * layout.chunk()));
    }
    let replace =
        replace.map(|(found, _, next)| Replace { role: found.role, place: layout.members(), next });
    // What is not there now must not be taken for a current member later.
    metadata.forget_absent();
    let mut rebuild = None;
    if let Some((found, own)) = first_rebuild(&assembly, &candidates, &newest) {
        let from = match assembly.states[found.device] {
            MemberState::Rebuilding { done_to, .. } if was_clean => done_to,
            // What it has may differ.
            _ => 0,
        };
        let next = from / layout.chunk();
        slots[found.role] = slot(all[found.device].take(), &own, SlotState::Rebuilding);
        _ = metadata.admit(found.role, own);
        _ = metadata.rebuilt(found.role, Some(next * layout.chunk()));
        let by_bitmap = found.by_bitmap && was_clean;
        rebuild = Some(Rebuild { role: found.role, next, by_bitmap });
    }
    for found in spares(&assembly, rebuild) {
        let Some(device) = all[found].take() else { continue };
        let mut own = superblock(&candidates, found)?.clone();
        // Its number may have been given to another one while it was away.
        if !metadata.is_free(own.device_number) {
            let Some(number) = metadata.free_number() else { continue };
            own.device_number = number;
        }
        slots.push(slot(Some(device), &own, SlotState::Spare));
        _ = metadata.admit_spare(slots.len() - 1, own);
    }
    lines.extend(absent(&slots[..layout.members()]));
    if newest.in_sync_to != in_sync_to {
        metadata.recovered();
    }
    start(&mut metadata, &slots)?;
    let logs = start_logs(&metadata, &slots, &layout, generation)?;
    let unused = assembly.lines().iter().zip(&all).filter(|(_, device)| device.is_some());
    lines.extend(unused.map(|(line, _)| line.clone()));
    let shared = Shared::new(regions);
    let array = Assembled { layout, slots, metadata, shared, rebuild, replace, logs, in_doubt };
    Ok(Found { array, uuid: newest.array_uuid.to_string(), lines })
}

/// What is counted on from here. No array counts so far that is not damaged.
fn check_count(what: &str, count: u64, name: &str) -> Result<(), Error> {
    if count <= u64::MAX >> 1 {
        return Ok(());
    }
    Err(Error::BadInput(format!(
        "{name}: {what} is {count}, which no array reaches: it is damaged; assemble the array without this member"
    )))
}

/// Says which members are not there.
fn absent(members: &[Slot]) -> Option<String> {
    let absent = members.iter().enumerate().filter(|(_, member)| member.device.is_none());
    let numbers: Vec<_> = absent.map(|(number, _)| number.to_string()).collect();
    let is = match numbers.len() {
        0 => return None,
        1 => "is",
        _ => "are",
    };
    let (missing, all, which) = (numbers.len(), members.len(), numbers.join(", "));
    Some(format!(
        "{missing} of {all} members {is} missing, in place {which}: `array add` takes another device \
         there"
    ))
}

/// What is left to be resynchronised after the recovery from partial parity logs: nothing, unless one is
/// damaged or all are empty. `damaged_on`: the members with damaged logs.
fn recover_from_logs(
    layout: &Layout,
    members: &[Option<(&MemberDevice, &Superblock)>],
    lines: &mut Vec<String>,
    damaged_on: &mut Option<Vec<usize>>,
) -> Result<Resync, Error> {
    let recovered = recover(layout, members)?;
    let is_done = recovered.damaged.is_empty() && recovered.entries > 0;
    lines.extend(recovered.damaged);
    if is_done {
        return Ok(Resync::None);
    }
    // If all are empty there may have been a resync that had not begun.
    *damaged_on = Some(recovered.damaged_on).filter(|members| !members.is_empty());
    if members.iter().any(Option::is_none) {
        return Ok(Resync::Ppl);
    }
    // The superblocks must not say 0: after a crash the logs that are written from now on would be
    // taken for all that has to be done.
    fit_first_stripe(layout, members)?;
    Ok(Resync::From(layout.chunk()))
}

/// Empties the partial parity logs: their stripes fit, or are resynchronised.
fn start_logs(
    metadata: &Metadata,
    slots: &[Slot],
    layout: &Layout,
    generation: u64,
) -> Result<Option<Logs>, Error> {
    let next = generation + 1;
    let mut logs = None;
    for (place, slot) in slots.iter().enumerate() {
        let (Some(device), Some(own)) = (&slot.device, metadata.superblock(place)) else {
            continue;
        };
        let written = device.metadata.write_empty_ppl(own, next);
        written.map_err(|error| Error::Failed(error.to_string()))?;
        logs = logs.or_else(|| Logs::new(*layout, own, next));
    }
    Ok(logs)
}

fn superblock(candidates: &[Candidate], index: usize) -> Result<&Superblock, Error> {
    candidates[index].superblock.as_ref().map_err(|error| Error::Failed(error.to_string()))
}

fn slot(device: Option<MemberDevice>, own: &Superblock, state: SlotState) -> Slot {
    let device = device.map(Arc::new);
    Slot { device, state, data_offset: own.data_offset, ..Slot::default() }
}

/// The first device that replaces a member, its superblock, and the first stripe that it lacks. Where
/// the members may differ it may differ from them.
fn first_replace(
    assembly: &Assembly,
    candidates: &[Candidate],
    newest: &Superblock,
    regions: &Regions,
    layout: &Layout,
) -> Result<Option<(trimtab_md::Rebuild, Superblock, u64)>, Error> {
    let Some(found) = assembly.replacements.first() else { return Ok(None) };
    let own = superblock(candidates, found.device)?.clone();
    let agrees_to = match (newest.in_sync_to, newest.consistency) {
        (None, _) => layout.member_bytes(),
        (_, Consistency::Bitmap { .. }) => regions.next_marked(0),
        _ => 0,
    };
    Ok(Some((*found, own, found.from.min(agrees_to) / layout.chunk())))
}

/// The first member that can be rebuilt, if the array runs without it. What failed does not come back
/// by itself.
fn first_rebuild(
    assembly: &Assembly,
    candidates: &[Candidate],
    newest: &Superblock,
) -> Option<(trimtab_md::Rebuild, Superblock)> {
    if !matches!(assembly.start, Start::Degraded { .. } | Start::DirtyDegraded { .. }) {
        return None;
    }
    let mut rebuilds = assembly.rebuilds.iter();
    rebuilds.find_map(|rebuild| {
        // Spares are taken in while the array runs.
        if assembly.states[rebuild.device] == MemberState::Spare {
            return None;
        }
        let own = candidates[rebuild.device].superblock.as_ref().ok()?;
        let is_faulty = newest.role_of(own.device_number) == DeviceRole::Faulty;
        (!is_faulty).then(|| (*rebuild, own.clone()))
    })
}

/// The devices that wait as spares: also those that were being rebuilt, until it is their turn.
fn spares(assembly: &Assembly, rebuild: Option<Rebuild>) -> Vec<usize> {
    let is_spare = |&index: &usize| match assembly.states[index] {
        MemberState::Spare => true,
        MemberState::Rebuilding { role, .. } => rebuild.is_none_or(|one| one.role != role),
        _ => false,
    };
    (0..assembly.states.len()).filter(is_spare).collect()
}

/// Every device that was given is to be of the array: without one that only looks so it would lose redundancy, and
/// count on without it.
fn check_usable(assembly: &Assembly) -> Result<(), Error> {
    let is_none = |state: &MemberState| {
        matches!(
            state,
            MemberState::Unusable(_) | MemberState::Differs { .. } | MemberState::TooSmall { .. }
        )
    };
    match assembly.states.iter().position(is_none) {
        Some(index) => Err(Error::BadInput(format!(
            "{}: assemble the array without it, or with --force",
            assembly.lines()[index]
        ))),
        None => Ok(()),
    }
}

fn check_start(assembly: &Assembly, candidates: &[Candidate], force: bool) -> Result<(), Error> {
    let lines = assembly.lines().join("; ");
    match &assembly.start {
        Start::Complete | Start::Degraded { .. } | Start::DirtyDegraded { .. } if force => Ok(()),
        Start::Complete | Start::Degraded { .. } => check_usable(assembly),
        Start::DirtyDegraded { missing } => Err(Error::Failed(format!(
            "members may differ (the array was not stopped in order, or before all was equal), and {} \
             missing: what is computed for that may be wrong; --force starts it ({lines})",
            numbers(missing)
        ))),
        Start::TooFew { missing, most } => Err(Error::BadInput(format!(
            "too few members: {} missing, and at most {most} may be ({lines})",
            numbers(missing)
        ))),
        Start::Split { devices: [one, other] } => Err(Error::BadInput(format!(
            "{} and {} were used apart from each other: give the one whose data count alone",
            candidates[*one].name, candidates[*other].name
        ))),
    }
}

/// Members by their numbers.
fn numbers(members: &[usize]) -> String {
    match members {
        [one] => format!("member {one} is"),
        _ => {
            let all: Vec<_> = members.iter().map(ToString::to_string).collect();
            format!("members {} are", all.join(", "))
        }
    }
}

/// The ranges of the members' bytes in which they may differ.
fn unsynced(resync: &Resync, bitmap: Option<&Bitmap>, size: u64) -> Vec<Range<u64>> {
    let from = |start: u64| std::iter::once(start..size).collect();
    match (resync, bitmap) {
        (Resync::None, _) => Vec::new(),
        (Resync::Bitmap, Some(bitmap)) => {
            let all = bitmap.dirty().filter(|range| range.start < size);
            all.map(|range| range.start..range.end.min(size)).collect()
        }
        (Resync::From(start), _) => from((*start).min(size)),
        (Resync::Bitmap | Resync::Ppl, _) => from(0),
    }
}

/// Writes what has changed, before anything is served.
fn start(metadata: &mut Metadata, slots: &[Slot]) -> Result<(), Error> {
    let Some(job) = metadata.take_job(timestamp()) else { return Ok(()) };
    let devices: Vec<_> = slots.iter().map(|slot| slot.device.clone()).collect();
    let written = keeper::write(&job, &devices);
    if let Some((device, why)) = written.failed.first() {
        return Err(Error::Failed(format!("{}: {why}", device.path.display())));
    }
    metadata.written(job.version);
    Ok(())
}
