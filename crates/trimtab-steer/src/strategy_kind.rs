//! The strategies by name, built from the history of their replicas.

use std::fmt;
use std::str::FromStr;

use trimtab_io::{LatencyHistogram, Nanos};

use crate::costs::Costs;
use crate::predictors::PredictorSet;
use crate::replica::MOST_DRIVES;
use crate::strategies::{
    Adaptive, Base, C3, Clone as Cloning, Failover, Hedge, Mitt, Patience, Snitch, Tied, Timeout,
    Trimtab, TrimtabSettings,
};
use crate::strategy::Strategy;

/// A strategy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StrategyKind {
    /// The primary replica only.
    Base,
    /// [`Base`](Self::Base) on drives whose firmware takes no time for itself.
    Ideal,
    /// [`Base`](Self::Base) without the workloads of neighbours.
    NoNoise,
    /// Two replicas at once.
    Clone,
    /// Two replicas, one of which is taken back.
    Tied,
    /// A hedge at the p95 latency.
    Hedge,
    /// A hedge at the inflection point.
    HedgeIp,
    /// A hedge at each replica's recent p90, at most for a tenth of the reads.
    Adaptive,
    /// A failover at the p95 latency.
    Timeout,
    /// The replica with the lowest recent latency.
    Snitch,
    /// The replica with the shortest queue.
    C3,
    /// Failover, predicted by the queue length.
    HeurSim,
    /// Failover, predicted by queue length and recent latencies.
    HeurAdv,
    /// Failover, predicted by LinnOS's light neural network.
    Linnos,
    /// The same, hedged at p95, or where the predictor's false submits begin.
    LinnosHl,
    /// The same, hedged at p99.
    LinnosH99,
    /// Refused by what is known of the drive's queue; failover.
    Mitt,
    /// The same; if all replicas refuse, the one with the shortest expected wait.
    MittWait,
    /// [`Mitt`](Self::Mitt), refused also by LinnOS's network.
    MittLinnos,
    /// [`Trimtab`](Self::Trimtab), whose forecasts are also the queue model's.
    MittTrimtab,
    /// trimtab's own strategy.
    Trimtab,
}

