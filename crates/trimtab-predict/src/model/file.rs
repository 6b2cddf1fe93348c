//! A model in files: the numbers as safetensors, and beside them a card in JSON.

use std::path::{Path, PathBuf};

use trimtab_io::WholeFile;
use trimtab_learn::integer::LinnOs;
use trimtab_learn::store::Writer;

use super::card::{Card, Provenance, SEALED, VERSION};
use super::seal::{BLANK, is_intact, of_tensors, seal};
use super::trained::Trained;
use crate::error::{Error, FilesError};
use crate::identity::{Identity, OtherDrive};
use crate::label::{Label, LabelRule};

const CARD: WholeFile = WholeFile::json("a model's card");

/// A trained predictor, with its card.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its identity and origin.
    pub card: Card,
    /// The predictor's parameters.
    pub trained: Trained,
}

impl Model {
    /// A model fresh from training; its drive is not known.
    #[must_use]
    pub fn new(trained: Trained, rule: LabelRule, label: Label, provenance: Provenance) -> Self {
        Self { card: Card::new(&trained, rule, label, provenance), trained }
    }

    /// How a drive differs from the one that the model was trained on, if both are known.
    #[must_use]
    pub fn other_drive(&self, found: &Identity) -> Option<OtherDrive> {
        self.card.drive.as_ref()?.other_drive(found)
    }

    /// The contents of both files: the tensors, and the card that belongs beside them under
    /// [`card_path`].
    ///
    /// # Errors
    /// A number does not fit the format.
    pub fn to_files(&self) -> Result<(Vec<u8>, String), Error> {
        let mut writer = Writer::default();
        match &self.trained {
            Trained::HeurSim(_) | Trained::HeurAdv(_) | Trained::MittState(_) => {}
            Trained::Linnos(network) => writer.put("network", &Box::new(LinnOs::clone(network))),
            Trained::Trimtab(model) => {
                writer.put("forest", &model.forest);
                writer.put("probability", &model.probability);
                writer.put("wait_forest", &model.wait_forest);
                writer.put("wait", &model.wait);
                writer.put("fast_forest", &model.fast_forest);
                writer.put("fast", &model.fast);
            }
        }
        let predictor = self.card.predictor.name();
        let tensors = writer.to_bytes().map_err(|source| Error::Encode { predictor, source })?;
        let mut card = self.card.clone();
        (card.version, card.checksum) = (VERSION, BLANK.to_owned());
        let card = serde_json::to_string_pretty(&card).expect("a card is JSON") + "\n";
        let card = seal(&card, &tensors);
        Ok((tensors, card))
    }

    /// The model of both files' contents.
    ///
    /// # Errors
    /// One of the two is invalid, or they do not belong together.
    pub fn from_files(tensors: &[u8], card: &str) -> Result<Self, FilesError> {
        // The checksum first: nothing is made of damaged content.
        if Card::stated_version(card)? >= SEALED && !is_intact(card, tensors) {
            return Err(FilesError::Checksum);
        }
        let card = Card::parse(card)?;
        if card.version < SEALED && card.checksum != of_tensors(tensors) {
            return Err(FilesError::Checksum);
        }
        let trained = card.trained(tensors)?;
        Ok(Self { card, trained })
    }

    /// Loads a model and its card, which is in the same directory. The caller should show its
    /// [`caution`](Self::caution) to the user.
    ///
    /// # Errors
    /// A file cannot be read, or is invalid.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let beside = card_path(path);
        let path = path.to_owned();
        let tensors = match WholeFile::MODEL.read(&path) {
            Ok(tensors) => tensors,
            Err(source) => return Err(Error::Read { path, source }),
        };
        let card = match CARD.read_text(&beside) {
            Ok(card) => card,
            Err(reason) => return Err(Error::ReadCard { path: beside, model: path, reason }),
        };
        Self::from_files(&tensors, &card).map_err(|error| match error {
            FilesError::Card(source) => Error::Card { path: beside, source },
            FilesError::Tensors(source) => Error::Tensors { path, source },
            FilesError::Checksum => Error::Checksum { path, card: beside },
        })
    }

    /// A warning to show to the user, if there is one: the card is of a version that no
    /// checksum covers.
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

/// The path of a model's card: beside the model, with the ending `.json`.
#[must_use]
pub fn card_path(model: &Path) -> PathBuf {
    model.with_extension("json")
}
