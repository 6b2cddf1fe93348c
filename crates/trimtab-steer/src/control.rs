//! The control group: does moving reads away from their primary replica gain anything?
//!
//! A predictor forecasts; the control group measures. Of the reads that the strategy moves to
//! another replica a random share is sent to the primary replica as well. The application gets
//! the first completion, so such a control pair costs an extra I/O, never a tail. Each pair
//! compares two latencies of one read: the primary's own, from the read's arrival, and that of
//! the move, the costs of deciding and of failing over included. A paired difference has far
//! less variance than the difference of two groups of reads.
//!
//! A [`Gate`] for each primary replica and each kind of move keeps the differences. It closes
//! when [`LOSSES`] blocks of [`BLOCK`] pairs in a row show a loss with confidence, or when the mean
//! of the last several hundred does, and all gates of a replica close when moves gain less than
//! the forecasts cost. Then reads stay with their primary replica, and no forecast is made (nor
//! paid for) except for a small share of the reads, the exploration: if one of these would be
//! moved, it becomes a pair. The gate opens again on evidence; exploration without a gain becomes
//! ever rarer, until a read takes surprisingly long.
//!
//! # What a wrong predictor can cost
//!
//! Let a pair's difference be clipped to `C`, about the wait at which either side is hedged.
//! While a gate is open, at least one moved read in [`SURE_SHARE`] is a pair, drawn at random and
//! independently of the forecast, as far as one read in a hundred ([`PAIRED`]) may be a pair.
//!
//! - If from some time on every block has its upper confidence bound below zero, the gate closes
//!   with the third block that begins after that: within `(LOSSES + 1) × BLOCK` pairs, which come
//!   within `(LOSSES + 1) × BLOCK / PAIRED` reads (12,800) even if all reads are moved. Each moved
//!   read of these costs at most `C`. Saved pairs are spent where a block loses, so it is a
//!   fraction of that in practice.
//! - A loss whose mean is less than [`STAY`] standard errors of [`MEMORY`] pairs is not detected:
//!   that is the price of keeping moves that gain seldom, but then much.
//! - While all gates are closed, one read in [`EXPLORED`] or fewer costs an inference (one in
//!   [`EXPLORED_MOST`] after surprising latencies), and an extra I/O where it would be moved.

use trimtab_io::{Nanos, RequestId, mix64};

use crate::replica::{MOST_REPLICAS, Replica};

/// Pairs of a block.
const BLOCK: f64 = 32.0;
/// Pairs that determine the mean: older ones are forgotten exponentially.
const MEMORY: f64 = 512.0;
/// With fewer pairs the mean does not close a gate.
const LEAST_PAIRS: f64 = 256.0;
/// Blocks in a row that show a loss although the mean is a gain: a move that seldom gains, but
/// then much, has a block without a gain now and then.
const LOSSES: u32 = 3;
/// With so many pairs strong evidence makes pairs rarer, and a loss more frequent.
const EARLY: f64 = 8.0;
/// Standard errors by which the mean must be below zero to close a gate; above zero to open it,
/// and to be strong evidence.
const STAY: f64 = 2.0;
const OPEN: f64 = 2.5;
const STRONG: f64 = 4.0;
/// One moved read in so many is a pair: until the evidence is strong, and afterwards.
const UNSURE_SHARE: u64 = 4;
const SURE_SHARE: u64 = 32;
/// One read in so many is forecast while all gates of a replica are closed: half as often after
/// each [`EXPLORATION`] reads without a gain, twice as often after a read that took
/// [`SURPRISE`] times the usual.
const EXPLORED: u64 = 16;
const EXPLORED_MOST: u64 = 4;
const EXPLORED_LEAST: u64 = 1024;
const EXPLORATION: u64 = 128;
const SURPRISE: u64 = 8;
/// Reads that determine what forecasts gain per read. Long: drives stall in bursts, and the gain
/// of one must outlast the quiet time until the next.
const VALUE_MEMORY: f64 = 65_536.0;
/// With fewer reads it is not known.
const LEAST_READS: f64 = 8_192.0;
/// The share of reads that may be pairs in the long run, and pairs that can be saved.
const PAIRED: f64 = 0.01;
const MOST_TOKENS: f64 = 64.0;
/// Pairs in flight, at most.
const MOST_PAIRS: usize = 64;

