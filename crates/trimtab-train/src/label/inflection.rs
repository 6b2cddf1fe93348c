//! The inflection point: the latency from which failing over pays.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_io::Nanos;

use super::knee::{knee, percentile_of, rank};

/// I/Os simulated.
const IOS: usize = 1_000_000;
/// The distance from the knee within which thresholds are tried, in tenths of a percentile,
/// which are also the steps.
const REACH: i64 = 100;
/// The most refusals of a request: there are three replicas.
const REFUSALS: usize = 2;

/// An inflection point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inflection {
    /// The threshold: a longer latency is slow.
    pub latency: Nanos,
    /// Its percentile among the drive's own latencies.
    pub percentile: f64,
    /// The area between the distributions of latency without and with refusals: the reduction
    /// of the mean latency, ns.
    pub boost: f64,
}

/// The latency from which refusing pays most (LinnOS, §4.2.1).
///
/// Thresholds up to ten percentiles above and below the knee are tried. For each, a million
/// requests draw a latency of the drive; one above the threshold is refused and draws that of
/// a random peer, twice at most. The threshold with the greatest gain is the inflection point.
/// `None` if no threshold gains, or there is no knee.
///
/// `own` are the drive's latencies, `peers` those of the other drives, each ascending and not
/// empty; without peers the drive is its own. All thresholds see the same requests, drawn from
/// `seed`.
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
    // The first of equals, so that the result is unique.
    let (gain, latency) = tried.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    let percentile = percentile_of(own, latency);
    (gain > 0).then_some(Inflection { latency, percentile, boost: gain as f64 / IOS as f64 })
}

/// The final latency of a request.
fn taken(io: &[u64; 1 + REFUSALS], threshold: u64) -> u64 {
    let [first, second, third] = *io;
    let again = if second <= threshold { second } else { third };
    if first <= threshold { first } else { again }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `share` of the latencies are 100 to 200, the others 5000 to 6000.
    fn bimodal(share: f64) -> Vec<Nanos> {
        let fast = (10_000.0 * share) as u64;
        let mut all: Vec<Nanos> = (0..fast).map(|i| Nanos(100 + i * 100 / fast)).collect();
        all.extend((0..10_000 - fast).map(|i| Nanos(5000 + i)));
        all
    }

    #[test]
    fn inflection_lies_between_fast_and_slow() {
        let own = bimodal(0.9);
        let found = inflection(&own, &[], 1).unwrap();
        assert!(found.latency < Nanos(5000), "{found:?}");
        assert!((80.0..=90.0).contains(&found.percentile), "{found:?}");
        // A tenth of 5500, less the thousandth that three slow draws cost.
        assert!((500.0..560.0).contains(&found.boost), "{found:?}");
        assert_eq!(inflection(&own, &[], 1), Some(found));
    }

    #[test]
    fn slower_peers_give_no_inflection() {
        let own: Vec<Nanos> = (0..1000).map(|i| Nanos(100 + i * i / 1000)).collect();
        let slow = [Nanos(1_000_000)];
        assert_eq!(inflection(&own, &[&slow], 1), None);
    }
}
