//! Trained predictors in files: the numbers as safetensors, and beside them a
//! card in JSON that says what they are of.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use trimtab_io::{Nanos, WholeFile};
use trimtab_learn::integer::LinnOs;
use trimtab_learn::store::{Reader, Writer};

use super::seal::{BLANK, Hash, is_intact, of_tensors, seal};
use super::{Kind, Trained};
use crate::floor::Floor;
use crate::heuristic::Limits;
use crate::history::Recorded;
use crate::learned::Knowledge;
use crate::state::FEATURES;
use crate::units::UnitFunction;
use crate::{DIGITS, Error, Identity, Label, OtherDrive, Rule};

/// The version of the files, and of the numbers that models are trained on.
/// Whatever changes the meaning of either changes it.
const VERSION: u32 = 4;

/// From this version on the checksum covers the card too. Older ones are still read, with
/// a [caution](Model::caution).
const SEALED: u32 = 4;

/// From this version on the numbers that [`Kind::Trimtab`] decides by mean what they mean
/// today. Those of the others always have.
const SAME_FEATURES: u32 = 3;

const CARD: WholeFile = WholeFile::json("a model's card");

/// A trained predictor with all that is known of its making.
#[derive(Clone, Debug)]
pub struct Model {
    /// Where it comes from.
    pub card: Card,
    /// What was learnt.
    pub trained: Trained,
}

/// What a model is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    version: u32,
    /// Which predictor.
    pub predictor: Kind,
    /// How many numbers it decides by.
    features: usize,
    /// The rule that made the label.
    pub rule: Rule,
    /// What it was taught to call slow.
    pub label: Label,
    /// What it was trained on.
    pub training: Training,
    /// The drive that the recording is of. None: not known, or it shall not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<Identity>,
    /// What is no tensor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limits: Option<Limits>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    units: Vec<UnitFunction>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refuse_from: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    floor: Option<Floor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    late: Option<Nanos>,
    /// Of the tensors' file and of the card up to here: see [`seal`]. The last field.
    checksum: String,
}

/// What a model was trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// The recording's name, for people.
    pub trace: String,
    /// Tells the recording from all others: [`fingerprint`].
    pub fingerprint: String,
    /// Reads that it was trained on, and how many of them were slow.
    pub reads: usize,
    /// See `reads`.
    pub slow: usize,
    /// When the last of these reads was sent, on the recording's clock.
    pub until: Nanos,
    /// The inflection point's percentile among the reads trained on.
    pub inflection_percentile: Option<f64>,
    /// Of the training's reads that it would have sent, the share that was slow.
    pub false_submit_rate: Option<f64>,
    /// From which random numbers came.
    pub seed: u64,
}

/// Tells recordings apart: a hash of all requests and their times.
#[must_use]
pub fn fingerprint(recorded: &[Recorded]) -> String {
    let mut hash = Hash::default();
    for Recorded { request, complete, .. } in recorded {
        for number in [request.arrival.0, complete.0, request.offset, request.length] {
            hash.add(&number.to_le_bytes());
        }
        hash.add(&[request.op as u8]);
    }
    hash.text()
}

impl Model {
    /// In what a drive is another than the one that it was trained on, if both are known.
    #[must_use]
    pub fn other_drive(&self, found: &Identity) -> Option<OtherDrive> {
        self.card.drive.as_ref()?.other_drive(found)
    }

    /// A model fresh from training, of a drive that is not known.
    #[must_use]
    pub fn new(trained: Trained, rule: Rule, label: Label, training: Training) -> Self {
        let predictor = trained.kind();
        let features = predictor.features();
        let limits = match &trained {
            Trained::HeurSim(limits) | Trained::HeurAdv(limits) => Some(*limits),
            _ => None,
        };
        let known = match &trained {
            Trained::Trimtab(known) => Some(known),
            _ => None,
        };
        let card = Card {
            version: VERSION,
            predictor,
            features,
            rule,
            label,
            training,
            drive: None,
            limits,
            units: known.map(|known| known.functions.clone()).unwrap_or_default(),
            refuse_from: known.map(|known| known.refuse_from),
            floor: known.map(|known| known.floor.clone()),
            late: known.map(|known| known.late),
            checksum: BLANK.to_owned(),
        };
        Self { card, trained }
    }

    /// The files' contents: the tensors, and the card that belongs beside them
    /// under [`card_path`].
    ///
    /// # Errors
    /// If the model cannot be written down.
    pub fn to_files(&self) -> Result<(Vec<u8>, String), Error> {
        let mut writer = Writer::default();
        match &self.trained {
            Trained::HeurSim(_) | Trained::HeurAdv(_) => {}
            Trained::Linnos(network) => writer.put("network", &Box::new(LinnOs::clone(network))),
            Trained::Trimtab(known) => {
                writer.put("forest", &known.forest);
                writer.put("probability", &known.probability);
                writer.put("wait_forest", &known.wait_forest);
                writer.put("wait", &known.wait);
                writer.put("fast_forest", &known.fast_forest);
                writer.put("fast", &known.fast);
            }
        }
        let predictor = self.card.predictor.name();
        let tensors = writer.to_bytes().map_err(|source| Error::Learn { predictor, source })?;
        let mut card = self.card.clone();
        (card.version, card.checksum) = (VERSION, BLANK.to_owned());
        let card = serde_json::to_string_pretty(&card).expect("a card is JSON") + "\n";
        let card = seal(&card, &tensors);
        Ok((tensors, card))
    }

