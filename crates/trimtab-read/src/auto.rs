//! Deadlines that follow the recent past.
//!
//! MittOS leaves the value of a deadline to the user: the 95th percentile, which somebody has to
//! measure, and which does not follow (dissertation §4.6). [`AutoDeadline`] follows it, and
//! weighs it against what a failover really costs. It is a state machine: reads and their ends
//! go in, deadlines come out. It reads no clock, and counts time in reads.
//!
//! # The control law
//!
//! Over the last 1,024 reads, every 32 reads:
//!
//! ```text
//!   aim      = + 1% if  q(1 − aim) > 2 · cost,  otherwise − 1/16%,  within [share, most_refused]
//!   deadline = 2 · cost                     if the aim is at most_refused, and q(1 − aim) above
//!              max( q(1 − aim), cost )      otherwise;  within [least, most]
//! ```
//!
//! - **q** is the quantile of the latencies, the upper bound of a bucket of 1/16 octave: at
//!   most 6.25% too high. A read that was refused, or abandoned at its deadline, counts one
//!   bucket above that deadline. So if more are refused than the aim, the deadline rises.
//! - **The cost** is the moving mean (1/16) of the times that failovers took, from the first
//!   request to the data. Refusing a read that would have been faster loses, so no deadline is
//!   below it. Without reports it returns to [`AutoOptions::failover`] by 1/16 every 32 reads:
//!   otherwise a deadline that refuses nothing would never learn that the others have become
//!   fast again.
//! - **The aim** starts at 5%: the deadline is the p95. While a read at the quantile takes twice
//!   as long as a failover, more refusals pay. It falls slowly, because the quantile drops as
//!   soon as the aim passes the share of slow reads. Where even the greatest share does not
//!   suffice, the budget selects which of the slow reads are refused.
//! - **The budget** is a hard limit. Each read earns `most_refused`, up to
//!   [`BURST`], and a read that may be refused reserves 1 until it has ended in time. Without
//!   budget, and before 64 reads are known, a read gets the deadline `most`: late, but never
//!   forever.
//!
//! # Bounds
//!
//! - Of any n reads in a row at most `most_refused` · n + [`BURST`] are refused, or abandoned
//!   at a deadline below `most`.
//! - The deadline is never below the least latency of the last 1,024 reads, nor below the cost
//!   of a failover, at the time of its last change.
//! - After a lasting change of the drive the law's value is reached within 1,024 + 640 reads:
//!   the window then holds no older read, and the aim has risen as far as it can. It falls
//!   within 10,240 reads; meanwhile the deadline is between the cost and the p95.
//! - 4.3 KiB of memory, about 10 ns for a read and 0.5 µs every 32 reads (docs/measurements/cache.md).

use std::time::Duration;

use trimtab_io::Nanos;

use crate::error::Error;
use crate::options::nanos;

#[cfg(test)]
mod tests;

/// Refusals that are permitted beyond the share of reads.
pub const BURST: u32 = 8;
/// Reads of the window.
const WINDOW: usize = 1024;
/// Reads between two changes of the deadline.
const STEP: u32 = 32;
/// Reads before the first deadline.
const FEWEST: usize = 64;
/// Buckets of an octave.
const FINE: u32 = 16;
const BUCKETS: usize = 1024;
/// The unit of shares and of the budget.
const ONE: u32 = 1 << 16;
const AIM_UP: u32 = ONE / 100;
const AIM_DOWN: u32 = ONE / 1600;

/// Bounds of [`AutoDeadline`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AutoOptions {
    /// The share of reads that is refused at first, 0 to 1. Default: 0.05, a deadline at the
    /// p95.
    pub share: f64,
    /// The greatest share of reads that is refused, from `share` to 1. Default: 0.25.
    pub most_refused: f64,
    /// What a failover costs before one has been reported. Default: 300 µs, a hop to another
    /// machine (MittOS, dissertation §4.2.4).
    pub failover: Duration,
    /// The least deadline. Default: 0.
    pub least: Duration,
    /// The greatest deadline, and that of reads that are not to be refused. Default: 1 s.
    pub most: Duration,
}

impl Default for AutoOptions {
    fn default() -> Self {
        Self {
            share: 0.05,
            most_refused: 0.25,
            failover: Duration::from_micros(300),
            least: Duration::ZERO,
            most: Duration::from_secs(1),
        }
    }
}

impl AutoOptions {
    /// # Errors
    /// A share or a time is out of range.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let is_share =
            (0.0..=1.0).contains(&self.share) && (self.share..=1.0).contains(&self.most_refused);
        if !is_share {
            let (share, most) = (self.share, self.most_refused);
            return Err(Error::Option(format!(
                "auto: share and most_refused must be shares from 0 to 1, the second at least the \
                 first, not {share} and {most}"
            )));
        }
        if self.least > self.most || self.most.is_zero() {
            let (least, most) = (nanos(self.least), nanos(self.most));
            return Err(Error::Option(format!(
                "auto: most must be positive and at least `least`, not {most} with {least}"
            )));
        }
        Ok(())
    }
}

/// The deadline of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoGrant {
    /// How long the read may take.
    pub deadline: Nanos,
    /// Whether part of the budget is reserved for it.
    is_reserved: bool,
}

