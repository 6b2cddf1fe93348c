//! The profiles that come with the program.

use super::Profile;

/// Name and TOML.
const BUILTIN: [(&str, &str); 1] = [("reference", include_str!("../../profiles/reference.toml"))];

impl Profile {
    /// The names of the profiles that come with the program.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// One of the profiles that come with the program.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        let (_, text) = BUILTIN.iter().find(|(known, _)| *known == name)?;
        Some(Self::parse(text).expect("tested"))
    }
}
