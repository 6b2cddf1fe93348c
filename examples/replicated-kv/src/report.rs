//! What came of it: a table for people, JSON for programs.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use trimtab_io::{LatencyHistogram, Nanos};
use trimtab_predict::Model;
use trimtab_read::Figures;
use trimtab_report::{Align, Facts, Table, bytes, count, machine};

use crate::clients::Outcome;

/// What one strategy did, all rounds together.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) outcome: Outcome,
    pub(crate) readers: Readers,
    /// Bytes that were written beside the stores.
    pub(crate) noise: u64,
}

impl Row {
    /// Adds another round.
    pub(crate) fn add(&mut self, other: &Self) {
        self.outcome.add(&other.outcome);
        self.outcome.took += other.outcome.took;
        self.readers.add(&other.readers);
        self.noise += other.noise;
    }
}

/// What came of it all.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
    pub(crate) models: Vec<Arc<Model>>,
    /// When a read is hedged: the p95 of the phase that is learnt from.
    pub(crate) hedge_after: Duration,
}

/// What the three readers did with the pages that SQLite asked for.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Readers {
    /// Read without a deadline.
    without_deadline: u64,
    /// Read, because they were expected to be in time.
    admitted: u64,
    /// Of these: late all the same.
    late: u64,
    /// Refused.
    refused: u64,
    /// Expected to be late, and read all the same; of these: fast.
    forced_samples: u64,
    fast_forced_samples: u64,
    /// Read, because nothing could be said of them.
    failed_open: u64,
    /// Not answered at their deadline.
    timed_out: u64,
}

impl From<Figures> for Readers {
    fn from(figures: Figures) -> Self {
        Self {
            without_deadline: figures.without_deadline,
            admitted: figures.admitted,
            late: figures.late,
            refused: figures.refused,
            forced_samples: figures.forced_samples,
            fast_forced_samples: figures.fast_forced_samples,
            failed_open: figures.failed_open.total(),
            timed_out: figures.timed_out,
        }
    }
}

impl Readers {
    pub(crate) fn add(&mut self, other: &Self) {
        self.without_deadline += other.without_deadline;
        self.admitted += other.admitted;
        self.late += other.late;
        self.refused += other.refused;
        self.forced_samples += other.forced_samples;
        self.fast_forced_samples += other.fast_forced_samples;
        self.failed_open += other.failed_open;
        self.timed_out += other.timed_out;
    }

    const fn sent(&self) -> u64 {
        self.without_deadline + self.admitted + self.forced_samples + self.failed_open
    }
}

/// The report as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Told<'a> {
    trimtab: &'static str,
    machine: String,
    /// How it was run.
    settings: &'a serde_json::Value,
    hedge_after_ns: u64,
    /// What is late, for each drive; ns.
    late_after_ns: Vec<u64>,
    strategies: Vec<Told1<'a>>,
}

/// One strategy.
#[derive(Debug, Serialize)]
struct Told1<'a> {
    name: &'a str,
    seconds: f64,
    operations_per_second: f64,
    reads: trimtab_io::Summary,
    writes: trimtab_io::Summary,
    extra_reads: u64,
    refusals: u64,
    failovers: u64,
    wrong_values: u64,
    failed: u64,
    pages: Readers,
    noise_bytes: u64,
}

impl Report {
    /// What was wrong with the values, in words; none if nothing was.
    pub(crate) fn trouble(&self) -> Option<String> {
        let of = |figure: fn(&Outcome) -> u64| {
            self.rows.iter().map(|row| figure(&row.outcome)).sum::<u64>()
        };
        let (wrong, failed) = (of(|o| o.wrong), of(|o| o.failed));
        (wrong + failed > 0)
            .then(|| format!("{wrong} wrong values, and {failed} operations that failed"))
    }

