//! The comparison on arrays of simulated drives.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use trimtab_array::driver::DriverOptions;
use trimtab_array::planner::Planner;
use trimtab_device::{ArrayPosition, ControllerSettings, SsdStats, WindowFormula};
use trimtab_io::{Nanos, derived_seed};
use trimtab_sim::array::ArrayDrive;
use trimtab_sim::scenario::DeviceSpec;
use trimtab_sim::{RaidOptions, parallel, run_raid};

use super::report::{ArrayFigures, ArrayReport, ArrayRow};
use super::spec::ArrayComparison;
use super::strategy::ArrayStrategy;
use crate::error::Error;
use crate::simulated::Progress;

/// The figures of a row with one seed, and its latencies; or why there are none.
type Outcome = Result<(ArrayFigures, trimtab_io::LatencyHistogram), String>;

/// Seconds of a day's writes: eight hours (IODA, Figure 3).
const DAY_S: f64 = 8.0 * 3600.0;

/// Runs a comparison on arrays, on `threads` threads; the result does not depend on their number.
///
/// # Errors
/// A trace cannot be read, or a drive does not take a request.
pub fn compare_arrays(
    comparison: &ArrayComparison,
    threads: usize,
    progress: &(dyn Fn(&Progress<'_>) + Sync),
) -> Result<ArrayReport, Error> {
    let strategies = &comparison.strategies;
    let row = |strategy: &ArrayStrategy| ArrayRow {
        name: strategy.name(),
        seeds: Vec::new(),
        latencies: trimtab_io::LatencyHistogram::new(),
        impossible: None,
    };
    let mut report = ArrayReport {
        seeds: comparison.seeds.clone(),
        strategies: strategies.iter().map(row).collect(),
    };
    let seeds = comparison.seeds.len();
    for (number, &seed) in comparison.seeds.iter().enumerate() {
        let begun = AtomicUsize::new(0);
        let outcomes = parallel::map(threads, strategies.len(), |place| {
            let strategy = strategies[place];
            let piece = begun.fetch_add(1, Relaxed);
            let doing = strategy.name();
            progress(&Progress { seed: (number, seeds), doing, piece: (piece, strategies.len()) });
            serve(comparison, strategy, seed)
        });
        for (row, outcome) in report.strategies.iter_mut().zip(outcomes) {
            match outcome? {
                Ok((figures, latencies)) => {
                    row.latencies.merge(&latencies);
                    row.seeds.push(figures);
                }
                Err(why) => row.impossible = Some(why),
            }
        }
    }
    Ok(report)
}

/// One row with one seed.
fn serve(
    comparison: &ArrayComparison,
    strategy: ArrayStrategy,
    seed: u64,
) -> Result<Outcome, Error> {
    let kind = strategy.firmware(&comparison.windows, &comparison.buffer);
    let count = comparison.drives.len() as u32;
    let mut drives = Vec::new();
    for ((number, spec), faults) in (0..).zip(&comparison.drives).zip(&comparison.faults) {
        let mut spec = spec.clone();
        strategy.change(&mut spec.profile);
        let at = ArrayPosition { position: number, drives: count };
        let made = kind.profile(&spec.profile).and_then(|profile| {
            let firmware = kind.firmware(&profile, at)?;
            Ok((profile, firmware))
        });
        let (profile, firmware) = match made {
            Ok(made) => made,
            Err(error) => return Ok(Err(error.to_string())),
        };
        spec.profile = profile;
        let drive_seed = derived_seed(seed, number.into());
        let mut ssd = spec.drive(number, drive_seed);
        ssd.replace_firmware(firmware);
        let mut drive = ArrayDrive::new(ssd, spec.host.queue_depth);
        drive.set_faults(faults, derived_seed(drive_seed, u64::MAX));
        drives.push(drive);
    }
    // The firmware of some strategies leaves the user less room: then the array is smaller.
    let capacity = drives.iter().map(|drive| drive.ssd.capacity()).min().unwrap_or_default();
    let layout = match comparison.layout.with_member_capacity(capacity) {
        Ok(layout) => layout,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let began = drives.iter().map(|drive| drive.ssd.now()).max().unwrap_or_default();
    let before: Vec<SsdStats> = drives.iter().map(|drive| drive.ssd.stats()).collect();
    let capacity = layout.capacity().min(comparison.layout.capacity());
    let source = comparison.workload.build(capacity, seed, None)?.source;
    let windows = drives.first().and_then(|drive| drive.ssd.windows());
    let planner = Planner::new(layout, strategy.policy(comparison.drives.len(), windows));
    let options = RaidOptions {
        driver: DriverOptions {
            compute: comparison.compute,
            judged_from: began + comparison.warm_up,
            reads: Some(comparison.reads),
        },
        clean_together: strategy == ArrayStrategy::Harmonia,
        host_windows: (strategy == ArrayStrategy::IodaHost).then(|| host_windows(comparison)),
        staging: comparison.buffer.staging(strategy, windows),
    };
    let run = run_raid(drives, planner, source, options, &mut |_| {})?;
    let until = run.figures.until;
    let seconds = until.since(began).as_secs_f64().max(1e-9);
    let facts = |((drive, spec), before): ((&ArrayDrive, &DeviceSpec), &SsdStats)| {
        let stats = drive.ssd.stats().since(before);
        let written = stats.user_units_written * u64::from(spec.profile.ftl.unit_bytes);
        let per_day = written as f64 / seconds * DAY_S;
        (stats, per_day / drive.ssd.capacity() as f64)
    };
    let facts = run.drives.iter().zip(&comparison.drives).zip(&before).map(facts);
    let facts: Vec<_> = facts.collect();
    let judged = began + comparison.warm_up;
    let figures =
        ArrayFigures::new(seed, &run.figures, judged.max(Nanos::ZERO), &facts, run.window);
    let figures = figures.with_buffer(run.staging.as_ref());
    Ok(Ok((figures, run.figures.reads)))
}

/// No window is shorter than two cleanings of any drive (IODA, §4.3.2: one).
fn host_windows(comparison: &ArrayComparison) -> ControllerSettings {
    let formula = WindowFormula::new(comparison.drives.len() as u32);
    let cleanings = comparison.drives.iter().map(|drive| formula.of(&drive.profile).clean_time);
    let least = Nanos(2 * cleanings.max().unwrap_or_default().0);
    ControllerSettings { least, ..ControllerSettings::default() }
}