impl StrategyKind {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 21] = [
        Self::Base,
        Self::Ideal,
        Self::NoNoise,
        Self::Clone,
        Self::Tied,
        Self::Hedge,
        Self::HedgeIp,
        Self::Adaptive,
        Self::Timeout,
        Self::Snitch,
        Self::C3,
        Self::HeurSim,
        Self::HeurAdv,
        Self::Linnos,
        Self::LinnosHl,
        Self::LinnosH99,
        Self::Mitt,
        Self::MittWait,
        Self::MittLinnos,
        Self::MittTrimtab,
        Self::Trimtab,
    ];

    /// Its name in tables and options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Ideal => "ideal",
            Self::Clone => "clone",
            Self::Tied => "tied",
            Self::Hedge => "hedge",
            Self::HedgeIp => "hedge-ip",
            Self::Adaptive => "adaptive",
            Self::Timeout => "timeout",
            Self::Snitch => "snitch",
            Self::C3 => "c3",
            Self::HeurSim => "heur-sim",
            Self::HeurAdv => "heur-adv",
            Self::Linnos => "linnos",
            Self::LinnosHl => "linnos+hl",
            Self::LinnosH99 => "linnos+h99",
            Self::Mitt => "mitt",
            Self::MittWait => "mitt-wait",
            Self::Trimtab => "trimtab",
            Self::MittLinnos => "mitt+linnos",
            Self::MittTrimtab => "mitt+trimtab",
            Self::NoNoise => "no-noise",
        }
    }

    /// Whether it asks a model of each drive's queue, which needs no training but to know the
    /// drive from inside ([`trimtab_predict::mitt`]).
    #[must_use]
    pub const fn knows_queues(self) -> bool {
        matches!(self, Self::Mitt | Self::MittWait | Self::MittLinnos | Self::MittTrimtab)
    }

    /// The name of its trained predictor, if it has one.
    #[must_use]
    pub const fn predictor(self) -> Option<&'static str> {
        match self {
            Self::HeurSim => Some("heur-sim"),
            Self::HeurAdv => Some("heur-adv"),
            Self::Linnos | Self::LinnosHl | Self::LinnosH99 | Self::MittLinnos => Some("linnos"),
            Self::Trimtab | Self::MittTrimtab => Some("trimtab"),
            _ => None,
        }
    }

    /// Builds the strategy over replicas with these histories.
    ///
    /// # Panics
    /// It predicts, and `inputs` has no predictors.
    #[must_use]
    pub fn build(self, history: &[ReplicaHistory], inputs: StrategyInputs) -> Box<dyn Strategy> {
        let StrategyInputs { predictors, costs, tuning, seed } = inputs;
        let name = self.name();
        let at = |percentile| Patience::at(history, percentile);
        let inflection = || {
            let points: Vec<_> = history.iter().map(|drive| drive.inflection).collect();
            Patience::new(&points)
        };
        let predictors = || predictors.expect("a strategy that predicts needs predictors");
        match self {
            Self::Base | Self::Ideal | Self::NoNoise => Box::new(Base::new(name)),
            Self::Clone => Box::new(Cloning),
            Self::Tied => Box::new(Tied::new(tuning.tied_delay)),
            Self::Hedge => Box::new(Hedge::new(name, at(95.0))),
            Self::HedgeIp => Box::new(Hedge::new(name, inflection())),
            Self::Adaptive => Box::new(Adaptive::new(history.len())),
            Self::Timeout => Box::new(Timeout::new(at(95.0))),
            Self::Snitch => Box::new(Snitch::new(history.len(), seed)),
            Self::C3 => Box::new(C3::new(history.len())),
            Self::HeurSim | Self::HeurAdv | Self::Linnos => {
                Box::new(Failover::new(name, predictors(), costs))
            }
            Self::LinnosHl => {
                Box::new(Failover::new(name, predictors(), costs).hedged(Patience::low(history)))
            }
            Self::LinnosH99 => Box::new(Failover::new(name, predictors(), costs).hedged(at(99.0))),
            Self::Mitt | Self::MittLinnos => Box::new(Mitt::new(name, predictors(), costs)),
            Self::MittWait => Box::new(Mitt::new(name, predictors(), costs).by_wait()),
            Self::Trimtab | Self::MittTrimtab => {
                let settings = TrimtabSettings {
                    costs,
                    margin: tuning.margin,
                    most_extra: tuning.most_extra,
                    charge_moves: tuning.charge_moves,
                    control: tuning.control,
                    usual: at(90.0).least(),
                    medians: medians(history),
                    longest: known(history, 0.995).max().unwrap_or(Nanos::MAX),
                    seed,
                };
                Box::new(Trimtab::new(name, predictors(), settings))
            }
        }
    }
}

/// This quantile of the reads of each replica of which any are known.
fn known(history: &[ReplicaHistory], share: f64) -> impl Iterator<Item = Nanos> {
    history.iter().filter_map(move |drive| drive.reads.quantile(share))
}

/// The median of each replica's reads. One of which nothing is known counts as the slowest of the
/// others: as the fastest, it would get all reads until it has completed the first of them.
fn medians(history: &[ReplicaHistory]) -> [Nanos; MOST_DRIVES] {
    let slowest = known(history, 0.5).max().unwrap_or_default();
    let of = |drive: &ReplicaHistory| drive.reads.quantile(0.5).unwrap_or(slowest);
    std::array::from_fn(|replica| history.get(replica).map(of).unwrap_or_default())
}

impl fmt::Display for StrategyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for StrategyKind {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, UnknownStrategy> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| UnknownStrategy { name: text.to_owned() })
    }
}

/// There is no strategy of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown strategy `{name}`; there are {}", StrategyKind::ALL.map(StrategyKind::name).join(", "))]
pub struct UnknownStrategy {
    /// The name.
    pub name: String,
}

/// The history of one replica, from a recording of it.
#[derive(Clone, Debug)]
pub struct ReplicaHistory {
    /// Latency of its reads, from submission.
    pub reads: LatencyHistogram,
    /// The latency from which on a read is slow: the inflection point (LinnOS, §4.2).
    pub inflection: Nanos,
    /// Of the requests that the strategy's predictor would have sent, the share
    /// that were slow, in training (LinnOS, §4.4).
    pub false_submit_rate: f64,
}

