//! Groups of drives that hold the same blocks.

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use trimtab_io::Nanos;
use trimtab_sim::Error;
use trimtab_sim::scenario::{Text, read};
use trimtab_steer::MOST_REPLICAS;

use super::{RawDeadline, deadline};

/// Drives that hold the same blocks: their users' reads fail over among them only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its name; that of a comparison without groups is empty.
    pub(crate) name: String,
    /// The numbers of its drives.
    pub(crate) drives: Vec<usize>,
    /// The deadline of its users' reads under `mitt`; `None`: from phase one.
    pub(crate) deadline: Option<Nanos>,
}

/// What a device says of its group.
#[derive(Default)]
pub(super) struct RawGroup<'i> {
    name: Option<Spanned<DeValue<'i>>>,
    deadline: Option<Spanned<DeValue<'i>>>,
}

impl RawGroup<'_> {
    pub(super) const fn is_named(&self) -> bool {
        self.name.is_some()
    }
}

/// Takes `group` and `deadline_us` out of each device: plain simulations, which share the other
/// keys, have none.
pub(super) fn take<'i>(root: &mut DeTable<'i>) -> Vec<RawGroup<'i>> {
    let Some(devices) = root.get_mut("device").map(Spanned::get_mut) else { return Vec::new() };
    let DeValue::Array(devices) = devices else { return Vec::new() };
    let group = devices.iter_mut().map(|device| match device.get_mut() {
        DeValue::Table(device) => {
            RawGroup { name: device.remove("group"), deadline: device.remove("deadline_us") }
        }
        _ => RawGroup::default(),
    });
    group.collect()
}

/// The groups of these devices, in the order of their first ones; `usual` is the deadline of those
/// that have none.
pub(super) fn parse(
    raw: Vec<RawGroup<'_>>,
    usual: Option<Nanos>,
    copies: Option<usize>,
    text: Text<'_>,
) -> Result<Vec<Group>, Error> {
    let mut groups: Vec<Group> = Vec::new();
    let named = raw.iter().filter(|device| device.name.is_some()).count();
    let of_all = raw.len();
    for (number, device) in raw.into_iter().enumerate() {
        let name = match device.name {
            Some(name) => {
                let at = name.span();
                let name: String = read(name, text)?;
                if named < of_all {
                    let what = format!(
                        "`group`: {named} of the {of_all} drives have one; give \
                                        each of them a group, or none"
                    );
                    return Err(text.wrong(&at, what));
                }
                if name.trim().is_empty() {
                    return Err(text.wrong(&at, "`group` must have a name"));
                }
                name
            }
            None => String::new(),
        };
        let at = groups.iter().position(|group| group.name == name).unwrap_or_else(|| {
            groups.push(Group { name, drives: Vec::new(), deadline: usual });
            groups.len() - 1
        });
        let group = &mut groups[at];
        if let Some(value) = device.deadline {
            let at = value.span();
            let own: RawDeadline = read(value, text)?;
            let own = deadline(Some(&Spanned::new(at.clone(), own)), text)?;
            if !group.drives.is_empty() && group.deadline != own {
                let what = "`deadline_us`: another device of this group has another one";
                return Err(text.wrong(&at, what));
            }
            group.deadline = own;
        }
        group.drives.push(number);
    }
    let least = copies.unwrap_or(2);
    let small = groups.iter().find(|group| group.drives.len() < least);
    if let Some(Group { name, drives, .. }) = small {
        let of = drives.len();
        let what = format!("group `{name}` has {of} of the drives; it must have {least} at least");
        return Err(Error::Scenario(what));
    }
    let large = groups.iter().find(|group| group.drives.len() > MOST_REPLICAS);
    if let (Some(Group { name, drives, .. }), None) = (large.filter(|_| groups.len() > 1), copies) {
        let of = drives.len();
        let what = format!(
            "`copies` must say how many of the {of} drives of group `{name}` hold each block, 2 \
             to {MOST_REPLICAS}"
        );
        return Err(Error::Scenario(what));
    }
    Ok(groups)
}
