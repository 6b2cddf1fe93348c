//! The figures of a comparison on arrays.

use serde::Serialize;
use trimtab_array::driver::Figures;
use trimtab_array::staging::StagingCounts;
use trimtab_device::SsdStats;
use trimtab_io::{LatencyHistogram, Nanos, PERCENTILES};

/// Names of the classes of stripes' reads by their busy members.
pub const BUSY_CLASSES: [&str; 5] = ["none", "1", "2", "3", "4 and more"];

/// The figures of one row with one seed.
#[derive(Clone, Debug, Serialize)]
pub struct ArrayFigures {
    /// The seed.
    pub seed: u64,
    /// Judged reads; each is a sample.
    pub reads: u64,
    /// Mean latency of reads, ns.
    pub mean_ns: f64,
    /// Percentiles of the latency of reads that have enough samples, by name, ns.
    pub percentiles: Vec<(&'static str, u64)>,
    /// The same of writes.
    pub write_percentiles: Vec<(&'static str, u64)>,
    /// Requests to members beyond the wanted ones, in percent of the stripes' reads.
    pub extra_reads_percent: f64,
    /// Stripes' reads by the number of members that were busy with themselves, in percent.
    pub busy_percent: [f64; 5],
    /// Requests of the user per second, reads and writes.
    pub iops: f64,
    /// Units that the drives programmed, parity in the drive included, by those that were written.
    pub write_amplification: f64,
    /// Drive writes per day, of the fullest drive.
    pub dwpd: f64,
    /// Cleanings outside of the windows, of drives that have them.
    pub forced_outside_window: u64,
    /// Requests that failed.
    pub errors: u64,
    /// The length of the windows in the end, where the host manages them.
    pub window_ns: Option<Nanos>,
    /// Of strategies with a write buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<BufferFigures>,
}

/// What a write buffer did, from the beginning of the run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BufferFigures {
    /// The most bytes that it held: what the strategy relies on.
    pub high_water_bytes: u64,
    /// Bytes of the writes to members that it took, parity included.
    pub staged_bytes: u64,
    /// Of these, bytes that were overwritten in it and written to no drive.
    pub coalesced_bytes: u64,
    /// Writes to members that waited for room.
    pub stalled_writes: u64,
    /// How long they waited, all together, ns.
    pub stalled_ns: Nanos,
    /// Reads of members that it served alone.
    pub read_hits: u64,
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct ArrayRow {
    /// The strategy.
    pub name: &'static str,
    /// By seed.
    pub seeds: Vec<ArrayFigures>,
    /// The latencies of reads, of all seeds together.
    #[serde(skip)]
    pub latencies: LatencyHistogram,
    /// Why it has no figures: there is no such array of such drives.
    pub impossible: Option<String>,
}

/// The result of a comparison on arrays.
#[derive(Clone, Debug, Serialize)]
pub struct ArrayReport {
    /// The seeds.
    pub seeds: Vec<u64>,
    /// In the order of the scenario.
    pub strategies: Vec<ArrayRow>,
}

impl ArrayRow {
    /// The median over the seeds of what `of` takes from each; none if one has it not.
    #[must_use]
    pub fn median(&self, of: impl Fn(&ArrayFigures) -> Option<f64>) -> Option<f64> {
        let mut values = self.seeds.iter().map(of).collect::<Option<Vec<_>>>()?;
        values.sort_unstable_by(f64::total_cmp);
        (!values.is_empty()).then(|| crate::figures::median(&values))
    }
}

impl ArrayFigures {
    /// A percentile of the latency of reads, ns.
    #[must_use]
    pub fn percentile(&self, name: &str) -> Option<f64> {
        let found = self.percentiles.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value as f64)
    }

    pub(super) fn new(
        seed: u64,
        figures: &Figures,
        began: Nanos,
        drives: &[(SsdStats, f64)],
        window: Option<Nanos>,
    ) -> Self {
        let percentiles = |latencies: &LatencyHistogram| {
            let supported = PERCENTILES.iter().filter(|kind| kind.supported_by(latencies.count()));
            let value = |share| latencies.quantile(share).map_or(0, |value| value.0);
            supported.map(|kind| (kind.name, value(kind.share()))).collect()
        };
        let counts = figures.counts;
        let share = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
        let all_busy: u64 = counts.busy.iter().sum();
        let seconds = figures.until.since(began).as_secs_f64().max(1e-9);
        let sum = |of: fn(&SsdStats) -> u64| drives.iter().map(|(stats, _)| of(stats)).sum::<u64>();
        let written = sum(|stats| stats.user_units_written).max(1);
        let programmed =
            sum(|stats| stats.units_programmed + stats.units_moved + stats.parity_units);
        Self {
            seed,
            reads: figures.reads.count(),
            mean_ns: figures.reads.mean().map_or(0.0, |mean| mean.0 as f64),
            percentiles: percentiles(&figures.reads),
            write_percentiles: percentiles(&figures.writes),
            extra_reads_percent: share(counts.extra_reads, counts.stripe_reads),
            busy_percent: counts.busy.map(|busy| share(busy, all_busy)),
            iops: (figures.reads.count() + figures.writes.count()) as f64 / seconds,
            write_amplification: programmed as f64 / written as f64,
            dwpd: drives.iter().map(|(_, dwpd)| *dwpd).fold(0.0, f64::max),
            forced_outside_window: sum(|stats| stats.forced_outside_window),
            errors: figures.errors,
            window_ns: window,
            buffer: None,
        }
    }

    pub(super) fn with_buffer(self, counts: Option<&StagingCounts>) -> Self {
        let buffer = counts.map(|counts| BufferFigures {
            high_water_bytes: counts.high_water,
            staged_bytes: counts.staged,
            coalesced_bytes: counts.coalesced,
            stalled_writes: counts.stalled,
            stalled_ns: counts.stalled_time,
            read_hits: counts.read_hits,
        });
        Self { buffer, ..self }
    }
}
