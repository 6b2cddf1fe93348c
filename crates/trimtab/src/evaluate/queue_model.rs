//! Predictors that know the queue, beside those that learn.

use anyhow::Result;
use trimtab_device::{DiskProfile, DriveProfile};
use trimtab_io::Nanos;
use trimtab_predict::mitt::{DiskPrecision, Limit};
use trimtab_predict::{Label, Predictor};
use trimtab_sim::mitt::disk_predictor;

use crate::exit::BadInput;
use crate::profile;
use trimtab_train::Recording;

/// The disk that a recording is of, by a profile's name or file.
pub(super) fn disk(name_or_file: &str) -> Result<DiskProfile> {
    match profile::find_any(name_or_file)? {
        DriveProfile::Disk(disk) => Ok(disk),
        DriveProfile::Flash(_) => Err(BadInput(format!(
            "--disk {name_or_file}: a profile of flash, whose queue models need to know where its \
             data are, which no recording tells; give a disk's (trimtab profile list)"
        ))
        .into()),
    }
}

/// The recording is of a disk of another size, if it has requests beyond this one's end.
pub(super) fn must_hold(disk: &DiskProfile, recording: &Recording) -> Result<()> {
    let ends = recording.recorded.iter().map(|one| one.request.offset + one.request.length);
    let (end, capacity) = (ends.max().unwrap_or_default(), disk.capacity_bytes());
    if end > capacity {
        let (trace, name) = (&recording.name, &disk.name);
        return Err(BadInput(format!(
            "{trace}: has requests up to byte {end}, and --disk {name} has {capacity}: it is a \
             profile of another disk"
        ))
        .into());
    }
    Ok(())
}

/// `mitt-noop` of a disk without a scheduler, that refuses what it expects to be slow.
pub(super) fn mitt_noop(disk: &DiskProfile, label: &Label) -> Box<dyn Predictor> {
    let limit = Limit { deadline: label.threshold(), hop: Nanos::ZERO, elsewhere: None };
    let model = disk_predictor(disk, None, limit, DiskPrecision::default());
    model.expect("a disk without a scheduler has a queue model")
}
