//! The built-in profiles.

use super::Profile;

/// Gives a type its built-in profiles, in listing order, by the names of their files.
macro_rules! builtin {
    ($profile:ty: $($name:literal),* $(,)?) => {
        impl $profile {
            /// Name and TOML.
            const BUILTIN: &[(&str, &str)] =
                &[$(($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/", $name, ".toml")))),*];

            /// Names of the built-in profiles.
            pub fn builtin_names() -> impl Iterator<Item = &'static str> {
                Self::BUILTIN.iter().map(|(name, _)| *name)
            }

            /// A built-in profile.
            #[must_use]
            pub fn builtin(name: &str) -> Option<Self> {
                let (_, text) = Self::BUILTIN.iter().find(|(known, _)| *known == name)?;
                Some(Self::parse(text).expect("tested"))
            }
        }
    };
}
pub(crate) use builtin;

builtin! { Profile:
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