/// Why a read is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MoveKind {
    /// The primary replica is refused.
    Refused,
    /// The primary replica ranks behind another one.
    Ranked,
}

/// What becomes of a read that would be moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Move {
    /// It is moved.
    Alone,
    /// It is moved, and sent to its primary replica as well.
    Pair {
        /// The number of reads that would be moved of which it is the sample.
        of: f64,
    },
    /// It stays.
    Stay,
}

/// The control groups of all replicas.
#[derive(Clone, Debug)]
pub(crate) struct ControlGroup {
    drives: [Drive; MOST_REPLICAS],
    pairs: Vec<Pair>,
    /// Pairs that may still be begun.
    tokens: f64,
    /// Time that the forecasts of a read take.
    cost: Nanos,
    seed: u64,
    draws: u64,
}

/// The gates of one primary replica.
#[derive(Clone, Copy, Debug)]
struct Drive {
    gates: [Gate; 2],
    /// What forecasts gain per read.
    value: Value,
    /// One read in so many is explored while both are closed.
    explored: u64,
    /// Reads explored since that changed.
    since: u64,
}

impl Drive {
    const OPEN: Self =
        Self { gates: [Gate::OPEN; 2], value: Value::NONE, explored: EXPLORED, since: 0 };

    fn is_open(&self) -> bool {
        self.gates.iter().any(|gate| gate.is_open)
    }

    /// The number of reads that a forecast stands for.
    fn weight(&self) -> f64 {
        if self.is_open() { 1.0 } else { self.explored as f64 }
    }

    /// Closes the gates if forecasts cost more than moves gain.
    fn close_if_not_worthwhile(&mut self, cost: Nanos) {
        if self.is_open() && self.value.is_known() && self.value.gain() < cost.0 as f64 {
            self.gates = [Gate::CLOSED; 2];
            self.explore_in(EXPLORED);
        }
    }

    fn explore_in(&mut self, explored: u64) {
        (self.explored, self.since) = (explored.clamp(EXPLORED_MOST, EXPLORED_LEAST), 0);
    }
}

/// A read that was sent to its primary replica and to the one that the strategy chose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) read: RequestId,
    pub(crate) kind: MoveKind,
    pub(crate) arrival: Nanos,
    pub(crate) primary: Replica,
    pub(crate) chosen: Replica,
    /// The number of reads that it stands for.
    pub(crate) of: f64,
    /// The longest latency that counts.
    pub(crate) clip: Nanos,
    /// The latency of the move if it is not sent because the primary replica has completed the
    /// read before.
    pub(crate) unsent: Nanos,
    /// Latency of either attempt, once known.
    at_primary: Option<Nanos>,
    at_chosen: Option<Nanos>,
}

impl Pair {
    pub(crate) const fn new(
        (read, arrival): (RequestId, Nanos),
        (kind, of): (MoveKind, f64),
        (primary, chosen): (Replica, Replica),
        (clip, unsent): (Nanos, Nanos),
    ) -> Self {
        let (at_primary, at_chosen) = (None, None);
        Self { read, kind, arrival, primary, chosen, of, clip, unsent, at_primary, at_chosen }
    }
}

impl ControlGroup {
    /// Decisions take `cost` of each read that is forecast.
    pub(crate) fn new(cost: Nanos, seed: u64) -> Self {
        Self {
            drives: [Drive::OPEN; MOST_REPLICAS],
            pairs: Vec::with_capacity(MOST_PAIRS),
            tokens: MOST_TOKENS,
            cost,
            seed,
            draws: 0,
        }
    }

    /// Whether a read with this primary replica needs a forecast: a gate is open, or the read is
    /// explored.
    pub(crate) fn forecasts(&mut self, primary: Replica) -> bool {
        self.tokens = (self.tokens + PAIRED).min(MOST_TOKENS);
        let drive = self.drives[primary.index()];
        if drive.is_open() {
            return true;
        }
        let is_explored = self.draw(drive.explored);
        if is_explored {
            let drive = &mut self.drives[primary.index()];
            drive.since += 1;
            if drive.since >= EXPLORATION {
                drive.explore_in(2 * drive.explored);
            }
        }
        is_explored
    }

