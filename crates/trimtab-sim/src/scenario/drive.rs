//! A device's profile: a name or a file, overrides, a size.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize as _;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Table, Value};
use trimtab_device::{DiskProfile, DriveProfile, Profile};
use trimtab_io::WholeFile;

use super::text::Text;
use super::{CAPACITY, RawDevice};
use crate::error::Error;

/// The resulting profile of a device.
pub(super) fn profile(
    raw: &RawDevice,
    overrides: Option<Spanned<DeValue<'_>>>,
    text: Text<'_>,
    directory: &Path,
) -> Result<DriveProfile, Error> {
    let base = named(&raw.profile, text, directory)?;
    let (profile, keeps_its_size) = match base {
        DriveProfile::Flash(base) => {
            let profile = match overrides {
                Some(keys) => overridden(&base, keys, text, Profile::to_toml, Profile::parse)?,
                None => base.clone(),
            };
            // A profile with a given number of blocks keeps its size.
            let given = profile.geometry.blocks_per_plane != base.geometry.blocks_per_plane;
            (DriveProfile::Flash(profile), given)
        }
        DriveProfile::Disk(base) => {
            let profile = match overrides {
                Some(keys) => {
                    overridden(&base, keys, text, DiskProfile::to_toml, DiskProfile::parse)?
                }
                None => base,
            };
            (DriveProfile::Disk(profile), true)
        }
    };
    let (bytes, at) = match &raw.capacity {
        Some(capacity) => (capacity.get_ref().0, capacity.span()),
        None if keeps_its_size => return Ok(profile),
        None => (CAPACITY, raw.profile.span()),
    };
    profile
        .with_capacity(bytes)
        .map_err(|e| text.wrong(&at, format!("`capacity` of {bytes} bytes: {e}")))
}

/// A built-in profile, or one in a file.
fn named(name: &Spanned<String>, text: Text<'_>, directory: &Path) -> Result<DriveProfile, Error> {
    if let Some(profile) = DriveProfile::builtin(name.get_ref()) {
        return Ok(profile);
    }
    let path = directory.join(name.get_ref());
    let content = match WholeFile::toml("a drive's profile").read_text(&path) {
        Ok(content) => content,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let known: Vec<_> = DriveProfile::builtin_names().collect();
            let (name_, known) = (name.get_ref(), known.join(", "));
            let what = format!("unknown profile `{name_}`: no built-in one ({known}), and no file");
            return Err(text.wrong(&name.span(), what));
        }
        Err(source) => return Err(Error::Open { path, source }),
    };
    DriveProfile::parse(&content).map_err(|e| Error::Scenario(format!("{}: {e}", path.display())))
}

/// A profile with some of its keys replaced.
pub(super) fn overridden<P>(
    base: &P,
    overrides: Spanned<DeValue<'_>>,
    text: Text<'_>,
    to_toml: fn(&P) -> String,
    parse: fn(&str) -> Result<P, trimtab_device::Error>,
) -> Result<P, Error> {
    let at = overrides.span();
    let DeValue::Table(table) = overrides.get_ref() else {
        return Err(text.wrong(&at, "`override` must be a table of a profile's keys"));
    };
    let mut leaves = Vec::new();
    find_leaves(table, text, &mut Vec::new(), &mut leaves)?;
    let with = |leaves: &[Leaf]| {
        let mut table: Table = to_toml(base).parse().expect("a profile's own TOML");
        leaves.iter().for_each(|leaf| leaf.put_into(&mut table));
        parse(&table.to_string())
    };
    with(&leaves).map_err(|all| {
        // Reports the line of the first key that is invalid by itself; keys may be invalid
        // only in combination.
        let alone =
            leaves.iter().find_map(|leaf| Some((leaf, with(std::slice::from_ref(leaf)).err()?)));
        let (key, at, error) = match alone {
            Some((leaf, error)) => (leaf.keys.join("."), leaf.at.clone(), error),
            None => (String::new(), at, all),
        };
        let error = error.to_string();
        // Lines of the merged text mean nothing to the user.
        let what = error.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
        let what = what.map_or(error.as_str(), |(_, what)| what);
        let dot = if key.is_empty() { "" } else { "." };
        text.wrong(&at, format!("`override{dot}{key}`: {what}"))
    })
}

/// A key that is overridden.
struct Leaf {
    keys: Vec<String>,
    value: Value,
    at: Range<usize>,
}

fn find_leaves(
    table: &DeTable<'_>,
    text: Text<'_>,
    path: &mut Vec<String>,
    leaves: &mut Vec<Leaf>,
) -> Result<(), Error> {
    for (key, value) in table {
        path.push(key.get_ref().to_string());
        match value.get_ref() {
            DeValue::Table(inner) => find_leaves(inner, text, path, leaves)?,
            _ => {
                // An integer may exceed the range of values.
                let read = Value::deserialize(ValueDeserializer::from(value.clone()));
                let value = read.map_err(|e| {
                    let key = path.join(".");
                    text.wrong(&value.span(), format!("`override.{key}`: {}", e.message()))
                })?;
                leaves.push(Leaf { keys: path.clone(), value, at: key.span() });
            }
        }
        path.pop();
    }
    Ok(())
}

impl Leaf {
    fn put_into(&self, table: &mut Table) {
        // These two keys exclude each other.
        let other = match self.keys.last().map(String::as_str) {
            Some("program_us") => "program_pattern_us",
            Some("program_pattern_us") => "program_us",
            _ => "",
        };
        let mut here = table;
        let (last, path) = self.keys.split_last().expect("a key has a name");
        for key in path {
            let inner = here.entry(key.clone()).or_insert_with(|| Value::Table(Table::new()));
            if !inner.is_table() {
                *inner = Value::Table(Table::new());
            }
            here = inner.as_table_mut().expect("made one");
        }
        here.remove(other);
        // An integer is accepted for a fraction, as everywhere in a profile.
        here.insert(last.clone(), self.value.clone());
    }
}
