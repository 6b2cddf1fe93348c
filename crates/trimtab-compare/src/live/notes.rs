//! How a live comparison was measured: what a simulation need not say.

use serde::{Serialize, Serializer};
use trimtab_io::{LatencyHistogram, Nanos};
use trimtab_report::{Align, Table, count};

use crate::units;

/// A generator whose requests are later than this, one in a hundred, fell behind.
const LATE: Nanos = Nanos::from_micros(500);

/// One in so many requests may be missing from what is learnt from: kernels have moments
/// in which they run no BPF program.
const FEW_OF: u64 = 1000;

/// What the run is called whose recording is learnt from.
pub(super) const PHASE_ONE: &str = "phase one";

/// How a comparison was measured.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Notes {
    /// The seed that is being run.
    #[serde(skip)]
    seed: u64,
    /// Where the runs of its phase two begin.
    #[serde(skip)]
    rows_from: usize,
    /// How much earlier than their models say emulated drives answered when phase one began:
    /// for each seed, by drive. They correct it in use.
    pub(super) leads_us: Vec<Vec<f64>>,
    /// What the path to them added, for all that, to what they say of the reads of phase one.
    #[serde(serialize_with = "as_summary")]
    pub(super) added: LatencyHistogram,
    /// Requests of phase one whose end the recorder did not see.
    pub(super) lost: u64,
    /// Requests of phase one that were recorded.
    pub(super) recorded: u64,
    /// Phase one, and each row of phase two.
    pub(super) runs: Vec<RunNote>,
}

fn as_summary<S: Serializer>(times: &LatencyHistogram, to: S) -> Result<S::Ok, S::Error> {
    times.summary().serialize(to)
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RunNote {
    pub(super) seed: u64,
    pub(super) strategy: String,
    /// How often it was run; the run told of is the one whose requests were least late.
    pub(super) runs: u32,
    pub(super) took_ns: Nanos,
    /// How late requests were handed out.
    pub(super) late_p50_ns: Option<Nanos>,
    pub(super) late_p99_ns: Option<Nanos>,
    /// Of a hundred, how many of the time of one processor the drive's server took,
    /// by drive; nothing where the drives are no emulated ones.
    pub(super) drive_cpu_percent: Vec<f64>,
    /// The same of the generator with its strategy.
    pub(super) cpu_percent: f64,
    /// Of a hundred reads that emulated drives answered, how many came earlier than their
    /// model and faults say, as the block layer saw them; nothing if it saw none.
    pub(super) early_percent: Option<f64>,
    /// The same of those in moments in which half of the reads came too late: the machine
    /// was saturated.
    pub(super) saturated_percent: Option<f64>,
    /// Of a hundred, how much of the time of all processors a virtual machine's host gave
    /// to others, though there was something to do here; nothing if the kernel does not say.
    pub(super) stolen_percent: Option<f64>,
    /// Refused reads that were sent all the same.
    pub(super) trials: u64,
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
            trials: 0,
        }
    }

    pub(super) fn fell_behind(&self) -> bool {
        self.late_p99_ns.is_some_and(|late| late > LATE)
    }
}

