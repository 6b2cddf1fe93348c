//! The first paragraph of a report: what was slow, how much, when, and whether anything was
//! lost.
//!
//! A slow response is one beyond the knee of the distribution of reads and writes together, as
//! in `trimtab evaluate`. The knee is sought in all but the slowest 3%; if no response beyond
//! it is notably slower than the median, it is sought in all.

use trimtab_io::{LatencyHistogram, Nanos, Op};
use trimtab_report::count;
use trimtab_trace::{OpPlots, Plots, SlowOverTime};
use trimtab_train::label::{knee_of_all_counts, knee_of_counts};

use super::TraceReport;
use crate::units;

/// The knee is sought below the 97th percentile, which this many samples support: 10 / (1 −
/// 0.97).
const FEWEST_FOR_KNEE: u64 = 334;
/// Slow reads are notable if half of them take at least this many times the median of all
/// reads.
const NOTABLE: f64 = 2.0;
/// Percentage of the slow reads whose times a report gives.
pub(super) const TOLD_PERCENT: u64 = 80;
/// If their stretches take a greater share of the time than this, slow reads are reported as
/// occurring throughout.
const CONCENTRATED: f64 = 0.25;
/// The most stretches named in the sentence.
const MOST_NAMED: usize = 3;
/// The most stretches in the table and the plots.
const MOST_STRETCHES: usize = 40;

/// The latency beyond which a response is slow; `None` if there are too few, or all are the
/// same.
pub(super) fn threshold(data: &LatencyHistogram) -> Option<Nanos> {
    if data.count() < FEWEST_FOR_KNEE {
        return None;
    }
    let counts: Vec<_> = data.buckets().collect();
    let median = data.quantile(0.5)?.0.max(1) as f64;
    let stands_out = |beyond: &Nanos| {
        let slow: u64 = counts.iter().filter(|(l, _)| l > beyond).map(|(_, count)| count).sum();
        let middle = 1.0 - slow as f64 / 2.0 / data.count() as f64;
        slow > 0 && data.quantile(middle).is_some_and(|l| l.0 as f64 >= NOTABLE * median)
    };
    let knee = knee_of_counts(&counts);
    let whole = || knee_of_all_counts(&counts).filter(stands_out);
    knee.filter(stands_out).or_else(whole).or(knee)
}

/// A stretch of time that contains many of the slow reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    /// Since the first arrival.
    pub(super) from: Nanos,
    pub(super) to: Nanos,
    pub(super) slow: u64,
    /// Megabytes per second requested by writes in it.
    pub(super) written_mb_s: f64,
}

/// The fewest stretches that hold [`TOLD_PERCENT`] of the slow reads; none if slow reads occur
/// throughout.
pub(super) fn stretches(plots: &Plots) -> Vec<Stretch> {
    let Some((_, slow)) = slow_reads(plots).filter(|(read, slow)| are_notable(read, slow)) else {
        return Vec::new();
    };
    let mut by_count: Vec<usize> = (0..slow.counts.len()).collect();
    by_count.sort_by_key(|&bin| (std::cmp::Reverse(slow.counts[bin]), bin));
    let mut held = 0;
    let enough = by_count.iter().take_while(|&&bin| {
        let more = held * 100 < slow.total * TOLD_PERCENT;
        held += slow.counts[bin];
        more
    });
    let mut chosen: Vec<usize> = enough.copied().collect();
    chosen.sort_unstable();
    let time = slow.bins.width.0 as f64 * chosen.len() as f64;
    if time > CONCENTRATED * plots.duration.0 as f64 {
        return Vec::new();
    }
    let edge = |bin: usize| Nanos(slow.bins.start.0 + slow.bins.width.0 * bin as u64);
    let runs = chosen.chunk_by(|a, b| a + 1 == *b);
    let mut found: Vec<_> = runs
        .map(|run| {
            let (first, last) = (run[0], run[run.len() - 1]);
            let (from, to) = (edge(first), edge(last + 1).min(plots.duration));
            let slow = slow.counts[first..=last].iter().sum();
            Stretch { from, to, slow, written_mb_s: written(plots, from, to) }
        })
        .collect();
    found.sort_by_key(|stretch| std::cmp::Reverse(stretch.slow));
    found.truncate(MOST_STRETCHES);
    found.sort_by_key(|stretch| stretch.from);
    found
}

/// The mean rate of writes within a time, MB/s.
fn written(plots: &Plots, from: Nanos, to: Nanos) -> f64 {
    let Some(writes) = plots.ops.iter().find(|op| op.op == Op::Write) else { return 0.0 };
    let (start, width) = (plots.rate_bins.start.0, plots.rate_bins.width.0);
    let (mut sum, mut covered) = (0.0, 0.0);
    for (rate, i) in writes.mb_s.iter().zip(0_u64..) {
        let (begin, end) = (start + width * i, start + width * (i + 1));
        let overlap = end.min(to.0).saturating_sub(begin.max(from.0)) as f64;
        sum += rate.unwrap_or(0.0) * overlap;
        covered += overlap;
    }
    if covered > 0.0 { sum / covered } else { 0.0 }
}

