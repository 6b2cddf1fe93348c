//! A trained predictor's parameters.

use std::sync::Arc;

use trimtab_io::{Nanos, Request};
use trimtab_learn::Simd;
use trimtab_learn::integer::LinnOs;

use super::kind::PredictorKind;
use crate::forest::{ForestModel, ForestPredictor};
use crate::heuristic::{AdvancedHeuristic, HeuristicLimits, SimpleHeuristic, forecast_by_length};
use crate::linnos::Linnos;
use crate::mitt_state::{MittState, QueueTimes};
use crate::predictor::{Forecast, Predictor};
use crate::state::{DriveState, Unit};
use crate::units::{MAX_FUNCTIONS, UnitFunction};

/// A trained predictor's parameters, which predictors of any number of drives share. Cheap to
/// clone.
#[derive(Clone, Debug)]
pub enum Trained {
    /// Of [`SimpleHeuristic`].
    HeurSim(HeuristicLimits),
    /// Of [`AdvancedHeuristic`].
    HeurAdv(HeuristicLimits),
    /// Of [`Linnos`].
    Linnos(Arc<LinnOs>),
    /// Of [`ForestPredictor`].
    Trimtab(Arc<ForestModel>),
    /// Of [`MittState`].
    MittState(QueueTimes),
}

impl Trained {
    /// Which predictor they are of.
    #[must_use]
    pub const fn kind(&self) -> PredictorKind {
        match self {
            Self::HeurSim(_) => PredictorKind::HeurSim,
            Self::HeurAdv(_) => PredictorKind::HeurAdv,
            Self::Linnos(_) => PredictorKind::Linnos,
            Self::Trimtab(_) => PredictorKind::Trimtab,
            Self::MittState(_) => PredictorKind::MittState,
        }
    }

    /// The functions that tell a drive's parallel units apart: at most three, though training
    /// may have found more.
    #[must_use]
    pub fn functions(&self) -> &[UnitFunction] {
        match self {
            Self::Trimtab(model) => &model.functions[..model.functions.len().min(MAX_FUNCTIONS)],
            Self::HeurSim(_) | Self::HeurAdv(_) | Self::Linnos(_) | Self::MittState(_) => &[],
        }
    }

    /// The forecast for `request` if it were sent at `now`, from a state that is tracked
    /// elsewhere. `units` holds one unit for each of the [`functions`](Self::functions): the
    /// [busiest](Unit::busiest) of those that the request's pieces lie in. A
    /// [`predictor`](Self::predictor) that has tracked the same requests gives the same
    /// forecast. `None` for [`AdvancedHeuristic`], whose state is not in [`DriveState`].
    #[must_use]
    pub fn forecast(
        &self,
        now: Nanos,
        request: &Request,
        drive: &DriveState,
        units: &[Unit],
    ) -> Option<Forecast> {
        match self {
            Self::HeurSim(limits) => Some(forecast_by_length(drive.requests as usize, limits.high)),
            Self::HeurAdv(_) => None,
            Self::Linnos(network) => {
                Some(Linnos::forecast(network.margin(Simd::best(), &drive.digits(request))))
            }
            Self::Trimtab(model) => {
                Some(model.forecast(request, &drive.features(now, request, units)))
            }
            Self::MittState(times) => Some(times.forecast(now, request, drive)),
        }
    }

    /// As [`forecast`](Self::forecast) for a request that is late; for any other the
    /// [bare](Forecast::bare) verdict, in about half the time.
    #[must_use]
    pub fn forecast_if_late(
        &self,
        now: Nanos,
        request: &Request,
        drive: &DriveState,
        units: &[Unit],
    ) -> Option<Forecast> {
        match self {
            Self::Trimtab(model) => {
                Some(model.forecast_if_late(request, &drive.features(now, request, units)))
            }
            Self::HeurSim(_) | Self::HeurAdv(_) | Self::Linnos(_) | Self::MittState(_) => {
                self.forecast(now, request, drive, units)
            }
        }
    }

    /// A predictor that starts tracking a drive.
    #[must_use]
    pub fn predictor(&self) -> Box<dyn Predictor> {
        match self {
            Self::HeurSim(limits) => Box::new(SimpleHeuristic::new(limits.high)),
            Self::HeurAdv(limits) => Box::new(AdvancedHeuristic::new(*limits)),
            Self::Linnos(network) => Box::new(Linnos::new(Arc::clone(network))),
            Self::Trimtab(model) => Box::new(ForestPredictor::new(Arc::clone(model))),
            Self::MittState(times) => Box::new(MittState::new(*times)),
        }
    }
}

impl From<ForestModel> for Trained {
    fn from(model: ForestModel) -> Self {
        Self::Trimtab(Arc::new(model))
    }
}