    /// A read of a replica has taken `latency`; half of them take less than `typical`.
    pub(crate) fn observed(&mut self, replica: Replica, latency: Nanos, typical: Nanos) {
        let drive = &mut self.drives[replica.index()];
        if latency.0 > typical.0.saturating_mul(SURPRISE) && !drive.is_open() {
            drive.explore_in(drive.explored / 2);
        }
    }

    /// A read with this primary replica has been forecast, and stays.
    pub(crate) fn stays(&mut self, primary: Replica) {
        let drive = &mut self.drives[primary.index()];
        drive.value.read(drive.weight());
        drive.close_if_not_worthwhile(self.cost);
    }

    /// What becomes of a read with this primary replica that would be moved.
    pub(crate) fn decide(&mut self, primary: Replica, kind: MoveKind) -> Move {
        self.drives[primary.index()].value.read(self.drives[primary.index()].weight());
        let drive = self.drives[primary.index()];
        let gate = drive.gates[kind as usize];
        let one_in = match gate.is_open {
            true if gate.is_sure() => SURE_SHARE,
            true => UNSURE_SHARE,
            // All reads are forecast for the other kind of move.
            false if drive.is_open() => EXPLORED,
            false => 1,
        };
        let may = self.tokens >= 1.0 && self.pairs.len() < MOST_PAIRS;
        match (self.draw(one_in) && may, gate.is_open) {
            (true, _) => Move::Pair { of: drive.weight() * one_in as f64 },
            (false, true) => Move::Alone,
            (false, false) => Move::Stay,
        }
    }

    pub(crate) fn begin(&mut self, pair: Pair) {
        self.tokens -= 1.0;
        self.pairs.push(pair);
    }

    /// A read has completed with data from this replica; `is_sent`: whether the move was sent.
    pub(crate) fn read_completed(&mut self, read: RequestId, is_sent: bool) {
        if is_sent {
            return;
        }
        if let Some(at) = self.pairs.iter().position(|pair| pair.read == read) {
            let pair = &mut self.pairs[at];
            pair.at_chosen = pair.at_chosen.or(Some(pair.unsent));
            self.settle(at);
        }
    }

    /// An attempt has ended.
    pub(crate) fn completed(&mut self, now: Nanos, read: RequestId, replica: Replica, data: bool) {
        let Some(at) = self.pairs.iter().position(|pair| pair.read == read) else { return };
        let pair = &mut self.pairs[at];
        let latency = if data { now.since(pair.arrival) } else { pair.clip };
        if replica == pair.primary {
            pair.at_primary = Some(latency);
        } else if replica == pair.chosen {
            pair.at_chosen = Some(latency);
        }
        self.settle(at);
    }

    /// Ends pairs that have waited for longer than counts.
    pub(crate) fn expire(&mut self, now: Nanos) {
        for at in (0..self.pairs.len()).rev() {
            let pair = &mut self.pairs[at];
            if now.since(pair.arrival) > pair.clip {
                pair.at_primary = pair.at_primary.or(Some(pair.clip));
                pair.at_chosen = pair.at_chosen.or(Some(pair.clip));
                self.settle(at);
            }
        }
    }

    /// Takes the evidence of a pair of which both latencies are known.
    fn settle(&mut self, at: usize) {
        let pair = self.pairs[at];
        let (Some(stayed), Some(moved)) = (pair.at_primary, pair.at_chosen) else { return };
        self.pairs.swap_remove(at);
        let gain = stayed.min(pair.clip).0 as f64 - moved.min(pair.clip).0 as f64;
        let drive = &mut self.drives[pair.primary.index()];
        let was_open = drive.is_open();
        drive.value.pair(pair.of * gain);
        drive.gates[pair.kind as usize].record(gain);
        if drive.is_open() && !was_open && drive.value.gain() < self.cost.0 as f64 {
            // Moves gain, but less than the forecasts cost.
            drive.gates = [Gate::CLOSED; 2];
        }
        drive.close_if_not_worthwhile(self.cost);
        if drive.is_open() != was_open {
            drive.explore_in(EXPLORED);
        }
    }

