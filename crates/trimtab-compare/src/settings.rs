//! Keys that replace those of a scenario, as `--set` of the command gives them.

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use trimtab_sim::Error;
use trimtab_sim::scenario::Text;

/// A scenario, and settings: each a line of TOML.
pub(crate) struct Settings {
    /// The scenario's text with what was set, as reports have it and errors quote it.
    whole: String,
    /// Bytes of the scenario's own text in it.
    length: usize,
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
        Self { whole, length: text.len(), lines }
    }

    /// The scenario with its keys replaced, and the text that positions in it refer to.
    pub(crate) fn parse(&self) -> Result<(Text<'_>, Spanned<DeTable<'_>>), Error> {
        let text = Text(&self.whole);
        let root = DeTable::parse(&self.whole[..self.length]);
        let mut root = root.map_err(|e| text.error(&e))?;
        for line in &self.lines {
            let set = DeTable::parse(line).map_err(|e| {
                let (setting, what) = (line.trim_start(), e.message().trim().replace('\n', " "));
                Error::Scenario(format!("--set '{setting}': {what}; give it a line of TOML"))
            })?;
            replace(root.get_mut(), set.into_inner());
        }
        Ok((text, root))
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
