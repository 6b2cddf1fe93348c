//! The figures of a part of a run: before and after the windows are changed.

use serde::Serialize;
use trimtab_device::SsdStats;
use trimtab_io::LatencyHistogram;
use trimtab_sim::RunPart;

use super::report::percentiles;

/// The figures of the part of a run before its windows are changed, or after (IODA, §6.3.8).
#[derive(Clone, Debug, Serialize)]
pub struct PartFigures {
    /// Judged reads; each is a sample.
    pub reads: u64,
    /// Percentiles of the latency of reads that have enough samples, by name, ns.
    pub percentiles: Vec<(&'static str, u64)>,
    /// Units that the drives programmed by those that were written; none: nothing was written.
    pub write_amplification: Option<f64>,
    /// Cleanings outside of the windows.
    pub forced_outside_window: u64,
}

impl PartFigures {
    /// Those of each judged part of a run whose first part is the warm-up.
    pub(super) fn of(parts: &[RunPart]) -> Vec<Self> {
        parts.windows(2).map(|pair| Self::new(&pair[1], &pair[0].drives)).collect()
    }

    fn new(part: &RunPart, before: &[SsdStats]) -> Self {
        let reads: &LatencyHistogram = &part.figures.reads;
        let drives = since(&part.drives, before);
        Self {
            reads: reads.count(),
            percentiles: percentiles(reads),
            write_amplification: write_amplification(&drives),
            forced_outside_window: drives.iter().map(|stats| stats.forced_outside_window).sum(),
        }
    }

    /// A percentile of the latency of reads, ns.
    #[must_use]
    pub fn percentile(&self, name: &str) -> Option<f64> {
        let found = self.percentiles.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value as f64)
    }
}

/// Each drive's counters since they were `before`.
pub(super) fn since(drives: &[SsdStats], before: &[SsdStats]) -> Vec<SsdStats> {
    drives.iter().zip(before).map(|(drive, before)| drive.since(before)).collect()
}

/// Units that the drives programmed by those that were written.
pub(super) fn write_amplification(drives: &[SsdStats]) -> Option<f64> {
    let sum = |of: fn(&SsdStats) -> u64| drives.iter().map(of).sum::<u64>();
    let written = sum(|stats| stats.user_units_written);
    let programmed = sum(|stats| stats.units_programmed + stats.units_moved + stats.parity_units);
    (written > 0).then(|| programmed as f64 / written as f64)
}
