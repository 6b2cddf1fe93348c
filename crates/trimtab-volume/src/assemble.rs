//! Arrays that members have.

use std::sync::Arc;

use trimtab_md::{
    Assembly, Bitmap, Candidate, Consistency, DeviceRole, MemberState, Resync, Start, Superblock,
};
use trimtab_serve::Error;

use crate::engine::{Assembled, Slot, SlotState};
use crate::guard::Shared;
use crate::keeper;
use crate::member::MemberDevice;
use crate::metadata::{Metadata, region_bytes, timestamp};
use crate::regions::Regions;
use crate::tasks::Rebuild;

/// An array, and what was said about its members.
pub(crate) struct Found {
    pub(crate) array: Assembled,
    pub(crate) uuid: String,
    /// What became of devices that are no members now.
    pub(crate) lines: Vec<String>,
}

/// Puts the array together that these devices have. `force`: although data may be wrong.
pub(crate) fn assemble(devices: Vec<MemberDevice>, force: bool) -> Result<Found, Error> {
    let candidates = devices.iter().map(|device| device.metadata.candidate());
    let candidates: Vec<Candidate> =
        candidates.collect::<Result<_, _>>().map_err(|e| Error::Failed(e.to_string()))?;
    let assembly = Assembly::of(&candidates, None).map_err(|e| Error::BadInput(e.to_string()))?;
    check_start(&assembly, &candidates, force)?;
    let newest = superblock(&candidates, assembly.newest)?.clone();
    if let Consistency::Ppl { .. } = newest.consistency {
        let why = "it has a partial parity log, which is not supported: let mdadm change it (mdadm \
                   --grow --consistency-policy=resync)";
        return Err(Error::BadInput(format!("{}: {why}", candidates[assembly.newest].name)));
    }
    let layout = newest.array_layout().map_err(|e| Error::BadInput(e.to_string()))?;
    let bitmap = candidates[assembly.newest].bitmap.clone();
    let bitmap = bitmap.filter(|bitmap| bitmap.header().sync_bytes == newest.size);
    let mut regions = Regions::new(region_bytes(&newest, bitmap.as_ref()), layout.member_bytes());
    set_unsynced(&mut regions, &assembly.resync, bitmap.as_ref(), layout.member_bytes());

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
            in_sync_to: newest.in_sync_to,
            roles: newest.roles.clone(),
            ..own
        });
    }
    let mut metadata = Metadata::new(superblocks, bitmap);
    // What is not there now must not be taken for a current member later.
    metadata.forget_absent();
    let mut rebuild = None;
    if let Some((found, own)) = first_rebuild(&assembly, &candidates, &newest) {
        let is_clean = newest.in_sync_to.is_none();
        let from = match assembly.states[found.device] {
            MemberState::Rebuilding { done_to, .. } if is_clean => done_to,
            // What it has may differ.
            _ => 0,
        };
        let next = from / layout.chunk();
        slots[found.role] = slot(all[found.device].take(), &own, SlotState::Rebuilding);
        _ = metadata.admit(found.role, own);
        _ = metadata.rebuilt(found.role, Some(next * layout.chunk()));
        let by_bitmap = found.by_bitmap && is_clean;
        rebuild = Some(Rebuild { role: found.role, next, by_bitmap });
    }
    start(&mut metadata, &slots)?;
    let lines = assembly.lines().iter().zip(&all).filter(|(_, device)| device.is_some());
    let lines = lines.map(|(line, _)| line.clone()).collect();
    let shared = Shared::new(regions);
    let array = Assembled { layout, slots, metadata, shared, rebuild };
    Ok(Found { array, uuid: newest.array_uuid.to_string(), lines })
}

fn superblock(candidates: &[Candidate], index: usize) -> Result<&Superblock, Error> {
    candidates[index].superblock.as_ref().map_err(|error| Error::Failed(error.to_string()))
}

fn slot(device: Option<MemberDevice>, own: &Superblock, state: SlotState) -> Slot {
    Slot { device: device.map(Arc::new), state, data_offset: own.data_offset, why: None }
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
    assembly.rebuilds.iter().find_map(|rebuild| {
        let own = candidates[rebuild.device].superblock.as_ref().ok()?;
        let is_faulty = newest.role_of(own.device_number) == DeviceRole::Faulty;
        (!is_faulty).then(|| (*rebuild, own.clone()))
    })
}

fn check_start(assembly: &Assembly, candidates: &[Candidate], force: bool) -> Result<(), Error> {
    let lines = assembly.lines().join("; ");
    match &assembly.start {
        Start::Complete | Start::Degraded { .. } => Ok(()),
        Start::DirtyDegraded { .. } if force => Ok(()),
        Start::DirtyDegraded { missing } => Err(Error::Failed(format!(
            "the array was not stopped in order and lacks {missing:?}: what is computed for that \
             may be wrong; --force starts it ({lines})"
        ))),
        Start::TooFew { missing, most } => Err(Error::Failed(format!(
            "too few members: {missing:?} are missing, and at most {most} may be ({lines})"
        ))),
        Start::Split { devices: [one, other] } => Err(Error::Failed(format!(
            "{} and {} were used apart from each other: give the one whose data count alone",
            candidates[*one].name, candidates[*other].name
        ))),
    }
}

fn set_unsynced(regions: &mut Regions, resync: &Resync, bitmap: Option<&Bitmap>, size: u64) {
    match (resync, bitmap) {
        (Resync::None, _) => {
            // Bits that were set when the array was stopped without all members.
            let set = bitmap.into_iter().flat_map(Bitmap::dirty);
            set.for_each(|range| regions.mark(&(range.start..range.end.min(size))));
        }
        (Resync::Bitmap, Some(bitmap)) => {
            let all = bitmap.dirty().filter(|range| range.start < size);
            all.for_each(|range| regions.set_unsynced(&(range.start..range.end.min(size))));
        }
        (Resync::From(start), _) => regions.set_unsynced(&((*start).min(size)..size)),
        (Resync::Bitmap | Resync::Ppl, _) => regions.set_unsynced(&(0..size)),
    }
}

/// Writes what has changed, before anything is served.
fn start(metadata: &mut Metadata, slots: &[Slot]) -> Result<(), Error> {
    let Some(job) = metadata.take_job(timestamp()) else { return Ok(()) };
    let devices: Vec<_> = slots.iter().map(|slot| slot.device.clone()).collect();
    let written = keeper::write(&job, &devices);
    if let Some((role, why)) = written.failed.first() {
        let name = devices[*role].as_ref().map(|device| device.path.display().to_string());
        return Err(Error::Failed(format!("{}: {why}", name.unwrap_or_default())));
    }
    metadata.written(job.version);
    Ok(())
}
