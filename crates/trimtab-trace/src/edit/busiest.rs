//! Finding a trace's busiest window.

use std::collections::VecDeque;

use trimtab_io::Nanos;

/// Arrival times told apart within one window, 16 bytes each.
const MOST: usize = 1 << 16;

/// Finds the window of a given length in which the most requests arrive, among
/// all windows that begin with a request; the earliest, where several are equal.
///
/// A window slides over the arrivals. As long as it holds no more than 65,536
/// different arrival times the result is exact. Beyond that, arrivals close
/// together count as one, close meaning at most 1/32,768 of the window's length:
/// so a 10-minute window at a million requests per second is found to within
/// 20 ms, in 1 MB of memory.
#[derive(Debug)]
pub struct Busiest {
    length: Nanos,
    most: usize,
    /// Arrivals less than this after a cluster's first belong to it.
    quantum: u64,
    window: VecDeque<Cluster>,
    /// Requests in `window`.
    requests: u64,
    best: Option<(Nanos, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Cluster {
    first: Nanos,
    requests: u64,
}

impl Busiest {
    /// Looks for a window of this length.
    #[must_use]
    pub fn new(length: Nanos) -> Self {
        Self::holding(length, MOST)
    }

    fn holding(length: Nanos, most: usize) -> Self {
        Self { length, most, quantum: 1, window: VecDeque::new(), requests: 0, best: None }
    }

    /// Adds an arrival, not earlier than the last.
    pub fn add(&mut self, arrival: Nanos) {
        while let Some(oldest) = self.window.front()
            && arrival.since(oldest.first) >= self.length
        {
            self.requests -= oldest.requests;
            self.window.pop_front();
        }
        self.push(Cluster { first: arrival, requests: 1 });
        self.requests += 1;
        if self.window.len() > self.most {
            self.coarsen();
        }
        if let Some(oldest) = self.window.front()
            && self.best.is_none_or(|(_, most)| self.requests > most)
        {
            self.best = Some((oldest.first, self.requests));
        }
    }

    fn push(&mut self, cluster: Cluster) {
        match self.window.back_mut() {
            Some(last) if cluster.first.since(last.first).0 < self.quantum => {
                last.requests += cluster.requests;
            }
            _ => self.window.push_back(cluster),
        }
    }

    /// Joins neighbours until half the room is free again. Clusters begin at
    /// least a quantum apart, so there are fewer than 2 + length / quantum, and
    /// the quantum need never exceed 2 × length / `most`.
    fn coarsen(&mut self) {
        while self.window.len() > self.most / 2 {
            self.quantum *= 2;
            for cluster in std::mem::take(&mut self.window) {
                self.push(cluster);
            }
        }
    }

    /// Where the window begins, and how many requests arrive in it; `None` if
    /// none was added.
    #[must_use]
    pub fn finish(self) -> Option<(Nanos, u64)> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn count(arrivals: &[u64], from: u64, length: u64) -> u64 {
        arrivals.iter().filter(|&&a| from <= a && a < from + length).count() as u64
    }

    fn found(arrivals: &[u64], mut busiest: Busiest) -> (u64, u64) {
        arrivals.iter().for_each(|&a| busiest.add(Nanos(a)));
        let (start, requests) = busiest.finish().unwrap();
        (start.0, requests)
    }

    proptest! {
        #[test]
        fn is_the_best_of_all_windows_that_begin_with_a_request(
            mut arrivals in prop::collection::vec(0_u64..300, 1..100),
            length in 1_u64..100,
        ) {
            arrivals.sort_unstable();
            let most = arrivals.iter().map(|&a| count(&arrivals, a, length)).max().unwrap();
            let earliest = arrivals.iter().find(|&&a| count(&arrivals, a, length) == most);
            let found = found(&arrivals, Busiest::new(Nanos(length)));
            prop_assert_eq!(found, (*earliest.unwrap(), most));
        }

        #[test]
        fn in_little_memory_is_best_up_to_the_quantum(
            mut arrivals in prop::collection::vec(0_u64..20_000, 1..400),
            length in 1000_u64..5000,
        ) {
            arrivals.sort_unstable();
            let (start, requests) = found(&arrivals, Busiest::holding(Nanos(length), 64));
            prop_assert!(arrivals.contains(&start));
            // A window that is shorter by the quantum at each end is no busier
            // than the one found, if that is given as much at its end.
            let quantum = length / 16;
            let best = arrivals
                .iter()
                .map(|&a| count(&arrivals, a, length.saturating_sub(2 * quantum)))
                .max()
                .unwrap();
            prop_assert!(requests >= best);
            prop_assert!(count(&arrivals, start, length + quantum) >= requests);
        }
    }

    #[test]
    fn memory_stays_bounded() {
        let mut busiest = Busiest::new(Nanos::from_secs(600));
        for i in 0..1_000_000 {
            busiest.add(Nanos(i * 1000));
            assert!(busiest.window.len() <= MOST);
        }
        assert_eq!(busiest.finish(), Some((Nanos::ZERO, 1_000_000)));
        assert_eq!(Busiest::new(Nanos(1)).finish(), None);
    }
}
