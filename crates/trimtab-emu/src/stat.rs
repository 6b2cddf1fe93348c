//! What a drive tells of itself.

use serde::{Deserialize, Serialize};
use trimtab_io::{Nanos, Op};

use super::figures::{Count, Latencies, PathStat};
use super::spec::Data;
use super::state::State;
use super::store::Store;
use super::undo::Loss;

/// What a drive has done since it was made, and does now. Rates are differences of
/// two of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stat {
    /// Seconds since it was ready.
    pub uptime_s: f64,
    /// Requests without an answer.
    pub in_flight: usize,
    /// Reads answered.
    pub reads: Count,
    /// Writes answered.
    pub writes: Count,
    /// Discards answered.
    pub discards: Count,
    /// Flushes answered.
    pub flushes: Count,
    /// Of reads: how long the model says they take, without faults.
    pub model_latency: Latencies,
    /// Of all requests: how much later than the model and the faults say the server
    /// answered.
    pub added_latency: Latencies,
    /// How much earlier than the model says answers are given, for the time that they
    /// and the requests are on their way; µs.
    pub lead_us: f64,
    /// Whether that was set, and is not corrected by what programs see.
    #[serde(default)]
    pub lead_is_fixed: bool,
    /// What programs see of the drive, measured by the block layer; none before the first
    /// reads, and where the machine refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathStat>,
    /// What was programmed for each unit that was written; none if none was.
    pub write_amplification: Option<f64>,
    /// Share of all dies' time that went into cleaning.
    pub cleaning_share: f64,
    /// Blocks erased.
    pub erases: u64,
    /// Times that everyone had to wait because free blocks had run out.
    pub stalls: u64,
    /// Erased blocks at hand.
    pub free_blocks: usize,
    /// Share of the drive's units that hold data, for the flash.
    pub mapped_share: f64,
    /// Where its content is: none, memory or file.
    pub data: String,
    /// Bytes that the content takes.
    pub data_bytes: u64,
    /// The most it may take, where there is such a thing.
    pub data_cap_bytes: Option<u64>,
    /// Bytes that were written and not flushed: what a power cut can take.
    pub unflushed_bytes: u64,
    /// The most of them.
    pub write_cache_bytes: u64,
    /// Where a flush reaches the disk below: what it took there.
    pub disk_flushes: Option<DiskFlushes>,
    /// Power cuts so far.
    pub power_cuts: u64,
    /// What the last of them did to the writes that were not flushed.
    pub last_power_cut: Option<Loss>,
    /// Requests that failed because the power was off.
    pub no_power: u64,
    /// Writes refused with `ENOSPC`, because there was no room for their content.
    pub no_room: u64,
    /// Faults that are on, in words.
    pub faults: Vec<String>,
    /// Whether there is a state to go back to.
    pub has_snapshot: bool,
    /// What the machine refuses of what keeps the server from deadlocks when memory is
    /// short, and from sleeping processors, in words.
    pub lacking: Vec<String>,
}

/// What flushes took on the disk below.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskFlushes {
    /// How long.
    pub latency: Latencies,
    /// Flushes that were answered later than the model says, because the disk took longer.
    pub late: u64,
    /// Flushes that failed there.
    pub failed: u64,
}

impl DiskFlushes {
    fn of(store: &Store) -> Option<Self> {
        let disk = store.is_durable().then(|| store.disk_flushes())?;
        let latency = (&disk.latency.summary()).into();
        Some(Self { latency, late: disk.late, failed: disk.failed })
    }
}

impl Stat {
    /// Requests answered, of all kinds.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.reads.requests + self.writes.requests + self.discards.requests + self.flushes.requests
    }

    pub(super) fn of<T>(state: &mut State<T>, store: &Store, data: &Data, now: Nanos) -> Self {
        state.pass_time(now);
        let uptime = now.since(state.figures.since);
        let (study, ssd) = (state.ssd().study(), state.ssd());
        let g = &state.profile().geometry;
        let dies = g.channels * g.chips_per_channel * g.dies_per_chip;
        let die_time = (uptime.as_secs_f64() * f64::from(dies)).max(1e-9);
        let units = ssd.capacity() / u64::from(state.profile().ftl.unit_bytes);
        let (data_bytes, data_cap_bytes) = store.used();
        let (unflushed_bytes, write_cache_bytes) = store.unflushed();
        let cuts = store.cuts();
        let figures = &state.figures;
        Self {
            uptime_s: uptime.as_secs_f64(),
            in_flight: state.in_flight(),
            reads: figures.counts(Op::Read),
            writes: figures.counts(Op::Write),
            discards: figures.counts(Op::Discard),
            flushes: figures.counts(Op::Flush),
            model_latency: (&figures.reads.summary()).into(),
            added_latency: (&figures.added.summary()).into(),
            lead_us: state.lead().as_micros_f64(),
            lead_is_fixed: state.lead_is_fixed(),
            path: figures.path(),
            write_amplification: study.write_amplification(),
            cleaning_share: study.cleaning.as_secs_f64() / die_time,
            erases: study.erases,
            stalls: study.stalls,
            free_blocks: ssd.free_blocks(),
            mapped_share: ssd.valid_units() as f64 / units.max(1) as f64,
            data: data.name().to_owned(),
            data_bytes,
            data_cap_bytes,
            unflushed_bytes,
            write_cache_bytes,
            disk_flushes: DiskFlushes::of(store),
            power_cuts: cuts.count,
            last_power_cut: cuts.loss,
            no_power: cuts.refused,
            no_room: figures.no_room,
            faults: state.faults.active(now),
            has_snapshot: state.has_snapshot(),
            lacking: Vec::new(),
        }
    }
}
