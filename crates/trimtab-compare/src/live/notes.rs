//! Notes on the measurement of a live comparison.

use serde::{Serialize, Serializer};
use trimtab_io::{LatencyHistogram, Nanos};

/// A generator whose p99 of lateness is above this fell behind.
pub const LATE: Nanos = Nanos::from_micros(500);

/// The share of requests that a recording may lack, as one in this many: kernels occasionally
/// run no BPF program for a moment.
const FEW_OF: u64 = 1000;

/// The name of the run that is recorded for training.
pub(super) const PHASE_ONE: &str = "phase one";

/// Notes on how a comparison was measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Notes {
    /// The current seed.
    #[serde(skip)]
    seed: u64,
    /// The first run of its phase two.
    #[serde(skip)]
    rows_from: usize,
    /// The latency compensation of the emulated drives when phase one began (how much earlier
    /// than their models say they completed requests): for each seed, by drive. They correct
    /// it in use.
    #[serde(rename = "leads_us")]
    pub compensation_us: Vec<Vec<f64>>,
    /// The latency that the path to them nevertheless added to the reads of phase one.
    #[serde(serialize_with = "as_summary")]
    pub added: LatencyHistogram,
    /// Requests of phase one whose completion the recorder did not see.
    pub lost: u64,
    /// Requests of phase one that were recorded.
    pub recorded: u64,
    /// Phase one, and each row of phase two.
    pub runs: Vec<RunNote>,
}

fn as_summary<S: Serializer>(times: &LatencyHistogram, to: S) -> Result<S::Ok, S::Error> {
    times.summary().serialize(to)
}

/// How one run was measured.
#[derive(Clone, Debug, Serialize)]
pub struct RunNote {
    /// The seed.
    pub seed: u64,
    /// The row, or phase one.
    pub strategy: String,
    /// How often it was run; this is the run whose requests were least late.
    pub runs: u32,
    /// Its duration.
    pub took_ns: Nanos,
    /// How late requests were handed out: the median.
    pub late_p50_ns: Option<Nanos>,
    /// The p99 of the same.
    pub late_p99_ns: Option<Nanos>,
    /// Percent of one processor that the servers of emulated drives took, by drive.
    pub drive_cpu_percent: Vec<f64>,
    /// Percent of one processor that the generator took, with its strategy.
    pub cpu_percent: f64,
    /// Percent of the emulated drives' reads that completed earlier than their model and
    /// faults say, as the block layer saw them; none if it saw none.
    pub early_percent: Option<f64>,
    /// Percent of the reads in moments in which half of them completed too late: the machine
    /// was saturated.
    pub saturated_percent: Option<f64>,
    /// Percent of the time of all processors that a virtual machine's host gave to others
    /// although there was work here; `None` if the kernel does not report it.
    pub stolen_percent: Option<f64>,
    /// Refused reads that were sent nevertheless, as forced samples.
    pub forced_samples: u64,
}

impl RunNote {
    pub(super) fn new(strategy: &str, took: Nanos, late: &LatencyHistogram) -> Self {
        Self {
            seed: 0,
            strategy: strategy.to_owned(),
            runs: 1,
            took_ns: took,
            late_p50_ns: late.quantile(0.5),
            late_p99_ns: late.quantile(0.99),
            drive_cpu_percent: Vec::new(),
            cpu_percent: 0.0,
            early_percent: None,
            saturated_percent: None,
            stolen_percent: None,
            forced_samples: 0,
        }
    }

    pub(super) fn fell_behind(&self) -> bool {
        self.late_p99_ns.is_some_and(|late| late > LATE)
    }
}

impl Notes {
    /// Starts the notes of a seed.
    pub(super) const fn begin(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Adds phase one; rows follow.
    pub(super) fn add_phase_one(&mut self, run: RunNote) {
        self.runs.push(RunNote { seed: self.seed, ..run });
        self.rows_from = self.runs.len();
    }

    /// Adds a run: the first one of a row, or another one. The least late one counts, as it
    /// does for the figures (`Served::doubt`).
    pub(super) fn add(&mut self, run: RunNote) {
        let run = RunNote { seed: self.seed, ..run };
        let mut rows = self.runs[self.rows_from..].iter_mut();
        let Some(old) = rows.find(|old| old.strategy == run.strategy) else {
            return self.runs.push(run);
        };
        let runs = old.runs + 1;
        if run.late_p99_ns < old.late_p99_ns {
            *old = run;
        }
        old.runs = runs;
    }

    /// Whether there are runs of several seeds.
    #[must_use]
    pub fn has_several_seeds(&self) -> bool {
        self.runs.iter().any(|run| run.seed != self.seed)
    }

    /// The runs in which the generator fell behind.
    pub fn late_runs(&self) -> impl Iterator<Item = &RunNote> {
        self.runs.iter().filter(|run| run.fell_behind())
    }

    /// Whether more requests of phase one were lost than a recording should lack.
    #[must_use]
    pub const fn has_lost_many(&self) -> bool {
        self.lost > self.recorded / FEW_OF
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(strategy: &str, late: u64) -> RunNote {
        let mut lateness = LatencyHistogram::new();
        lateness.record(Nanos(late));
        RunNote::new(strategy, Nanos::from_secs(1), &lateness)
    }

    #[test]
    fn least_late_run_of_a_row_is_kept() {
        let mut notes = Notes::default();
        for seed in [3, 4] {
            notes.begin(seed);
            notes.add_phase_one(run(PHASE_ONE, 1));
            // A strategy may have this name.
            let rows = [("base", 9000), (PHASE_ONE, 2), ("base", 7000), ("base", 8000)];
            rows.into_iter().for_each(|(strategy, late)| notes.add(run(strategy, late)));
        }
        let kept = notes.runs.iter().map(|run| (run.seed, &*run.strategy, run.runs));
        let of = |seed| [(seed, PHASE_ONE, 1), (seed, "base", 3), (seed, PHASE_ONE, 1)];
        assert_eq!(kept.collect::<Vec<_>>(), [of(3), of(4)].concat());
        let late = |row: usize| notes.runs[row].late_p99_ns.unwrap().0;
        assert!((6900..7100).contains(&late(1)) && late(0) < late(2), "{:?}", notes.runs);
        assert!(notes.has_several_seeds());
    }
}
