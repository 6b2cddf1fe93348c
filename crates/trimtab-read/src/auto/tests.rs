//! The control law in virtual time, on drives whose latencies are drawn.

use proptest::prelude::*;
use trimtab_io::SplitMix64;

use super::*;

const US: u64 = 1000;

/// Reads from a drive with a perfect predictor: a read is refused if it would miss its deadline.
struct Run {
    auto: AutoDeadline,
    random: SplitMix64,
    reads: u32,
    /// Refused, or abandoned, at a deadline below the greatest.
    refused: u32,
    total: u64,
}

impl Run {
    fn new(options: &AutoOptions, seed: u64) -> Self {
        let auto = AutoDeadline::new(options).unwrap();
        Self { auto, random: SplitMix64::new(seed), reads: 0, refused: 0, total: 0 }
    }

    /// Reads with latencies of a regime, and failovers that take `failover` ns.
    fn reads(
        &mut self,
        count: u32,
        latency: impl Fn(&mut SplitMix64) -> u64,
        failover: impl Fn(&mut SplitMix64) -> u64,
    ) {
        for _ in 0..count {
            let grant = self.auto.begin();
            let would_take = latency(&mut self.random);
            self.reads += 1;
            if would_take > grant.deadline.0 {
                self.auto.refused(grant);
                let took = failover(&mut self.random);
                self.auto.failed_over(Nanos(took));
                self.total = self.total.saturating_add(took);
                self.refused += u32::from(grant.deadline.0 < self.auto.most);
            } else {
                self.auto.answered(grant, Nanos(would_take));
                self.total = self.total.saturating_add(would_take);
            }
        }
    }

    fn start(&mut self) {
        (self.reads, self.refused, self.total) = (0, 0, 0);
    }

    fn share(&self) -> f64 {
        f64::from(self.refused) / f64::from(self.reads)
    }
}

/// Exponential around `mean`, above a floor.
fn exponential(random: &mut SplitMix64, floor: u64, mean: f64) -> u64 {
    floor + (-random.unit().ln() * mean) as u64
}

fn quiet(random: &mut SplitMix64) -> u64 {
    exponential(random, 80 * US, 10_000.0)
}

/// A fifth of the reads wait for something that takes 20 ms.
fn noisy(random: &mut SplitMix64) -> u64 {
    if random.next().is_multiple_of(5) { 20_000 * US + quiet(random) } else { quiet(random) }
}

const fn hop(_: &mut SplitMix64) -> u64 {
    400 * US
}

#[test]
fn quiet_drive_is_hardly_refused() {
    let mut run = Run::new(&AutoOptions::default(), 1);
    run.reads(5000, quiet, hop);
    // The p95 is 110 µs, but a failover takes 300 µs at least.
    assert!(run.share() < 0.001, "{}", run.share());
    let deadline = run.auto.deadline().0;
    assert!((300 * US..420 * US).contains(&deadline), "{deadline}");
}

#[test]
fn deadline_is_the_p95_where_failing_over_costs_as_much() {
    let options = AutoOptions { failover: Duration::from_micros(60), ..AutoOptions::default() };
    let mut run = Run::new(&options, 2);
    let half = |random: &mut SplitMix64| quiet(random) * 2 / 3;
    run.reads(4000, quiet, half);
    run.start();
    run.reads(20_000, quiet, half);
    // ln(20) · 10 µs above the floor.
    let (deadline, p95) = (run.auto.deadline().0 as f64, 109_957.0);
    assert!((0.9..1.13).contains(&(deadline / p95)), "{deadline}");
    assert!((0.025..0.075).contains(&run.share()), "{}", run.share());
}

#[test]
fn noisy_drive_is_refused_more_often_and_reads_get_faster() {
    let mut run = Run::new(&AutoOptions::default(), 3);
    run.reads(5000, quiet, hop);
    run.reads(1664, noisy, hop);
    run.start();
    run.reads(20_000, noisy, hop);
    assert!((0.17..0.25).contains(&run.share()), "{}", run.share());
    // Without deadlines: 4.1 ms.
    let mean = run.total / u64::from(run.reads);
    assert!(mean < 900 * US, "{mean}");
}

#[test]
fn deadline_loosens_where_all_are_busy() {
    let mut run = Run::new(&AutoOptions::default(), 4);
    run.reads(5000, quiet, hop);
    let busy = |random: &mut SplitMix64| exponential(random, 2000 * US, 5e6);
    let elsewhere = |random: &mut SplitMix64| busy(random) + 400 * US;
    run.reads(1664, busy, elsewhere);
    run.start();
    run.reads(20_000, busy, elsewhere);
    // A failover takes 7.4 ms in the mean, and about a third of the reads take longer: the
    // deadline is at the p95 or above it, 17 ms.
    assert!(run.auto.deadline().0 > 7000 * US, "{:?}", run.auto.deadline());
    assert!(run.share() < 0.25, "{}", run.share());
    // And it tightens when the others, and then the drive, are quiet again.
    run.reads(3000, quiet, hop);
    assert!(run.auto.deadline().0 < 600 * US, "{:?}", run.auto.deadline());
}