    /// Loads a model; its card lies beside it. Whoever loads one passes its
    /// [`caution`](Self::caution) on.
    ///
    /// # Errors
    /// If a file cannot be read, or is not what it should be.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let wrong = |path: &Path, what: String| Error::Model { path: path.to_owned(), what };
        let cannot = |e: std::io::Error| format!("cannot read: {e}");
        let bytes = WholeFile::MODEL.read(path).map_err(|e| wrong(path, cannot(e)))?;
        let beside = card_path(path);
        let no_card = |e| {
            format!("{}: it is the card of {}, and belongs beside it", cannot(e), path.display())
        };
        let card = CARD.read_text(&beside).map_err(|e| wrong(&beside, no_card(e)))?;
        Self::of_files(&bytes, &card).map_err(|fault| match fault {
            Fault::Card(what) => wrong(&beside, what),
            Fault::Tensors(what) => wrong(path, what),
            Fault::Apart => {
                let what = "or one of the two was changed since; train it again";
                wrong(path, format!("is not the model that {} is of, {what}", beside.display()))
            }
        })
    }

    fn of_files(tensors: &[u8], text: &str) -> Result<Self, Fault> {
        // Damage is found before anything is made of what may be damaged.
        if Card::version(text).map_err(Fault::Card)? >= SEALED && !is_intact(text, tensors) {
            return Err(Fault::Apart);
        }
        let card = Card::parse(text).map_err(Fault::Card)?;
        if card.version < SEALED && card.checksum != of_tensors(tensors) {
            return Err(Fault::Apart);
        }
        let trained = card.trained(tensors).map_err(Fault::Tensors)?;
        Ok(Self { card, trained })
    }

    /// What whoever uses the model should hear: its card is of a version that no checksum
    /// covered.
    #[must_use]
    pub fn caution(&self) -> Option<String> {
        let version = self.card.version;
        (version < SEALED).then(|| {
            format!(
                "its card is of version {version}, which no checksum covers: damage to it would \
                 go unnoticed; train it again"
            )
        })
    }
}

/// Which of a model's files is not what it should be, and how.
enum Fault {
    Card(String),
    Tensors(String),
    /// They do not belong together, or are damaged.
    Apart,
}

/// Where the card of a model lies: beside it, with the ending `.json`.
#[must_use]
pub fn card_path(model: &Path) -> PathBuf {
    model.with_extension("json")
}

impl Kind {
    /// How many numbers it decides by.
    const fn features(self) -> usize {
        match self {
            Self::HeurSim | Self::HeurAdv => 1,
            Self::Linnos => DIGITS,
            Self::Trimtab => FEATURES,
        }
    }
}

impl Card {
    /// The version that a card says it is of, if that can be read.
    fn version(text: &str) -> Result<u32, String> {
        /// Whatever else there may be in other versions.
        #[derive(Deserialize)]
        struct Versioned {
            version: Option<serde_json::Value>,
        }
        let Versioned { version } = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let number = version.as_ref().and_then(serde_json::Value::as_u64);
        if let Some(known @ 1..=VERSION) = number.and_then(|number| number.try_into().ok()) {
            return Ok(known);
        }
        let found = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
        Err(format!("model of version {found}, expected 1 to {VERSION}; train it again"))
    }

    /// Reads a card.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::version(text)?;
        let card: Self = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if card.version < SAME_FEATURES && card.predictor == Kind::Trimtab {
            let (found, name) = (card.version, card.predictor.name());
            return Err(format!(
                "model of version {found}: what {name} decides by meant something else then; \
                 train it again"
            ));
        }
        let (found, there_are) = (card.features, card.predictor.features());
        if found != there_are {
            return Err(format!(
                "decides by {found} numbers, not by the {there_are} there are; train it again"
            ));
        }
        if card.late.is_some_and(|late| late > Nanos::from_secs(86_400)) {
            return Err("a read is said to take longer than a day; train it again".to_owned());
        }
        if card.floor.as_ref().is_some_and(|floor| !floor.is_valid()) {
            return Err("a larger read is said to take less; train it again".to_owned());
        }
        if let Some(function) = card.units.iter().find(|function| !function.is_valid()) {
            return Err(format!("units cannot be told apart like this: {function:?}"));
        }
        Ok(card)
    }

    fn trained(&self, tensors: &[u8]) -> Result<Trained, String> {
        let reader = Reader::new(tensors).map_err(|e| e.to_string())?;
        let missing = |what| format!("its card has no {what}; train it again");
        match self.predictor {
            Kind::HeurSim => self.limits.map(Trained::HeurSim).ok_or_else(|| missing("limits")),
            Kind::HeurAdv => self.limits.map(Trained::HeurAdv).ok_or_else(|| missing("limits")),
            Kind::Linnos => {
                let network: Box<LinnOs> = reader.get("network").map_err(|e| e.to_string())?;
                Ok(Trained::Linnos(network.into()))
            }
            Kind::Trimtab => {
                let get = |name| reader.get(name).map_err(|e| e.to_string());
                let known = Knowledge {
                    functions: self.units.clone(),
                    forest: reader.get("forest").map_err(|e| e.to_string())?,
                    probability: get("probability")?,
                    floor: self.floor.clone().ok_or_else(|| missing("floor"))?,
                    wait_forest: reader.get("wait_forest").map_err(|e| e.to_string())?,
                    wait: get("wait")?,
                    fast_forest: reader.get("fast_forest").map_err(|e| e.to_string())?,
                    fast: get("fast")?,
                    late: self.late.ok_or_else(|| missing("late"))?,
                    refuse_from: self.refuse_from.ok_or_else(|| missing("refuse_from"))?,
                };
                let forests = [&known.forest, &known.wait_forest, &known.fast_forest];
                if let Some(other) = forests.iter().find(|f| f.features() != FEATURES) {
                    let found = other.features();
                    return Err(format!(
                        "decides by {found} numbers, not by the {FEATURES} there are; train it again"
                    ));
                }
                Ok(Trained::Trimtab(Arc::new(known)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
