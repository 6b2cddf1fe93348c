//! The strategies by name, made from what is known of the drives.

use std::fmt;
use std::str::FromStr;

use trimtab_io::{LatencyHistogram, Nanos};

use crate::costs::Costs;
use crate::panel::Panel;
use crate::strategies::{
    Base, C3, Clone as Cloning, Failover, Hedge, Ours, Patience, Settings, Snitch, Tied, Timeout,
};
use crate::strategy::Strategy;

/// A strategy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The home drive, and that is all.
    Base,
    /// [`Base`](Self::Base) on drives whose firmware takes no time for itself.
    Ideal,
    /// Two drives at once.
    Clone,
    /// Two drives at once, and the second taken back.
    Tied,
    /// Another drive after the p95 latency.
    Hedge,
    /// Another drive after the latency at the inflection point.
    HedgeIp,
    /// Given up after the p95 latency.
    Timeout,
    /// The drive that was fastest lately.
    Snitch,
    /// The drive with the shortest queue.
    C3,
    /// Predicted by the queue's length.
    HeurSim,
    /// Predicted by queue and history.
    HeurAdv,
    /// Predicted by a light neural network.
    Linnos,
    /// And hedged at p95, or where the predictor's false submits begin.
    LinnosHl,
    /// And hedged at p99.
    LinnosH99,
    /// Ours.
    Trimtab,
}

impl Kind {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 15] = [
        Self::Base,
        Self::Ideal,
        Self::Clone,
        Self::Tied,
        Self::Hedge,
        Self::HedgeIp,
        Self::Timeout,
        Self::Snitch,
        Self::C3,
        Self::HeurSim,
        Self::HeurAdv,
        Self::Linnos,
        Self::LinnosHl,
        Self::LinnosH99,
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
            Self::Timeout => "timeout",
            Self::Snitch => "snitch",
            Self::C3 => "c3",
            Self::HeurSim => "heur-sim",
            Self::HeurAdv => "heur-adv",
            Self::Linnos => "linnos",
            Self::LinnosHl => "linnos+hl",
            Self::LinnosH99 => "linnos+h99",
            Self::Trimtab => "trimtab",
        }
    }

    /// The name of the predictor that it asks, if it asks one.
    #[must_use]
    pub const fn predictor(self) -> Option<&'static str> {
        match self {
            Self::HeurSim => Some("heur-sim"),
            Self::HeurAdv => Some("heur-adv"),
            Self::Linnos | Self::LinnosHl | Self::LinnosH99 => Some("linnos"),
            Self::Trimtab => Some("trimtab"),
            _ => None,
        }
    }

    /// The strategy over these drives.
    ///
    /// # Panics
    /// It asks a predictor, and there is no panel.
    #[must_use]
    pub fn build(self, known: &[Known], means: Means) -> Box<dyn Strategy> {
        let Means { panel, costs, tuning, seed } = means;
        let name = self.name();
        let at = |percentile| Patience::at(known, percentile);
        let inflection = || {
            let points: Vec<_> = known.iter().map(|drive| drive.inflection).collect();
            Patience::new(&points)
        };
        let panel = || panel.expect("a strategy that predicts needs predictors");
        match self {
            Self::Base | Self::Ideal => Box::new(Base::new(name)),
            Self::Clone => Box::new(Cloning),
            Self::Tied => Box::new(Tied::new(tuning.tied_delay)),
            Self::Hedge => Box::new(Hedge::new(name, at(95.0))),
            Self::HedgeIp => Box::new(Hedge::new(name, inflection())),
            Self::Timeout => Box::new(Timeout::new(at(95.0))),
            Self::Snitch => Box::new(Snitch::new(known.len(), seed)),
            Self::C3 => Box::new(C3::new(known.len())),
            Self::HeurSim | Self::HeurAdv | Self::Linnos => {
                Box::new(Failover::new(name, panel(), costs))
            }
            Self::LinnosHl => {
                Box::new(Failover::new(name, panel(), costs).hedged(Patience::low(known)))
            }
            Self::LinnosH99 => Box::new(Failover::new(name, panel(), costs).hedged(at(99.0))),
            Self::Trimtab => {
                let settings = Settings {
                    costs,
                    margin: tuning.margin,
                    most_extra: tuning.most_extra,
                    charge_moves: tuning.charge_moves,
                    usual: at(90.0).least(),
                };
                Box::new(Ours::new(panel(), settings))
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("unknown strategy `{text}`; there are {}", known.join(", "))
        })
    }
}