/// What a strategy is built from, beside the history of the replicas.
pub struct StrategyInputs {
    /// The predictors of strategies that predict.
    pub predictors: Option<PredictorSet>,
    /// The cost of their decisions.
    pub costs: Costs,
    /// Parameters.
    pub tuning: Tuning,
    /// The seed of strategies that draw random numbers.
    pub seed: u64,
}

/// Parameters of strategies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// For `tied`: the delay before the copy is sent.
    pub tied_delay: Nanos,
    /// For `trimtab`: the share by which another replica's expected latency must be below the
    /// primary's for a read to go there, since estimates are not exact.
    pub margin: f64,
    /// For `trimtab`: the greatest share of reads that are sent twice, in the long run. Half of it
    /// is kept for probes, which exceed that where reads are rare.
    pub most_extra: f64,
    /// For `trimtab`: whether a read that moves to another replica is charged a failover even
    /// if its primary was not refused but only ranks behind.
    pub charge_moves: bool,
    /// For `trimtab`: whether a control group decides if moves gain anything, and a read is sent
    /// twice only if it gains more by it than other reads lose.
    pub control: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            tied_delay: Nanos::ZERO,
            margin: 0.1,
            most_extra: 0.2,
            charge_moves: false,
            control: true,
        }
    }
}

impl Patience {
    /// A percentile of each replica's latency.
    #[must_use]
    pub fn at(history: &[ReplicaHistory], percentile: f64) -> Self {
        let of =
            |drive: &ReplicaHistory| drive.reads.quantile(percentile / 100.0).unwrap_or(Nanos::MAX);
        Self::new(&history.iter().map(of).collect::<Vec<_>>())
    }

    /// p95, or lower where more than 5% of what the predictor sends is slow
    /// (LinnOS, §5.3: the smaller of 95 and 100 - false submit rate).
    #[must_use]
    pub fn low(history: &[ReplicaHistory]) -> Self {
        let of = |drive: &ReplicaHistory| {
            let share = (1.0 - drive.false_submit_rate).clamp(0.0, 0.95);
            drive.reads.quantile(share).unwrap_or(Nanos::MAX)
        };
        Self::new(&history.iter().map(of).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::Replica;

    fn history(false_submit_rate: f64) -> ReplicaHistory {
        let mut reads = LatencyHistogram::new();
        reads.extend((1..=1000).map(Nanos::from_micros));
        ReplicaHistory { reads, inflection: Nanos::from_micros(800), false_submit_rate }
    }

    #[test]
    fn names_parse_back() {
        for kind in StrategyKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "hedg".parse::<StrategyKind>().unwrap_err().to_string();
        assert!(error.contains("hedge-ip"), "{error}");
    }

    #[test]
    fn strategies_have_their_kinds_names() {
        let history = [history(0.0), history(0.1)];
        for kind in StrategyKind::ALL {
            let (predictors, costs) = (Some(PredictorSet::new([])), Costs::default());
            let inputs = StrategyInputs { predictors, costs, tuning: Tuning::default(), seed: 1 };
            assert_eq!(kind.build(&history, inputs).name(), kind.name());
        }
    }

    #[test]
    fn a_replica_without_history_counts_as_the_slowest() {
        let unknown = ReplicaHistory { reads: LatencyHistogram::new(), ..history(0.0) };
        let mut fast = unknown.clone();
        fast.reads.extend([Nanos::from_micros(10); 10]);
        let medians = medians(&[fast, unknown.clone(), history(0.0)]);
        assert!(medians[0] < Nanos::from_micros(11) && medians[1] == medians[2], "{medians:?}");
        assert_eq!((medians[3], known(&[unknown], 0.5).max()), (Nanos::ZERO, None));
    }

    #[test]
    fn false_submits_shorten_patience() {
        let patience = Patience::low(&[history(0.01), history(0.1)]);
        let near = |us: u64, at: Nanos| at.0.abs_diff(us * 1000) <= us * 10;
        assert!(near(950, patience.of(Replica(0))) && near(900, patience.of(Replica(1))));
    }
}
