//! Finding a drive's parallel units in recordings of it.
//!
//! The evidence is a pair of requests that are in flight together: does the later one, a read,
//! take longer if the two share some structure of their addresses? Three kinds of structure
//! are tried: the same page, the same parity of some address bits (any mask of them, by a
//! Walsh–Hadamard transform over the pairs), and the same stripe modulo a number of units.
//!
//! A read's latency counts by its rank among the recording's reads, minus the mean rank of its
//! neighbours in time. So what slows all reads down does not count, nor does the length of the
//! tail. Neighbours are alike, so a million pairs are much less evidence than their number
//! suggests. The pairs are divided into blocks of time, and the measure is the agreement of
//! the blocks. The best of a million masks looks good by chance, so what is found in the even
//! blocks is tested in the odd ones.

mod spectrum;

use trimtab_io::Op;
use trimtab_predict::Recorded;
use trimtab_predict::units::{MOST_UNITS, UnitFunction};

use self::spectrum::walsh;
use crate::replay::{Event, events};

/// Blocks of time whose evidence is compared.
const BLOCKS: usize = 16;
/// The most pairs used; more add no evidence.
const PAIRS: usize = 2_000_000;
/// The most requests in flight that are paired with a new one: the latest.
const PARTNERS: usize = 128;
/// Address bits that masks are made of, from [`PAGE_SHIFT`] on.
const MASK_BITS: u32 = 20;
/// The smallest page, 4 KiB, and the largest.
const PAGE_SHIFT: u32 = 12;
const LARGEST_PAGE_SHIFT: u32 = 16;
/// The largest stripe, 1 MiB, and the most units that stripes are tried with.
const LARGEST_STRIPE_SHIFT: u32 = 20;
const MOST_STRIPED_UNITS: u32 = 128;
/// Neighbours on each side of a read, whose mean rank is subtracted.
const NEIGHBOURS: usize = 16;
/// An effect in the odd blocks counts if it is this many times its uncertainty.
const SURE: f64 = 3.0;
/// The most masks.
const MASKS: usize = 6;

/// The units found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundUnits {
    /// The functions to track: the page first, then by falling effect.
    pub functions: Vec<UnitFunction>,
    /// Pairs of requests that were in flight together.
    pub pairs: usize,
}

/// Two requests that were in flight together.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// Their offsets.
    a: u64,
    b: u64,
    /// The rank of the later one minus that of its neighbours.
    excess: f32,
    block: u8,
}

/// The evidence of the pairs that share a structure.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    /// The separation of the pairs, in squared standard deviations of the excess: what a
    /// predictor would gain.
    gain: f64,
    /// The effect as a multiple of its uncertainty.
    sureness: f64,
    /// The mean excess of the pairs that share it.
    mean: f64,
}

/// Finds the parallel units of the drive, or of the drives of one model, that recordings are
/// of. The page is always among them, other functions only with enough evidence.
#[must_use]
pub fn find(recordings: &[&[Recorded]]) -> FoundUnits {
    let most = PAIRS / recordings.len().max(1);
    let pairs = recordings.iter().flat_map(|recorded| pairs(recorded, most)).collect::<Vec<_>>();
    let page = page_shift(&pairs);
    let mut functions = vec![UnitFunction::Page { shift: page }];
    // Pairs on one page meet in any case, and say nothing about other structures.
    let apart: Vec<Pair> =
        pairs.iter().copied().filter(|pair| (pair.a ^ pair.b) >> page != 0).collect();
    let (search, proof) = apart.iter().copied().partition::<Vec<_>, _>(|pair| pair.block % 2 == 0);
    let masks = masks(&search, &proof, page);
    let mut candidates = Vec::new();
    if let Some(&first) = masks.first() {
        candidates.push(UnitFunction::Parity { masks: vec![first] });
    }
    if masks.len() > 1 {
        candidates.push(UnitFunction::Parity { masks });
    }
    candidates.extend(stripe(&search));
    let mut tested: Vec<(f64, UnitFunction)> = candidates
        .into_iter()
        .map(|function| (evidence(&proof, |pair| meets(&function, pair)), function))
        .filter(|(evidence, _)| evidence.sureness >= SURE)
        .map(|(evidence, function)| (evidence.gain, function))
        .collect();
    tested.sort_by(|a, b| b.0.total_cmp(&a.0));
    functions.extend(tested.into_iter().map(|(_, function)| function));
    FoundUnits { functions, pairs: pairs.len() }
}

fn meets(function: &UnitFunction, pair: &Pair) -> bool {
    function.unit(pair.a) == function.unit(pair.b)
}