#[test]
fn drive_that_becomes_slower_for_good_is_followed() {
    let mut run = Run::new(&AutoOptions::default(), 5);
    let slow = |random: &mut SplitMix64| quiet(random) * 30;
    let elsewhere = |random: &mut SplitMix64| quiet(random) * 30 + 300 * US;
    run.reads(5000, quiet, hop);
    run.reads(1664, slow, elsewhere);
    run.start();
    run.reads(10_000, slow, elsewhere);
    // The p95 is 3.3 ms; failing over takes 3 ms.
    let deadline = run.auto.deadline().0;
    assert!((2700 * US..3900 * US).contains(&deadline), "{deadline}");
    assert!(run.share() < 0.25, "{}", run.share());
}

/// A drive that answers nothing: reads end, at the greatest deadline or before.
#[test]
fn stalled_drive_exhausts_the_budget_and_no_read_waits_forever() {
    let mut run = Run::new(&AutoOptions::default(), 6);
    run.reads(5000, quiet, hop);
    run.reads(1664, |_| u64::MAX, hop);
    run.start();
    run.reads(1000, |_| u64::MAX, hop);
    assert!(f64::from(run.refused) <= 0.25 * 1000.0 + f64::from(BURST));
    assert!(run.refused >= 240, "{}", run.refused);
    assert!(run.auto.deadline() < Nanos::from_millis(1), "{:?}", run.auto.deadline());
}

#[test]
fn buckets_bound_times_from_above_by_a_sixteenth() {
    let mut random = SplitMix64::new(7);
    for shift in 0..64 {
        for _ in 0..200 {
            let time = random.next() >> shift;
            let above = upper(bucket(time));
            assert!(above >= time && above - time <= time / 16, "{time} {above}");
            assert!((bucket(time) as usize) < BUCKETS);
            assert!(above == u64::MAX || bucket(above + 1) == bucket(time) + 1);
        }
    }
}

#[test]
fn wrong_options_are_errors() {
    let good = AutoOptions::default();
    for options in [
        AutoOptions { share: -0.1, ..good },
        AutoOptions { share: f64::NAN, ..good },
        AutoOptions { most_refused: 0.01, ..good },
        AutoOptions { most_refused: 1.5, ..good },
        AutoOptions { most: Duration::ZERO, ..good },
        AutoOptions { least: Duration::from_secs(2), ..good },
    ] {
        let error = AutoDeadline::new(&options).unwrap_err().to_string();
        assert!(error.starts_with("auto: "), "{error}");
    }
    // Absurd times do not overflow.
    let options = AutoOptions { most: Duration::MAX, failover: Duration::MAX, ..good };
    let mut run = Run::new(&options, 8);
    run.reads(500, |random| random.next(), |random| random.next());
}

proptest! {
    /// For any latencies, failovers and number of reads in flight: the share refused is under
    /// its ceiling, and the deadline within its bounds.
    #[test]
    fn share_refused_and_deadline_stay_within_bounds(
        seed: u64,
        most_refused in 0.0..1.0_f64,
        depth in 1..40_usize,
        regimes in prop::collection::vec((1..10_000_000_u64, 1..10_000_000_u64, 1..400_u32), 1..8),
    ) {
        let share = (most_refused / 2.0).min(0.05);
        let options = AutoOptions { share, most_refused, ..AutoOptions::default() };
        let mut auto = AutoDeadline::new(&options).unwrap();
        let mut random = SplitMix64::new(seed);
        let mut out: Vec<(AutoGrant, u64)> = Vec::new();
        let mut recent = std::collections::VecDeque::new();
        let (mut begun, mut refused) = (0_u32, 0_u32);
        for (latency, failover, count) in regimes {
            for _ in 0..count {
                begun += 1;
                out.push((auto.begin(), 1 + random.next() % latency));
                if out.len() < depth {
                    continue;
                }
                let at = (random.next() % out.len() as u64) as usize;
                let (grant, would_take) = out.swap_remove(at);
                recent.push_back(would_take);
                if recent.len() > WINDOW {
                    recent.pop_front();
                }
                if would_take > grant.deadline.0 {
                    auto.refused(grant);
                    auto.failed_over(Nanos(random.next() % failover));
                    refused += u32::from(grant.deadline.0 < auto.most);
                } else if random.next().is_multiple_of(50) {
                    auto.failed(grant);
                } else {
                    auto.answered(grant, Nanos(would_take));
                }
                let most = f64::from(begun) * most_refused + f64::from(BURST);
                prop_assert!(f64::from(refused) <= most, "{refused} of {begun}");
                let deadline = auto.deadline().0;
                prop_assert!(deadline <= auto.most);
                prop_assert!(deadline >= *recent.iter().min().unwrap());
                prop_assert!(auto.aim() <= most_refused + 1e-4);
            }
        }
    }
}