fn slow_reads(plots: &Plots) -> Option<(&OpPlots, &SlowOverTime)> {
    let read = plots.ops.iter().find(|op| op.op == Op::Read)?;
    Some((read, read.slow.as_ref()?))
}

/// The median of the slow reads, as a multiple of the median of all.
fn times_the_median(read: &OpPlots, slow: &SlowOverTime) -> f64 {
    let median = read.response.quantile(0.5).unwrap_or_default().0.max(1) as f64;
    slow.median.0 as f64 / median
}

fn are_notable(read: &OpPlots, slow: &SlowOverTime) -> bool {
    slow.total > 0 && times_the_median(read, slow) >= NOTABLE
}

/// The report's first paragraph.
pub(super) fn verdict(trace: &TraceReport, stretches: &[Stretch]) -> Vec<String> {
    let mut sentences = vec![slowness(&trace.plots)];
    sentences.extend(when(&trace.plots, stretches));
    let at = if was_lost(trace) { 0 } else { sentences.len() };
    sentences.insert(at, lost(trace));
    if trace.skipped > 0 {
        let skipped = count(trace.skipped);
        sentences.push(format!("{skipped} malformed records were skipped."));
    }
    sentences
}

/// Whether anything was lost; the report then begins with that.
fn was_lost(trace: &TraceReport) -> bool {
    let lost = |value: &String| value.parse().is_ok_and(|count: u64| count > 0);
    trace.notes.iter().any(|(key, value)| key.starts_with("lost") && lost(value))
}

/// The losses that the recording notes; every note of losses begins with "lost".
fn lost(trace: &TraceReport) -> String {
    let notes = trace.notes.iter().filter(|(key, _)| key.starts_with("lost"));
    let counts: Vec<(&str, u64)> =
        notes.filter_map(|(key, value)| Some((key.as_str(), value.parse().ok()?))).collect();
    if counts.is_empty() {
        return "The trace does not record whether anything was lost.".to_owned();
    }
    let some: Vec<_> = counts.iter().filter(|(_, count)| *count > 0).collect();
    if some.is_empty() {
        return "The recording lost nothing.".to_owned();
    }
    let told = some.iter().map(|(key, lost)| match *key {
        "lost" => format!("{} requests or completions", count(*lost)),
        other => format!("{} ({})", count(*lost), other.replace(['_', '.'], " ")),
    });
    let told: Vec<_> = told.collect();
    let told = told.join(", ");
    format!("The recording lost {told}: they are missing from all figures below.")
}

fn slowness(plots: &Plots) -> String {
    let Some(read) = plots.ops.iter().find(|op| op.op == Op::Read) else {
        return "There are no reads, so none was slow.".to_owned();
    };
    let measured = read.response.count();
    if measured == 0 {
        return "Which reads were slow is unknown: their completions were not measured.".to_owned();
    }
    let (Some(beyond), Some(slow)) = (plots.slow_beyond, &read.slow) else {
        let reads = count(measured);
        return match read.response.max() == read.response.quantile(0.0) && measured > 1 {
            true => format!("None of {reads} reads was slow: all took the same time."),
            false => format!(
                "Which reads were slow cannot be determined: that takes {FEWEST_FOR_KNEE} \
                 latencies of reads and writes, and {reads} reads were measured."
            ),
        };
    };
    let times = times_the_median(read, slow);
    let (of, share) = (count(measured), slow.total as f64 / measured as f64);
    if slow.total == 0 {
        return format!("None of {of} reads was slow: none took more than {beyond}.");
    }
    let (some, share) = (count(slow.total), units::percent(share));
    if !are_notable(read, slow) {
        return format!(
            "No read stood out: the slowest {some} of {of} ({share}, beyond {beyond}) took {times:.1} \
             times the median, typically."
        );
    }
    format!(
        "{some} of {of} reads ({share}) were slow: they took more than {beyond}, typically {times:.1} \
         times the median, up to {}.",
        read.response.max().unwrap_or_default()
    )
}

