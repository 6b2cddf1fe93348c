//! The built-in profiles.

use super::Profile;

/// A profile by its file name.
macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../profiles/", $name, ".toml")))),*]
    };
}

/// Name and TOML, in listing order.
const BUILTIN: [(&str, &str); 12] = builtin![
    "reference",
    "ioda-sim",
    "ocssd",
    "femu",
    "970",
    "p4600",
    "sn260",
    "openchannel",
    "consumer-a",
    "enterprise-a",
    "enterprise-b",
    "enterprise-c",
];

impl Profile {
    /// Names of the built-in profiles.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// A built-in profile.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        let (_, text) = BUILTIN.iter().find(|(known, _)| *known == name)?;
        Some(Self::parse(text).expect("tested"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_profiles_are_valid() {
        for name in Profile::builtin_names() {
            let profile = Profile::builtin(name).unwrap();
            assert_eq!(profile.name, name);
            assert!(!profile.about.is_empty(), "{name} does not say where it is from");
            assert_eq!(Profile::parse(&profile.to_toml()), Ok(profile), "{name}");
        }
    }
}
