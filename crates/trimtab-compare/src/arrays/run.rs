//! The comparison on arrays of simulated drives.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use trimtab_array::Member;
use trimtab_array::driver::DriverOptions;
use trimtab_array::planner::Planner;
use trimtab_array::policy::{Predicted, ReadPolicy};
use trimtab_device::{ArrayPosition, ControllerSettings, SsdStats, WindowFormula, WindowSchedule};
use trimtab_io::{Nanos, derived_seed};
use trimtab_predict::mitt::Limit;
use trimtab_sim::array::ArrayDrive;
use trimtab_sim::scenario::DeviceSpec;
use trimtab_sim::{RaidOptions, parallel, run_raid};

use super::entry::ArrayEntry;
use super::part;
use super::report::{ArrayFigures, ArrayReport, ArrayRow};
use super::spec::ArrayComparison;
use super::strategy::ArrayStrategy;
use crate::error::Error;
use crate::queue_models;
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
    let entries = &comparison.strategies;
    let row = |entry: &ArrayEntry| ArrayRow {
        name: entry.name.clone(),
        strategy: entry.strategy.name(),
        seeds: Vec::new(),
        latencies: trimtab_io::LatencyHistogram::new(),
        impossible: None,
    };
    let mut report = ArrayReport {
        seeds: comparison.seeds.clone(),
        strategies: entries.iter().map(row).collect(),
    };
    let seeds = comparison.seeds.len();
    for (number, &seed) in comparison.seeds.iter().enumerate() {
        let begun = AtomicUsize::new(0);
        let outcomes = parallel::map(threads, entries.len(), |place| {
            let entry = &entries[place];
            let piece = begun.fetch_add(1, Relaxed);
            let doing = &entry.name;
            progress(&Progress { seed: (number, seeds), doing, piece: (piece, entries.len()) });
            serve(comparison, entry, seed)
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
fn serve(comparison: &ArrayComparison, entry: &ArrayEntry, seed: u64) -> Result<Outcome, Error> {
    let (strategy, kind) = (entry.strategy, entry.firmware);
    let count = comparison.drives.len() as u32;
    let mut drives = Vec::new();
    for ((number, spec), faults) in (0..).zip(&comparison.drives).zip(&comparison.faults) {
        let mut spec = entry.drive(number as usize, spec);
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
    let capacity = drives.iter().map(|drive| drive.server.capacity()).min().unwrap_or_default();
    let layout = match comparison.layout.with_member_capacity(capacity) {
        Ok(layout) => layout,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let began = drives.iter().map(|drive| drive.server.now()).max().unwrap_or_default();
    let judged = began + comparison.warm_up;
    let capacity = layout.capacity().min(comparison.layout.capacity());
    let source = comparison.workload.build(capacity, seed, None)?.source;
    let windows = match windows(entry, &comparison.drives[0], &mut drives, judged) {
        Ok(windows) => windows,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let policy: Box<dyn ReadPolicy> = match strategy {
        ArrayStrategy::Mitt => {
            let limit =
                Limit { deadline: Some(comparison.deadline), hop: Nanos::ZERO, elsewhere: None };
            let profiles = comparison.drives.iter().map(|spec| &spec.profile);
            let models = queue_models::of_flash_drives(&mut drives, profiles, limit);
            Box::new(Predicted::new(models, layout.chunk()))
        }
        _ => strategy.policy(comparison.drives.len(), windows),
    };
    let mut planner = Planner::new(layout, policy);
    comparison.lost.iter().for_each(|&member| planner.lose(Member(member as u8)));
    let options = RaidOptions {
        driver: DriverOptions {
            compute: comparison.compute,
            judged_from: judged,
            reads: comparison.reads,
            until: comparison.duration.map(|duration| judged + duration),
        },
        clean_together: strategy == ArrayStrategy::Harmonia,
        host_windows: (strategy == ArrayStrategy::IodaHost).then(|| host_windows(comparison)),
        cuts: [judged].into_iter().chain(comparison.change().map(|at| judged + at)).collect(),
        staging: comparison.buffer.staging(strategy, windows.map(|(windows, _)| windows)),
    };
    let run = run_raid(drives, planner, source, options, &mut |_| {})?;
    // The first part is the warm-up.
    let (warm_up, last) = (&run.parts[0], &run.parts[run.parts.len() - 1]);
    let stats = part::since(&last.drives, &warm_up.drives);
    let seconds = run.figures.until.since(judged).as_secs_f64().max(1e-9);
    let dwpd = |((drive, spec), stats): ((&ArrayDrive, &DeviceSpec), &SsdStats)| {
        let written = stats.user_units_written * u64::from(spec.profile.ftl.unit_bytes);
        written as f64 / seconds * DAY_S / drive.server.capacity() as f64
    };
    let dwpd = run.drives.iter().zip(&comparison.drives).zip(&stats).map(dwpd).fold(0.0, f64::max);
    let figures = ArrayFigures::new(seed, &run, judged, &stats, dwpd, capacity);
    Ok(Ok((figures, run.figures.reads)))
}

/// The turns of the first drive, and those that follow them if they change in the run: the drives
/// are told. Those of ordinary drives are only the host's.
fn windows(
    entry: &ArrayEntry,
    spec: &DeviceSpec,
    drives: &mut [ArrayDrive],
    judged: Nanos,
) -> Result<Option<(WindowSchedule, Option<WindowSchedule>)>, trimtab_device::Error> {
    let Some(first) = drives.first() else { return Ok(None) };
    let at = ArrayPosition { position: 0, drives: drives.len() as u32 };
    let windows = match entry.strategy {
        ArrayStrategy::Iod3Ordinary => Some(entry.windows.schedule(&spec.profile, at)?),
        _ => first.server.windows(),
    };
    if let Some(then) = entry.then {
        for drive in drives {
            if let Some(own) = drive.server.windows() {
                drive.change(|ssd| _ = ssd.set_windows(then.after(own, judged)));
            }
        }
    }
    Ok(windows.map(|windows| (windows, entry.then.map(|then| then.after(windows, judged)))))
}

/// No window is shorter than two cleanings of any drive (IODA, §4.3.2: one).
fn host_windows(comparison: &ArrayComparison) -> ControllerSettings {
    let formula = WindowFormula::new(comparison.drives.len() as u32);
    let cleanings = comparison.drives.iter().map(|drive| formula.of(&drive.profile).clean_time);
    let least = Nanos(2 * cleanings.max().unwrap_or_default().0);
    ControllerSettings { least, ..ControllerSettings::default() }
}
