//! Every read completes exactly once, for any behaviour of the drives.

mod world;

use proptest::prelude::*;
use trimtab_io::{Flags, Nanos, Outcome, SplitMix64};
use world::{PREDICTING, SLOW, Treatment, World, all};

/// Drives that fail, refuse, and are slow, at random.
#[derive(Clone, Copy, Debug)]
struct Temper {
    fails: f64,
    refuses: f64,
    slow: f64,
    queued: f64,
}

impl Temper {
    fn treat(self, random: &mut SplitMix64, may_refuse: bool) -> Treatment {
        let mut chance = |p: f64| random.unit() <= p;
        let outcome = if chance(self.fails) {
            Outcome::Error
        } else if may_refuse && chance(self.refuses) {
            Outcome::Refused { expected_wait: Nanos::from_millis(5) }
        } else {
            Outcome::Done
        };
        let queued =
            if chance(self.queued) { Nanos::from_micros(random.next() % 300) } else { Nanos(0) };
        let mut chance = |p: f64| random.unit() <= p;
        let most = if chance(self.slow) { 10 * SLOW.0 } else { SLOW.0 / 2 };
        Treatment { queued, served: Nanos(random.next() % most), outcome }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_read_completes_once(
        seed: u64,
        replicas in 1_usize..6,
        gap_us in 1_u64..300,
        fails in prop::sample::select(&[0.0, 0.01, 0.5, 1.0][..]),
        refuses in prop::sample::select(&[0.0, 0.1, 1.0][..]),
        slow in prop::sample::select(&[0.0, 0.05, 0.5][..]),
        queued in prop::sample::select(&[0.0, 0.5][..]),
    ) {
        const READS: u64 = 400;
        let temper = Temper { fails, refuses, slow, queued };
        for strategy in all(replicas) {
            let mut random = SplitMix64::new(seed);
            let mut world = World::new(strategy, replicas, |_, _, request| {
                temper.treat(&mut random, request.flags.contains(Flags::LATENCY_CRITICAL))
            });
            let mut at = SplitMix64::new(!seed);
            let mut now = Nanos::ZERO;
            world.run((0..READS).map(|_| {
                now += Nanos::from_micros(at.next() % (2 * gap_us));
                now
            }));
            let name = world.steering.name();
            prop_assert_eq!(world.completions.len() as u64, READS, "{}", name);
            prop_assert_eq!(world.steering.in_flight(), 0, "{}", name);
            let failed = world.completions.values().filter(|a| a.1 != Outcome::Done).count();
            if fails == 0.0 {
                prop_assert_eq!(failed, 0, "{}", name);
            }
            if fails == 1.0 {
                prop_assert_eq!(failed as u64, READS, "{}", name);
            }
            let counts = world.steering.counts();
            prop_assert_eq!(counts.reads, READS);
            if refuses == 0.0 {
                // Some are cancelled before they are sent.
                let sent = world.sent.len() as u64;
                prop_assert!((sent - counts.cancelled.min(sent)..=sent).contains(&counts.sent));
            }
        }
    }
}

/// A replica that was slow for a while is used again soon after, even if it was avoided.
#[test]
fn recovered_replicas_are_used_again() {
    for strategy in all(3).into_iter().take(PREDICTING) {
        recovers(strategy, Nanos(20 * SLOW.0));
    }
}

/// `trimtab` also avoids replicas that are slower than others but not late.
#[test]
fn recovered_replicas_that_ranked_behind_are_used_again() {
    let trimtab = all(3).into_iter().find(|strategy| strategy.name() == "trimtab").unwrap();
    recovers(trimtab, Nanos(SLOW.0 * 9 / 10));
}

/// Replica 0 takes `ill_for` per read for 300 ms.
fn recovers(strategy: Box<dyn trimtab_steer::Strategy>, ill_for: Nanos) {
    let (ill, well) = (Nanos::from_secs(1), Nanos::from_millis(1_300));
    let mut world = World::new(strategy, 3, |now, replica, _| {
        let slow = replica.0 == 0 && now >= ill && now < well;
        let served = if slow { ill_for } else { Nanos(SLOW.0 / 10) };
        Treatment { queued: Nanos(0), served, outcome: Outcome::Done }
    });
    world.run((0..10_000).map(|i| Nanos::from_micros(500 * i)));
    let name = world.steering.name();
    // The share of the reads with primary replica 0 that were sent to it.
    let share = |from: Nanos, to: Nanos| {
        let within = |at: Nanos| at >= from && at < to;
        let asked = world
            .sent
            .iter()
            .filter(|(_, r, replica, _)| within(r.arrival) && r.id.0 % 3 == 0 && replica.0 == 0)
            .count();
        asked as f64 / (to.since(from).as_secs_f64() * 2_000.0 / 3.0)
    };
    let before = share(Nanos::ZERO, ill);
    // Strategies that rank replicas use another one now and then, if that is faster.
    assert!(before > 0.9, "{name}: {before}");
    let meanwhile = share(ill + Nanos::from_millis(30), well);
    // While moves are on trial each is sent to its primary as well, then one in four, until the control
    // group's savings are spent.
    let most = if name == "trimtab" { 0.4 } else { 0.1 };
    assert!(meanwhile < most, "{name}: {meanwhile}");
    let after = share(well + Nanos::from_millis(100), well + Nanos::from_millis(400));
    // With a control group `trimtab` finds that the queues say as much as forecasts that take
    // 18 µs, and goes where the queue is shortest: among equal replicas, to any.
    let least = if name == "trimtab" { 0.3 } else { 0.9 };
    assert!(after > least, "{name}: {after}");
}
