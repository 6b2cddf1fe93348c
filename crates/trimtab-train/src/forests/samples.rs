//! The samples of `trimtab`: features, and what became of each read.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_io::Nanos;
use trimtab_learn::boost::Objective;
use trimtab_learn::forest::IntegerForest;
use trimtab_predict::units::UnitFunction;
use trimtab_predict::{BaseLatency, FEATURES, Label};

use super::grow::grow;
use crate::base_latency;
use crate::dataset::{features, steered_features};
use crate::options::TrainingOptions;
use crate::reads::Read;
use crate::set::TrainingSet;

/// The parts that the samples are divided into, and the stretches of time that a part consists
/// of: long enough that few samples have neighbours in another part, and enough of them that
/// every part covers the whole recording.
pub(crate) const PARTS: usize = 4;
pub(crate) const STRETCHES: usize = 8;

/// The width of the border between fast and slow in the training target, as a share of the
/// distance between the quartiles of the latencies' logarithms.
const BORDER: f64 = 0.25;

/// The samples of `trimtab`.
pub(crate) struct Samples {
    pub(crate) features: Vec<[i32; FEATURES]>,
    pub(crate) reads: Vec<Read>,
    pub(crate) slow: Vec<bool>,
    /// The training target, from 0 to 1: see [`lateness`].
    lateness: Vec<f32>,
    /// The part that each belongs to.
    pub(crate) part: Vec<usize>,
    pub(crate) base_latency: BaseLatency,
}

/// The three forests, trained on some of the samples.
pub(crate) struct Forests {
    pub(crate) late: Option<IntegerForest>,
    pub(crate) wait: IntegerForest,
    pub(crate) fast: IntegerForest,
}

impl Samples {
    pub(crate) fn new(
        sets: &[TrainingSet<'_>],
        functions: &[UnitFunction],
        mut reads: Vec<Read>,
        label: &Label,
        options: &TrainingOptions,
    ) -> Self {
        let count = reads.len();
        let base_latency = base_latency::learn(reads.iter().map(|read| (read.latency, read.pages)));
        let of = |set: &TrainingSet<'_>| features(set.recorded, &set.mask(), functions);
        let mut features: Vec<_> = sets.iter().flat_map(of).collect();
        let mut part: Vec<_> = (0..count).map(|i| i * PARTS * STRETCHES / count % PARTS).collect();
        if options.steered > 0.0 {
            let steered = sets.iter().flat_map(|set| {
                steered_features(set.recorded, &set.mask(), functions, options.seed)
            });
            let mut random = Pcg64::seed_from_u64(options.seed);
            for (i, steered) in steered.enumerate() {
                if random.random_bool(options.steered.min(1.0)) {
                    features.push(steered);
                    reads.push(reads[i]);
                    part.push(part[i]);
                }
            }
        }
        let slow = reads.iter().map(|read| read.is_slow(label)).collect();
        let lateness = lateness(&reads, label);
        Self { features, reads, slow, lateness, part, base_latency }
    }

    /// The excess of a read over the base latency.
    pub(crate) fn excess(&self, i: usize) -> Nanos {
        let read = &self.reads[i];
        read.latency.since(self.base_latency.latency(read.pages))
    }

    /// Trains on the selected samples. If all of these are of one class, there is no forest
    /// that separates late from not late.
    pub(crate) fn forests(
        &self,
        is: impl Fn(usize) -> bool,
        options: &TrainingOptions,
    ) -> Result<Forests, trimtab_learn::Error> {
        let chosen: Vec<usize> = (0..self.reads.len()).filter(|&i| is(i)).collect();
        let late = |&i: &usize| self.lateness[i];
        // Logarithmic beyond a quarter of the base latency, so that differences between idle
        // drives count as well as those between busy ones.
        let unit = (self.base_latency.latency(1).0 as f32 / 4.0).max(1000.0);
        let wait = |&i: &usize| libm::log2f(1.0 + self.excess(i).0 as f32 / unit);
        let forest = |of: &[usize], target: &dyn Fn(&usize) -> f32, objective| {
            let features: Vec<_> = of.iter().map(|&i| self.features[i]).collect();
            let targets: Vec<f32> = of.iter().map(target).collect();
            grow(&features, &targets, &[], objective, options)
        };
        let fast: Vec<usize> = chosen.iter().copied().filter(|&i| !self.slow[i]).collect();
        let two_classes = !fast.is_empty() && fast.len() < chosen.len();
        let logistic = || forest(&chosen, &late, Objective::Logistic);
        Ok(Forests {
            late: two_classes.then(logistic).transpose()?,
            wait: forest(&chosen, &wait, Objective::Squared)?,
            fast: forest(if fast.is_empty() { &chosen } else { &fast }, &wait, Objective::Squared)?,
        })
    }
}

/// The training target of reads, from 0 to 1: a logistic curve over the logarithm of the
/// latency, one half at the label's limit. It distinguishes a read just above the limit from
/// one that took ten times as long: the rarer slow reads are, the more training gains from
/// those that nearly were.
fn lateness(reads: &[Read], label: &Label) -> Vec<f32> {
    let log = |ns: f64| libm::log(ns.max(1.0));
    let mut logs: Vec<f64> = reads.iter().map(|read| log(read.latency.0 as f64)).collect();
    logs.sort_unstable_by(f64::total_cmp);
    let quartile = |i: usize| logs.get(i * logs.len() / 4).copied().unwrap_or_default();
    // Equal latencies have no border.
    let border = (BORDER * (quartile(3) - quartile(1))).max(1e-3);
    let one = |read: &Read| {
        let beyond = log(read.latency.0 as f64) - log(label.limit_ns(read.pages, read.load));
        (1.0 / (1.0 + libm::exp(-beyond / border))) as f32
    };
    reads.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_half_at_the_limit_and_rises() {
        let label = Label::Threshold { latency: Nanos::from_micros(400) };
        let read = |us: u64| Read {
            index: 0,
            latency: Nanos::from_micros(us),
            pages: 1,
            load: 0,
            queue: 0,
        };
        let reads = [50, 100, 200, 399, 400, 401, 800, 100_000].map(read);
        let found = lateness(&reads, &label);
        assert!(found.is_sorted(), "{found:?}");
        assert_eq!(found[4], 0.5);
        assert!(found[0] < 0.01 && found[7] > 0.99, "{found:?}");
        // Among equal latencies a slightly longer one is late.
        let alike = [read(400), read(400), read(400), read(400), read(410)];
        assert!(lateness(&alike, &label)[4] > 0.99);
        assert!(lateness(&[], &label).is_empty());
    }
}