/// The pairs of a read and a request that was in flight when it was sent: of all reads, or of
/// every nth, so that there are at most about `most`.
fn pairs(recorded: &[Recorded], most: usize) -> Vec<Pair> {
    let excess = excess(recorded);
    let reads = excess.iter().flatten().count().max(1);
    let stride = (reads * PARTNERS).div_ceil(most).max(1);
    let (mut in_flight, mut pairs, mut read) = (Vec::<usize>::new(), Vec::new(), 0);
    for event in events(recorded) {
        match event {
            Event::Completed(i) => in_flight.retain(|&other| other != i),
            Event::Sent(i) => {
                let request = &recorded[i].request;
                if let Some(excess) = excess[i] {
                    read += 1;
                    let block = ((read - 1) * BLOCKS / reads) as u8;
                    if read % stride == 0 {
                        pairs.extend(in_flight.iter().rev().take(PARTNERS).map(|&other| {
                            let (a, b) = (recorded[other].request.offset, request.offset);
                            Pair { a, b, excess, block }
                        }));
                    }
                }
                if matches!(request.op, Op::Read | Op::Write) {
                    in_flight.push(i);
                }
            }
        }
    }
    pairs
}

/// Each read's rank (0 to 1) minus the mean rank of its neighbours.
fn excess(recorded: &[Recorded]) -> Vec<Option<f32>> {
    let reads: Vec<usize> = (0..recorded.len()).filter(|&i| recorded[i].is_read()).collect();
    let mut order: Vec<usize> = (0..reads.len()).collect();
    order.sort_by_key(|&i| (recorded[reads[i]].latency(), i));
    let mut ranks = vec![0.0; reads.len()];
    for (rank, &i) in order.iter().enumerate() {
        ranks[i] = (rank as f64 + 0.5) / reads.len() as f64;
    }
    let mut sums = vec![0.0];
    for rank in &ranks {
        sums.push(sums[sums.len() - 1] + rank);
    }
    let mut excess = vec![None; recorded.len()];
    for (i, &read) in reads.iter().enumerate() {
        let (from, to) = (i.saturating_sub(NEIGHBOURS), (i + NEIGHBOURS + 1).min(reads.len()));
        let others = sums[to] - sums[from] - ranks[i];
        let mean = others / ((to - from - 1).max(1)) as f64;
        excess[read] = Some((ranks[i] - mean) as f32);
    }
    excess
}

/// Compares the pairs that share a structure with the others.
fn evidence(pairs: &[Pair], has: impl Fn(&Pair) -> bool) -> Evidence {
    let mut sums = [[(0.0_f64, 0_u64); 2]; BLOCKS];
    let mut squares = 0.0;
    for pair in pairs {
        let (sum, count) = &mut sums[usize::from(pair.block)][usize::from(has(pair))];
        *sum += f64::from(pair.excess);
        *count += 1;
        squares += f64::from(pair.excess).powi(2);
    }
    let total = |side: usize| {
        sums.iter().fold((0.0, 0), |all, block| (all.0 + block[side].0, all.1 + block[side].1))
    };
    let ((others, n0), (those, n1)) = (total(0), total(1));
    if n0 == 0 || n1 == 0 {
        return Evidence::default();
    }
    let difference = those / n1 as f64 - others / n0 as f64;
    let blocks: Vec<f64> = sums
        .iter()
        .filter(|block| block[0].1 > 0 && block[1].1 > 0)
        .map(|[(s0, n0), (s1, n1)]| s1 / *n1 as f64 - s0 / *n0 as f64)
        .collect();
    let n = blocks.len() as f64;
    let mean = blocks.iter().sum::<f64>() / n;
    let spread = blocks.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    // Few blocks are no evidence.
    let sureness = if n < 4.0 { 0.0 } else { mean / (spread / n).sqrt().max(1e-9) };
    let variance = squares / pairs.len() as f64;
    let weight = n0 as f64 * n1 as f64 / (n0 + n1) as f64;
    let gain = difference.max(0.0).powi(2) * weight / variance.max(1e-12);
    Evidence { gain, sureness, mean: those / n1 as f64 }
}

/// The page's size: the largest stretch such that pairs that share it, but not its half, have
/// at least half the excess of those that share 4 KiB.
fn page_shift(pairs: &[Pair]) -> u32 {
    let same = evidence(pairs, |pair| (pair.a ^ pair.b) >> PAGE_SHIFT == 0);
    if same.sureness < SURE {
        return PAGE_SHIFT;
    }
    let grows = |&shift: &u32| {
        let step = evidence(pairs, |pair| {
            let difference = pair.a ^ pair.b;
            difference >> shift == 0 && difference >> (shift - 1) != 0
        });
        step.sureness >= SURE && step.mean >= same.mean / 2.0
    };
    PAGE_SHIFT + (PAGE_SHIFT + 1..=LARGEST_PAGE_SHIFT).take_while(grows).count() as u32
}

