//! The load: the operations of YCSB, the same for a seed.
//!
//! Keys are drawn as YCSB does it (Cooper et al., SoCC 2010, §5.1): ranks by Zipf's law,
//! in the way of Gray et al. (SIGMOD 1994, §3.2), and the popular ones spread over all
//! keys.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;

use crate::value::mix;

/// YCSB's skew.
const SKEW: f64 = 0.99;

/// An operation, on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Read its value.
    Get(u64),
    /// Write the next version of it.
    Put(u64),
}

/// YCSB's standard mixes of reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Workload {
    /// 50% reads.
    A,
    /// 95% reads.
    B,
    /// Reads only.
    C,
}

impl Workload {
    const fn read_share(self) -> f64 {
        match self {
            Self::A => 0.5,
            Self::B => 0.95,
            Self::C => 1.0,
        }
    }
}

/// What one client does: an endless sequence.
#[derive(Clone, Debug)]
pub(crate) struct Operations {
    random: Pcg64,
    zipf: Zipf,
    read_share: f64,
    /// Of so many clients this is that one. Each writes its own keys only: so a key
    /// has one writer, and all replicas the same order.
    clients: u64,
    client: u64,
}

impl Operations {
    pub(crate) fn new(
        workload: Workload,
        records: u64,
        seed: u64,
        (client, clients): (u64, u64),
    ) -> Self {
        let random = Pcg64::seed_from_u64(mix(seed) ^ client);
        let zipf = Zipf::new(records);
        Self { random, zipf, read_share: workload.read_share(), clients, client }
    }
}

impl Iterator for Operations {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        let rank = self.zipf.rank(self.random.random());
        let key = mix(rank) % self.zipf.ranks;
        let is_read = self.random.random::<f64>() < self.read_share;
        if is_read {
            return Some(Op::Get(key));
        }
        let own = key - key % self.clients + self.client;
        Some(Op::Put(if own < self.zipf.ranks { own } else { self.client }))
    }
}

/// Zipf's law over so many ranks.
#[derive(Clone, Debug)]
struct Zipf {
    ranks: u64,
    /// The sum of the ranks' weights, and what follows from it.
    zeta: f64,
    eta: f64,
}

impl Zipf {
    fn new(ranks: u64) -> Self {
        let zeta = |n: u64| (1..=n).map(|rank| (rank as f64).powf(-SKEW)).sum::<f64>();
        let all = zeta(ranks);
        let eta = (1.0 - (2.0 / ranks as f64).powf(1.0 - SKEW)) / (1.0 - zeta(2) / all);
        Self { ranks, zeta: all, eta }
    }

    /// The rank, from 0, of a number drawn from 0 to 1.
    fn rank(&self, drawn: f64) -> u64 {
        let scaled = drawn * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(SKEW) {
            return 1;
        }
        let rank = (self.eta * drawn - self.eta + 1.0).powf(1.0 / (1.0 - SKEW));
        ((self.ranks as f64 * rank) as u64).min(self.ranks - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_zipf() {
        const RANKS: u64 = 1000;
        const DRAWN: usize = 200_000;
        let zipf = Zipf::new(RANKS);
        let mut random = Pcg64::seed_from_u64(1);
        let mut counts = [0; RANKS as usize];
        for _ in 0..DRAWN {
            counts[zipf.rank(random.random()) as usize] += 1;
        }
        for rank in [0, 1] {
            let expected = DRAWN as f64 * ((rank + 1) as f64).powf(-SKEW) / zipf.zeta;
            let share = f64::from(counts[rank]) / expected;
            assert!((0.95..1.05).contains(&share), "rank {rank}: {share}");
        }
        // The method is an approximation beyond the first two.
        let tail: i32 = counts[500..].iter().sum();
        let weight = (501..=RANKS).map(|rank| (rank as f64).powf(-SKEW)).sum::<f64>() / zipf.zeta;
        let share = f64::from(tail) / (DRAWN as f64 * weight);
        assert!((0.9..1.1).contains(&share), "{share}");
    }

    #[test]
    fn clients_write_their_own_keys_and_all_is_by_seed() {
        for client in 0..3 {
            let operations = || Operations::new(Workload::A, 1001, 7, (client, 3));
            let first: Vec<Op> = operations().take(10_000).collect();
            assert_eq!(first, operations().take(10_000).collect::<Vec<_>>());
            let key = |op: &Op| match *op {
                Op::Put(key) => Some(key),
                Op::Get(_) => None,
            };
            let puts: Vec<u64> = first.iter().filter_map(key).collect();
            assert!(puts.iter().all(|key| key % 3 == client && *key < 1001));
            assert!((4_500..5_500).contains(&puts.len()));
        }
    }
}
