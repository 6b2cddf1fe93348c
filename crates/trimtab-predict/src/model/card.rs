//! A model's card: JSON that identifies the model and its training.

use serde::{Deserialize, Serialize};
use trimtab_io::Nanos;
use trimtab_learn::integer::LinnOs;
use trimtab_learn::store::Reader;

use super::kind::PredictorKind;
use super::seal::BLANK;
use super::trained::Trained;
use crate::base_latency::BaseLatency;
use crate::error::{CardError, TensorsError};
use crate::fit::FitReference;
use crate::forest::ForestModel;
use crate::heuristic::HeuristicLimits;
use crate::identity::Identity;
use crate::label::{Label, LabelRule};
use crate::mitt_state::QueueTimes;
use crate::state::FEATURES;
use crate::units::UnitFunction;

/// The version of the files, and of the features that models are trained on. A change to the
/// meaning of either changes it. Since the fifth there are labels by which no read is slow, and
/// cards may say what forecasts were worth in training.
pub(super) const VERSION: u32 = 5;

/// From this version on the checksum covers the card too. Older ones are loaded with a
/// [caution](super::Model::caution).
pub(super) const SEALED: u32 = 4;

/// From this version on the features of [`PredictorKind::Trimtab`] have their present meaning.
/// Those of the others never changed.
const SAME_FEATURES: u32 = 3;

/// The identity and origin of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    pub(super) version: u32,
    /// Which predictor.
    pub predictor: PredictorKind,
    /// How many numbers it decides by.
    features: usize,
    /// The rule that made the label.
    pub rule: LabelRule,
    /// The label that it was trained on.
    pub label: Label,
    /// The training of the model.
    #[serde(rename = "training")]
    pub training: Provenance,
    /// The drive of the recording. `None` if it is not known, or the model is meant for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<Identity>,
    // The parameters that are no tensors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limits: Option<HeuristicLimits>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    units: Vec<UnitFunction>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refuse_from: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "floor")]
    base_latency: Option<BaseLatency>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    late: Option<Nanos>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<QueueTimes>,
    /// Of the tensors' file and of the card up to here: see [`seal`](super::seal). The last
    /// field.
    pub(super) checksum: String,
}

/// The training of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The recording's name, for people.
    pub trace: String,
    /// The recording's [fingerprint](crate::fingerprint).
    pub fingerprint: String,
    /// Reads trained on.
    pub reads: usize,
    /// Slow reads among those given.
    pub slow: usize,
    /// When the last of these reads was sent, on the recording's clock.
    pub until: Nanos,
    /// The inflection point's percentile among the reads trained on.
    pub inflection_percentile: Option<f64>,
    /// The false submit rate on the reads trained on: of those predicted fast, the share that
    /// was slow.
    pub false_submit_rate: Option<f64>,
    /// What the label weighed, if it is of [`LabelRule::Cost`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<RefusalCost>,
    /// The seed of training's random numbers.
    pub seed: u64,
    /// What forecasts were worth on the reads trained on. `None` if there were too few reads, or
    /// a version before 5 has trained it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<FitReference>,
}

impl Provenance {
    /// Of a model that was not trained, but made from `source`.
    #[must_use]
    pub fn untrained(source: String) -> Self {
        Self {
            trace: source,
            fingerprint: "none".to_owned(),
            reads: 0,
            slow: 0,
            until: Nanos::ZERO,
            inflection_percentile: None,
            false_submit_rate: None,
            cost: None,
            seed: 0,
            fit: None,
        }
    }
}

/// What refusing a read costs and gains, by the recording.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusalCost {
    /// The time that a failover takes, as training was told.
    pub failover: Nanos,
    /// The latency of a read that takes as long here as elsewhere, the failover included.
    pub break_even: Nanos,
    /// What a read of such a latency or more loses here, as a mean over all reads, ns: the most
    /// that refusing could gain.
    pub most: f64,
    /// What refusing gained in cross-validation, as a mean over all reads, ns.
    pub gain: f64,
}