    /// True for one call in `one_in`, at random.
    fn draw(&mut self, one_in: u64) -> bool {
        self.draws += 1;
        mix64(self.seed ^ self.draws.wrapping_mul(0x9e37_79b9_7f4a_7c15)).is_multiple_of(one_in)
    }
}

/// Whether moves of one kind away from one replica gain anything.
#[derive(Clone, Copy, Debug)]
struct Gate {
    is_open: bool,
    /// The current block.
    block: Evidence,
    /// Blocks in a row that showed a loss.
    losses: u32,
    /// The last several hundred pairs.
    memory: Evidence,
}

impl Gate {
    /// Open without evidence: training has seen a gain in its recording.
    const OPEN: Self =
        Self { is_open: true, block: Evidence::NONE, losses: 0, memory: Evidence::NONE };
    const CLOSED: Self = Self { is_open: false, ..Self::OPEN };

    fn record(&mut self, gain: f64) {
        self.block.record(gain, BLOCK);
        self.memory.record(gain, MEMORY);
        let is_whole = self.block.pairs >= BLOCK;
        if self.is_open {
            if is_whole {
                let loses = self.block.is_below_zero_by(STAY);
                self.losses = if loses { self.losses + 1 } else { 0 };
            }
            let loses = self.losses >= LOSSES || self.losses > 0 && self.memory.mean < 0.0;
            let gains = self.memory.pairs < LEAST_PAIRS || !self.memory.is_below_zero_by(STAY);
            if loses || !gains {
                *self = Self::CLOSED;
            }
        } else if is_whole && self.memory.exceeds_zero_by(OPEN) {
            *self = Self { memory: self.memory, ..Self::OPEN };
        }
        if is_whole {
            self.block = Evidence::NONE;
        }
    }

    /// Whether the evidence is strong, and nothing speaks against it lately.
    fn is_sure(&self) -> bool {
        let is_in_doubt = self.block.pairs >= EARLY && self.block.mean < 0.0;
        self.memory.pairs >= EARLY && self.memory.exceeds_zero_by(STRONG) && !is_in_doubt
    }
}

/// What moves gain per read with a forecast, in ns.
#[derive(Clone, Copy, Debug)]
struct Value {
    reads: f64,
    gains: f64,
}

impl Value {
    const NONE: Self = Self { reads: 0.0, gains: 0.0 };

    /// A forecast has been made, which stands for so many reads.
    fn read(&mut self, weight: f64) {
        let kept = 1.0 - (weight / VALUE_MEMORY).min(1.0);
        (self.reads, self.gains) = (self.reads * kept + weight, self.gains * kept);
    }

    /// The gain of the reads that a pair stands for.
    fn pair(&mut self, gain: f64) {
        self.gains += gain;
    }

    fn is_known(&self) -> bool {
        self.reads >= LEAST_READS
    }

    fn gain(&self) -> f64 {
        self.gains / self.reads.max(1.0)
    }
}

/// Mean and variance of differences.
#[derive(Clone, Copy, Debug)]
struct Evidence {
    /// Weight of the pairs.
    pairs: f64,
    mean: f64,
    /// Mean of squares.
    square: f64,
}

impl Evidence {
    const NONE: Self = Self { pairs: 0.0, mean: 0.0, square: 0.0 };

    /// Adds a pair; from `memory` pairs on older ones are forgotten exponentially.
    fn record(&mut self, gain: f64, memory: f64) {
        self.pairs = (self.pairs + 1.0).min(memory);
        self.mean += (gain - self.mean) / self.pairs;
        self.square += (gain * gain - self.square) / self.pairs;
    }

    /// The standard error of the mean.
    fn error(&self) -> f64 {
        libm::sqrt((self.square - self.mean * self.mean).max(0.0) / self.pairs)
    }

    fn exceeds_zero_by(&self, errors: f64) -> bool {
        self.mean > errors * self.error()
    }

