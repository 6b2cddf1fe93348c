//! A member that is rebuilt stripe by stripe has all that was written meanwhile.

use proptest::prelude::*;
use trimtab_array::{Layout, Level, Member, Parity};
use trimtab_io::Op;

use crate::checks::{Wanted, layouts, policy, range, requests};
use crate::members::{Array, CHUNK, STRIPES};

/// Computes a member's strip of a stripe from what the others hold.
fn rebuild(array: &mut Array, member: usize, stripe: u64) {
    let layout = *array.planner.layout();
    let from = (stripe * CHUNK) as usize;
    let strip = from..from + CHUNK as usize;
    if layout.level() == Level::Raid1 {
        let other = (member + 1) % layout.members();
        let copy = array.members[other][strip.clone()].to_vec();
        array.members[member][strip].copy_from_slice(&copy);
        return;
    }
    let data = (0..layout.data_chunks()).map(|index| layout.data_member(stripe, index));
    let parity = [layout.p_member(stripe), layout.q_member(stripe)];
    let order: Vec<usize> = data.chain(parity.into_iter().flatten()).collect();
    let mut strips: Vec<Vec<u8>> =
        order.iter().map(|&member| array.members[member][strip.clone()].to_vec()).collect();
    let lost = order.iter().position(|&one| one == member).expect("each member has a strip");
    let mut slices: Vec<&mut [u8]> = strips.iter_mut().map(Vec::as_mut_slice).collect();
    Parity::best().reconstruct(&mut slices, layout.data_chunks(), 1 << lost).unwrap();
    array.members[member][strip].copy_from_slice(&strips[lost]);
}

fn submit(array: &mut Array, current: &mut [u8], number: u64, wanted: Wanted) {
    let layout: Layout = *array.planner.layout();
    let (offset, length) = range(&layout, wanted.1, wanted.2);
    let value = 1 + (number % 250) as u8;
    current[offset as usize..(offset + length) as usize].fill(value);
    array.submit(number, Op::Write, offset, vec![value; length as usize]);
    array.run();
}

proptest! {
    #[test]
    fn rebuilt_member_has_what_was_written_meanwhile(
        layout in layouts(),
        policy in 0_usize..11,
        requests in requests(),
        seed: u64,
    ) {
        prop_assume!(layout.level() != Level::Raid0);
        let mut array = Array::new(layout, self::policy(policy, &layout), seed);
        let mut current = vec![0; layout.capacity() as usize];
        let member = Member((seed % layout.members() as u64) as u8);
        let mut writes = requests.into_iter().enumerate();
        array.planner.lose(member);
        array.members[member.index()].fill(0xee);
        for stripe in 0..=STRIPES {
            for (number, wanted) in writes.by_ref().take(4) {
                submit(&mut array, &mut current, number as u64, wanted);
            }
            if stripe < STRIPES {
                prop_assert_eq!(array.planner.refreshing(), 0);
                rebuild(&mut array, member.index(), stripe);
                array.planner.rebuilt(member, stripe + 1);
            }
        }
        array.planner.regain(member);
        prop_assert!(array.planner.lost().is_empty());
        array.check_parity();
        // Now the others can be lost.
        let other = Member((member.0 + 1) % layout.members() as u8);
        array.planner.lose(other);
        let length = layout.capacity();
        array.submit(1 << 20, Op::Read, 0, vec![0; length as usize]);
        array.run();
        prop_assert!(array.user[&(1 << 20)].1 == current, "the rebuilt member has other data");
    }
}