/// What is known of one drive from recording it.
#[derive(Clone, Debug)]
pub struct Known {
    /// How long its reads took, from when they were sent to it.
    pub reads: LatencyHistogram,
    /// The latency at which slow begins (LinnOS, §4.2).
    pub inflection: Nanos,
    /// Of the requests that the strategy's predictor would have sent, the share
    /// that were slow, in training (LinnOS, §4.4).
    pub false_submit_rate: f64,
}

/// What a strategy is made of beside what is known of the drives.
pub struct Means {
    /// For those that predict.
    pub panel: Option<Panel>,
    /// What their decisions cost.
    pub costs: Costs,
    /// What can be set.
    pub tuning: Tuning,
    /// For those that draw.
    pub seed: u64,
}

/// What can be set of some strategies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// Of `tied`: the delay before the copy is sent.
    pub tied_delay: Nanos,
    /// Of `trimtab`: by which share another drive's expected wait must be less
    /// than the home's to go there: estimates are not exact.
    pub margin: f64,
    /// Of `trimtab`: the greatest share of reads that are sent twice, in the long
    /// run.
    pub most_extra: f64,
    /// Of `trimtab`: whether a read that goes elsewhere pays for a failover even if
    /// its home was not refused but only ranks behind.
    pub charge_moves: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { tied_delay: Nanos::ZERO, margin: 0.05, most_extra: 0.03, charge_moves: false }
    }
}

impl Patience {
    /// At a percentile of each drive's latency.
    #[must_use]
    pub fn at(known: &[Known], percentile: f64) -> Self {
        let of = |drive: &Known| drive.reads.quantile(percentile / 100.0).unwrap_or(Nanos::MAX);
        Self::new(&known.iter().map(of).collect::<Vec<_>>())
    }

    /// At p95, or lower where more than 5% of what the predictor sends is slow
    /// (LinnOS, §5.3: the smaller of 95 and 100 - false submit rate).
    #[must_use]
    pub fn low(known: &[Known]) -> Self {
        let of = |drive: &Known| {
            let share = (1.0 - drive.false_submit_rate).clamp(0.0, 0.95);
            drive.reads.quantile(share).unwrap_or(Nanos::MAX)
        };
        Self::new(&known.iter().map(of).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::Replica;

    fn known(false_submit_rate: f64) -> Known {
        let mut reads = LatencyHistogram::new();
        reads.extend((1..=1000).map(Nanos::from_micros));
        Known { reads, inflection: Nanos::from_micros(800), false_submit_rate }
    }

    #[test]
    fn names_are_read_back() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("hedg".parse::<Kind>().unwrap_err().contains("hedge-ip"));
    }

    #[test]
    fn strategies_go_by_their_names() {
        let known = [known(0.0), known(0.1)];
        for kind in Kind::ALL {
            let (panel, costs) = (Some(Panel::new([])), Costs::default());
            let means = Means { panel, costs, tuning: Tuning::default(), seed: 1 };
            assert_eq!(kind.build(&known, means).name(), kind.name());
        }
    }

    #[test]
    fn many_false_submits_are_hedged_sooner() {
        let patience = Patience::low(&[known(0.01), known(0.1)]);
        let near = |us: u64, at: Nanos| at.0.abs_diff(us * 1000) <= us * 10;
        assert!(near(950, patience.of(Replica(0))) && near(900, patience.of(Replica(1))));
    }
}
