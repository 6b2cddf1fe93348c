//! The options of training.

use trimtab_io::Nanos;

/// How to train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingOptions {
    /// The most reads of each recording that are trained on: the last ones.
    pub samples: usize,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The cost of a slow read, in needless refusals. `trimtab` refuses from the probability at
    /// which both errors cost the same.
    pub cost: f64,
    /// The most trees of a forest, and leaves of a tree. AVX-512 evaluates 32 trees of 8 leaves
    /// at once; twice as many gain 0.002 of AUC, or nothing.
    pub trees: usize,
    /// See `trees`.
    pub leaves: usize,
    /// Additional samples of `trimtab`, as a share of the reads, from histories in which other
    /// reads went to other drives. Steering by a predictor changes its input: a drive that is
    /// avoided has no recent latencies.
    pub steered: f64,
    /// The time that failing over to another replica takes, beside the decision: what
    /// [`LabelRule::Cost`](trimtab_predict::LabelRule::Cost) weighs a wait against. By default the
    /// 9 µs that LinnOS (§5.1) states: 15 µs with its inference, which takes 6.
    pub failover: Nanos,
    /// The time of a decision, which every read pays: refusing must gain more than that.
    pub inference: Nanos,
}

impl Default for TrainingOptions {
    fn default() -> Self {
        Self {
            samples: 200_000,
            seed: 1,
            cost: 2.0,
            trees: 32,
            leaves: 8,
            steered: 0.25,
            failover: Nanos::from_micros(9),
            inference: Nanos(220),
        }
    }
}