impl Card {
    /// The card of a model fresh from training, without its checksum.
    pub(super) fn new(
        trained: &Trained,
        rule: LabelRule,
        label: Label,
        training: Provenance,
    ) -> Self {
        let predictor = trained.kind();
        let limits = match trained {
            Trained::HeurSim(limits) | Trained::HeurAdv(limits) => Some(*limits),
            Trained::Linnos(_) | Trained::Trimtab(_) | Trained::MittState(_) => None,
        };
        let queue = match trained {
            Trained::MittState(times) => Some(*times),
            _ => None,
        };
        let forest = match trained {
            Trained::Trimtab(model) => Some(model),
            _ => None,
        };
        Self {
            version: VERSION,
            predictor,
            features: predictor.features(),
            rule,
            label,
            training,
            drive: None,
            limits,
            units: forest.map(|model| model.functions.clone()).unwrap_or_default(),
            refuse_from: forest.map(|model| model.refuse_from),
            base_latency: forest.map(|model| model.base_latency.clone()),
            late: forest.map(|model| model.late),
            queue,
            checksum: BLANK.to_owned(),
        }
    }

    /// The version of the files that it was read from.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// The stated version of a card.
    pub(super) fn stated_version(text: &str) -> Result<u32, CardError> {
        /// Cards of other versions may have other fields.
        #[derive(Deserialize)]
        struct Versioned {
            version: Option<serde_json::Value>,
        }
        let Versioned { version } = serde_json::from_str(text)?;
        let number = version.as_ref().and_then(serde_json::Value::as_u64);
        if let Some(known @ 1..=VERSION) = number.and_then(|number| number.try_into().ok()) {
            return Ok(known);
        }
        let found = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
        Err(CardError::Version { found, newest: VERSION })
    }

    /// Reads a card.
    ///
    /// # Errors
    /// It is not the card of a model that this version can use.
    pub fn parse(text: &str) -> Result<Self, CardError> {
        Self::stated_version(text)?;
        let card: Self = serde_json::from_str(text)?;
        let (version, predictor) = (card.version, card.predictor);
        if version < SAME_FEATURES && predictor == PredictorKind::Trimtab {
            return Err(CardError::OldFeatures { version, predictor: predictor.name() });
        }
        let (found, expected) = (card.features, predictor.features());
        if found != expected {
            return Err(CardError::Features { found, expected });
        }
        if card.late.is_some_and(|late| late > Nanos::from_secs(86_400)) {
            return Err(CardError::Late);
        }
        if card.base_latency.as_ref().is_some_and(|base| !base.is_valid()) {
            return Err(CardError::BaseLatency);
        }
        if let Some(function) = card.units.iter().find(|function| !function.is_valid()) {
            return Err(CardError::Units(function.clone()));
        }
        Ok(card)
    }

    /// Joins the card's parameters and the tensors.
    pub(super) fn trained(&self, tensors: &[u8]) -> Result<Trained, TensorsError> {
        let reader = Reader::new(tensors)?;
        let missing = TensorsError::Missing;
        match self.predictor {
            PredictorKind::HeurSim => self.limits.map(Trained::HeurSim).ok_or(missing("limits")),
            PredictorKind::HeurAdv => self.limits.map(Trained::HeurAdv).ok_or(missing("limits")),
            PredictorKind::Linnos => {
                let network: Box<LinnOs> = reader.get("network")?;
                Ok(Trained::Linnos(network.into()))
            }
            PredictorKind::Trimtab => self.forest_model(&reader).map(Trained::from),
            PredictorKind::MittState => {
                let times = self.queue.filter(QueueTimes::is_valid);
                times.map(Trained::MittState).ok_or(missing("queue"))
            }
        }
    }

    fn forest_model(&self, reader: &Reader<'_>) -> Result<ForestModel, TensorsError> {
        let missing = TensorsError::Missing;
        let model = ForestModel {
            functions: self.units.clone(),
            forest: reader.get("forest")?,
            probability: reader.get("probability")?,
            base_latency: self.base_latency.clone().ok_or(missing("floor"))?,
            wait_forest: reader.get("wait_forest")?,
            wait: reader.get("wait")?,
            fast_forest: reader.get("fast_forest")?,
            fast: reader.get("fast")?,
            late: self.late.ok_or(missing("late"))?,
            refuse_from: self.refuse_from.ok_or(missing("refuse_from"))?,
        };
        let forests = [&model.forest, &model.wait_forest, &model.fast_forest];
        match forests.iter().find(|forest| forest.features() != FEATURES) {
            None => Ok(model),
            Some(other) => {
                Err(TensorsError::Features { found: other.features(), expected: FEATURES })
            }
        }
    }
}
