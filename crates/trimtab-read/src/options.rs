//! How a reader decides.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use trimtab_io::Nanos;
use trimtab_predict::Model;

use crate::drive_state::Source;
use crate::error::Error;
use crate::limiter::Rules;
use crate::published::readers;

/// How a reader decides. The default refuses nothing: it has no model.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The drive's model; none: every read is admitted, and counted.
    pub model: Option<Arc<Model>>,
    /// Where the drive's present state comes from: `/sys/fs/bpf/trimtab`.
    pub source: Source,
    /// The state counts as stale when its tracker's last heartbeat is older than this: 1 s.
    /// Heartbeats come every 50 ms, later on a busy machine.
    pub oldest: Duration,
    /// The interval at which an avoided drive is probed: 10 ms. A predictor that decides by
    /// the last four answers uses a recovered drive again after four probes. The same holds
    /// for a part of a drive that is avoided while others are read. Shorter busy periods
    /// need no probes and get none.
    pub probe_every: Duration,
    /// How many reads that are forecast to be late may be outstanding on a drive: 4, counting
    /// probes, samples and reads over the refusal cap together, of all readers of the drive
    /// in this process. Each may hold up a thread of the application, so the bound holds
    /// whatever [`most_refused`](Self::most_refused) says: a read beyond it is refused.
    pub probes_out: u32,
    /// One in this many reads that are forecast to be late is sent all the same: 1,000. These
    /// samples measure how many refusals are wrong, and keep a part of a drive from being
    /// refused for ever. 0: none.
    pub sample_every: u32,
    /// The refusal cap: the share of reads that may be refused, 0 to 1: 0.98. It holds for the
    /// reads with a deadline of each second, counted from the second's beginning: a read that
    /// is alone in its second is always sent, unless [`probes_out`](Self::probes_out) reads
    /// are outstanding. With 1 there is no cap.
    pub most_refused: f64,
    /// How many abandoned reads of a drive may be outstanding, of all readers of the drive in
    /// this process: 64. At that number reads with a deadline are refused, with any model and
    /// without one. This bounds the memory that a dead drive takes (at most 1 MiB for each
    /// read, mostly 4 KiB).
    pub most_abandoned: u32,
    /// Whether to read past the page cache (`O_DIRECT`); for [`Reader::open`], one made
    /// [from a file](super::Reader::from_file) reads as that was opened. Offsets,
    /// lengths and buffers are to be aligned as the device asks, mostly to 512 bytes.
    ///
    /// [`Reader::open`]: super::Reader::open
    pub direct: bool,
    /// The directory in which the reader publishes its counters: [`readers`](super::readers).
    /// A directory that cannot be written is no error.
    pub publish: Option<PathBuf>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            model: None,
            source: Source::default(),
            oldest: Duration::from_secs(1),
            probe_every: Duration::from_millis(10),
            probes_out: 4,
            sample_every: 1000,
            most_refused: 0.98,
            most_abandoned: 64,
            direct: false,
            publish: Some(readers()),
        }
    }
}

impl ReadOptions {
    /// With a model, and otherwise as by default.
    #[must_use]
    pub fn with_model(model: Model) -> Self {
        Self { model: Some(Arc::new(model)), ..Self::default() }
    }

    pub(super) fn rules(&self) -> Result<Rules, Error> {
        if !(0.0..=1.0).contains(&self.most_refused) {
            let why = format!("most_refused is a share from 0 to 1, not {}", self.most_refused);
            return Err(Error::Option(why));
        }
        if self.probes_out == 0 {
            let why = "probes_out is at least 1: a drive that is never probed is lost for good";
            return Err(Error::Option(why.to_owned()));
        }
        if self.most_abandoned == 0 {
            let why = "most_abandoned is at least 1: with none every read would be refused";
            return Err(Error::Option(why.to_owned()));
        }
        Ok(Rules {
            probe_every: nanos(self.probe_every),
            forced_out: self.probes_out,
            sample_every: self.sample_every.into(),
            most_refused: self.most_refused,
        })
    }
}

/// What does not fit is for ever.
pub(super) fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
