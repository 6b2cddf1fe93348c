//! Trained predictors.

mod file;
mod seal;

pub use file::{Card, Model, Training, card_path, fingerprint};

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use trimtab_io::{Nanos, Request};
use trimtab_learn::Simd;
use trimtab_learn::integer::LinnOs;

use crate::heuristic::{Advanced, Limits, Simple, by_length};
use crate::in_flight::UNITS;
use crate::learned::{Knowledge, Learned};
use crate::units::UnitFunction;
use crate::{DriveState, Error, Forecast, Linnos, Predictor, Unit};

/// The predictors there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// LinnOS's simple heuristic: [`Simple`].
    HeurSim,
    /// LinnOS's advanced heuristic: [`Advanced`].
    HeurAdv,
    /// LinnOS's network: [`Linnos`].
    Linnos,
    /// Ours: [`Learned`].
    Trimtab,
}

impl Kind {
    /// All of them, in the order in which tables list them.
    pub const ALL: [Self; 4] = [Self::HeurSim, Self::HeurAdv, Self::Linnos, Self::Trimtab];

    /// The word used in options, tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HeurSim => "heur-sim",
            Self::HeurAdv => "heur-adv",
            Self::Linnos => "linnos",
            Self::Trimtab => "trimtab",
        }
    }
}

impl std::str::FromStr for Kind {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|kind| kind.name() == word).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::Unknown { what: "predictor", word: word.to_owned(), known }
        })
    }
}

/// What training made of a recording. Cheap to copy.
#[derive(Clone, Debug)]
pub enum Trained {
    /// Of [`Simple`].
    HeurSim(Limits),
    /// Of [`Advanced`].
    HeurAdv(Limits),
    /// Of [`Linnos`].
    Linnos(Arc<LinnOs>),
    /// Of [`Learned`].
    Trimtab(Arc<Knowledge>),
}

impl Trained {
    /// Which predictor it is of.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::HeurSim(_) => Kind::HeurSim,
            Self::HeurAdv(_) => Kind::HeurAdv,
            Self::Linnos(_) => Kind::Linnos,
            Self::Trimtab(_) => Kind::Trimtab,
        }
    }

    /// The functions by which it tells a drive's parallel units apart: three at most,
    /// though training may have found more.
    #[must_use]
    pub fn functions(&self) -> &[UnitFunction] {
        match self {
            Self::Trimtab(knowledge) => {
                &knowledge.functions[..knowledge.functions.len().min(UNITS)]
            }
            Self::HeurSim(_) | Self::HeurAdv(_) | Self::Linnos(_) => &[],
        }
    }

    /// What would become of `request` if it were sent at `now`, by what someone
    /// else keeps of the drive; `units` are those that the request lies in, by each of the
    /// [`functions`](Self::functions) the [busiest](crate::Unit::busiest) of its pieces'. It is what a
    /// [`predictor`](Self::predictor) says that has watched the same. None of
    /// [`Advanced`], which remembers more than that.
    #[must_use]
    pub fn forecast(
        &self,
        now: Nanos,
        request: &Request,
        drive: &DriveState,
        units: &[Unit],
    ) -> Option<Forecast> {
        match self {
            Self::HeurSim(limits) => Some(by_length(drive.requests as usize, limits.high)),
            Self::HeurAdv(_) => None,
            Self::Linnos(network) => {
                Some(Linnos::forecast(network.margin(Simd::best(), &drive.digits(request))))
            }
            Self::Trimtab(knowledge) => {
                Some(knowledge.forecast(request, &drive.features(now, request, units)))
            }
        }
    }

    /// As [`forecast`](Self::forecast), for who needs to know whether a request would be
    /// late, and more only if it would be: of any other the forecast is
    /// [bare](Forecast::bare), and takes about half the time.
    #[must_use]
    pub fn forecast_if_late(
        &self,
        now: Nanos,
        request: &Request,
        drive: &DriveState,
        units: &[Unit],
    ) -> Option<Forecast> {
        match self {
            Self::Trimtab(knowledge) => {
                Some(knowledge.forecast_if_late(request, &drive.features(now, request, units)))
            }
            Self::HeurSim(_) | Self::HeurAdv(_) | Self::Linnos(_) => {
                self.forecast(now, request, drive, units)
            }
        }
    }

    /// A predictor that begins to watch a drive.
    #[must_use]
    pub fn predictor(&self) -> Box<dyn Predictor> {
        match self {
            Self::HeurSim(limits) => Box::new(Simple::new(limits.high)),
            Self::HeurAdv(limits) => Box::new(Advanced::new(*limits)),
            Self::Linnos(network) => Box::new(Linnos::new(Arc::clone(network))),
            Self::Trimtab(knowledge) => Box::new(Learned::new(Arc::clone(knowledge))),
        }
    }
}
