//! Options of a reader.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use trimtab_io::Nanos;
use trimtab_predict::Model;

use crate::auto::AutoOptions;
use crate::drive_state::Source;
use crate::error::Error;
use crate::limiter::Rules;
use crate::published::readers;

/// Options of a reader's decisions. The default refuses nothing: it has no model.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The drive's model; `None`: every read is admitted, and counted.
    pub model: Option<Arc<Model>>,
    /// Source of the drive's present state. Default: `/sys/fs/bpf/trimtab`.
    pub source: Source,
    /// The state counts as stale if its tracker's last heartbeat is older than this. Default:
    /// 1 s. Heartbeats come every 50 ms, later on a busy machine.
    pub oldest: Duration,
    /// The interval at which an avoided drive is probed. Default: 10 ms. A predictor that uses
    /// the last four latencies accepts a recovered drive again after four probes. The same
    /// holds for a part of a drive that is avoided while others are read. Shorter busy periods
    /// get no probes.
    pub probe_every: Duration,
    /// How many reads that are forecast to be late may be outstanding on a drive. Default: 4,
    /// counting probes, samples and reads over the refusal cap together, of all readers of the
    /// drive in this process. Each may hold up a thread of the application, so the bound takes
    /// precedence over [`most_refused`](Self::most_refused): a read beyond it is refused.
    pub probes_out: u32,
    /// One in this many reads that are forecast to be late is sent nevertheless. Default:
    /// 1,000. These samples measure how many refusals are wrong, and prevent that a part of a
    /// drive is refused forever. 0: none.
    pub sample_every: u32,
    /// The refusal cap: the share of reads that may be refused, 0 to 1. Default: 0.98. It
    /// applies to the reads with a deadline of each second, counted from the second's
    /// beginning: a read that is alone in its second is always sent, unless
    /// [`probes_out`](Self::probes_out) reads are outstanding. With 1 there is no cap.
    pub most_refused: f64,
    /// How many abandoned reads of a drive may be outstanding, of all readers of the drive in
    /// this process. Default: 64. At that number reads with a deadline are refused, with any
    /// model and without one. This bounds the memory that a dead drive takes (at most 1 MiB
    /// for each read, usually 4 KiB).
    pub most_abandoned: u32,
    /// A read with a shorter deadline than this is expected in the page cache: it is refused if
    /// its pages were there and are gone. Default: `None`, the least latency among the last
    /// reads of the drive (at least 16) that this process made with a deadline. Zero: no read
    /// is.
    pub memory_below: Option<Duration>,
    /// Bounds of the deadlines of [`Urgency::Auto`](super::Urgency::Auto).
    pub auto: AutoOptions,
    /// Whether to read past the page cache (`O_DIRECT`); for [`Reader::open`] only: a reader
    /// made [from a file](super::Reader::from_file) uses the file's mode. Offsets, lengths and
    /// buffers must be aligned as the device requires, usually to 512 bytes.
    ///
    /// [`Reader::open`]: super::Reader::open
    pub direct: bool,
    /// The directory in which the reader publishes its counters: [`readers`](super::readers).
    /// An unwritable directory is not an error.
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
            memory_below: None,
            auto: AutoOptions::default(),
            direct: false,
            publish: Some(readers()),
        }
    }
}

impl ReadOptions {
    /// The default options with a model.
    #[must_use]
    pub fn with_model(model: Model) -> Self {
        Self { model: Some(Arc::new(model)), ..Self::default() }
    }

    pub(super) fn rules(&self) -> Result<Rules, Error> {
        if !(0.0..=1.0).contains(&self.most_refused) {
            let why =
                format!("most_refused must be a share from 0 to 1, not {}", self.most_refused);
            return Err(Error::Option(why));
        }
        if self.probes_out == 0 {
            let why =
                "probes_out must be at least 1: without probes a refused drive is never used again";
            return Err(Error::Option(why.to_owned()));
        }
        if self.most_abandoned == 0 {
            let why = "most_abandoned must be at least 1: with 0 every read would be refused";
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

/// A time that does not fit is unlimited.
pub(super) fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
