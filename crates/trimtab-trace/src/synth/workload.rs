//! Synthetic workloads for drivers that have completions.
//!
//! A trace holds arrivals only, so its closed loop is nominal. A simulation knows when a request
//! completes, and its clients wait for that.

use trimtab_io::{Nanos, Op};

use super::Purpose;
use super::arrivals::Arrivals;
use super::offsets::Offsets;
use super::random::Random;
use super::spec::{self, Spec};

/// Synthetic requests with their timing.
///
/// ```
/// use trimtab_trace::synth::{Spec, Timing, Workload};
///
/// let spec: Spec = toml::from_str(
///     "read_share = 1
///      arrivals = { kind = 'closed', queue_depth = 8, think_us = 0 }
///      offsets = { kind = 'uniform' }
///      sizes = [{ bytes = 4096, weight = 1 }]",
/// ).unwrap();
/// spec.check(1 << 30).unwrap();
/// let mut workload = Workload::new(&spec, 1, 1 << 30);
/// assert!(matches!(workload.timing, Timing::Closed { clients: 8, .. }));
/// assert_eq!(workload.requests.draw().length, 4096);
/// ```
#[derive(Clone, Debug)]
pub struct Workload {
    /// Arrival process.
    pub timing: Timing,
    /// Request generator.
    pub requests: Requests,
}

/// Arrival process.
#[derive(Clone, Debug)]
pub enum Timing {
    /// An open loop: independent of completions.
    Open(Arrivals),
    /// A closed loop: each client waits for its completion, thinks, and sends the next request.
    Closed {
        /// Number of clients.
        clients: u32,
        /// Think time.
        think: ThinkTime,
    },
}

impl Workload {
    /// The workload of a description that [`Spec::check`] accepted for a device of `capacity`
    /// bytes.
    #[must_use]
    pub fn new(spec: &Spec, seed: u64, capacity: u64) -> Self {
        let random = Random::new(seed, Purpose::Arrivals);
        let timing = match spec.arrivals {
            spec::Arrivals::Closed { queue_depth, think_us, .. } => Timing::Closed {
                clients: queue_depth,
                think: ThinkTime { mean: think_us * 1e3, random },
            },
            _ => Timing::Open(Arrivals::new(&spec.arrivals, random)),
        };
        Self { timing, requests: Requests::new(spec, seed, capacity) }
    }

    /// As [`new`](Self::new), with burst times drawn from `bursts` alone: workloads with the same
    /// mean phase lengths and the same `bursts` seed burst at the same times.
    #[must_use]
    pub fn with_bursts(spec: &Spec, seed: u64, capacity: u64, bursts: u64) -> Self {
        let mut workload = Self::new(spec, seed, capacity);
        if let Timing::Open(arrivals) = &mut workload.timing {
            let own = Random::new(seed, Purpose::Arrivals);
            let phases = Random::new(bursts, Purpose::Bursts);
            *arrivals = Arrivals::with_bursts(&spec.arrivals, own, phases);
        }
        workload
    }
}

/// Think times: exponential.
#[derive(Clone, Debug)]
pub struct ThinkTime {
    mean: f64,
    random: Random,
}

impl ThinkTime {
    /// Whether clients send the next request at once.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.mean == 0.0
    }

    /// The next think time.
    pub fn draw(&mut self) -> Nanos {
        Nanos(self.random.exponential(self.mean))
    }
}

/// An endless request generator.
#[derive(Clone, Debug)]
pub struct Requests {
    offsets: Offsets,
    sizes: Sizes,
    /// Sizes of writes, if they differ.
    write_sizes: Option<Sizes>,
    ops: Random,
    read_share: f64,
}

/// A generated request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratedRequest {
    /// The operation.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl Requests {
    /// `spec` was checked for a device of `capacity` bytes.
    pub(super) fn new(spec: &Spec, seed: u64, capacity: u64) -> Self {
        let write_sizes = (!spec.write_sizes.is_empty())
            .then(|| Sizes::new(&spec.write_sizes, Random::new(seed, Purpose::WriteSizes)));
        Self {
            write_sizes,
            offsets: Offsets::new(spec, capacity, Random::new(seed, Purpose::Offsets)),
            sizes: Sizes::new(&spec.sizes, Random::new(seed, Purpose::Sizes)),
            ops: Random::new(seed, Purpose::Ops),
            read_share: spec.read_share,
        }
    }

    /// The next request.
    #[inline]
    pub fn draw(&mut self) -> GeneratedRequest {
        let op = if self.ops.chance(self.read_share) { Op::Read } else { Op::Write };
        let sizes = match &mut self.write_sizes {
            Some(sizes) if op == Op::Write => sizes,
            _ => &mut self.sizes,
        };
        let length = sizes.next();
        GeneratedRequest { op, offset: self.offsets.next(length), length }
    }
}

/// Draws sizes by weight.
#[derive(Clone, Debug)]
struct Sizes {
    bytes: Vec<u64>,
    /// Cumulative weights.
    up_to: Vec<u64>,
    random: Random,
}

impl Sizes {
    fn new(sizes: &[spec::Size], random: Random) -> Self {
        let running = |sum: &mut u64, size: &spec::Size| {
            *sum += size.weight;
            Some(*sum)
        };
        Self {
            bytes: sizes.iter().map(|size| size.bytes).collect(),
            up_to: sizes.iter().scan(0, running).collect(),
            random,
        }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        let total = self.up_to[self.up_to.len() - 1];
        let drawn = self.random.below(total);
        self.bytes[self.up_to.partition_point(|&sum| sum <= drawn)]
    }
}
