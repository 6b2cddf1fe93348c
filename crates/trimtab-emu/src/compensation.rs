//! How much earlier than the model says a drive answers.
//!
//! What is emulated is a drive; what a program sees is the drive and the path to it: block
//! layer, loop device, FUSE, and two threads that are woken up. Most of the path takes the
//! same time for each request, and is taken off the model's time. How long it takes depends
//! on the machine, on what else runs, and on how many requests are in flight. So it is
//! estimated by queue depth, and corrected while the drive is in use: from the time between
//! the block layer's tracepoints, less the model's time, for each read ([`Sample`]).
//!
//! The estimate is the tenth percentile of the path, not its mean: an answer that comes
//! before its time is worse than a late one. It follows a shorter path at once and a longer
//! one slowly. Where the path varies by more than [`MOST_SPREAD`], requests wait for
//! processors; that is no path that can be taken off, and the estimate does not follow it.

use trimtab_io::Nanos;

use super::spec::MOST_LEAD;

/// Depths are told apart by powers of two: 1, 2, 3–4, 5–8, 9–16, 17–32, more.
const BUCKETS: usize = 7;
/// Reads from which a new estimate is made.
const WINDOW: usize = 128;
/// Between the tenth percentile and the median of a path that can be compensated.
const MOST_SPREAD: Nanos = Nanos::from_micros(30);
/// Which part of the way to a longer path an estimate goes with each window.
const STEP: u64 = 4;

/// One read, seen from both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// Requests in flight when it came, with itself.
    pub(super) depth: usize,
    /// How much later it was answered than the model and the faults say, in ns, less than
    /// zero if it came too early.
    pub(super) beyond: i64,
    /// How much earlier than the model says the answer was given.
    pub(super) lead: Nanos,
}

/// The estimate of the path's time, by depth. A plain state machine: samples in, leads out.
#[derive(Clone, Debug)]
pub(super) struct Compensation {
    /// Set by the user, and not corrected then.
    fixed: Option<Nanos>,
    /// What is known before anything was seen.
    initial: Nanos,
    buckets: [Bucket; BUCKETS],
}

#[derive(Clone, Debug, Default)]
struct Bucket {
    lead: Option<Nanos>,
    /// Times of the path, in ns, since the last estimate.
    paths: Vec<i64>,
}

impl Compensation {
    /// Begins with `initial`.
    pub(super) fn new(initial: Nanos) -> Self {
        Self { fixed: None, initial: initial.min(MOST_LEAD), buckets: Default::default() }
    }

    /// The same at all depths and for all time.
    pub(super) fn fixed(lead: Nanos) -> Self {
        Self { fixed: Some(lead), ..Self::new(lead) }
    }

    pub(super) const fn is_fixed(&self) -> bool {
        self.fixed.is_some()
    }

    /// Begins anew, with an estimate from elsewhere.
    pub(super) fn begin(&mut self, initial: Nanos) {
        if !self.is_fixed() {
            *self = Self::new(initial);
        }
    }

    /// How much earlier to answer a request, with so many in flight. Of a depth that has not
    /// been seen, what is known of the next lower one: the path gets longer with depth, and
    /// too little is better than too much.
    pub(super) fn lead(&self, depth: usize) -> Nanos {
        let known = self.buckets[..=bucket(depth)].iter().rev().find_map(|bucket| bucket.lead);
        self.fixed.or(known).unwrap_or(self.initial)
    }

    /// Takes in samples.
    pub(super) fn learn(&mut self, samples: impl IntoIterator<Item = Sample>) {
        if self.is_fixed() {
            return;
        }
        for Sample { depth, beyond, lead } in samples {
            let before = self.lead(depth);
            let bucket = &mut self.buckets[bucket(depth)];
            bucket.paths.push(beyond + lead.0 as i64);
            if bucket.paths.len() == WINDOW {
                bucket.lead = Some(estimate(before, &mut bucket.paths));
                bucket.paths.clear();
            }
        }
    }
}

fn bucket(depth: usize) -> usize {
    (depth.max(1).next_power_of_two().trailing_zeros() as usize).min(BUCKETS - 1)
}

/// The new estimate, from a window of paths.
fn estimate(before: Nanos, paths: &mut [i64]) -> Nanos {
    paths.sort_unstable();
    let path = |part: usize| Nanos(paths[paths.len() / part].max(0) as u64);
    let (tenth, median) = (path(10), path(2));
    let found = tenth.min(MOST_LEAD);
    if found <= before {
        found
    } else if median.since(tenth) > MOST_SPREAD {
        before
    } else {
        before + Nanos(found.since(before).0.div_ceil(STEP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Nanos {
        Nanos::from_micros(us)
    }

    /// Reads at a depth over a path that takes so long, with up to `spread` more.
    fn reads(of: &mut Compensation, depth: usize, path: Nanos, spread: Nanos, windows: usize) {
        for i in 0..WINDOW * windows {
            let lead = of.lead(depth);
            let more = spread.0 as i64 * (i % 100) as i64 / 100;
            of.learn([Sample { depth, beyond: path.0 as i64 + more - lead.0 as i64, lead }]);
        }
    }

    #[test]
    fn an_estimate_follows_a_shorter_path_at_once_and_a_longer_one_in_steps() {
        // Made in a busy minute.
        let mut lead = Compensation::new(us(120));
        reads(&mut lead, 1, us(30), us(5), 1);
        assert!((us(30)..us(32)).contains(&lead.lead(1)), "{:?}", lead.lead(1));
        reads(&mut lead, 1, us(60), us(5), 1);
        let first = lead.lead(1);
        assert!((us(36)..us(40)).contains(&first), "{first}");
        reads(&mut lead, 1, us(60), us(5), 20);
        assert!((us(59)..us(61)).contains(&lead.lead(1)), "{:?}", lead.lead(1));
    }

    #[test]
    fn depths_have_estimates_of_their_own_and_borrow_from_lower_ones_only() {
        let mut lead = Compensation::new(us(20));
        reads(&mut lead, 4, us(50), us(4), 30);
        assert_eq!((lead.lead(1), lead.lead(2)), (us(20), us(20)));
        assert_eq!(lead.lead(3), lead.lead(4));
        assert_eq!(lead.lead(1_000), lead.lead(4));
        assert!(lead.lead(5) > us(45));
        reads(&mut lead, 1, us(10), us(4), 1);
        assert!(lead.lead(1) < us(11) && lead.lead(4) > us(45));
    }

    #[test]
    fn waiting_for_processors_is_not_taken_off() {
        let mut lead = Compensation::new(us(20));
        reads(&mut lead, 32, us(30), us(400), 50);
        assert_eq!(lead.lead(32), us(20));
        // Never more than the most, however long the path.
        reads(&mut lead, 1, us(5_000), us(1), 100);
        assert_eq!(lead.lead(1), MOST_LEAD);
    }

    #[test]
    fn a_fixed_lead_stays() {
        let mut lead = Compensation::fixed(us(40));
        reads(&mut lead, 1, us(5), us(1), 10);
        lead.begin(us(7));
        assert_eq!((lead.lead(1), lead.lead(99)), (us(40), us(40)));
    }
}
