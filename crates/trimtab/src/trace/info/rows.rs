//! From reports to labelled figures.

use trimtab_io::{Nanos, Op};
use trimtab_trace::stats::{
    FootprintSize, InterArrival, Note, OpFigures, PeakRate, QueueDepth, Report, Sequential,
};

use super::Described;
use super::layout::Row;
use trimtab_report::{bytes, count};

use crate::units::{self, NONE, long, number, percent};

/// Rows being built, for traces side by side.
struct Rows<'a> {
    traces: &'a [Described],
    rows: Vec<Row>,
}

/// All figures that fit on one line.
pub(super) fn rows(traces: &[Described]) -> Vec<Row> {
    let mut rows = Rows { traces, rows: Vec::new() };
    rows.provenance();
    rows.requests();
    rows.rates();
    rows.arrivals();
    rows.places();
    rows.depths();
    rows.endings();
    rows.rows
}

impl Rows<'_> {
    fn gap(&mut self) {
        self.rows.push(Row::Gap);
    }

    fn push(&mut self, label: &str, of: impl Fn(&Report) -> String) {
        let values = self.traces.iter().map(|trace| of(&trace.report)).collect();
        self.rows.push(Row::Figures(label.to_owned(), values));
    }

    /// A figure that some traces lack.
    fn push_some(&mut self, label: &str, of: impl Fn(&Report) -> Option<String>) {
        self.push(label, |report| of(report).unwrap_or_else(|| NONE.to_owned()));
    }

    /// A row only if at least one trace has a figure for it.
    fn push_if_any(&mut self, label: &str, of: impl Fn(&Report) -> Option<String>) {
        if self.traces.iter().any(|trace| of(&trace.report).is_some()) {
            self.push_some(label, of);
        }
    }

    fn provenance(&mut self) {
        let files = self.traces.iter().map(|trace| trace.file.clone()).collect();
        self.rows.push(Row::Figures("trace".to_owned(), files));
        // Before all figures, since it limits their accuracy.
        self.push_if_any("lost", lost);
        self.push("format", |r| r.format.to_owned());
        self.push("clock", |r| {
            if r.clock == "unix" { "Unix time" } else { "of its own" }.to_owned()
        });
        // Notes are too long for columns, and have no common labels.
        if let [only] = self.traces {
            let shown = |note: &&Note| lost(&only.report).is_none() || !is_loss(note);
            for note in only.report.notes.iter().filter(shown) {
                let first_line = note.value.trim().lines().next().unwrap_or_default();
                let more = if note.value.trim().contains('\n') { " …" } else { "" };
                let value = format!("{first_line}{more}");
                self.rows.push(Row::Figures(format!("note, {}", note.key), vec![value]));
            }
        }
        self.gap();
    }

    fn requests(&mut self) {
        self.push("requests", |r| count(r.requests));
        self.push("duration", |r| long(r.duration_ns));
        self.push("devices", |r| count(r.devices.count));
        self.push_some("reads of all data I/O", |r| r.read_share.map(percent));
        for op in Op::ALL {
            let figures = move |r: &Report| r.ops.iter().find(|o| o.op == op).cloned();
            self.push_if_any(&format!("{op} requests"), |r| Some(count(figures(r)?.requests)));
            if op == Op::Flush {
                continue;
            }
            let size = |of: fn(&OpFigures) -> u64| move |r: &Report| Some(bytes(of(&figures(r)?)));
            self.push_if_any("  in all", size(|o| o.bytes));
            self.push_if_any("  mean size", size(|o| o.mean_bytes.round() as u64));
            self.push_if_any("  largest", size(|o| o.max_bytes));
        }
        self.gap();
    }

    fn rates(&mut self) {
        self.push_some("mean IOPS", |r| r.rates.mean_iops.map(number));
        self.peaks("IOPS", |peak| peak.iops);
        self.push_some("mean MB/s", |r| r.rates.mean_mb_s.map(number));
        self.peaks("MB/s", |peak| peak.mb_s);
        self.gap();
    }

    fn peaks(&mut self, unit: &str, of: impl Fn(&PeakRate) -> f64) {
        for window_s in [1, 10] {
            self.push_some(&format!("peak {unit}, {window_s} s"), |r| {
                let peak = r.rates.peaks.iter().find(|peak| peak.window_s == window_s)?;
                Some(number(of(peak)))
            });
        }
    }

    fn arrivals(&mut self) {
        let time = |of: fn(&InterArrival) -> Option<Nanos>| {
            move |r: &Report| r.inter_arrival.as_ref().and_then(of).map(long)
        };
        self.push_some("inter-arrival mean", time(|i| i.times.mean));
        self.push_some("  p50", time(|i| i.times.percentile("p50")));
        self.push_some("  p90", time(|i| i.times.percentile("p90")));
        self.push_some("  p99", time(|i| i.times.percentile("p99")));
        self.push_some("  max", time(|i| i.times.max));
        self.push_some("  variation (CV)", |r| {
            r.inter_arrival.as_ref()?.coefficient_of_variation.map(number)
        });
        self.gap();
    }

    fn places(&mut self) {
        let share = |of: fn(&Sequential) -> f64| {
            move |r: &Report| r.sequential.as_ref().map(of).map(percent)
        };
        self.push_some("sequential", share(|s| s.share));
        self.push_some("  to any of last 32", share(|s| s.share_of_last_32));
        self.push_some("footprint", |r| r.footprint.as_ref().map(footprint));
        self.gap();
    }

    fn depths(&mut self) {
        if self.traces.iter().all(|trace| trace.report.queue_depth.is_none()) {
            return;
        }
        let depth = |of: fn(&QueueDepth) -> Option<u64>| {
            move |r: &Report| r.queue_depth.as_ref().and_then(of).map(count)
        };
        self.push_some("queue depth mean", |r| Some(number(r.queue_depth.as_ref()?.mean)));
        self.push_some("  p50", depth(|d| d.p50));
        self.push_some("  p90", depth(|d| d.p90));
        self.push_some("  p99", depth(|d| d.p99));
        self.push_some("  max", depth(|d| Some(d.max)));
        let classes = |r: &Report| r.queue_depth.as_ref().map_or(0, |d| d.classes.len());
        let most = self.traces.iter().map(|trace| classes(&trace.report)).max().unwrap_or(0);
        let depths = |trace: &Described| Some(trace.report.queue_depth.clone()?.classes);
        let Some(widest) = self.traces.iter().filter_map(depths).find(|c| c.len() == most) else {
            return;
        };
        for (i, class) in widest.iter().enumerate() {
            let label = if class.from == class.to {
                format!("  {}", class.from)
            } else {
                format!("  {}–{}", count(class.from), count(class.to))
            };
            self.push_some(&label, |r| {
                let classes = &r.queue_depth.as_ref()?.classes;
                Some(classes.get(i).map_or_else(|| percent(0.0), |class| percent(class.share)))
            });
        }
        self.push_if_any("  not followed", |r| positive(r.queue_depth.as_ref()?.untracked));
        self.gap();
    }

    fn endings(&mut self) {
        self.push("completions measured", |r| {
            units::percent(r.completions.measured as f64 / r.requests.max(1) as f64)
        });
        self.push_if_any("errors", |r| positive(r.completions.errors));
        self.push_if_any("merged", |r| positive(r.completions.merged));
        self.push_if_any("requeued", |r| positive(r.completions.requeued));
        self.push_if_any("completed in parts", |r| positive(r.completions.partial));
    }
}

/// Whether a note counts losses; `trimtab record` writes such notes.
fn is_loss(note: &Note) -> bool {
    note.key == "lost" || note.key.starts_with("lost_")
}

/// What the recording lost, if anything, according to its notes.
fn lost(report: &Report) -> Option<String> {
    let of = |key: &str| {
        let note = report.notes.iter().find(|note| note.key == key)?;
        note.value.parse().ok().filter(|n: &u64| *n > 0)
    };
    let total = of("lost")?;
    let kinds = [
        ("lost_completions", "completions (no latency known)"),
        ("lost_ring_full", "requests (buffer full)"),
        ("lost_table_full", "requests (table full)"),
        ("lost_times", "times of arrival or issue"),
    ];
    let parts: Vec<_> = kinds
        .into_iter()
        .filter_map(|(key, what)| of(key).map(|n| format!("{} {what}", count(n))))
        .collect();
    Some(if parts.is_empty() { count(total) } else { parts.join(", ") })
}

fn positive(n: u64) -> Option<String> {
    (n > 0).then(|| count(n))
}

fn footprint(size: &FootprintSize) -> String {
    let shown = bytes(size.bytes);
    if size.exact { shown } else { format!("{shown} ±{:.1}%", size.standard_error * 100.0) }
}