/// When the slow reads occurred, and the rate of writes then.
fn when(plots: &Plots, stretches: &[Stretch]) -> Vec<String> {
    let notable = slow_reads(plots).is_some_and(|(read, slow)| are_notable(read, slow));
    if !notable || plots.duration == Nanos::ZERO {
        return Vec::new();
    }
    if stretches.is_empty() {
        return vec!["They occurred throughout.".to_owned()];
    }
    let taken: u64 = stretches.iter().map(|s| s.to.since(s.from).0).sum();
    let share = units::percent(taken as f64 / plots.duration.0 as f64);
    let mut named: Vec<_> = stretches.iter().collect();
    named.sort_by_key(|stretch| std::cmp::Reverse(stretch.slow));
    named.truncate(MOST_NAMED);
    named.sort_by_key(|stretch| stretch.from);
    let spans: Vec<_> =
        named.iter().map(|s| format!("{} to {}", units::long(s.from), units::long(s.to))).collect();
    let most = if stretches.len() > MOST_NAMED { ", most of them at " } else { ": at " };
    let mut told = vec![format!(
        "{TOLD_PERCENT}% of them occurred in {share} of the time{most}{}.",
        spans.join(", ")
    )];
    if plots.ops.iter().any(|op| op.op == Op::Write && op.bytes > 0) {
        let then = stretches.iter().map(|s| s.written_mb_s * s.to.since(s.from).0 as f64);
        let then = then.sum::<f64>() / taken.max(1) as f64;
        let overall = written(plots, Nanos::ZERO, plots.duration);
        told.push(format!(
            "Writes ran at {then:.1} MB/s then, {overall:.1} MB/s over the whole time."
        ));
    }
    told
}

#[cfg(test)]
mod tests {
    use trimtab_io::DeviceId;
    use trimtab_trace::{Record, Series};

    use super::*;

    /// A read each millisecond; those that `slow` selects take 20 ms, the others 100 µs.
    fn trace(reads: u64, slow: impl Fn(u64) -> bool, notes: &[(&str, &str)]) -> TraceReport {
        let mut series = Series::new();
        for i in 0..reads {
            let arrival = Nanos::from_millis(i);
            let took = if slow(i) { 20_000 } else { 100 + i % 7 };
            series.add(&Record {
                complete: Some(arrival + Nanos::from_micros(took)),
                ..Record::arriving(arrival, DeviceId(0), Op::Read, 0, 4096)
            });
            if slow(i) {
                series.add(&Record::arriving(arrival, DeviceId(0), Op::Write, 0, 1 << 20));
            }
        }
        let notes = notes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        TraceReport {
            name: "t".to_owned(),
            files: vec!["t".into()],
            format: "parquet",
            unix_clock: false,
            has_offsets: true,
            devices: Vec::new(),
            notes: notes.collect(),
            skipped: 0,
            plots: series.finish_marking(threshold),
        }
    }

    fn told(trace: &TraceReport) -> String {
        verdict(trace, &stretches(&trace.plots)).join(" ")
    }

    #[test]
    fn verdict_gives_share_times_and_writes_of_slow_reads() {
        let trace = trace(10_000, |i| (3_000..3_200).contains(&i) && i % 2 == 0, &[("lost", "0")]);
        let told = told(&trace);
        assert!(told.ends_with("The recording lost nothing."), "{told}");
        assert!(told.contains("of 10,000 reads (") && told.contains("were slow"), "{told}");
        assert!(told.contains("80% of them occurred in"), "{told}");
        assert!(told.contains("MB/s then"), "{told}");
        // All within the stretch in which reads were made slow, except for the bins' edges.
        let edge = Nanos::from_millis(100);
        for stretch in stretches(&trace.plots) {
            assert!(stretch.from + edge >= Nanos::from_millis(3_000), "{stretch:?}");
            assert!(stretch.to <= Nanos::from_millis(3_200) + edge, "{stretch:?}");
            assert!(stretch.written_mb_s > 100.0, "{stretch:?}");
        }
    }

    #[test]
    fn one_percent_of_slow_reads_is_found() {
        let told = told(&trace(10_000, |i| i % 100 == 7, &[]));
        assert!(told.starts_with("100 of 10,000 reads (1.0%) were slow"), "{told}");
    }

    #[test]
    fn verdict_without_notable_slow_reads() {
        let told = told(&trace(10_000, |_| false, &[]));
        assert!(told.contains("No read stood out"), "{told}");
        assert!(told.ends_with("whether anything was lost."), "{told}");
    }

    #[test]
    fn reads_slow_throughout_have_no_stretches() {
        let trace = trace(10_000, |i| i % 20 == 0, &[]);
        assert!(stretches(&trace.plots).is_empty());
        assert!(told(&trace).contains("occurred throughout"), "{}", told(&trace));
    }

    #[test]
    fn too_few_reads_give_no_verdict() {
        let told = told(&trace(40, |i| i % 10 == 0, &[]));
        assert!(told.contains("cannot be determined") && told.contains("40 reads"), "{told}");
    }

    #[test]
    fn losses_come_first() {
        let told = told(&trace(1_000, |_| false, &[("lost", "1234"), ("lost_completions", "5")]));
        let expected = "The recording lost 1,234 requests or completions, 5 (lost completions): they are missing";
        assert!(told.starts_with(expected), "{told}");
    }
}
