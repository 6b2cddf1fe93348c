//! What the tables of a comparison on an array do not show.

use trimtab_compare::arrays::{
    ArrayComparison, ArrayFigures, ArrayReport, ArrayRow, WindowWarning,
};
use trimtab_report::count;

/// A line for each thing that the tables do not show.
pub(super) fn notes(comparison: &ArrayComparison, report: &ArrayReport) -> Vec<String> {
    let mut notes: Vec<_> =
        comparison.warnings().iter().map(|warning| format!("{warning}\n")).collect();
    notes.extend(comparison.window_warnings().iter().map(|warning| windows(warning, report)));
    for row in &report.strategies {
        if let Some(why) = &row.impossible {
            notes.push(format!("{}: not with these drives: {why}\n", row.name));
        }
        let errors: u64 = row.seeds.iter().map(|figures| figures.errors).sum();
        if errors > 0 {
            let errors = count(errors);
            notes.push(format!("{}: {errors} requests failed, and are not counted\n", row.name));
        }
        if let Some(window) = row.seeds.iter().find_map(|figures| figures.window_ns) {
            notes.push(format!("{}: windows of {window} in the end\n", row.name));
        }
        let stalls = row.seeds.iter().filter_map(|figures| figures.buffer);
        let stalled: u64 = stalls.map(|buffer| buffer.stalled_writes).sum();
        if stalled > 0 {
            let stalled = count(stalled);
            notes.push(format!("{}: {stalled} writes waited for room in the buffer\n", row.name));
        }
        let whole = comparison.layout().capacity() as f64;
        if let Some(own) = row.median(|f| Some(f.capacity_bytes as f64 / whole))
            && own < 0.999
        {
            let percent = 100.0 * own;
            notes.push(format!("{}: {percent:.1}% of the array's capacity\n", row.name));
        }
        let overloaded = |figures: &&ArrayFigures| figures.is_overloaded();
        let overloaded = row.seeds.iter().find(overloaded).filter(|_| comparison.is_open_loop());
        if let Some(ArrayFigures { outstanding, arrived, .. }) = overloaded {
            let (outstanding, arrived) = (count(*outstanding), count(*arrived));
            notes.push(format!(
                "{}: overloaded: {arrived} requests arrived, and {outstanding} were not complete in \
                 the end; latencies grow as long as this lasts\n",
                row.name
            ));
        }
    }
    if comparison.change().is_some() && report.strategies.iter().any(ended_early) {
        notes.push("a run ended before `windows.then.at_s`\n".to_owned());
    }
    notes
}

/// Whether a run ended before its windows were changed.
fn ended_early(row: &ArrayRow) -> bool {
    row.seeds.iter().any(|figures| figures.parts.len() < 2)
}

/// Windows that do not fit their drives, and what that cost.
fn windows(WindowWarning { row: name, what }: &WindowWarning, report: &ArrayReport) -> String {
    let row = report.strategies.iter().find(|row| row.name == *name);
    let sum =
        |of: fn(&ArrayFigures) -> u64| count(row.map_or(0, |row| row.seeds.iter().map(of).sum()));
    let (forced, late) = (sum(|f| f.forced_outside_window), sum(|f| f.window_overruns));
    format!(
        "{name}: {what}; here {forced} cleanings were forced out of turn, and {late} ended late\n"
    )
}
