//! Why a policy makes members take turns, or not.

/// How it stands with turns, and by which figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TurnsStanding {
    /// The decision.
    pub standing: Standing,
    /// Extra reads for each read, if all that is late were gone around, and nobody waited for others: the
    /// most lately. None before enough is known.
    pub extra_reads: Option<f64>,
    /// Share of late reads lately, at most, and with turns.
    pub late_reads: [f64; 2],
    /// Of late writes.
    pub late_writes: [f64; 2],
    /// Share of time in which all reads were late, at least, in each of the last cycles of cleaning. None
    /// before there were enough.
    pub stalled_reads: Option<f64>,
    /// In which all writes were.
    pub stalled_writes: Option<f64>,
    /// Share of their time that turns would take from clients of which each waits for every request,
    /// lately and at most. None before it is known.
    pub lost: Option<f64>,
}

/// Whether a policy makes members take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The policy may write nothing for turns.
    Off,
    /// A read can do without no member.
    NoSpare,
    /// Members have had too few bursts so far, or there were too few requests.
    Unknown,
    /// Going around all that is late would take too many extra reads.
    Costly,
    /// p99 of reads would rise.
    DelaysReads,
    /// p99 of writes would rise.
    DelaysWrites,
    /// Clients that wait for their requests would get less done.
    DelaysClients,
    /// They were made, and members were busy at the same time again: they are tried again later.
    InVain,
    /// Turns are made whenever members are busy at the same time.
    Wanted,
    /// They would be made, but the array is checked or its members are made equal now.
    Waits,
}

impl Standing {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::NoSpare => "no spare member",
            Self::Unknown => "unknown",
            Self::Costly => "costly",
            Self::DelaysReads => "delays reads",
            Self::DelaysWrites => "delays writes",
            Self::DelaysClients => "delays clients",
            Self::InVain => "in vain",
            Self::Wanted => "wanted",
            Self::Waits => "waits",
        }
    }
}