/// A deadline that follows the recent past. See the [module](self).
#[derive(Clone, Debug)]
pub struct AutoDeadline {
    /// Buckets of the last reads, a ring.
    recent: Box<[u16; WINDOW]>,
    counts: Box<[u16; BUCKETS]>,
    known: usize,
    next: usize,
    until_step: u32,
    /// Shares of [`ONE`].
    aim: u32,
    share: u32,
    most_refused: u32,
    /// In refusals, times [`ONE`].
    budget: u32,
    cost: u64,
    has_report: bool,
    usual_cost: u64,
    least: u64,
    most: u64,
    deadline: u64,
}

impl AutoDeadline {
    /// Starts without knowledge: the deadline is `most`.
    ///
    /// # Errors
    /// A share or a time is out of range.
    pub fn new(options: &AutoOptions) -> Result<Self, Error> {
        options.check()?;
        let share = |share: f64| (share * f64::from(ONE)) as u32;
        let most = nanos(options.most).0;
        let cost = nanos(options.failover).0;
        Ok(Self {
            recent: Box::new([0; WINDOW]),
            counts: Box::new([0; BUCKETS]),
            known: 0,
            next: 0,
            until_step: STEP,
            aim: share(options.share),
            share: share(options.share),
            most_refused: share(options.most_refused),
            budget: BURST * ONE,
            cost,
            has_report: false,
            usual_cost: cost,
            least: nanos(options.least).0,
            most,
            deadline: most,
        })
    }

    /// The present deadline.
    #[must_use]
    pub const fn deadline(&self) -> Nanos {
        Nanos(self.deadline)
    }

    /// What a failover is expected to cost.
    #[must_use]
    pub const fn failover_cost(&self) -> Nanos {
        Nanos(self.cost)
    }

    /// The share of reads that the deadline is to refuse, 0 to 1.
    #[must_use]
    pub fn aim(&self) -> f64 {
        f64::from(self.aim) / f64::from(ONE)
    }

    /// The deadline of the next read. One of the following functions is to be called at its
    /// end.
    pub fn begin(&mut self) -> AutoGrant {
        self.earn(self.most_refused);
        if self.budget < ONE || self.deadline >= self.most {
            return AutoGrant { deadline: Nanos(self.most), is_reserved: false };
        }
        self.budget -= ONE;
        AutoGrant { deadline: Nanos(self.deadline), is_reserved: true }
    }

    /// The read has brought data, after this time.
    pub fn answered(&mut self, grant: AutoGrant, took: Nanos) {
        self.failed(grant);
        self.add(bucket(took.0));
    }

    /// The read was refused, or abandoned at its deadline.
    pub fn refused(&mut self, grant: AutoGrant) {
        self.add((bucket(grant.deadline.0) + 1).min(BUCKETS as u16 - 1));
    }

    /// The read has failed, or was not sent for another reason: it tells nothing of the drive.
    pub fn failed(&mut self, grant: AutoGrant) {
        if grant.is_reserved {
            self.earn(ONE);
        }
    }

    /// After a refusal, or a missed deadline, the data came from elsewhere: this long after the
    /// first request.
    pub fn failed_over(&mut self, took: Nanos) {
        let took = took.0.min(self.most);
        self.cost = self.cost - self.cost / 16 + took / 16;
        self.has_report = true;
    }

    fn earn(&mut self, share: u32) {
        self.budget = (self.budget + share).min(BURST * ONE);
    }

    fn add(&mut self, bucket: u16) {
        if self.known == WINDOW {
            self.counts[self.recent[self.next] as usize] -= 1;
        } else {
            self.known += 1;
        }
        self.recent[self.next] = bucket;
        self.counts[bucket as usize] += 1;
        self.next = (self.next + 1) % WINDOW;
        self.until_step -= 1;
        if self.until_step == 0 {
            self.until_step = STEP;
            self.step();
        }
    }

    fn step(&mut self) {
        if !self.has_report {
            let cost = self.cost.cast_signed();
            let back = (self.usual_cost.cast_signed() - cost) / 16;
            self.cost = (cost + back).cast_unsigned();
        }
        self.has_report = false;
        if self.known < FEWEST {
            return;
        }
        let quantile = self.quantile();
        let twice = self.cost.saturating_mul(2);
        let (was_greatest, pays) = (self.aim == self.most_refused, quantile > twice);
        self.aim = if pays {
            (self.aim + AIM_UP).min(self.most_refused)
        } else {
            self.aim.saturating_sub(AIM_DOWN).max(self.share)
        };
        let deadline = if pays && was_greatest { twice } else { quantile.max(self.cost) };
        self.deadline = deadline.clamp(self.least, self.most);
    }

    /// The latency that a share of 1 − aim of the reads does not exceed, ns.
    fn quantile(&self) -> u64 {
        let beyond = (self.known as u64 * u64::from(self.aim)) / u64::from(ONE);
        let mut left = beyond;
        for (bucket, count) in self.counts.iter().enumerate().rev() {
            let count = u64::from(*count);
            if count > left {
                return upper(bucket as u16);
            }
            left -= count;
        }
        upper(0)
    }
}

/// The bucket of a time: 16 of equal width for each octave.
const fn bucket(nanos: u64) -> u16 {
    if nanos < FINE as u64 {
        return nanos as u16;
    }
    let octave = nanos.ilog2() - FINE.ilog2();
    (octave * FINE) as u16 + (nanos >> octave) as u16
}

/// The greatest time of a bucket.
const fn upper(bucket: u16) -> u64 {
    let bucket = bucket as u32;
    if bucket < 2 * FINE {
        return bucket as u64;
    }
    let octave = bucket / FINE - 1;
    let mantissa = (FINE + bucket % FINE + 1) as u128;
    ((mantissa << octave) - 1) as u64
}
