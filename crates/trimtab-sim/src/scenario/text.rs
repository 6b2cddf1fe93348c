//! Errors with their line.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

use trimtab_io::within;

use crate::error::Error;

/// What a setting beside the file is preceded by.
const SET: &str = "# --set ";

/// The text of a scenario, which locates errors by line.
///
/// What was set beside the file follows it as comments, `# --set 'seeds = [4]'`: an error there is
/// located by the setting.
#[derive(Clone, Copy)]
pub struct Text<'t>(pub &'t str);

impl Text<'_> {
    /// An error at this position.
    #[must_use]
    pub fn wrong(self, at: &Range<usize>, what: impl Display) -> Error {
        let before = &self.0.as_bytes()[..at.start.min(self.0.len())];
        let number = before.iter().filter(|&&byte| byte == b'\n').count();
        let set = self.0.split('\n').nth(number).and_then(|line| line.strip_prefix(SET));
        let line = set.map_or_else(|| format!("line {}", 1 + number), |set| format!("--set {set}"));
        // Names may contain anything.
        let what = what.to_string().replace('\n', " ");
        Error::Scenario(format!("{line}: {what}"))
    }

    /// The TOML reader's error, on one line.
    #[must_use]
    pub fn error(self, error: &toml::de::Error) -> Error {
        let what = error.message().trim().replace('\n', " ");
        match error.span() {
            // A missing top-level key has no position.
            Some(span) if span.start > 0 || !what.starts_with("missing field") => {
                self.wrong(&span, what)
            }
            _ => Error::Scenario(what),
        }
    }

    /// Checks that a value is in its range; not-a-number never is.
    ///
    /// # Errors
    /// It is not; the text gives the line, the key and the range.
    pub fn within<T: PartialOrd + Display>(
        self,
        key: &str,
        at: &Range<usize>,
        value: T,
        range: RangeInclusive<T>,
    ) -> Result<(), Error> {
        within(&format!("`{key}`"), value, range).map_err(|error| self.wrong(at, error.to_string()))
    }
}
