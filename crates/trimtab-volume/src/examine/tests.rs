use trimtab_array::Rotation;
use trimtab_io::SplitMix64;

use super::*;

const CHUNK: usize = 2 * PAGE;
const STRIPES: usize = 3;

/// Members whose parity fits, or whose copies agree.
fn consistent(layout: &Layout, random: &mut SplitMix64) -> Vec<Vec<u8>> {
    let mut members = vec![vec![0_u8; STRIPES * CHUNK]; layout.members()];
    for byte in members.iter_mut().flatten() {
        *byte = random.next() as u8;
    }
    let absent = vec![true; layout.members()];
    let bad = vec![Vec::new(); layout.members()];
    let examine =
        Examine { layout, first: 5, present: &absent, bad: &bad, target: None, fixes: true };
    let mut strips: Vec<&mut [u8]> = members.iter_mut().map(Vec::as_mut_slice).collect();
    let found = examine.run(&mut strips);
    assert_eq!(found.mismatches, STRIPES as u64);
    members
}

fn layouts() -> impl Iterator<Item = Layout> {
    let of = |(level, members)| {
        let bytes = 1 << 20;
        Layout::new(level, Rotation::LeftSymmetric, members, CHUNK as u64, bytes).unwrap()
    };
    [(Level::Raid1, 3), (Level::Raid5, 3), (Level::Raid5, 4), (Level::Raid6, 5)].into_iter().map(of)
}

#[test]
fn what_fits_is_left_alone() {
    for layout in layouts() {
        let mut members = consistent(&layout, &mut SplitMix64::new(1));
        let present = vec![true; layout.members()];
        let bad = vec![Vec::new(); layout.members()];
        let (layout, present, bad) = (&layout, &present, &bad);
        let examine = Examine { layout, first: 5, present, bad, target: None, fixes: true };
        let mut strips: Vec<&mut [u8]> = members.iter_mut().map(Vec::as_mut_slice).collect();
        let found = examine.run(&mut strips);
        assert_eq!((found.mismatches, found.writes.len(), found.lost), (0, 0, None));
    }
}

#[test]
fn target_gets_what_it_had() {
    for layout in layouts() {
        let members = consistent(&layout, &mut SplitMix64::new(2));
        for target in 0..layout.members() {
            let mut now = members.clone();
            now[target].fill(0xee);
            let mut present = vec![true; layout.members()];
            present[target] = false;
            let bad = vec![Vec::new(); layout.members()];
            let (layout, present, bad) = (&layout, &present, &bad);
            let all = (target, 0..STRIPES * CHUNK);
            let target = Some(target);
            let examine = Examine { layout, first: 5, present, bad, target, fixes: false };
            let mut strips: Vec<&mut [u8]> = now.iter_mut().map(Vec::as_mut_slice).collect();
            let found = examine.run(&mut strips);
            assert_eq!((found.writes, found.lost, found.mismatches), (vec![all], None, 0));
            assert!(now == members);
        }
    }
}

/// Only the pages that could not be read are written, even where the rest of the stripe does not fit.
#[test]
fn unreadable_pages_are_computed() {
    for layout in layouts() {
        let mut members = consistent(&layout, &mut SplitMix64::new(3));
        let whole = members.clone();
        let member = 1;
        // The second page of the second stripe.
        let page = CHUNK + PAGE..CHUNK + 2 * PAGE;
        members[member][page.clone()].fill(0xee);
        let present = vec![true; layout.members()];
        let mut bad = vec![Vec::new(); layout.members()];
        bad[member] = (0..STRIPES * CHUNK / PAGE).map(|one| one == page.start / PAGE).collect();
        let (layout, present, bad) = (&layout, &present, &bad);
        let examine = Examine { layout, first: 5, present, bad, target: None, fixes: false };
        let mut strips: Vec<&mut [u8]> = members.iter_mut().map(Vec::as_mut_slice).collect();
        let found = examine.run(&mut strips);
        assert_eq!((found.writes, found.lost), (vec![(member, page)], None));
        assert!(members == whole);
    }
}

#[test]
fn too_many_losses_change_nothing() {
    for layout in layouts() {
        let mut members = consistent(&layout, &mut SplitMix64::new(4));
        let before = members.clone();
        let most = if layout.level() == Level::Raid1 { 2 } else { layout.level().parities() };
        let present: Vec<bool> = (0..layout.members()).map(|member| member > most).collect();
        let bad = vec![Vec::new(); layout.members()];
        let (layout, present, bad) = (&layout, &present, &bad);
        let examine = Examine { layout, first: 5, present, bad, target: Some(0), fixes: true };
        let mut strips: Vec<&mut [u8]> = members.iter_mut().map(Vec::as_mut_slice).collect();
        let found = examine.run(&mut strips);
        assert_eq!((found.writes.len(), found.lost), (0, Some(5)));
        assert!(members == before);
    }
}
