//! What the tables of a comparison on an array do not show.

use trimtab_compare::arrays::{ArrayComparison, ArrayFigures, ArrayReport, ArrayRow};
use trimtab_report::count;

/// A line for each thing that the tables do not show.
pub(super) fn notes(comparison: &ArrayComparison, report: &ArrayReport) -> Vec<String> {
    let mut notes: Vec<_> =
        comparison.warnings().iter().map(|warning| format!("{warning}\n")).collect();
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
        let overruns: u64 = row.seeds.iter().map(|figures| figures.window_overruns).sum();
        if overruns > 0 {
            let overruns = count(overruns);
            notes.push(format!("{}: {overruns} cleanings ended after their window\n", row.name));
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
