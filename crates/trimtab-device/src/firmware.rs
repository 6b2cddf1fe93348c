//! The decisions of a drive's firmware, as a seam.
//!
//! When cleaning may go on, which block is cleaned, and what becomes of a read
//! that finds its die being cleaned: these three make the difference between an
//! ordinary drive and the published ones with predictable latency. Everything
//! else, the flash and the bookkeeping, is the same for all and stays in
//! [`Ssd`](crate::Ssd).
//!
//! A policy is a plain state machine: it sees the time and what it is asked
//! about, and answers. It cannot lose data: where its answer would (never
//! cleaning, say), the drive stops taking writes, as the real thing would.

use std::fmt;

use rand::RngExt as _;
use rand_pcg::Pcg64;
use trimtab_io::{Flags, Nanos};

use crate::profile::{Profile, Victim};

/// What a firmware decides.
pub trait Firmware: fmt::Debug + Send + Sync {
    /// Whether a block of this plane may be cleaned now. Not asked when user
    /// requests are waiting for free blocks: then cleaning must go on.
    fn may_clean(&mut self, now: Nanos, plane: u32) -> bool {
        _ = (now, plane);
        true
    }

    /// When the answer of [`may_clean`](Self::may_clean) may be another one.
    fn next_change(&self, now: Nanos) -> Option<Nanos> {
        _ = now;
        None
    }

    /// Which block to clean; none to let it be.
    fn choose(
        &mut self,
        now: Nanos,
        candidates: &Candidates<'_>,
        random: &mut Pcg64,
    ) -> Option<u32>;

    /// What becomes of a read whose data cannot be had because a block is
    /// being cleaned.
    fn contend(&mut self, contention: &Contention) -> Answer {
        _ = contention;
        Answer::Wait
    }

    /// Whether cleaning takes time. Where it does not, blocks are cleaned in
    /// an instant: the ideal that others are compared with.
    fn cleaning_takes_time(&self) -> bool {
        true
    }

    /// Forgets what it has seen: its drive is being saved, and the policy's state
    /// is not part of what is saved.
    fn forget(&mut self) {}

    /// A copy in the same state, for a drive's snapshot.
    fn boxed_clone(&self) -> Box<dyn Firmware>;
}

impl Clone for Box<dyn Firmware> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// A read that would have to wait for cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contention {
    /// Now.
    pub now: Nanos,
    /// The request's marks.
    pub flags: Flags,
    /// The plane that holds the data.
    pub plane: u32,
    /// How long the cleaning of this block still takes.
    pub busy_for: Nanos,
}

/// What becomes of a read that meets a cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It waits.
    Wait,
    /// It is answered at once as refused, with the time it would have waited.
    Refuse,
    /// Its data is made from what the same place of all other channels holds:
    /// they are read, and put together in the time that the profile's
    /// `timing.regenerate_us` tells.
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
    /// Counts up with each block that is filled.
    pub(crate) clock: u64,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number.
    pub block: u32,
    /// Units that would have to be moved.
    pub valid: u16,
    /// All its units.
    pub units: u16,
    /// How many blocks of the drive have been filled since it was.
    pub age: u64,
    /// How often it has been erased.
    pub erases: u32,
}

impl Candidates<'_> {
    /// Each block that can be cleaned with a gain.
    pub fn iter(&self) -> impl Iterator<Item = Candidate> + '_ {
        self.full().filter(|candidate| candidate.valid < self.too_many())
    }

    /// Each block that can be cleaned, be it for its wear only.
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

    /// Blocks with so many valid units would fill as many pages again.
    const fn too_many(&self) -> u16 {
        self.units_per_block - self.units_per_page + 1
    }

    /// The block with the fewest valid units; of several the first.
    #[must_use]
    pub fn fewest_valid(&self) -> Option<u32> {
        // Spelt out, because it is asked for each block that is cleaned and
        // there may be thousands: one pass over two flat arrays.
        let mut best = (self.too_many(), None);
        for (i, (&valid, &full)) in self.valid.iter().zip(self.full).enumerate() {
            if full && valid < best.0 {
                best = (valid, Some(i));
            }
        }
        best.1.map(|i| self.first_block + i as u32)
    }
}

/// The ordinary firmware: cleans when it must, and lets reads wait.
#[derive(Clone, Debug)]
pub struct Standard {
    victim: Victim,
    choices: u32,
    static_threshold: u32,
    /// Whether the last block was cleaned for its wear: the next is not, because
    /// that gains no room.
    levelled: bool,
}

impl Standard {
    /// As a profile describes it.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        Self {
            victim: profile.gc.victim,
            choices: profile.gc.choices,
            static_threshold: profile.wear.static_threshold,
            levelled: false,
        }
    }

    /// The least worn block, if wear has become too uneven. Its data lies long,
    /// so it may well be valid altogether.
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

/// The ideal: blocks are cleaned as by [`Standard`], in no time. What is left is
/// what users' requests do to each other.
#[derive(Clone, Debug)]
pub struct Ideal(Standard);

impl Ideal {
    /// As a profile describes it.
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

/// What cleaning a block gains by what it costs: Rosenblum and Ousterhout, "The
/// Design and Implementation of a Log-Structured File System" (1992), §3.6. The
/// cost is reading and writing the valid share.
fn benefit(c: &Candidate) -> f64 {
    let valid = f64::from(c.valid) / f64::from(c.units);
    if valid == 0.0 { f64::INFINITY } else { c.age as f64 * (1.0 - valid) / (2.0 * valid) }
}