/// Masks of address bits whose parity separates pairs that meet from others, the strongest
/// first; each divides the pairs that the masks before it leave together.
fn masks(search: &[Pair], proof: &[Pair], page: u32) -> Vec<u64> {
    let mut masks = Vec::new();
    let (mut search, mut proof) = (search.to_vec(), proof.to_vec());
    while masks.len() < MASKS {
        let agree = |pair: &Pair, mask: u64| parity((pair.a ^ pair.b) & mask) == 0;
        let Some(mask) = strongest(&search, page) else { break };
        if evidence(&proof, |pair| agree(pair, mask)).sureness < SURE {
            break;
        }
        search.retain(|pair| agree(pair, mask));
        proof.retain(|pair| agree(pair, mask));
        masks.push(mask);
    }
    masks
}

const fn parity(bits: u64) -> u32 {
    bits.count_ones() & 1
}

/// The mask that separates the pairs best.
fn strongest(pairs: &[Pair], page: u32) -> Option<u64> {
    let mean = pairs.iter().map(|p| f64::from(p.excess)).sum::<f64>() / pairs.len() as f64;
    // Without the bits within a page, and those above the highest in which pairs differ.
    let differing = pairs.iter().fold(0, |all, pair| all | (pair.a ^ pair.b) >> page);
    let bits = (u64::BITS - differing.leading_zeros()).min(MASK_BITS);
    let mut excess = vec![0.0; 1 << bits];
    let mut counts = vec![0.0; 1 << bits];
    for pair in pairs {
        let x = ((pair.a ^ pair.b) >> page) as usize & ((1 << bits) - 1);
        excess[x] += f64::from(pair.excess) - mean;
        counts[x] += 1.0;
    }
    walsh(&mut excess);
    walsh(&mut counts);
    // The transform is the excess of the pairs that agree minus that of the others. It weighs
    // more the more evenly the mask divides.
    let n = pairs.len() as f64;
    let gain = |m: usize| {
        let (agree, differ) = ((n + counts[m]) / 2.0, (n - counts[m]) / 2.0);
        let weight = agree * differ / n;
        let sum = excess[m] / 2.0;
        if excess[m] <= 0.0 || weight < 100.0 { 0.0 } else { sum * sum / weight }
    };
    let mut best: Vec<(f64, usize)> = (1..1 << bits).map(|m| (gain(m), m)).collect();
    let few = 16.min(best.len().checked_sub(1)?);
    best.select_nth_unstable_by(few, |a, b| b.0.total_cmp(&a.0));
    best.truncate(few);
    // Of masks that are about as good, the one with the fewest bits: an address mapping uses
    // no more than it needs.
    best.sort_by(|a, b| b.0.total_cmp(&a.0));
    let most = best[0].0;
    best.retain(|(gain, _)| *gain > 0.0 && *gain >= most * 0.8);
    best.sort_by_key(|&(_, mask)| (mask.count_ones(), mask));
    best.first().map(|&(_, mask)| (mask as u64) << page)
}

/// The best stripes over a number of units that is no power of two. (Stripes over a power of
/// two are parities.)
fn stripe(apart: &[Pair]) -> Option<UnitFunction> {
    let units = (3..=MOST_STRIPED_UNITS.min(MOST_UNITS)).filter(|units| !units.is_power_of_two());
    // A sample of the pairs selects the candidates.
    let some: Vec<Pair> = apart.iter().copied().step_by(apart.len() / 50_000 + 1).collect();
    let mut tried: Vec<(f64, UnitFunction)> = units
        .flat_map(|units| {
            (PAGE_SHIFT..=LARGEST_STRIPE_SHIFT)
                .map(move |shift| UnitFunction::Stripe { shift, units })
        })
        .map(|function| (evidence(&some, |pair| meets(&function, pair)).gain, function))
        .collect();
    tried.sort_by(|a, b| b.0.total_cmp(&a.0));
    tried.truncate(8);
    let closer = tried.into_iter().map(|(_, function)| {
        let evidence = evidence(apart, |pair| meets(&function, pair));
        (evidence, function)
    });
    closer.max_by(|a, b| a.0.gain.total_cmp(&b.0.gain)).map(|(_, function)| function)
}

#[cfg(test)]
mod tests;