impl Notes {
    /// What is added from now on is of this seed.
    pub(super) const fn begin(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Takes in phase one; rows follow.
    pub(super) fn add_phase_one(&mut self, run: RunNote) {
        self.runs.push(RunNote { seed: self.seed, ..run });
        self.rows_from = self.runs.len();
    }

    /// Takes in a run: the first of a row, or another one. Of these the less late counts, as
    /// it does for the figures (`Served::doubt`).
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

    pub(super) fn table(&self) -> Table {
        let columns = [
            ("run", Align::Left),
            ("runs", Align::Right),
            ("took", Align::Right),
            ("requests late, p50", Align::Right),
            ("p99", Align::Right),
            ("CPU, generator", Align::Right),
            ("drives", Align::Right),
            ("too early", Align::Right),
            ("saturated", Align::Right),
            ("stolen", Align::Right),
            ("refused and tried", Align::Right),
        ];
        let mut caption = "how it was measured: how often it was run (again if the generator fell \
                           behind), how\nlate requests were handed out (it counts as latency), and \
                           the share of one\nprocessor that it took. Too early is the share of \
                           reads that emulated drives answered\nbefore their models say; \
                           saturated, of those in moments in which half of them came\nmore than \
                           30 µs after that: the machine was too busy. Stolen is the share of all\n\
                           processors' time that the host of a virtual machine gave to others. \
                           False revokes\nare an estimate from the refused reads that were tried \
                           all the same"
            .to_owned();
        if self.recorded > 0 {
            let (recorded, lost) = (count(self.recorded), self.lost);
            caption +=
                &format!(". Of phase one's {recorded} requests\n{lost} were not seen to end");
        }
        let mut table = Table::new(&columns).with_caption(caption);
        let none = || units::NONE.to_owned();
        let time = |time: Option<Nanos>| time.map_or_else(none, units::long);
        let percent = |share: Option<f64>| share.map_or_else(none, |share| format!("{share:.0}%"));
        let mut seed = None;
        for run in &self.runs {
            if self.has_several_seeds() && seed != Some(run.seed) {
                seed = Some(run.seed);
                table.group(format!("seed {}", run.seed));
            }
            let drives: Vec<_> =
                run.drive_cpu_percent.iter().map(|cpu| format!("{cpu:.0}%")).collect();
            table.row([
                run.strategy.clone(),
                run.runs.to_string(),
                units::long(run.took_ns),
                time(run.late_p50_ns),
                time(run.late_p99_ns),
                format!("{:.0}%", run.cpu_percent),
                if drives.is_empty() { none() } else { drives.join(" ") },
                percent(run.early_percent),
                percent(run.saturated_percent),
                percent(run.stolen_percent),
                run.trials.to_string(),
            ]);
        }
        table
    }

    fn has_several_seeds(&self) -> bool {
        self.runs.iter().any(|run| run.seed != self.seed)
    }

    /// What makes the result less than it should be.
    pub(super) fn trouble(&self) -> Option<String> {
        let named = |run: &RunNote| match self.has_several_seeds() {
            true => format!("{} (seed {})", run.strategy, run.seed),
            false => run.strategy.clone(),
        };
        let behind: Vec<_> = self.runs.iter().filter(|run| run.fell_behind()).map(named).collect();
        let mut trouble = Vec::new();
        if !behind.is_empty() {
            trouble.push(format!(
                "the generator fell behind ({} late, one in a hundred) in: {}; give it less to do, \
                 or the machine less besides",
                units::long(LATE),
                behind.join(", ")
            ));
        }
        if self.lost > self.recorded / FEW_OF {
            trouble.push(format!(
                "{} of {} requests of phase one were not seen to end, and are not learnt from",
                self.lost, self.recorded
            ));
        }
        (!trouble.is_empty()).then(|| trouble.join("; "))
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
    fn of_several_runs_of_a_row_the_less_late_is_told_of() {
        let mut notes = Notes::default();
        for seed in [3, 4] {
            notes.begin(seed);
            notes.add_phase_one(run(PHASE_ONE, 1));
            // Nobody keeps a strategy from being called that.
            let rows = [("base", 9000), (PHASE_ONE, 2), ("base", 7000), ("base", 8000)];
            rows.into_iter().for_each(|(strategy, late)| notes.add(run(strategy, late)));
        }
        let told = notes.runs.iter().map(|run| (run.seed, &*run.strategy, run.runs));
        let of = |seed| [(seed, PHASE_ONE, 1), (seed, "base", 3), (seed, PHASE_ONE, 1)];
        assert_eq!(told.collect::<Vec<_>>(), [of(3), of(4)].concat());
        let late = |row: usize| notes.runs[row].late_p99_ns.unwrap().0;
        assert!((6900..7100).contains(&late(1)) && late(0) < late(2), "{:?}", notes.runs);
        let table = notes.table().to_string();
        assert!(table.contains("seed 3") && table.contains("seed 4"), "{table}");
    }
}