    fn is_below_zero_by(&self, errors: f64) -> bool {
        self.mean < -errors * self.error()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMARY: Replica = Replica(0);
    const OTHER: Replica = Replica(1);
    const CLIP: Nanos = Nanos::from_micros(10_000);

    /// Reads of which each would be moved, on replicas with these latencies; returns how many
    /// were moved, how many were pairs, and how many were forecast.
    fn serve(
        control: &mut ControlGroup,
        reads: u64,
        mut primary: impl FnMut(u64) -> u64,
        moved: u64,
    ) -> (u64, u64, u64) {
        let (mut alone, mut pairs, mut forecast) = (0, 0, 0);
        for i in 0..reads {
            if !control.forecasts(PRIMARY) {
                continue;
            }
            forecast += 1;
            match control.decide(PRIMARY, MoveKind::Refused) {
                Move::Stay => {}
                Move::Alone => alone += 1,
                Move::Pair { of } => {
                    pairs += 1;
                    let (read, at) = (RequestId(i), Nanos(i));
                    let pair = Pair::new(
                        (read, at),
                        (MoveKind::Refused, of),
                        (PRIMARY, OTHER),
                        (CLIP, Nanos::from_micros(moved)),
                    );
                    control.begin(pair);
                    control.completed(at + Nanos::from_micros(moved), read, OTHER, true);
                    control.completed(at + Nanos::from_micros(primary(i)), read, PRIMARY, true);
                }
            }
        }
        (alone, pairs, forecast)
    }

    /// The kind of move that is not tested is closed.
    fn control() -> ControlGroup {
        let mut control = ControlGroup::new(Nanos::ZERO, 1);
        control.drives[PRIMARY.index()].gates[MoveKind::Ranked as usize] = Gate::CLOSED;
        control
    }

    #[test]
    fn moves_without_gain_stop_and_are_explored_ever_more_rarely() {
        let mut control = control();
        // Half of the time the primary is as good, otherwise better.
        let primary = |i: u64| if i.is_multiple_of(2) { 90 } else { 100 };
        let (alone, pairs, _) = serve(&mut control, 100_000, primary, 100);
        assert!(alone + pairs < 1_000, "{alone} moved and {pairs} pairs of 100,000");
        let (alone, pairs, forecast) = serve(&mut control, 100_000, primary, 100);
        assert!(alone == 0 && pairs < 500 && forecast < 1_000, "{alone}, {pairs}, {forecast}");
    }

    #[test]
    fn moves_with_gain_go_on() {
        let mut control = control();
        // Slow in one read of eight.
        let primary = |i: u64| if mix64(i).is_multiple_of(8) { 9_000 } else { 90 };
        let (alone, pairs, _) = serve(&mut control, 100_000, primary, 100);
        assert!(alone + pairs > 99_000, "{alone} moved and {pairs} pairs of 100,000");
        assert!(pairs < 10_000, "{pairs}");
    }

    #[test]
    fn a_change_of_regime_is_detected_both_ways() {
        let mut control = control();
        let slow = |_| 5_000;
        serve(&mut control, 10_000, slow, 100);
        let bound = (f64::from(LOSSES + 1) * BLOCK / PAIRED) as u64;
        let (alone, pairs, _) = serve(&mut control, 1_000_000, |_| 90, 100);
        assert!(alone + pairs < bound + 1_000, "{alone} and {pairs}, more than {bound}");
        // A block of pairs, at the lowest share of exploration.
        let (alone, _, _) = serve(&mut control, 100_000, slow, 100);
        assert!(alone > 50_000, "{alone}");
        // Sooner where reads take surprisingly long.
        serve(&mut control, 1_000_000, |_| 90, 100);
        (0..8).for_each(|_| control.observed(PRIMARY, Nanos(5_000_000), Nanos(90_000)));
        let (alone, _, _) = serve(&mut control, 1_000, slow, 100);
        assert!(alone > 800, "{alone}");
    }

    #[test]
    fn a_primary_that_never_answers_counts_as_the_longest_wait() {
        let mut control = control();
        for i in 0..200 {
            let at = Nanos::from_millis(20 * i);
            control.expire(at);
            let pair = Pair::new(
                (RequestId(i), at),
                (MoveKind::Refused, 1.0),
                (PRIMARY, OTHER),
                (CLIP, Nanos::from_micros(100)),
            );
            control.begin(pair);
            control.completed(at + Nanos::from_micros(100), RequestId(i), OTHER, true);
        }
        let gate = &control.drives[PRIMARY.index()].gates[MoveKind::Refused as usize];
        assert!(gate.is_open && gate.is_sure() && control.pairs.len() == 1);
    }
}
