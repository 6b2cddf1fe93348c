//! What is computed for missing members although parity may not fit: where writes were under way at a
//! crash, or the members had never been made equal. It cannot be found out which of it is wrong, so it is
//! counted and told.

use std::ops::Range;

use trimtab_array::{Layout, Level, Role};

/// Bytes of data of the missing members in these ranges of the members' bytes, in stripes of which one of
/// the members `parity_on` has the parity; `None`: any.
pub(crate) fn bytes(
    layout: &Layout,
    is_missing: impl Fn(usize) -> bool,
    ranges: impl Iterator<Item = Range<u64>>,
    parity_on: Option<&[usize]>,
) -> u64 {
    // A copy is not computed.
    if matches!(layout.level(), Level::Raid0 | Level::Raid1) {
        return 0;
    }
    let missing: Vec<usize> = (0..layout.members()).filter(|&member| is_missing(member)).collect();
    let is_damaged = |stripe: u64| {
        parity_on.is_none_or(|on| layout.p_member(stripe).is_some_and(|p| on.contains(&p)))
    };
    let lost = |stripe: u64| {
        let is_data = |&&member: &&usize| matches!(layout.role(stripe, member), Role::Data(_));
        missing.iter().filter(is_data).count() as u64
    };
    let stripes = |range: Range<u64>| {
        let end = range.end.div_ceil(layout.chunk()).min(layout.stripes());
        range.start / layout.chunk()..end
    };
    if missing.is_empty() {
        return 0;
    }
    ranges.flat_map(stripes).filter(|&stripe| is_damaged(stripe)).map(lost).sum::<u64>()
        * layout.chunk()
}

/// The line that tells of it.
pub(crate) fn line(bytes: u64) -> Option<String> {
    (bytes > 0).then(|| {
        format!(
            "a member is missing before all of the members was made equal: of {bytes} bytes that are \
             computed for it some may be wrong, and it cannot be found out which"
        )
    })
}

#[cfg(test)]
mod tests {
    use trimtab_array::Rotation;

    use super::*;

    /// Ten stripes of 4 KiB over four members.
    fn of(level: Level, missing: &[usize], range: Range<u64>, parity_on: Option<&[usize]>) -> u64 {
        let layout = Layout::new(level, Rotation::LeftSymmetric, 4, 4096, 40_960).unwrap();
        let is_missing = |member| missing.contains(&member);
        bytes(&layout, is_missing, std::iter::once(range), parity_on) / 4096
    }

    #[test]
    fn data_of_missing_members_are_in_doubt() {
        let all = 0..40_960;
        assert_eq!(of(Level::Raid5, &[], all.clone(), None), 0);
        // Left-symmetric: member 0 has the parity of the stripes 3 and 7.
        assert_eq!(of(Level::Raid5, &[0], all.clone(), None), 8);
        assert_eq!(of(Level::Raid5, &[0], 0..1, None), 1);
        assert_eq!(of(Level::Raid5, &[0], 3 * 4096..4 * 4096, None), 0);
        // The last member has the parity of the stripes 0, 4 and 8.
        assert_eq!(of(Level::Raid5, &[0], all.clone(), Some(&[3])), 3);
        assert_eq!(of(Level::Raid1, &[0], all, None), 0);
    }
}
