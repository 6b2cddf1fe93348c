//! An array's state and counters, as other processes get them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use trimtab_array::policy::TurnsStanding;

use crate::buckets::Buckets;
use crate::figures::{Latencies, Requests};
use crate::pace::Rates;
use crate::tasks::Check;

/// An array's state and counters, since its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stat {
    /// How the kernel reaches it: `ublk`, or `FUSE and loop`.
    pub backend: String,
    /// Its level, as mdadm names it.
    pub level: String,
    /// Bytes of a chunk; RAID 1 has none.
    pub chunk: Option<u64>,
    /// What says after a crash where members may differ: `bitmap`, `partial parity log`, `resync`
    /// (nothing: all of it is made equal) or `none`.
    pub consistency: String,
    /// Its bytes.
    pub capacity: u64,
    /// Which members reads ask.
    pub policy: String,
    /// `clean`, `active`, `degraded` or `failed`.
    pub state: String,
    /// Seconds since its start.
    pub uptime_s: f64,
    /// Of programs.
    pub reads: Requests,
    /// Of programs.
    pub writes: Requests,
    /// Of programs.
    pub flushes: Requests,
    /// Of programs: discards, and zeroes without data.
    #[serde(default)]
    pub discards: Requests,
    /// Of programs' reads.
    pub read_latency: Latencies,
    /// Of programs' writes.
    pub write_latency: Latencies,
    /// The same reads, of which intervals can be taken.
    #[serde(default)]
    pub read_buckets_ns: Buckets,
    /// The same writes.
    #[serde(default)]
    pub write_buckets_ns: Buckets,
    /// Requests that are not complete.
    pub in_flight: usize,
    /// The members, by their place in the layout.
    pub members: Vec<MemberStat>,
    /// Other devices: spares, those that replace members, and those that failed.
    #[serde(default)]
    pub others: Vec<MemberStat>,
    /// Reads that members refused, because cleaning would have delayed them (`ioda`).
    #[serde(default)]
    pub refused: u64,
    /// Reads of stripes whose data were computed from other members.
    pub computed: u64,
    /// Requests to members that were sent for reads beyond their own data.
    pub extra_reads: u64,
    /// Reads of stripes for programs.
    pub stripe_reads: u64,
    /// Strips that the policy had written again, so that members take turns.
    pub refreshed: u64,
    /// How it stands with turns, if the policy makes members take some.
    #[serde(default)]
    pub turns: Option<TurnsStat>,
    /// Reads of stripes that the policy did not decide on.
    pub without_policy: WithoutPolicy,
    /// Bytes of each member that may differ from the others, and have to be resynchronised.
    pub to_resync: u64,
    /// Bytes of missing members of which some may be computed wrongly, because the members had not been
    /// made equal there. It cannot be found out which.
    #[serde(default)]
    pub in_doubt: u64,
    /// Stripes that did not fit when they were resynchronised.
    pub resynced: u64,
    /// Bytes of each member whose bits in the write-intent bitmap are set.
    pub marked: u64,
    /// The last check.
    pub check: Option<Check>,
    /// How fast work beside requests may be.
    pub rates: Rates,
    /// Bytes per second of each member that it may be now, if there is some.
    pub rate: Option<u64>,
    /// Stripes of the array.
    pub stripes: u64,
    /// Protections that the machine refused, in words.
    pub lacking: Vec<String>,
}

/// How it stands with turns: those that the policy makes the members take at cleaning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnsStat {
    /// `wanted`, or why not: `off`, `no spare member`, `unknown`, `costly`, `delays reads`, `delays
    /// writes`, `delays clients`, `in vain`, `waits`.
    pub standing: String,
    /// Extra reads for each read, if all that is late were gone around, and nobody waited for others: the
    /// most lately.
    pub extra_reads: Option<f64>,
    /// Share of late reads lately, at most, and what turns may raise it to.
    pub late_reads: [f64; 2],
    /// Of late writes.
    pub late_writes: [f64; 2],
    /// Share of time in which all reads were late, at least, in each of the last cycles of cleaning.
    #[serde(default)]
    pub stalled_reads: Option<f64>,
    /// In which all writes were.
    #[serde(default)]
    pub stalled_writes: Option<f64>,
    /// Share of their time that turns would take from clients of which each waits for every request,
    /// lately and at most.
    #[serde(default)]
    pub lost: Option<f64>,
}

impl From<TurnsStanding> for TurnsStat {
    fn from(turns: TurnsStanding) -> Self {
        Self {
            standing: turns.standing.name().to_owned(),
            extra_reads: turns.extra_reads,
            late_reads: turns.late_reads,
            late_writes: turns.late_writes,
            stalled_reads: turns.stalled_reads,
            stalled_writes: turns.stalled_writes,
            lost: turns.lost,
        }
    }
}

/// Reads of stripes that were plain for a reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithoutPolicy {
    /// The members may differ there.
    pub unsynced: u64,
    /// No member can be done without.
    pub no_spare: u64,
    /// With `ioda`: reads of members that do not help.
    #[serde(default)]
    pub no_help: u64,
    /// With `ioda`: reads of members that had too many of them.
    #[serde(default)]
    pub no_slot: u64,
}

/// What is to replace a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// The device or file.
    pub path: PathBuf,
    /// Bytes that it has, of `all`.
    pub done: u64,
    /// Bytes of a member.
    pub all: u64,
}

/// A member's state and counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberStat {
    /// The device or file.
    pub path: Option<PathBuf>,
    /// `active`, `rebuilding`, `failed` or `missing`; of other devices `spare`, `replacing`,
    /// `failed` or `leaving`.
    pub state: String,
    /// Why it failed.
    pub why: Option<String>,
    /// Bytes that have been rebuilt, and of how many.
    pub rebuilt: Option<(u64, u64)>,
    /// What is to replace it, and how far that is.
    #[serde(default)]
    pub replacement: Option<Replacement>,
    /// Requests in flight.
    pub in_flight: u32,
    /// With `ioda`: whether its firmware helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helps: Option<bool>,
    /// With `ioda`: why it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_help: Option<String>,
    /// Reads that it refused.
    #[serde(default)]
    pub refused: u64,
    /// Of reads.
    pub read_latency: Latencies,
    /// Of writes.
    pub write_latency: Latencies,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes and flushes that failed.
    pub write_errors: u64,
    /// Reads that failed and were corrected by writing.
    pub corrected: u64,
}
