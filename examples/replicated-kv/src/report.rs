//! What came of it: a table for people, JSON for programs.

use std::sync::Arc;

use serde::Serialize;
use trimtab_io::{LatencyHistogram, Nanos};
use trimtab_predict::Model;
use trimtab_replicas::SetFigures;
use trimtab_report::{Align, Facts, Table, bytes, count, machine};

use crate::clients::Outcome;

/// What one strategy did, all rounds together.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) outcome: Outcome,
    pub(crate) pages: Pages,
    /// Bytes that were written beside the store.
    pub(crate) noise: u64,
}

impl Row {
    /// Adds another round.
    pub(crate) fn add(&mut self, other: &Self) {
        self.outcome.add(&other.outcome);
        self.outcome.took += other.outcome.took;
        self.pages.add(&other.pages);
        self.noise += other.noise;
    }
}

/// What came of it all.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
    pub(crate) models: Vec<Arc<Model>>,
}

/// What a replica set did with the pages that SQLite asked it for.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Pages {
    reads: u64,
    /// By replica.
    served_by: [u64; 3],
    /// Sent first to another replica than their primary one.
    moved: u64,
    /// Requests beyond one for each page; of these hedges, and rescues.
    extra: u64,
    hedges: u64,
    rescues: u64,
    /// Of the control group: pairs, and the sum of what moving their reads gained, ns.
    pairs: u64,
    gained_ns: f64,
    without_model: u64,
    errors: u64,
}

impl From<&SetFigures> for Pages {
    fn from(figures: &SetFigures) -> Self {
        let mut served_by = [0; 3];
        served_by.iter_mut().zip(&figures.replicas).for_each(|(sum, r)| *sum = r.served);
        Self {
            reads: figures.reads,
            served_by,
            moved: figures.moved,
            extra: figures.extra,
            hedges: figures.hedges,
            rescues: figures.rescues,
            pairs: figures.gain.pairs,
            gained_ns: figures.gain.mean_ns * figures.gain.pairs as f64,
            without_model: figures.without_model,
            errors: figures.errors,
        }
    }
}

impl Pages {
    pub(crate) fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.served_by.iter_mut().zip(other.served_by).for_each(|(sum, more)| *sum += more);
        self.moved += other.moved;
        self.extra += other.extra;
        self.hedges += other.hedges;
        self.rescues += other.rescues;
        self.pairs += other.pairs;
        self.gained_ns += other.gained_ns;
        self.without_model += other.without_model;
        self.errors += other.errors;
    }

    /// What moving a read gained in the mean, µs.
    fn gained_us(&self) -> f64 {
        self.gained_ns / self.pairs.max(1) as f64 / 1e3
    }
}

/// The report as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Told<'a> {
    trimtab: &'static str,
    machine: String,
    /// How it was run.
    settings: &'a serde_json::Value,
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
    wrong_values: u64,
    failed: u64,
    pages: Pages,
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
                wrong_values: outcome.wrong,
                failed: outcome.failed,
                pages: row.pages,
                noise_bytes: row.noise,
            }
        };
        let late = |model: &Arc<Model>| model.card.label.threshold().unwrap_or(Nanos::MAX).0;
        Told {
            trimtab: env!("CARGO_PKG_VERSION"),
            machine: machine(),
            settings,
            late_after_ns: self.models.iter().map(late).collect(),
            strategies: self.rows.iter().map(told).collect(),
        }
    }

    /// As people read it.
    pub(crate) fn text(&self) -> String {
        format!("{}\n{}\n{}", self.latencies(), self.pages(), self.facts())
    }

    fn latencies(&self) -> Table {
        let columns =
            ["strategy", "ops/s", "reads", "mean", "p50", "p95", "p99", "p99.9", "wrong values"];
        let mut table = table(&columns).with_caption("values read by the clients");
        for Row { name, outcome, .. } in &self.rows {
            let rate = outcome.operations() as f64 / outcome.took.as_secs_f64();
            let mut cells =
                vec![(*name).to_owned(), count(rate as u64), count(outcome.reads.count())];
            cells.extend(times(&outcome.reads));
            cells.push(count(outcome.wrong));
            table.row(cells);
        }
        table
    }

    fn pages(&self) -> Table {
        let columns = [
            "strategy",
            "pages",
            "served by",
            "moved",
            "extra",
            "hedges",
            "rescues",
            "gained by a move",
            "control pairs",
            "without a model",
            "others wrote",
        ];
        let mut table = table(&columns).with_caption("pages that SQLite asked the replica set for");
        for Row { name, pages, noise, .. } in &self.rows {
            let share = |part: u64| {
                let percent = 100.0 * part as f64 / pages.reads.max(1) as f64;
                format!("{percent:.1}%")
            };
            table.row([
                (*name).to_owned(),
                count(pages.reads),
                pages.served_by.map(count).join(" "),
                share(pages.moved),
                share(pages.extra),
                share(pages.hedges),
                count(pages.rescues),
                format!("{:.0} µs", pages.gained_us()),
                count(pages.pairs),
                share(pages.without_model),
                bytes(*noise),
            ]);
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
