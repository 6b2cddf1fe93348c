//! A drift report in words.

use trimtab_predict::DriftReport;
use trimtab_report::count;

/// Whether the predictor should be trained again, and the evidence for it.
pub(crate) fn drift(report: DriftReport) -> String {
    let (misfits, windows) = (count(report.misfits.into()), count(report.windows.into()));
    let verdict = match report.retrain_after {
        Some(reads) => format!("train again, it was clear after {} reads", count(reads)),
        None => "none".to_owned(),
    };
    let window = count(report.window.into());
    format!("{verdict} ({misfits} of {windows} windows of {window} reads do not fit)")
}
