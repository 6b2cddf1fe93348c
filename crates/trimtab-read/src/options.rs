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
    /// What is known of how the drive behaves; none: every read is let through, and
    /// counted.
    pub model: Option<Arc<Model>>,
    /// Where the drive's present state comes from: `/sys/fs/bpf/trimtab`.
    pub source: Source,
    /// The state is not gone by when its tracker has said nothing for so long: 1 s. The
    /// tracker says that it lives every 50 ms, later on a busy machine.
    pub oldest: Duration,
    /// Of a drive that is avoided a read is sent all the same so often: 10 ms. With a
    /// predictor that looks at the last four answers, one that has recovered is in use
    /// again after four of these. So it is of a part of a drive that is avoided while
    /// others are read. What is shorter than that needs no probes and gets none.
    pub probe_every: Duration,
    /// So many of the reads that are expected to be late may be out on a drive at once: 4.
    /// That is of probes, samples and reads over the ceiling together, of all readers of
    /// the drive in this process. Each of them may hold up a thread of the application, so
    /// it holds whatever [`most_refused`](Self::most_refused) says: a read beyond it is
    /// refused.
    pub probes_out: u32,
    /// Of so many reads that are expected to be late one is sent all the same, whatever
    /// else is sent to the drive: 1,000. That tells how many refusals are wrong, and
    /// keeps a part of a drive from being refused for ever. 0: none.
    pub sample_every: u32,
    /// The share of reads that may be refused, 0 to 1: 0.98. Of the reads with a deadline
    /// of each second no more than this are refused, counted from the second's beginning: a
    /// read that is alone in its second is always sent, unless as many are out already as
    /// [`probes_out`](Self::probes_out) says. With 1 there is no ceiling.
    pub most_refused: f64,
    /// So many reads of a drive that were given up at their deadline may be out, of all
    /// readers of the drive in this process: 64. While there are as many, reads with a
    /// deadline are refused, by whatever model and without one; so memory is bounded
    /// that a drive which does not answer takes (1 MiB for each at most, mostly 4 KiB).
    pub most_abandoned: u32,
    /// Whether to read past the page cache (`O_DIRECT`); for [`Reader::open`], one made
    /// [from a file](super::Reader::from_file) reads as that was opened. Offsets,
    /// lengths and buffers are to be aligned as the device asks, mostly to 512 bytes.
    ///
    /// [`Reader::open`]: super::Reader::open
    pub direct: bool,
    /// Where others find what the reader has done: [`readers`](super::readers). It works
    /// as well where it cannot be written.
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
            trials_out: self.probes_out,
            sample_every: self.sample_every.into(),
            most_refused: self.most_refused,
        })
    }
}

/// What does not fit is for ever.
pub(super) fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
