//! Several devices that are alike.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::text::Text;
use super::workload::read;
use crate::error::Error;

/// Replaces each `[[device]]` that has a `count` by as many devices, in its place. If it has a
/// name, they are called that and their number, from 0.
///
/// # Errors
/// A `count` is no number from 1 to `most`, or there are more devices than `most` with it.
pub fn expand_counts<'i>(root: &mut DeTable<'i>, most: usize, text: Text<'_>) -> Result<(), Error> {
    let Some(devices) = root.get_mut("device").map(Spanned::get_mut) else { return Ok(()) };
    let DeValue::Array(list) = devices else { return Ok(()) };
    let has_count = |device: &Spanned<DeValue<'i>>| matches!(device.get_ref(), DeValue::Table(table) if table.contains_key("count"));
    if !list.iter().any(has_count) {
        return Ok(());
    }
    let mut all: Vec<Spanned<DeValue<'i>>> = Vec::new();
    for mut device in list.iter().cloned() {
        let count = match device.get_mut() {
            DeValue::Table(table) => table.remove("count"),
            _ => None,
        };
        let Some(count) = count else {
            all.push(device);
            continue;
        };
        let at = count.span();
        let count: usize = read(count, text)?;
        text.within("count", &at, count, 1..=most)?;
        if all.len() + count > most {
            let what = format!("`count`: with it there are more than {most} devices");
            return Err(text.wrong(&at, what));
        }
        for number in 0..count {
            let mut one = device.clone();
            if let DeValue::Table(table) = one.get_mut()
                && let Some(name) = table.get_mut("name").map(Spanned::get_mut)
                && let DeValue::String(name) = name
            {
                *name = format!("{name} {number}").into();
            }
            all.push(one);
        }
    }
    *list = all.into_iter().collect();
    Ok(())
}
