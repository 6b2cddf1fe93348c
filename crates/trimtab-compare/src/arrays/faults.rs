//! Faults of an array's members, and members that are lost.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::DeValue;
use trimtab_array::{Layout, Level};
use trimtab_device::{Effect, Fault, FaultOps};
use trimtab_sim::Error;
use trimtab_sim::scenario::{Text, read};

use crate::spec::faults;

/// Which of the members that one `[[device]]` stands for have a fault.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "`on` must be \"first\", \"each\" or a list of members, from 0")]
enum On {
    Named(Named),
    Members(Vec<usize>),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Named {
    First,
    Each,
}

/// The faults of the members that one `[[device]]` stands for, each of so many bytes.
pub(super) fn of_device(
    value: Option<Spanned<DeValue<'_>>>,
    stands_for: usize,
    capacity: u64,
    text: Text<'_>,
) -> Result<Vec<Vec<Fault>>, Error> {
    let mut members = vec![Vec::new(); stands_for];
    let Some(value) = value else { return Ok(members) };
    for mut entry in faults::entries(value, text)? {
        let on = match entry.get_mut() {
            DeValue::Table(table) => table.remove("on"),
            _ => None,
        };
        let at = on.as_ref().map_or(entry.span(), Spanned::span);
        let on = on.map_or(Ok(On::Named(Named::First)), |on| read(on, text))?;
        let fault = faults::one(entry, capacity, text)?;
        for member in on.members(stands_for, &at, text)? {
            members[member].push(fault);
        }
    }
    Ok(members)
}

impl On {
    fn members(
        self,
        stands_for: usize,
        at: &Range<usize>,
        text: Text<'_>,
    ) -> Result<Vec<usize>, Error> {
        Ok(match self {
            // One fault of one device is not that of all.
            Self::Named(Named::First) => vec![0],
            Self::Named(Named::Each) => (0..stands_for).collect(),
            Self::Members(members) => {
                check_members("on", &members, stands_for, at, text)?;
                members
            }
        })
    }
}

fn check_members(
    key: &str,
    members: &[usize],
    of: usize,
    at: &Range<usize>,
    text: Text<'_>,
) -> Result<(), Error> {
    for (place, member) in members.iter().enumerate() {
        text.within(key, at, *member, 0..=of - 1)?;
        if members[..place].contains(member) {
            return Err(text.wrong(at, format!("`{key}`: member {member} is there twice")));
        }
    }
    Ok(())
}

/// How many members an array can lose.
fn tolerated(layout: &Layout) -> usize {
    match layout.level() {
        Level::Raid1 => layout.members() - 1,
        level => level.parities(),
    }
}

/// Checks the members that are lost from the beginning.
pub(super) fn lost(
    lost: Option<&Spanned<Vec<usize>>>,
    layout: &Layout,
    text: Text<'_>,
) -> Result<Vec<usize>, Error> {
    let Some(lost) = lost else { return Ok(Vec::new()) };
    let (at, lost) = (lost.span(), lost.get_ref());
    check_members("array.lost", lost, layout.members(), &at, text)?;
    let most = tolerated(layout);
    if lost.len() > most {
        let (level, lost) = (layout.level(), lost.len());
        let what = format!("`array.lost`: {level} can lose {most} of its members, not {lost}");
        return Err(text.wrong(&at, what));
    }
    Ok(lost.clone())
}

/// Checks that no more members are certain to fail at once than the array can do without: those
/// that are lost, and those of which all reads or all requests fail.
pub(super) fn check_failures(
    faults: &[Vec<Fault>],
    lost: &[usize],
    layout: &Layout,
    at: &Range<usize>,
    text: Text<'_>,
) -> Result<(), Error> {
    let fails = |member: usize, time: f64| {
        lost.contains(&member) || faults[member].iter().any(|fault| fails_at(fault, time))
    };
    // The most fail at once when some fault begins.
    for time in faults.iter().flatten().map(|fault| fault.at_s) {
        let failing = (0..faults.len()).filter(|&member| fails(member, time)).count();
        let most = tolerated(layout);
        if failing > most {
            let level = layout.level();
            let what = format!(
                "`fault`: at {time} s all reads fail on {failing} members at once, and {level} can \
                 do without {most}"
            );
            return Err(text.wrong(at, what));
        }
    }
    Ok(())
}

fn fails_at(fault: &Fault, time: f64) -> bool {
    let Effect::Error { ops: FaultOps::Reads | FaultOps::All, share } = fault.effect else {
        return false;
    };
    let is_certain = share >= 1.0 && fault.every_s.is_none();
    is_certain && (fault.at_s..fault.at_s + fault.for_s.least).contains(&time)
}
