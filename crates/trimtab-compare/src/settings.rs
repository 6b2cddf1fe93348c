//! Keys that replace those of a scenario, as `--set` of the command gives them.

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use trimtab_sim::Error;

/// Settings, each a line of TOML, and the text that positions in them refer to.
pub(crate) struct Settings {
    /// The scenario's text with what was set, as reports have it and errors quote it.
    pub(crate) whole: String,
    /// Each preceded by spaces, so that positions are those in the whole text.
    lines: Vec<String>,
}

impl Settings {
    pub(crate) fn new(text: &str, settings: &[String]) -> Self {
        let mut whole = text.to_owned();
        let lines = settings.iter().map(|setting| {
            let setting = setting.trim_end().replace('\n', " ");
            whole.push_str("\n# --set '");
            let line = " ".repeat(whole.len()) + &setting;
            whole.push_str(&format!("{setting}'"));
            line
        });
        let lines = lines.collect();
        Self { whole, lines }
    }

    /// Replaces keys of the scenario.
    pub(crate) fn apply<'i>(&'i self, root: &mut DeTable<'i>) -> Result<(), Error> {
        for line in &self.lines {
            let set = DeTable::parse(line).map_err(|e| {
                let (setting, what) = (line.trim_start(), e.message().trim().replace('\n', " "));
                Error::Scenario(format!("--set '{setting}': {what}; give it a line of TOML"))
            })?;
            replace(root, set.into_inner());
        }
        Ok(())
    }
}

/// Replaces keys of a table; in tables within it the others stay.
fn replace<'i>(root: &mut DeTable<'i>, set: DeTable<'i>) {
    for (key, value) in set {
        let span = value.span();
        match (root.get_mut(key.get_ref().as_ref()).map(Spanned::get_mut), value.into_inner()) {
            (Some(DeValue::Table(old)), DeValue::Table(new)) => replace(old, new),
            (_, value) => _ = root.insert(key, Spanned::new(span, value)),
        }
    }
}
