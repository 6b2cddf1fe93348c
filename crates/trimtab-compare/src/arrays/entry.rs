//! The rows of a comparison: strategies, some with firmware or drives of their own.

use serde::Deserialize as _;
use toml::de::{DeValue, ValueDeserializer};
use toml::{Spanned, Table, Value};
use trimtab_device::{FirmwareKind, Profile, WindowOptions};
use trimtab_sim::Error;
use trimtab_sim::scenario::{DeviceSpec, Text, read};

use super::buffer::BufferOptions;
use super::strategy::ArrayStrategy;
use super::windows::{self, Change, Windows};

/// A row of the table.
#[derive(Clone, Debug)]
pub(super) struct ArrayEntry {
    /// Its name; the strategy's if the scenario gives it none, and the length of its windows where
    /// the scenario lists several.
    pub(super) name: String,
    pub(super) strategy: ArrayStrategy,
    /// The firmware of its drives: the strategy's, with the keys that the row changes.
    pub(super) firmware: FirmwareKind,
    /// The windows of the scenario, for a host that has them without its drives' help.
    pub(super) windows: WindowOptions,
    /// What its windows are changed to.
    pub(super) then: Option<Change>,
    /// The members' profiles, if the row changes them.
    profiles: Option<Vec<Profile>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    strategy: Spanned<String>,
    name: Option<Spanned<String>>,
}

/// What the rows share.
#[derive(Clone, Copy)]
pub(super) struct Common<'a> {
    pub(super) windows: &'a Windows,
    pub(super) buffer: &'a BufferOptions,
    pub(super) drives: &'a [DeviceSpec],
}

impl ArrayEntry {
    /// The rows of a strategy: one for each length of its windows, without windows one.
    fn of(strategy: ArrayStrategy, name: &str, common: Common<'_>) -> Vec<Self> {
        let Windows { options, lengths_ms, then } = common.windows;
        let has_windows = strategy.has_windows();
        let entry = |name: String, windows: WindowOptions| Self {
            name,
            strategy,
            firmware: strategy.firmware(&windows, common.buffer),
            windows,
            then: then.filter(|_| has_windows),
            profiles: None,
        };
        if !has_windows || lengths_ms.is_empty() {
            return vec![entry(name.to_owned(), *options)];
        }
        let row = |&ms: &f64| {
            let name = format!("{name} {}", windows::name(windows::of_ms(ms)));
            entry(name, WindowOptions { window_ms: Some(ms), ..*options })
        };
        lengths_ms.iter().map(row).collect()
    }

    /// All strategies, as they are published.
    pub(super) fn all(common: Common<'_>) -> Vec<Self> {
        let of = |strategy: ArrayStrategy| Self::of(strategy, strategy.name(), common);
        ArrayStrategy::ALL.into_iter().flat_map(of).collect()
    }

    /// The rows that a scenario names.
    pub(super) fn parse(
        list: Option<Spanned<DeValue<'_>>>,
        common: Common<'_>,
        text: Text<'_>,
    ) -> Result<Vec<Self>, Error> {
        let Some(list) = list else { return Ok(Self::all(common)) };
        let at = list.span();
        let DeValue::Array(list) = list.into_inner() else {
            return Err(text.wrong(&at, "`strategies` must be a list"));
        };
        let mut entries: Vec<Self> = Vec::new();
        for item in list {
            let at = item.span();
            let new = Self::one(item, common, text)?;
            let is_there = |entry: &&Self| entries.iter().any(|other| other.name == entry.name);
            if let Some(Self { name, .. }) = new.iter().find(is_there) {
                let what = format!("`{name}` is there twice: a row may have a `name`");
                return Err(text.wrong(&at, what));
            }
            entries.extend(new);
        }
        if entries.is_empty() {
            return Err(text.wrong(&at, "`strategies` must have at least one entry"));
        }
        Ok(entries)
    }

    /// An entry's rows: a strategy's name, or a table with more.
    fn one(
        mut item: Spanned<DeValue<'_>>,
        common: Common<'_>,
        text: Text<'_>,
    ) -> Result<Vec<Self>, Error> {
        let at = item.span();
        let (mut firmware, mut overrides) = (None, None);
        let raw = match item.get_mut() {
            DeValue::String(name) => {
                Raw { strategy: Spanned::new(at, name.to_string()), name: None }
            }
            DeValue::Table(table) => {
                (firmware, overrides) = (table.remove("firmware"), table.remove("override"));
                read(item, text)?
            }
            _ => {
                let what = "an entry of `strategies` must be a name, or a table with `strategy`";
                return Err(text.wrong(&at, what));
            }
        };
        let strategy = raw.strategy.get_ref().parse();
        let strategy: ArrayStrategy =
            strategy.map_err(|error| text.wrong(&raw.strategy.span(), error))?;
        let name = raw.name.map_or_else(|| strategy.name().to_owned(), Spanned::into_inner);
        let mut entries = Self::of(strategy, &name, common);
        for entry in &mut entries {
            if let Some(keys) = &firmware {
                entry.firmware = changed(&entry.firmware, keys.clone(), text)?;
            }
            if let Some(overrides) = &overrides {
                let profile = |drive: &DeviceSpec| drive.overridden(overrides.clone(), text);
                entry.profiles = Some(common.drives.iter().map(profile).collect::<Result<_, _>>()?);
            }
        }
        Ok(entries)
    }

    /// The member with the profile that this row gives it.
    pub(super) fn drive(&self, number: usize, drive: &DeviceSpec) -> DeviceSpec {
        let profile = self.profiles.as_ref().map_or(&drive.profile, |own| &own[number]);
        let mut drive = DeviceSpec { profile: profile.clone(), ..drive.clone() };
        self.strategy.change(&mut drive.profile);
        drive
    }
}

/// A firmware with some of its keys replaced.
fn changed(
    firmware: &FirmwareKind,
    keys: Spanned<DeValue<'_>>,
    text: Text<'_>,
) -> Result<FirmwareKind, Error> {
    let at = keys.span();
    let DeValue::Table(keys) = keys.into_inner() else {
        return Err(text.wrong(&at, "`firmware` must be a table of the keys of a firmware"));
    };
    let mut merged = Table::try_from(firmware).expect("a firmware's own keys");
    for (key, value) in keys {
        let (key, at) = (key.get_ref().to_string(), value.span());
        if key == "kind" {
            return Err(text.wrong(&at, "`firmware.kind` is determined by the strategy"));
        }
        let value = Value::deserialize(ValueDeserializer::from(value))
            .map_err(|error| text.wrong(&at, format!("`firmware.{key}`: {}", error.message())))?;
        merged.insert(key, value);
    }
    FirmwareKind::parse(&merged.to_string()).map_err(|error| {
        let error = error.to_string();
        // Lines of the merged text mean nothing to the user.
        let what = error.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
        text.wrong(&at, format!("`firmware`: {}", what.map_or(error.as_str(), |(_, what)| what)))
    })
}
