//! The metrics in Prometheus' text format: a pure function from figures to text. docs/agent.md
//! describes each metric.

use trimtab_io::Op;
use trimtab_predict::OnlineScore;
use trimtab_read::Sum;
use trimtab_record::Losses;
use trimtab_record::monitor::{DriveFigures, LatencyBuckets};
use trimtab_report::{Exposition, Metric};
use trimtab_train::InflectionShift;

/// A drive's figures, and its state beside them.
pub(crate) struct DriveSummary<'a> {
    pub(crate) device: &'a str,
    pub(crate) figures: &'a DriveFigures,
    /// Reads and writes in flight now, from the tracker's state.
    pub(crate) in_flight: [u32; 2],
    /// Events that the tracker's programs missed.
    pub(crate) missed: u64,
    /// How the inflection point has moved, if it has been computed.
    pub(crate) moved: Option<InflectionShift>,
    pub(crate) retrain: bool,
    /// Counters of the processes that read through `trimtab_read`.
    pub(crate) readers: Option<Sum>,
    pub(crate) trained: u64,
    pub(crate) failed: u64,
}

/// A metric with at most one number per drive.
type Number = fn(&DriveSummary<'_>) -> Option<f64>;
/// The same for a counter, which may exceed the exact range of a float.
type Count = fn(&DriveSummary<'_>) -> Option<u64>;

/// All metrics.
pub(crate) fn page(drives: &[DriveSummary<'_>], losses: &Losses) -> String {
    let mut page = Exposition::default();
    page.metric("trimtab_build_info", Metric::Gauge, "The agent's version, as a label.");
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    for (name, help, count) in COUNTS {
        each(&mut page, drives, name, Metric::Counter, help, *count);
    }
    latencies(&mut page, drives);
    page.metric("trimtab_in_flight", Metric::Gauge, "Requests issued and not completed.");
    for drive in drives {
        for (op, number) in ["read", "write"].into_iter().zip(drive.in_flight) {
            page.sample(&[("device", drive.device), ("op", op)], number);
        }
    }
    models(&mut page, drives);
    for (name, help, number) in NUMBERS {
        each(&mut page, drives, name, Metric::Gauge, help, *number);
    }
    failed_open(&mut page, drives);
    trainings(&mut page, drives);
    lost(&mut page, losses);
    page.to_string()
}

fn score(drive: &DriveSummary<'_>) -> Option<OnlineScore> {
    drive.figures.model().map(|_| drive.figures.score())
}

const COUNTS: &[(&str, &str, Count)] = &[
    ("trimtab_reads_total", "Reads completed.", |t| Some(t.figures.totals().of(Op::Read).requests)),
    ("trimtab_read_bytes_total", "Bytes of reads completed.", |t| {
        Some(t.figures.totals().of(Op::Read).bytes)
    }),
    ("trimtab_writes_total", "Writes completed.", |t| {
        Some(t.figures.totals().of(Op::Write).requests)
    }),
    ("trimtab_written_bytes_total", "Bytes of writes completed.", |t| {
        Some(t.figures.totals().of(Op::Write).bytes)
    }),
    ("trimtab_discards_total", "Discards completed.", |t| {
        Some(t.figures.totals().of(Op::Discard).requests)
    }),
    ("trimtab_discarded_bytes_total", "Bytes of discards completed.", |t| {
        Some(t.figures.totals().of(Op::Discard).bytes)
    }),
    ("trimtab_flushes_total", "Flush commands completed.", |t| {
        Some(t.figures.totals().of(Op::Flush).requests)
    }),
    ("trimtab_errors_total", "Requests that ended in an error.", |t| {
        Some(t.figures.totals().errors)
    }),
    ("trimtab_scored_reads_total", "Reads that the model was compared with.", |t| {
        Some(score(t)?.reads)
    }),
    ("trimtab_late_reads_total", "Of these, reads that were late by the model's label.", |t| {
        Some(score(t)?.late)
    }),
    ("trimtab_predicted_late_total", "Of these, reads that the model predicted late.", |t| {
        Some(score(t)?.predicted_late)
    }),
    ("trimtab_false_submits_total", "Reads predicted fast that were late.", |t| {
        Some(score(t)?.false_submits)
    }),
    (
        "trimtab_false_revokes_total",
        "Reads predicted late and sent nevertheless that were fast.",
        |t| Some(score(t)?.false_revokes),
    ),
    ("trimtab_reader_asked_total", "Reads with a deadline, of all readers.", |t| {
        Some(t.readers?.figures.with_deadline)
    }),
    ("trimtab_reader_refused_total", "Of these, reads that were refused.", |t| {
        Some(t.readers?.figures.refused)
    }),
    (
        "trimtab_reader_bounded_total",
        "Of the refused, reads refused because too many were in flight.",
        |t| Some(t.readers?.figures.bounded),
    ),
    ("trimtab_reader_timed_out_total", "Reads not completed at their deadline.", |t| {
        Some(t.readers?.figures.timed_out)
    }),
    ("trimtab_reader_failed_open_total", "Of these, reads admitted without a forecast.", |t| {
        Some(t.readers?.figures.failed_open.total())
    }),
    ("trimtab_reader_late_total", "Reads that were admitted as fast, and were late.", |t| {
        Some(t.readers?.figures.late)
    }),
    (
        "trimtab_reader_forced_samples_total",
        "Completed reads that were sent although predicted late.",
        |t| Some(t.readers?.figures.forced_samples),
    ),
    ("trimtab_reader_fast_forced_samples_total", "Of these, reads that were fast.", |t| {
        Some(t.readers?.figures.fast_forced_samples)
    }),
    ("trimtab_state_missed_total", "Events that the state tracker missed.", |t| Some(t.missed)),
];

const NUMBERS: &[(&str, &str, Number)] = &[
    ("trimtab_readers", "Processes that read from the drive.", |t| Some(t.readers?.readers as f64)),
    (
        "trimtab_model_threshold_seconds",
        "Latency beyond which a 4 KiB read of an idle drive is late; absent if none is.",
        |t| Some(t.figures.model()?.card.label.threshold()?.as_secs_f64()),
    ),
    (
        "trimtab_drift_percentiles",
        "How far the inflection point has moved since training; NaN if it has appeared or vanished.",
        |t| {
            Some(match t.moved? {
                InflectionShift::By(percentiles) => percentiles,
                InflectionShift::Appeared | InflectionShift::Vanished => f64::NAN,
            })
        },
    ),
    ("trimtab_retrain_needed", "1 if the model should be trained again.", |t| {
        t.figures.model().map(|_| f64::from(u8::from(t.retrain)))
    }),
];

fn each<N: std::fmt::Display>(
    page: &mut Exposition,
    drives: &[DriveSummary<'_>],
    name: &'static str,
    metric: Metric,
    help: &str,
    of: fn(&DriveSummary<'_>) -> Option<N>,
) {
    page.metric(name, metric, help);
    for drive in drives {
        if let Some(number) = of(drive) {
            page.sample(&[("device", drive.device)], number);
        }
    }
}

fn latencies(page: &mut Exposition, drives: &[DriveSummary<'_>]) {
    type Of = fn(&DriveFigures) -> &LatencyBuckets;
    let both: [(&'static str, &str, Of); 2] = [
        ("trimtab_read_latency_seconds", "Reads, from arrival to completion.", DriveFigures::reads),
        (
            "trimtab_write_latency_seconds",
            "Writes, from arrival to completion.",
            DriveFigures::writes,
        ),
    ];
    for (name, help, of) in both {
        page.metric(name, Metric::Histogram, help);
        for drive in drives {
            let buckets = of(drive.figures);
            let bounds = buckets.cumulative().map(|(bound, n)| (bound.as_secs_f64(), n));
            let labels = [("device", drive.device)];
            page.histogram(&labels, bounds, buckets.count(), buckets.sum_seconds());
        }
    }
}

fn models(page: &mut Exposition, drives: &[DriveSummary<'_>]) {
    page.metric("trimtab_model_info", Metric::Gauge, "The model in use, as labels.");
    for drive in drives {
        let Some(model) = drive.figures.model() else { continue };
        let training = &model.card.training;
        let labels = [
            ("device", drive.device),
            ("predictor", model.card.predictor.name()),
            ("label", model.card.rule.name()),
            ("trace", &training.trace),
            ("fingerprint", &training.fingerprint),
        ];
        page.sample(&labels, 1);
    }
}

fn failed_open(page: &mut Exposition, drives: &[DriveSummary<'_>]) {
    let help = "Reads admitted without a forecast, by reason.";
    page.metric("trimtab_reader_failed_open_reason_total", Metric::Counter, help);
    for drive in drives {
        let Some(readers) = drive.readers else { continue };
        for (reason, number) in readers.figures.failed_open.by_reason() {
            page.sample(&[("device", drive.device), ("reason", reason)], number);
        }
    }
}

fn trainings(page: &mut Exposition, drives: &[DriveSummary<'_>]) {
    page.metric("trimtab_trainings_total", Metric::Counter, "Trainings by the agent.");
    for drive in drives.iter().filter(|drive| drive.figures.model().is_some()) {
        for (result, number) in [("done", drive.trained), ("failed", drive.failed)] {
            page.sample(&[("device", drive.device), ("result", result)], number);
        }
    }
}

fn lost(page: &mut Exposition, losses: &Losses) {
    page.metric("trimtab_lost_total", Metric::Counter, "Requests missing from the figures.");
    for (reason, number) in [
        ("ring_full", losses.ring_full),
        ("table_full", losses.table_full),
        ("never_completed", losses.never_completed),
    ] {
        page.sample(&[("reason", reason)], number);
    }
}
