//! The agent's configuration file: docs/agent.md explains it field by field.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use trimtab_io::{WholeFile, within};
use trimtab_predict::{Recorded, card_path};

use crate::error::{ConfigError, Error};
use crate::listen::Listen;

/// The configuration file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where metrics are served.
    #[serde(default)]
    pub(crate) listen: Listen,
    /// The resolved addresses: resolved once, so that the checked addresses are the ones used.
    #[serde(skip)]
    pub(crate) addresses: Vec<SocketAddr>,
    /// Whether that may be an address reachable from other machines.
    #[serde(default)]
    allow_remote: bool,
    /// The directory for pins, on a BPF file system; empty: nothing is pinned.
    #[serde(default = "pin_directory")]
    pub(crate) pin_directory: PathBuf,
    /// Whether models that no longer fit are trained again.
    #[serde(default)]
    pub(crate) retrain: bool,
    /// Memory for the recorded requests of each drive, for training.
    #[serde(default = "recording_mib")]
    recording_mib: u32,
    /// The least time between trainings of a drive.
    #[serde(default = "retrain_pause_s")]
    retrain_pause_s: u64,
    /// How often the inflection point is computed.
    #[serde(default = "drift_check_s")]
    drift_check_s: u64,
    /// The drives.
    #[serde(default, rename = "drive")]
    pub(crate) drives: Vec<DriveConfig>,
}

/// One of the drives.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DriveConfig {
    /// Its name, or path.
    pub(crate) device: String,
    /// Its model, if there is one.
    pub(crate) model: Option<PathBuf>,
}

fn pin_directory() -> PathBuf {
    PathBuf::from("/sys/fs/bpf/trimtab")
}

const fn recording_mib() -> u32 {
    32
}

/// Some thirty years: a time that can still be added to a clock's.
const LONGEST_S: u64 = 1_000_000_000;

const fn retrain_pause_s() -> u64 {
    3600
}

const fn drift_check_s() -> u64 {
    60
}

impl Config {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, or is not valid; the error names the file and the line.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let config = WholeFile::toml("the agent's configuration")
            .read_text(path)
            .map_err(|e| ConfigError::Unreadable(e.to_string()))
            .and_then(|text| Self::parse(&text));
        config.map_err(|source| Error::Config { file: path.to_owned(), source })
    }

    fn parse(text: &str) -> Result<Self, ConfigError> {
        let mut config: Self = toml::from_str(text).map_err(|e| {
            let before = &text.as_bytes()[..e.span().map_or(0, |span| span.start)];
            let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
            let message = e.message().split_whitespace().collect::<Vec<_>>().join(" ");
            ConfigError::Toml { line, message }
        })?;
        config.check()?;
        config.addresses = config.listen.addresses()?;
        config.check_reach()?;
        Ok(config)
    }

    /// Refuses to serve an address reachable from other machines unless that is allowed.
    fn check_reach(&self) -> Result<(), ConfigError> {
        match self.addresses.iter().find(|address| !address.ip().is_loopback()) {
            Some(remote) if !self.allow_remote => {
                Err(ConfigError::Remote { listen: self.listen.to_string(), address: remote.ip() })
            }
            _ => Ok(()),
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let Self { drives, .. } = self;
        if drives.is_empty() {
            return Err(ConfigError::NoDrives);
        }
        within("recording_mib", self.recording_mib, 1..=4096)?;
        within("retrain_pause_s", self.retrain_pause_s, 0..=LONGEST_S)?;
        within("drift_check_s", self.drift_check_s, 1..=LONGEST_S)?;
        for DriveConfig { device, model } in drives {
            match model {
                None if self.retrain => {
                    return Err(ConfigError::NoModel { device: device.clone() });
                }
                Some(model) if card_path(model) == *model => {
                    return Err(ConfigError::Card { model: model.clone() });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The number of drives.
    #[must_use]
    pub const fn drive_count(&self) -> usize {
        self.drives.len()
    }

    /// The addresses at which metrics are served.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// How many requests of each drive are kept for training.
    pub(crate) const fn kept_requests(&self) -> usize {
        if self.retrain {
            (self.recording_mib as usize * (1 << 20)) / size_of::<Recorded>()
        } else {
            0
        }
    }

    pub(crate) const fn retrain_pause(&self) -> Duration {
        Duration::from_secs(self.retrain_pause_s)
    }

    pub(crate) const fn drift_check(&self) -> Duration {
        Duration::from_secs(self.drift_check_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_but_the_drive_have_defaults() {
        let config = Config::parse("[[drive]]\ndevice = \"nvme0n1\"\n").unwrap();
        assert_eq!(config.addresses, [SocketAddr::from(([127, 0, 0, 1], 9753))]);
        assert_eq!(config.pin_directory, Path::new("/sys/fs/bpf/trimtab"));
        assert_eq!((config.retrain, config.kept_requests()), (false, 0));
        let more = "retrain = true\n[[drive]]\ndevice = \"a\"\nmodel = \"a.safetensors\"\n";
        let config = Config::parse(more).unwrap();
        assert_eq!(config.kept_requests() * size_of::<Recorded>() / (1 << 20), 31);
    }

    #[test]
    fn example_configuration_is_valid() {
        Config::parse(include_str!("../../../examples/agent.toml")).unwrap();
    }

    #[test]
    fn errors_name_the_line() {
        let drive = "[[drive]]\ndevice = \"sda\"\n";
        for (text, expected) in [
            ("", "there is no [[drive]]"),
            ("listen = \"0.0.0.0:1\"\n", "can be reached from outside"),
            ("listen = \"localhost\"\n", "line 1: listen = \"localhost\": has no port: expected "),
            ("listen = \"[::ffff:1.2.3.4]:1\"\n", "1.2.3.4 can be reached from outside"),
            ("\nretrian = true\n", "line 2: unknown field `retrian`"),
            ("retrain = true\n", "sda has no model"),
            ("recording_mib = 0\n", "recording_mib must be from 1 to 4096, not 0"),
            ("drift_check_s = 0\n", "drift_check_s must be from 1 to 1000000000, not 0"),
            ("a = \n", "line 1: "),
        ] {
            let all = if text.is_empty() { String::new() } else { format!("{text}{drive}") };
            let error = Config::parse(&all).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        let remote = format!("listen = \"0.0.0.0:1\"\nallow_remote = true\n{drive}");
        Config::parse(&remote).unwrap();
        for local in ["localhost:1", "[::ffff:127.0.0.1]:1", "[::1]:1", "127.1.2.3:1"] {
            Config::parse(&format!("listen = \"{local}\"\n{drive}")).unwrap();
        }
        let unknown = "[[drive]]\ndevice = \"sda\"\ncolour = 1\n";
        assert!(
            Config::parse(unknown).unwrap_err().to_string().starts_with("line 3: unknown field")
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_parses_or_fails_in_one_line(text in "(\\PC|\\[drive\\]|\n|=|\")*") {
            if let Err(error) = Config::parse(&text) {
                proptest::prop_assert_eq!(error.to_string().lines().count(), 1, "{}", error);
            }
        }
    }
}
