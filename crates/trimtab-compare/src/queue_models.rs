//! The models of queues that `mitt` asks, on simulated drives.

use std::sync::Arc;

use trimtab_device::scheduler::{CfqOptions, SchedulerKind};
use trimtab_device::{Drive, DriveProfile, Profile, Ssd};
use trimtab_io::{LatencyHistogram, Nanos};
use trimtab_predict::mitt::{DiskPrecision, FlashPrecision, Limit, MittSsd};
use trimtab_predict::{MittCache, MittCacheOptions, Predictor};
use trimtab_sim::HostedDrive;
use trimtab_sim::array::ArrayDrive;
use trimtab_sim::mitt::{disk_predictor, flash_model};
use trimtab_sim::scenario::{DeviceSpec, SchedulerSpec};
use trimtab_steer::{PredictorSet, ReplicaHistory};

use crate::prepare::ComparedDrive;

/// The charge for a decision: what the benchmark of `trimtab-predict` measured for `mitt-ssd`,
/// rounded up. It is not measured on this machine, so that figures are the same everywhere.
pub(crate) const INFERENCE: Nanos = Nanos(100);

/// The deadline that a scenario leaves open: the 95th percentile of all reads of phase one
/// (MittOS, §4.5).
pub(crate) fn usual_deadline(history: &[ReplicaHistory]) -> Nanos {
    quantile(history, 0.95)
}

/// The latency to expect at another replica: the median of all reads of phase one.
pub(crate) fn usual_latency(history: &[ReplicaHistory]) -> Nanos {
    quantile(history, 0.5)
}

fn quantile(history: &[ReplicaHistory], share: f64) -> Nanos {
    let mut all = LatencyHistogram::new();
    history.iter().for_each(|drive| all.merge(&drive.reads));
    all.quantile(share).unwrap_or(Nanos::MAX)
}

/// A queue model for each drive: of flash the drive is opened, so that its host knows what it does;
/// a disk's is that of its scheduler.
pub(crate) fn of_drives(
    drives: &mut [ComparedDrive],
    devices: &[DeviceSpec<DriveProfile>],
    limits: &[Limit],
) -> PredictorSet {
    PredictorSet::new(drives.iter_mut().zip(devices).zip(limits).map(
        |((drive, device), &limit)| {
            let model = match (drive.server.drive_mut(), &device.profile) {
                (Drive::Flash(ssd), DriveProfile::Flash(profile)) => of_flash(ssd, profile, limit),
                (_, profile) => {
                    drive.tell_dispatches();
                    of_disk(profile, device.scheduler.as_ref(), limit)
                }
            };
            match (&mut drive.server, &device.cache) {
                (HostedDrive::Cached(cached), Some(cache)) => {
                    let floor = least_latency(&device.profile);
                    let deadline = limit.deadline;
                    cached.tell_pages();
                    if deadline.is_some_and(|deadline| deadline < floor) {
                        cached.bring_in_refused();
                    }
                    let pages = device.profile.capacity_bytes() / PAGE;
                    let memory = cache.memory();
                    let options = MittCacheOptions { pages, floor, memory, deadline };
                    Box::new(MittCache::new(options, model))
                }
                _ => model,
            }
        },
    ))
}

/// Bytes of a page of memory.
const PAGE: u64 = 4096;

/// A bound of the latency of a read that finds its drive idle: a shorter deadline expects memory.
fn least_latency(profile: &DriveProfile) -> Nanos {
    let us = match profile {
        DriveProfile::Flash(flash) => flash.timing.read_us,
        DriveProfile::Disk(disk) => disk.seek.us.first().copied().unwrap_or_default(),
    };
    Nanos((us * 1e3) as u64)
}

/// `mitt-ssd` for each of these drives.
pub(crate) fn of_flash_drives<'p>(
    drives: &mut [ArrayDrive],
    profiles: impl Iterator<Item = &'p Profile>,
    limit: Limit,
) -> Vec<Box<dyn Predictor>> {
    let drives = drives.iter_mut().zip(profiles);
    drives.map(|(drive, profile)| of_flash(&mut drive.server, profile, limit)).collect()
}

fn of_flash(ssd: &mut Ssd, profile: &Profile, limit: Limit) -> Box<dyn Predictor> {
    let model = Arc::new(flash_model(profile).expect("profiles are checked when parsed"));
    let map = ssd.open_channel();
    Box::new(MittSsd::new(model, map, limit, FlashPrecision::default()))
}

/// MittOS has models for FIFO and CFQ only. Today's schedulers get that of the nearer one: BFQ shares
/// the disk among processes as CFQ does, mq-deadline mostly keeps to the order of arrival.
fn of_disk(
    profile: &DriveProfile,
    scheduler: Option<&SchedulerSpec>,
    limit: Limit,
) -> Box<dyn Predictor> {
    let DriveProfile::Disk(profile) = profile else { unreachable!("flash has its own model") };
    let precision = DiskPrecision::default();
    let depth = scheduler.map_or(u32::MAX, |scheduler| scheduler.device_depth);
    let nearest = match scheduler.map(|scheduler| &scheduler.kind) {
        Some(SchedulerKind::Bfq(_)) => SchedulerKind::Cfq(CfqOptions::default()),
        Some(SchedulerKind::Cfq(options)) => SchedulerKind::Cfq(options.clone()),
        None | Some(SchedulerKind::None {} | SchedulerKind::MqDeadline(_)) => {
            SchedulerKind::None {}
        }
    };
    let model = disk_predictor(profile, Some((&nearest, depth)), limit, precision);
    model.expect("there is a model of FIFO and of CFQ")
}
