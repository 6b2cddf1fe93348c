//! The strategies that know the queue: `mitt-ssd` on simulated drives.

use std::sync::Arc;

use trimtab_device::{CopyMode, Profile, Schedule};
use trimtab_io::{LatencyHistogram, Nanos};
use trimtab_predict::Predictor;
use trimtab_predict::mitt::{
    FlashModel, FlashModelError, FlashPrecision, FlashValues, Limit, MittSsd,
};
use trimtab_sim::array::ArrayDrive;
use trimtab_steer::{PredictorSet, ReplicaHistory};

/// The charge for a decision: what the benchmark of `trimtab-predict` measured for `mitt-ssd`,
/// rounded up. It is not measured on this machine, so that figures are the same everywhere.
pub(crate) const INFERENCE: Nanos = Nanos(100);

/// What the host of a drive with this profile knows of its times and layout.
///
/// # Errors
/// A profile without dies or pages, which [`Profile::parse`] does not accept.
pub fn flash_model(profile: &Profile) -> Result<FlashModel, FlashModelError> {
    let (t, g) = (&profile.timing, &profile.geometry);
    let us = |us: f64| Nanos((us * 1e3).round() as u64);
    let ps_per_byte = |mb_s: f64| if mb_s > 0.0 { (1e6 / mb_s).round() as u64 } else { 0 };
    let program: Vec<Nanos> = match &t.program_pattern_us {
        Some(pattern) => pattern.iter().map(|&time| us(time)).collect(),
        None => vec![us(t.program_us.unwrap_or_default()); g.pages_per_block as usize],
    };
    let units_per_page = g.page_bytes / profile.ftl.unit_bytes;
    let dies_per_channel = g.chips_per_channel * g.dies_per_chip;
    FlashModel::new(&FlashValues {
        read: us(t.read_us),
        program: &program,
        erase: us(t.erase_us),
        command: us(t.command_us),
        channel_ps_per_byte: ps_per_byte(t.channel_mb_s),
        firmware: us(t.firmware_us),
        link_ps_per_byte: ps_per_byte(t.host_link_mb_s),
        dies: g.channels * dies_per_channel,
        dies_per_channel,
        unit_bytes: profile.ftl.unit_bytes,
        units_per_page,
        units_per_die: g.planes_per_die * g.blocks_per_plane * g.pages_per_block * units_per_page,
        reads_first: profile.ftl.schedule == Schedule::ReadsFirst,
        preemptive: profile.gc.preemptive,
        copyback: profile.gc.copy == CopyMode::Copyback,
    })
}

/// The deadline that a scenario leaves open: the 95th percentile of all reads of phase one
/// (MittOS, §4.5).
pub(crate) fn usual_deadline(history: &[ReplicaHistory]) -> Nanos {
    let mut all = LatencyHistogram::new();
    history.iter().for_each(|drive| all.merge(&drive.reads));
    all.quantile(0.95).unwrap_or(Nanos::MAX)
}

/// Opens the drives, so that their hosts know what they do, and makes a predictor for each.
pub(crate) fn of_drives<'p>(
    drives: &mut [ArrayDrive],
    profiles: impl Iterator<Item = &'p Profile>,
    limit: Limit,
) -> PredictorSet {
    PredictorSet::new(predictors(drives, profiles, limit))
}

/// The same, as a list.
pub(crate) fn predictors<'p>(
    drives: &mut [ArrayDrive],
    profiles: impl Iterator<Item = &'p Profile>,
    limit: Limit,
) -> Vec<Box<dyn Predictor>> {
    let one = |(drive, profile): (&mut ArrayDrive, &Profile)| {
        let model = Arc::new(flash_model(profile).expect("profiles are checked when parsed"));
        let map = drive.server.open_channel();
        let predictor = MittSsd::new(model, map, limit, FlashPrecision::default());
        Box::new(predictor) as Box<dyn Predictor>
    };
    drives.iter_mut().zip(profiles).map(one).collect()
}
