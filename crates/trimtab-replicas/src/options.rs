//! The options of a set and of its replicas.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use trimtab_predict::Model;
use trimtab_read::{AutoOptions, Source};

use crate::error::OpenError;

/// One replica: a file or block device, and what is known of its drive.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// Its path.
    pub path: PathBuf,
    /// The model of its drive; `None`: reads are chosen by what the set observes itself.
    pub model: Option<Arc<Model>>,
    /// Source of the drive's present state, for the model. Default: `/sys/fs/bpf/trimtab`.
    pub source: Source,
}

impl ReplicaOptions {
    /// A replica without a model.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), model: None, source: Source::default() }
    }

    /// The same with a model.
    #[must_use]
    pub fn with_model(self, model: impl Into<Arc<Model>>) -> Self {
        Self { model: Some(model.into()), ..self }
    }

    /// The same with a source of the drive's state.
    #[must_use]
    pub fn with_source(self, source: Source) -> Self {
        Self { source, ..self }
    }
}

/// Which replicas a set's reads go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetStrategy {
    /// trimtab's own: see the [crate](crate).
    #[default]
    Trimtab,
    /// To compare with: to the primary replica only.
    Base,
    /// To compare with: also to another replica if the primary has not answered after this time
    /// (Dean and Barroso, "The Tail at Scale", CACM 56(2), 2013).
    Hedge {
        /// The delay.
        after: Duration,
    },
    /// MittOS (Hao, *Fast and Stable Storage*, §4.1.2): a replica whose model expects a longer
    /// latency refuses, and the next one is asked; the last one may not refuse. For
    /// [models of queues](trimtab_predict::MittState), and any others that expect a latency. A
    /// replica without one refuses nothing.
    Mitt {
        /// The longest latency that is admitted.
        deadline: Duration,
    },
}

/// Options of a set.
#[derive(Clone, Copy, Debug)]
pub struct SetOptions {
    /// How long a read may take, unless it says so itself
    /// ([`read_at_within`](crate::ReplicaSet::read_at_within)). Default: none, as long as it
    /// takes.
    pub deadline: Option<Duration>,
    /// Bounds of the deadlines of [`Urgency::Auto`](trimtab_read::Urgency::Auto).
    pub auto: AutoOptions,
    /// The greatest share of reads that are sent twice in the long run, 0 to 1: half for probes,
    /// and what they leave for hedges. Default: 0.2. Probes exceed their half where reads are
    /// rare, and the control group may add 0.01. Requests that keep a deadline do not count.
    pub most_extra: f64,
    /// Whether to read past the page cache (`O_DIRECT`). Default: no. Reads may have any offset,
    /// length and buffer: what is not aligned is read in whole blocks.
    pub direct: bool,
    /// The state of a drive counts as stale if its tracker's last heartbeat is older than this.
    /// Default: 1 s.
    pub oldest: Duration,
    /// The seed of random choices: control reads, the order of failover. Default: 1.
    pub seed: u64,
    /// Which replicas reads go to. Default: trimtab's own strategy. The others do nothing beyond
    /// what they are known for: without a deadline no other replica is asked after 100 ms. All
    /// of them go on from replicas that fail.
    pub strategy: SetStrategy,
}

impl Default for SetOptions {
    fn default() -> Self {
        let oldest = Duration::from_secs(1);
        Self {
            deadline: None,
            auto: AutoOptions::default(),
            most_extra: trimtab_steer::Tuning::default().most_extra,
            direct: false,
            oldest,
            seed: 1,
            strategy: SetStrategy::Trimtab,
        }
    }
}

impl SetOptions {
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        if !(0.0..=1.0).contains(&self.most_extra) {
            return Err(OpenError::Option("most_extra must be a share from 0 to 1"));
        }
        if self.deadline.is_some_and(|deadline| deadline.is_zero()) {
            return Err(OpenError::Option("the deadline must not be 0: no read could keep it"));
        }
        let needs = match self.strategy {
            SetStrategy::Trimtab | SetStrategy::Base => None,
            SetStrategy::Hedge { after } => Some(after),
            SetStrategy::Mitt { deadline } => Some(deadline),
        };
        if needs.is_some_and(|time| time.is_zero()) {
            return Err(OpenError::Option("the strategies hedge and mitt need a time above 0"));
        }
        Ok(())
    }
}
