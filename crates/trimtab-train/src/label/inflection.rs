//! Where failing over begins to pay.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_io::Nanos;

use super::knee::{knee, percentile_of, rank};

/// I/Os that are simulated.
const IOS: usize = 1_000_000;
/// How far from the knee it is looked for, and in which steps, in tenths of a
/// percentile.
const REACH: i64 = 100;
/// How often a request can be refused: three replicas.
const REFUSALS: usize = 2;

/// An inflection point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inflection {
    /// Longer is slow.
    pub latency: Nanos,
    /// Its percentile among the drive's own latencies.
    pub percentile: f64,
    /// The area that refusing wins, between the distribution of latencies as it
    /// was and as it would be: what the mean latency falls by, ns.
    pub boost: f64,
}

/// The latency from which on refusing wins most (LinnOS, §4.2.1).
///
/// Beginning with the knee, thresholds up to ten percentiles above and below are
/// tried. Each time a million requests draw a latency of the drive's own; what is
/// above the threshold is refused and draws one of a peer at random, and once
/// more, and has to take the third. The threshold with the greatest gain is it.
/// `None` if none gains anything, or there is no knee.
///
/// `own` are the drive's latencies, `peers` those of the other drives, all
/// ascending and with at least one each; without peers the drive is its own. The
/// same requests, drawn from `seed`, are judged by all thresholds.
#[must_use]
pub fn inflection(own: &[Nanos], peers: &[&[Nanos]], seed: u64) -> Option<Inflection> {
    let start = (percentile_of(own, knee(own)?) * 10.0).round() as i64;
    let myself = [own];
    let peers = if peers.is_empty() { &myself[..] } else { peers };
    let mut random = Pcg64::seed_from_u64(seed);
    let mut any = |below: usize| random.random_range(..below);
    let drawn: Vec<[u64; 1 + REFUSALS]> = (0..IOS)
        .map(|_| {
            let first = own[any(own.len())].0;
            let mut again = || {
                let peer = peers[any(peers.len())];
                peer[any(peer.len())].0
            };
            [first, again(), again()]
        })
        .collect();
    let before: u64 = drawn.iter().map(|io| io[0]).sum();
    let candidates = (start - REACH).max(1)..=(start + REACH).min(999);
    let tried = candidates.filter_map(|tenths| {
        let threshold = own[rank(own.len(), tenths as f64 / 1000.0)?];
        let after: u64 = drawn.iter().map(|io| taken(io, threshold.0)).sum();
        Some((before as i64 - after as i64, threshold))
    });
    // The first of equals, for a clear answer.
    let (won, latency) = tried.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    let percentile = percentile_of(own, latency);
    (won > 0).then_some(Inflection { latency, percentile, boost: won as f64 / IOS as f64 })
}

/// The latency that a request ends up with.
fn taken(io: &[u64; 1 + REFUSALS], threshold: u64) -> u64 {
    let [first, second, third] = *io;
    let again = if second <= threshold { second } else { third };
    if first <= threshold { first } else { again }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `share` of the latencies are 100 to 200, the others 5000 to 6000.
    fn two_kinds(share: f64) -> Vec<Nanos> {
        let fast = (10_000.0 * share) as u64;
        let mut all: Vec<Nanos> = (0..fast).map(|i| Nanos(100 + i * 100 / fast)).collect();
        all.extend((0..10_000 - fast).map(|i| Nanos(5000 + i)));
        all
    }

    #[test]
    fn lies_between_fast_and_slow() {
        let own = two_kinds(0.9);
        let found = inflection(&own, &[], 1).unwrap();
        assert!(found.latency < Nanos(5000), "{found:?}");
        assert!((80.0..=90.0).contains(&found.percentile), "{found:?}");
        // A tenth of 5500, but for the thousandth that no refusal helps.
        assert!((500.0..560.0).contains(&found.boost), "{found:?}");
        assert_eq!(inflection(&own, &[], 1), Some(found));
    }

    #[test]
    fn slower_peers_win_nothing() {
        let own: Vec<Nanos> = (0..1000).map(|i| Nanos(100 + i * i / 1000)).collect();
        let slow = [Nanos(1_000_000)];
        assert_eq!(inflection(&own, &[&slow], 1), None);
    }
}
