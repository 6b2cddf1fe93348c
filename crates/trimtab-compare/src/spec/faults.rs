//! The faults of a scenario's devices.

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use trimtab_device::{Effect, Fault};
use trimtab_sim::Error;
use trimtab_sim::scenario::{Text, read};

/// Takes `fault` out of each device: plain simulations, which share the other keys, have none.
pub(crate) fn take<'i>(root: &mut DeTable<'i>) -> Vec<Option<Spanned<DeValue<'i>>>> {
    let Some(devices) = root.get_mut("device").map(Spanned::get_mut) else { return Vec::new() };
    let DeValue::Array(devices) = devices else { return Vec::new() };
    let fault = devices.iter_mut().map(|device| match device.get_mut() {
        DeValue::Table(device) => device.remove("fault"),
        _ => None,
    });
    fault.collect()
}

/// The faults of one device, which has so many bytes.
pub(crate) fn parse(
    value: Spanned<DeValue<'_>>,
    capacity: u64,
    text: Text<'_>,
) -> Result<Vec<Fault>, Error> {
    entries(value, text)?.into_iter().map(|entry| one(entry, capacity, text)).collect()
}

/// The entries of a device's `fault`.
pub(crate) fn entries<'i>(
    value: Spanned<DeValue<'i>>,
    text: Text<'_>,
) -> Result<Vec<Spanned<DeValue<'i>>>, Error> {
    let at = value.span();
    match value.into_inner() {
        DeValue::Array(list) => Ok(list.into_iter().collect()),
        _ => Err(text.wrong(&at, "`fault` must be a list of tables")),
    }
}

/// One fault of a device, which has so many bytes.
pub(crate) fn one(
    entry: Spanned<DeValue<'_>>,
    capacity: u64,
    text: Text<'_>,
) -> Result<Fault, Error> {
    let at = entry.span();
    let fault: Fault = read(entry, text)?;
    fault.check_on(capacity).map_err(|error| text.wrong(&at, error))?;
    if let Effect::PowerCut { .. } = fault.effect {
        let what = "a comparison has no `power-cut`, which loses writes; its drives take stall, \
                    slow, error and media";
        return Err(text.wrong(&at, what));
    }
    Ok(fault)
}
