//! The figures of a comparison on arrays.

use serde::Serialize;
use trimtab_array::staging::StagingCounts;
use trimtab_device::SsdStats;
use trimtab_io::{LatencyHistogram, Nanos, PERCENTILES};
use trimtab_sim::RaidRun;

use super::part::{self, PartFigures};

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
    /// The same in percent of the requests that a plain read sends, one to each member that holds
    /// what was asked for ("extra I/O" of the dissertation, §3.3.2).
    pub extra_requests_percent: f64,
    /// Stripes' reads by the number of members that were busy with themselves, in percent.
    pub busy_percent: [f64; 5],
    /// Requests of the user per second, reads and writes.
    pub iops: f64,
    /// Reads of the user per second.
    pub reads_per_s: f64,
    /// Writes of the user per second.
    pub writes_per_s: f64,
    /// Judged requests that arrived, complete or not.
    pub arrived: u64,
    /// Requests that had arrived and were not complete in the end.
    pub outstanding: u64,
    /// Units that the drives programmed, parity in the drive included, by those that were written;
    /// none: nothing was written.
    pub write_amplification: Option<f64>,
    /// Drive writes per day, of the fullest drive.
    pub dwpd: f64,
    /// Cleanings outside of the windows, of drives that have them.
    pub forced_outside_window: u64,
    /// Cleanings that ended outside of the windows, without having been forced.
    pub window_overruns: u64,
    /// User capacity of the array, bytes.
    pub capacity_bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// The length of the windows in the end, where the host manages them.
    pub window_ns: Option<Nanos>,
    /// Before and after the windows are changed; of runs without a change one, all of it.
    pub parts: Vec<PartFigures>,
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
    /// Its name: the strategy's, with the length of its windows if there is a row for each of several,
    /// if the scenario gives it none.
    pub name: String,
    /// The strategy.
    pub strategy: &'static str,
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

    /// Whether the array could not keep up: of the requests that arrived, a twentieth and more
    /// were not complete in the end. A closed loop never is.
    #[must_use]
    pub const fn is_overloaded(&self) -> bool {
        self.outstanding >= 1000 && self.outstanding * 20 >= self.arrived
    }

    /// Of a run that was judged from `began` on, in which the drives did this. `dwpd` is that of the
    /// fullest drive.
    pub(super) fn new(
        seed: u64,
        run: &RaidRun,
        began: Nanos,
        drives: &[SsdStats],
        dwpd: f64,
        capacity_bytes: u64,
    ) -> Self {
        let figures = &run.figures;
        let counts = figures.counts;
        let share = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
        let all_busy: u64 = counts.busy.iter().sum();
        let seconds = figures.until.since(began).as_secs_f64().max(1e-9);
        let sum = |of: fn(&SsdStats) -> u64| drives.iter().map(of).sum::<u64>();
        let per_second = |latencies: &LatencyHistogram| latencies.count() as f64 / seconds;
        let (reads_per_s, writes_per_s) = (per_second(&figures.reads), per_second(&figures.writes));
        Self {
            seed,
            reads: figures.reads.count(),
            mean_ns: figures.reads.mean().map_or(0.0, |mean| mean.0 as f64),
            percentiles: percentiles(&figures.reads),
            write_percentiles: percentiles(&figures.writes),
            extra_reads_percent: share(counts.extra_reads, counts.stripe_reads),
            extra_requests_percent: share(counts.extra_reads, counts.wanted_reads),
            busy_percent: counts.busy.map(|busy| share(busy, all_busy)),
            iops: reads_per_s + writes_per_s,
            reads_per_s,
            writes_per_s,
            arrived: figures.arrived,
            outstanding: run.outstanding,
            write_amplification: part::write_amplification(drives),
            dwpd,
            forced_outside_window: sum(|stats| stats.forced_outside_window),
            window_overruns: sum(|stats| stats.window_overruns),
            capacity_bytes,
            errors: figures.errors,
            window_ns: run.window,
            parts: PartFigures::of(&run.parts),
            buffer: run.staging.as_ref().map(BufferFigures::of),
        }
    }
}

impl BufferFigures {
    const fn of(counts: &StagingCounts) -> Self {
        Self {
            high_water_bytes: counts.high_water,
            staged_bytes: counts.staged,
            coalesced_bytes: counts.coalesced,
            stalled_writes: counts.stalled,
            stalled_ns: counts.stalled_time,
            read_hits: counts.read_hits,
        }
    }
}

/// The percentiles that have enough samples, by name, ns.
pub(super) fn percentiles(latencies: &LatencyHistogram) -> Vec<(&'static str, u64)> {
    let supported = PERCENTILES.iter().filter(|kind| kind.supported_by(latencies.count()));
    let value = |share| latencies.quantile(share).map_or(0, |value| value.0);
    supported.map(|kind| (kind.name, value(kind.share()))).collect()
}
