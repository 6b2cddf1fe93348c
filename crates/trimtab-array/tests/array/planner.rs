//! What holds for the planner under any policy, on members that hold bytes: reads return what was
//! written last, parity fits when nothing is in flight, and each request is answered once.

use crate::checks::{check, check_all, check_concurrent, layouts, policy, requests};
use crate::members::Array;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn reads_return_what_was_written(
        layout in layouts(),
        policy in 0_usize..11,
        requests in requests(),
        seed: u64,
    ) {
        let array = Array::new(layout, self::policy(policy, &layout), seed);
        check(array, &requests, 0, false)?;
    }

    /// As many members fail as the level can lose.
    #[test]
    fn lost_members_are_gone_around(
        layout in layouts(),
        policy in 0_usize..11,
        requests in requests(),
        seed: u64,
        lost in 1_usize..3,
    ) {
        let array = Array::new(layout, self::policy(policy, &layout), seed);
        check(array, &requests, lost, seed.is_multiple_of(2))?;
    }

    /// Of members that read zeroes where they have discarded.
    #[test]
    fn discarded_stripes_are_zeroes(
        layout in layouts(),
        policy in 0_usize..11,
        requests in requests(),
        seed: u64,
        lost in 0_usize..3,
    ) {
        let mut array = Array::new(layout, self::policy(policy, &layout), seed);
        array.planner.discards_to_zeroes();
        check_all(array, &requests, lost, seed.is_multiple_of(2), true)?;
    }

    #[test]
    fn concurrent_requests_do_not_mix_old_and_new(
        layout in layouts(),
        policy in 0_usize..11,
        requests in requests(),
        seed: u64,
    ) {
        let array = Array::new(layout, self::policy(policy, &layout), seed);
        check_concurrent(array, &requests)?;
    }
}
