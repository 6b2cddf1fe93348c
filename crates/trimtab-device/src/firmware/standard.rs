//! The ordinary firmware, and the ideal.

use rand::RngExt as _;
use rand_pcg::Pcg64;
use trimtab_io::Nanos;

use super::{Candidate, Candidates, Concerns, Firmware};
use crate::profile::{Profile, Victim};

/// The ordinary firmware: cleans when it must, and reads wait.
#[derive(Clone, Debug)]
pub struct Standard {
    victim: Victim,
    choices: u32,
    static_threshold: u32,
    /// Whether the last block was cleaned for wear levelling. The next is not, because that gains
    /// no space.
    levelled: bool,
}

impl Standard {
    /// The policy of a profile.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        Self {
            victim: profile.gc.victim,
            choices: profile.gc.choices,
            static_threshold: profile.wear.static_threshold,
            levelled: false,
        }
    }

    /// The least worn block, if wear has become too uneven. Its data is cold, so all of it may be
    /// valid.
    fn least_worn(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
        if self.static_threshold == 0 || self.levelled {
            self.levelled = false;
            return None;
        }
        let most = candidates.erases.iter().max()?;
        let least = candidates.full().min_by_key(|c| (c.erases, c.valid))?;
        self.levelled = most - least.erases >= self.static_threshold;
        self.levelled.then_some(least.block)
    }
}

/// Both let reads wait.
const NO_QUESTIONS: Concerns = Concerns {
    reads: false,
    siblings: false,
    beginnings: false,
    flushes: false,
    after_reads: false,
    write_around: false,
};

impl Firmware for Standard {
    fn concerns(&self) -> Concerns {
        NO_QUESTIONS
    }

    fn choose(&mut self, _: Nanos, candidates: &Candidates<'_>, random: &mut Pcg64) -> Option<u32> {
        if let Some(block) = self.least_worn(candidates) {
            return Some(block);
        }
        let block = |c: Candidate| c.block;
        match self.victim {
            Victim::Greedy => candidates.fewest_valid(),
            Victim::Fifo => candidates.iter().max_by_key(|c| c.age).map(block),
            Victim::CostBenefit => {
                candidates.iter().max_by(|a, b| benefit(a).total_cmp(&benefit(b))).map(block)
            }
            Victim::Random => {
                let all: Vec<_> = candidates.iter().collect();
                (!all.is_empty()).then(|| all[random.random_range(0..all.len())].block)
            }
            Victim::DChoices => {
                let all: Vec<_> = candidates.iter().collect();
                (!all.is_empty())
                    .then(|| (0..self.choices).map(|_| all[random.random_range(0..all.len())]))?
                    .min_by_key(|c| c.valid)
                    .map(block)
            }
        }
    }

    fn forget(&mut self) {
        self.levelled = false;
    }

    fn boxed_clone(&self) -> Box<dyn Firmware> {
        Box::new(self.clone())
    }
}

/// The ideal: like [`Standard`], but cleaning takes no time. Only contention between user requests
/// remains.
#[derive(Clone, Debug)]
pub struct Ideal(Standard);

impl Ideal {
    /// The policy of a profile.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        Self(Standard::new(profile))
    }
}

impl Firmware for Ideal {
    fn concerns(&self) -> Concerns {
        NO_QUESTIONS
    }

    fn choose(
        &mut self,
        now: Nanos,
        candidates: &Candidates<'_>,
        random: &mut Pcg64,
    ) -> Option<u32> {
        self.0.choose(now, candidates, random)
    }

    fn cleaning_takes_time(&self) -> bool {
        false
    }

    fn forget(&mut self) {
        self.0.forget();
    }

    fn boxed_clone(&self) -> Box<dyn Firmware> {
        Box::new(self.clone())
    }
}

/// Benefit over cost of cleaning a block: Rosenblum and Ousterhout, "The Design and Implementation
/// of a Log-Structured File System" (1992), §3.6. The cost is reading and writing the valid share.
fn benefit(c: &Candidate) -> f64 {
    let valid = f64::from(c.valid) / f64::from(c.units);
    if valid == 0.0 { f64::INFINITY } else { c.age as f64 * (1.0 - valid) / (2.0 * valid) }
}
