//! Devices that are to replace members.

use super::{MemberState, Rebuild, View};

impl View<'_> {
    /// What replaces a member that is not there any more takes its place, as md has it.
    pub(super) fn promote(&self, states: &mut [MemberState], members: &mut [Option<usize>]) {
        for (index, state) in states.iter_mut().enumerate() {
            match *state {
                MemberState::Replacement { role, .. } if members[role].is_some() => {}
                MemberState::Replacement { role, done_to: None } => {
                    *state = MemberState::Fresh { role };
                    members[role] = Some(index);
                }
                MemberState::Replacement { role, done_to: Some(done_to) } => {
                    *state = MemberState::Rebuilding { role, done_to };
                }
                _ => {}
            }
        }
    }

    /// Members that go on being replaced.
    pub(super) fn replacements(&self, states: &[MemberState]) -> Vec<Rebuild> {
        let all = states.iter().enumerate().filter_map(|(device, state)| match *state {
            MemberState::Replacement { role, done_to } => {
                let from = done_to.unwrap_or_else(|| self.newest.member_bytes());
                Some(Rebuild { device, role, from, by_bitmap: false })
            }
            _ => None,
        });
        all.collect()
    }
}
