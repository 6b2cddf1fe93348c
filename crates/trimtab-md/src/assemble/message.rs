//! What is said of devices and arrays, in one line each.

use std::fmt;

use super::{Candidate, MemberState, Resync, Start};

pub(super) fn lines(
    candidates: &[Candidate],
    states: &[MemberState],
    newest: usize,
) -> Vec<String> {
    let name = |index: usize| candidates[index].name.escape_debug();
    let events = candidates[newest].superblock.as_ref().map_or(0, |newest| newest.events);
    let line = |(index, state): (usize, &MemberState)| {
        let said = match state {
            MemberState::Fresh { role } => format!("member {role}"),
            MemberState::Rebuilding { role, done_to } => {
                format!("member {role}, being rebuilt, {done_to} bytes are done")
            }
            MemberState::Returning { role, behind } => {
                format!(
                    "member {role} of before, missed {behind} events, which the bitmap has; if it failed, add it again"
                )
            }
            MemberState::Stale { behind } => format!(
                "stale: missed {behind} of {events} events, and no bitmap has them; add it as a new member"
            ),
            MemberState::Faulty => "failed; add it as a new member".to_owned(),
            MemberState::Spare => "spare".to_owned(),
            MemberState::Replacement { role, done_to: None } => {
                format!("replaces member {role}, has everything")
            }
            MemberState::Replacement { role, done_to: Some(done_to) } => {
                format!("replaces member {role}, {done_to} bytes are done")
            }
            MemberState::Duplicate { of } => {
                format!("the same member as {}, which is used", name(*of))
            }
            MemberState::OtherArray { uuid } => format!("belongs to another array, {uuid}"),
            MemberState::Differs { what } => {
                format!("differs from the newest member ({}) in {what}", name(newest))
            }
            MemberState::TooSmall { needs } => format!(
                "has {} bytes, and its superblock says at least {needs}: it was cut",
                candidates[index].bytes
            ),
            MemberState::Unusable(error) => error.to_string(),
        };
        format!("{}: {said}", name(index))
    };
    states.iter().enumerate().map(line).collect()
}

struct Numbers<'a>(&'a [usize]);

impl fmt::Display for Numbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, number) in self.0.iter().enumerate() {
            write!(f, "{}{number}", if index > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => f.write_str("complete"),
            Self::Degraded { missing } => {
                write!(f, "degraded, without member {}", Numbers(missing))
            }
            Self::DirtyDegraded { missing } => write!(
                f,
                "members may differ, and without member {}: what is computed for it may be wrong",
                Numbers(missing)
            ),
            Self::TooFew { missing, most } => {
                write!(f, "too few members: {} missing, at most {most} may be", Numbers(missing))
            }
            Self::Split { devices: [one, other] } => write!(
                f,
                "devices {one} and {other} were used apart from each other: name those to use"
            ),
        }
    }
}

impl fmt::Display for Resync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("in sync"),
            Self::From(byte) => write!(f, "resync of all from byte {byte} of the members"),
            Self::Bitmap => f.write_str("resync of what the bitmap says"),
            Self::Ppl => f.write_str("recovery from the partial parity logs"),
        }
    }
}
