//! The replaceable decisions of a drive's firmware.
//!
//! When cleaning may proceed, which block is cleaned, and how a read proceeds whose die is being
//! cleaned: these three distinguish an ordinary drive from the published ones with predictable
//! latency. The flash and the bookkeeping are common to all, in [`Ssd`](crate::Ssd).
//!
//! A policy is a plain state machine: time and questions in, decisions out. It cannot lose data: if
//! its decisions would (never cleaning, say), the drive stops accepting writes, as a real one
//! would.

use std::fmt;

use rand::RngExt as _;
use rand_pcg::Pcg64;
use trimtab_io::{Flags, Nanos};

use crate::profile::{Profile, Victim};

/// A firmware policy.
pub trait Firmware: fmt::Debug + Send + Sync {
    /// Whether a block of this plane may be cleaned now. Not called while user requests wait for
    /// free blocks: then cleaning must proceed.
    fn may_clean(&mut self, now: Nanos, plane: u32) -> bool {
        _ = (now, plane);
        true
    }

    /// When the result of [`may_clean`](Self::may_clean) may change.
    fn next_change(&self, now: Nanos) -> Option<Nanos> {
        _ = now;
        None
    }

    /// The block to clean, or `None`.
    fn choose(
        &mut self,
        now: Nanos,
        candidates: &Candidates<'_>,
        random: &mut Pcg64,
    ) -> Option<u32>;

    /// How a read proceeds whose data is blocked by cleaning.
    fn contend(&mut self, contention: &ReadContention) -> ContentionDecision {
        _ = contention;
        ContentionDecision::Wait
    }

    /// Whether cleaning takes time. If not, blocks are cleaned instantly: the ideal baseline.
    fn cleaning_takes_time(&self) -> bool {
        true
    }

    /// Resets the policy's state: its drive is being saved, and policy state is not saved.
    fn forget(&mut self) {}

    /// A copy in the same state, for a drive's snapshot.
    fn boxed_clone(&self) -> Box<dyn Firmware>;
}

impl Clone for Box<dyn Firmware> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// A read that is blocked by cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadContention {
    /// Now.
    pub now: Nanos,
    /// The request's flags.
    pub flags: Flags,
    /// The plane that holds the data.
    pub plane: u32,
    /// How long the cleaning of this block will still take.
    pub busy_for: Nanos,
}

/// How a read proceeds that is blocked by cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentionDecision {
    /// It waits.
    Wait,
    /// It is refused at once, with the time it would have waited.
    Refuse,
    /// Its data is regenerated: the corresponding pages of all other channels are read, and
    /// combined within the profile's `timing.regenerate_us`.
    Regenerate,
}

/// The full blocks of a plane.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    pub(crate) first_block: u32,
    pub(crate) units_per_block: u16,
    pub(crate) units_per_page: u16,
    pub(crate) valid: &'a [u16],
    pub(crate) full: &'a [bool],
    pub(crate) filled_at: &'a [u64],
    pub(crate) erases: &'a [u32],
    /// The number of blocks filled so far.
    pub(crate) clock: u64,
}

/// A full block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number.
    pub block: u32,
    /// Units that cleaning would move.
    pub valid: u16,
    /// Units in the block.
    pub units: u16,
    /// Blocks of the drive filled since this one.
    pub age: u64,
    /// Its erase count.
    pub erases: u32,
}

impl Candidates<'_> {
    /// Each block whose cleaning gains space.
    pub fn iter(&self) -> impl Iterator<Item = Candidate> + '_ {
        self.full().filter(|candidate| candidate.valid < self.too_many())
    }

    /// Each full block, including those worth cleaning for wear only.
    pub fn full(&self) -> impl Iterator<Item = Candidate> + '_ {
        (0..self.valid.len()).filter_map(|i| self.get(i))
    }

    fn get(&self, i: usize) -> Option<Candidate> {
        self.full[i].then(|| Candidate {
            block: self.first_block + i as u32,
            valid: self.valid[i],
            units: self.units_per_block,
            age: self.clock - self.filled_at[i],
            erases: self.erases[i],
        })
    }

    /// Blocks with this many valid units would fill as many pages again.
    const fn too_many(&self) -> u16 {
        self.units_per_block - self.units_per_page + 1
    }

    /// The block with the fewest valid units; the first of several.
    #[must_use]
    pub fn fewest_valid(&self) -> Option<u32> {
        // Written out for speed: it runs for each cleaning over thousands of blocks, as one pass
        // over two flat arrays.
        let mut best = (self.too_many(), None);
        for (i, (&valid, &full)) in self.valid.iter().zip(self.full).enumerate() {
            if full && valid < best.0 {
                best = (valid, Some(i));
            }
        }
        best.1.map(|i| self.first_block + i as u32)
    }
}

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

impl Firmware for Standard {
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