    pub(crate) fn told<'a>(&'a self, settings: &'a serde_json::Value) -> Told<'a> {
        let told = |row: &'a Row| {
            let (outcome, seconds) = (&row.outcome, row.outcome.took.as_secs_f64());
            Told1 {
                name: row.name,
                seconds,
                operations_per_second: outcome.operations() as f64 / seconds,
                reads: outcome.reads.summary(),
                writes: outcome.writes.summary(),
                extra_reads: outcome.extra,
                refusals: outcome.refusals,
                failovers: outcome.failovers,
                wrong_values: outcome.wrong,
                failed: outcome.failed,
                pages: row.readers,
                noise_bytes: row.noise,
            }
        };
        let late = |model: &Arc<Model>| model.card.label.threshold().unwrap_or(Nanos::MAX).0;
        Told {
            trimtab: env!("CARGO_PKG_VERSION"),
            machine: machine(),
            settings,
            hedge_after_ns: self.hedge_after.as_nanos() as u64,
            late_after_ns: self.models.iter().map(late).collect(),
            strategies: self.rows.iter().map(told).collect(),
        }
    }

    /// As people read it.
    pub(crate) fn text(&self) -> String {
        format!("{}\n{}\n{}", self.latencies(), self.pages(), self.facts())
    }

    fn latencies(&self) -> Table {
        let columns = [
            "strategy",
            "ops/s",
            "reads",
            "mean",
            "p50",
            "p95",
            "p99",
            "p99.9",
            "extra reads",
            "refusals",
            "failovers",
            "wrong values",
        ];
        let mut table = table(&columns).with_caption("values read by the clients");
        for Row { name, outcome, .. } in &self.rows {
            let rate = outcome.operations() as f64 / outcome.took.as_secs_f64();
            let mut cells =
                vec![(*name).to_owned(), count(rate as u64), count(outcome.reads.count())];
            cells.extend(times(&outcome.reads));
            let counts = [outcome.extra, outcome.refusals, outcome.failovers, outcome.wrong];
            cells.extend(counts.map(count));
            table.row(cells);
        }
        table
    }

    fn pages(&self) -> Table {
        let columns = [
            "strategy",
            "from drives",
            "refused",
            "admitted",
            "late all the same",
            "tried all the same",
            "fast of these",
            "failed open",
            "others wrote",
        ];
        let mut table = table(&columns).with_caption("pages that SQLite asked the readers for");
        for Row { name, readers, noise, .. } in &self.rows {
            let counts = [
                readers.sent(),
                readers.refused,
                readers.admitted,
                readers.late,
                readers.forced_samples,
                readers.fast_forced_samples,
                readers.failed_open,
            ];
            let cells = counts.map(count).into_iter().chain([bytes(*noise)]);
            table.row([(*name).to_owned()].into_iter().chain(cells));
        }
        table
    }

    fn facts(&self) -> Facts {
        let mut facts = Facts::new();
        let late = |model: &Arc<Model>| match model.card.label.threshold() {
            Some(threshold) => threshold.to_string(),
            None => "never".to_owned(),
        };
        facts.add("late is more than", self.models.iter().map(late).collect::<Vec<_>>().join(", "));
        facts.add("deadline, hedge after", Nanos(self.hedge_after.as_nanos() as u64).to_string());
        facts.add("machine", machine());
        facts
    }
}

fn table(columns: &[&str]) -> Table {
    let align = |number| if number == 0 { Align::Left } else { Align::Right };
    let columns: Vec<_> = columns.iter().zip(0..).map(|(name, n)| (*name, align(n))).collect();
    Table::new(&columns)
}

/// Mean, p50, p95, p99, p99.9: those that there are samples enough for.
fn times(histogram: &LatencyHistogram) -> [String; 5] {
    let summary = histogram.summary();
    let [p50, p95, p99, p999] = ["p50", "p95", "p99", "p99.9"].map(|name| summary.percentile(name));
    [summary.mean, p50, p95, p99, p999]
        .map(|time| time.map_or_else(|| "–".to_owned(), |time| time.to_string()))
}
