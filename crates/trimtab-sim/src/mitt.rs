//! Queue models (MittOS), made from the profile that the simulation runs.
//!
//! A host that has profiled its disk knows the profile. [`disk_predictor`] makes the predictor of
//! `trimtab-predict` for it and for the scheduler above it, [`flash_model`] what `mitt-ssd` needs.
//! [`PredictedDevice`] drives predictors beside a device: it reports what a scheduler dispatches,
//! and takes back the reads that they cancel. A driver of its own does the same with
//! [`Server::take_dispatches`] and [`Server::cancel`].
//!
//! [`Server::take_dispatches`]: crate::Server::take_dispatches
//! [`Server::cancel`]: crate::Server::cancel

mod device;
mod flash;
mod times;

use trimtab_device::scheduler::{CfqOptions, SchedulerKind};
use trimtab_device::{DiskProfile, Order};
use trimtab_io::Nanos;
use trimtab_predict::Predictor;
use trimtab_predict::mitt::{CfqWeights, DiskPrecision, Limit, MittCfq, MittNoop, QueueOrder};

pub use device::{Ended, PredictedDevice};
pub use flash::flash_model;
pub use times::ProfileTimes;

/// Groups and slices of CFQ, as its predictor has them.
#[must_use]
pub fn cfq_weights(options: &CfqOptions) -> CfqWeights {
    CfqWeights {
        groups: options.groups.iter().map(|entry| (entry.group, entry.weight)).collect(),
        slice: Nanos::from_millis(options.slice_sync_ms),
    }
}

/// The order in which a disk serves what it has, as the predictors know it.
#[must_use]
pub fn queue_order(profile: &DiskProfile, depth: u32) -> QueueOrder {
    let depth = profile.queue.depth.min(depth) as usize;
    match profile.queue.order {
        Order::Sstf if depth > 1 => QueueOrder::Sstf { depth },
        Order::Ncq if depth > 1 => {
            let starvation = match profile.queue.starvation_ms {
                0.0 => Nanos::MAX,
                ms => Nanos::from_secs_f64(ms * 1e-3),
            };
            QueueOrder::Ncq { depth, starvation }
        }
        _ => QueueOrder::Fifo,
    }
}

/// The queue model of a disk below a scheduler that gives it `depth` requests at a time, or
/// without one: `mitt-noop` for none and FIFO, `mitt-cfq` for CFQ. `None`: MittOS has no model of
/// this scheduler.
#[must_use]
pub fn disk_predictor(
    profile: &DiskProfile,
    scheduler: Option<(&SchedulerKind, u32)>,
    limit: Limit,
    precision: DiskPrecision,
) -> Option<Box<dyn Predictor>> {
    let times = ProfileTimes::new(profile);
    let noop = |depth| {
        let order = queue_order(profile, depth);
        Box::new(MittNoop::new(times.clone(), order, limit, precision)) as Box<dyn Predictor>
    };
    match scheduler {
        None => Some(noop(u32::MAX)),
        Some((SchedulerKind::None {}, depth)) => Some(noop(depth)),
        Some((SchedulerKind::Cfq(options), depth)) => {
            let (order, weights) = (queue_order(profile, depth), cfq_weights(options));
            Some(Box::new(MittCfq::new(times, order, weights, limit, precision)))
        }
        Some((SchedulerKind::MqDeadline(_) | SchedulerKind::Bfq(_), _)) => None,
    }
}
