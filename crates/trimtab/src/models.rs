//! Loading models.

use std::path::Path;

use trimtab_predict::{Error, Model};

use crate::log;

/// Loads a model, and logs its warning, if any.
pub(crate) fn load(path: &Path) -> Result<Model, Error> {
    let model = Model::load(path)?;
    if let Some(caution) = model.caution() {
        log::line(&format!("warning: {}: {caution}", path.display()));
    }
    Ok(model)
}
