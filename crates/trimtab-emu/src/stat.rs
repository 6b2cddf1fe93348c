//! A drive's statistics.

use serde::{Deserialize, Serialize};
use trimtab_device::{Disk, Drive, DriveProfile, Profile, Ssd};
use trimtab_io::{Nanos, Op};

use super::figures::{Latencies, OpCount, PathStat};
use super::predictable::PredictableStat;
use super::spec::Data;
use super::state::State;
use super::store::Store;
use super::undo::PowerLoss;

/// Statistics of a drive since it was made. Rates are differences of two of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stat {
    /// How the kernel reaches it: `ublk`, or `FUSE and loop`.
    #[serde(default)]
    pub backend: String,
    /// Seconds since it was ready.
    pub uptime_s: f64,
    /// Requests without an answer.
    pub in_flight: usize,
    /// Reads answered.
    pub reads: OpCount,
    /// Writes answered.
    pub writes: OpCount,
    /// Discards answered.
    pub discards: OpCount,
    /// Flushes answered.
    pub flushes: OpCount,
    /// Read latency by the model, without faults.
    pub model_latency: Latencies,
    /// All requests: how much later than the model and the faults ask for the server answered.
    pub added_latency: Latencies,
    /// Latency compensation: how much earlier than the model says answers are given, µs.
    #[serde(rename = "lead_us")]
    pub compensation_us: f64,
    /// Whether the compensation is fixed, and not corrected.
    #[serde(default, rename = "lead_is_fixed")]
    pub compensation_is_fixed: bool,
    /// End-to-end read latency, measured at the block layer; `None` before the first reads, and
    /// where the machine refuses the tracepoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathStat>,
    /// The same since the log began ([`Drive::begin_log`](super::Drive::begin_log)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logged_path: Option<PathStat>,
    /// The flash; `None` of a disk.
    #[serde(flatten)]
    pub flash: Option<FlashStat>,
    /// The arm and the buffer; `None` of flash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskStat>,
    /// Where its content is: none, memory or file.
    pub data: String,
    /// Bytes of content allocated.
    pub data_bytes: u64,
    /// Their cap, if there is one.
    pub data_cap_bytes: Option<u64>,
    /// Bytes written and not flushed: what a power cut can take.
    pub unflushed_bytes: u64,
    /// Capacity of the volatile write cache.
    pub write_cache_bytes: u64,
    /// Flush latency of the disk below, where flushes are durable.
    pub disk_flushes: Option<DiskFlushes>,
    /// Power cuts.
    pub power_cuts: u64,
    /// The effect of the last cut on writes that were not flushed.
    pub last_power_cut: Option<PowerLoss>,
    /// Requests that failed because the power was off.
    pub no_power: u64,
    /// Writes refused with `ENOSPC`: no space for their content.
    pub no_room: u64,
    /// Reads that an array flagged and that were refused, because cleaning would have delayed them.
    #[serde(default)]
    pub refused: u64,
    /// For which array it cleans in windows and refuses reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictable: Option<PredictableStat>,
    /// Active faults, in words.
    pub faults: Vec<String>,
    /// Whether there is a snapshot to return to.
    pub has_snapshot: bool,
    /// Protections that the machine refused (against deadlocks under memory pressure, against idle
    /// states), in words.
    pub lacking: Vec<String>,
}

/// Flash since the drive was made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlashStat {
    /// Units programmed per unit written; `None` before the first write.
    pub write_amplification: Option<f64>,
    /// Share of all dies' time spent cleaning.
    pub cleaning_share: f64,
    /// Blocks erased.
    pub erases: u64,
    /// Times that requests had to wait because free blocks had run out.
    pub stalls: u64,
    /// Erased blocks available.
    pub free_blocks: usize,
    /// Share of the flash's units that are mapped.
    pub mapped_share: f64,
}

impl FlashStat {
    fn of(ssd: &Ssd, profile: &Profile, uptime: Nanos) -> Self {
        let (stats, g) = (ssd.stats(), &profile.geometry);
        let dies = g.channels * g.chips_per_channel * g.dies_per_chip;
        let die_time = (uptime.as_secs_f64() * f64::from(dies)).max(1e-9);
        let units = ssd.capacity() / u64::from(profile.ftl.unit_bytes);
        Self {
            write_amplification: stats.write_amplification(),
            cleaning_share: stats.cleaning.as_secs_f64() / die_time,
            erases: stats.erases,
            stalls: stats.stalls,
            free_blocks: ssd.free_blocks(),
            mapped_share: ssd.valid_units() as f64 / units.max(1) as f64,
        }
    }
}

/// A disk since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskStat {
    /// Reads from the buffer.
    pub hits: u64,
    /// Reads by the arm.
    pub misses: u64,
    /// Writes that completed in the buffer.
    pub buffered_writes: u64,
    /// Extents written back from the buffer.
    pub written_back: u64,
    /// Requests that were next because they had waited for long (`queue.starvation_ms`).
    pub starved: u64,
    /// Share of the time that the arm moved.
    pub seeking_share: f64,
    /// Share of the time that the arm waited for a sector.
    pub rotating_share: f64,
    /// Share of the time that data passed the head.
    pub transferring_share: f64,
}

impl DiskStat {
    fn of(disk: &Disk, uptime: Nanos) -> Self {
        let stats = disk.stats();
        let share = |time: Nanos| time.as_secs_f64() / uptime.as_secs_f64().max(1e-9);
        Self {
            hits: stats.hits,
            misses: stats.misses,
            buffered_writes: stats.buffered_writes,
            written_back: stats.written_back,
            starved: stats.starved,
            seeking_share: share(stats.seeking),
            rotating_share: share(stats.rotating),
            transferring_share: share(stats.transferring),
        }
    }
}

/// Flushes of the disk below.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskFlushes {
    /// Their latency.
    pub latency: Latencies,
    /// Flushes answered later than the model says, because of the disk.
    pub late: u64,
    /// Flushes that failed on the disk.
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
        let (flash, disk) = match (state.model(), state.profile()) {
            (Drive::Flash(ssd), DriveProfile::Flash(profile)) => {
                (Some(FlashStat::of(ssd, profile, uptime)), None)
            }
            (Drive::Disk(disk), _) => (None, Some(DiskStat::of(disk, uptime))),
            (Drive::Flash(_), DriveProfile::Disk(_)) => (None, None),
        };
        let (data_bytes, data_cap_bytes) = store.used();
        let (unflushed_bytes, write_cache_bytes) = store.unflushed();
        let cuts = store.cuts();
        let figures = &state.figures;
        Self {
            backend: String::new(),
            uptime_s: uptime.as_secs_f64(),
            in_flight: state.in_flight(),
            reads: figures.counts(Op::Read),
            writes: figures.counts(Op::Write),
            discards: figures.counts(Op::Discard),
            flushes: figures.counts(Op::Flush),
            model_latency: (&figures.reads.summary()).into(),
            added_latency: (&figures.added.summary()).into(),
            compensation_us: state.compensation().as_micros_f64(),
            compensation_is_fixed: state.compensation_is_fixed(),
            path: figures.path(),
            logged_path: figures.logged_path(),
            flash,
            disk,
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
            refused: figures.refused,
            predictable: state.predictable_stat(),
            faults: state.faults.active(now),
            has_snapshot: state.has_snapshot(),
            lacking: Vec::new(),
        }
    }
}
