//! The profiles that come with the program.

use super::Profile;

/// A profile by the name of its file.
macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../profiles/", $name, ".toml")))),*]
    };
}

/// Name and TOML, in the order in which they are listed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_can_be() {
        for name in Profile::builtin_names() {
            let profile = Profile::builtin(name).unwrap();
            assert_eq!(profile.name, name);
            assert!(!profile.about.is_empty(), "{name} does not say where it is from");
            assert_eq!(Profile::parse(&profile.to_toml()), Ok(profile), "{name}");
        }
    }
}
