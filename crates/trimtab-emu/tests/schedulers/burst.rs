//! Bursts of requests of several processes.

use std::fmt::Write as _;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_io::{IoClass, Op};

/// What bursts are drawn from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    /// Processes of all classes, not only best-effort ones.
    pub(crate) classes: bool,
    /// Idle ones among them. BFQ leaves them too few places for a burst.
    pub(crate) idle: bool,
    /// Some bursts have requests of up to 512 KiB.
    pub(crate) long: bool,
    /// Processes that asked for a priority send few requests. While weights of others are raised,
    /// BFQ leaves them few places.
    pub(crate) raised: bool,
}

/// A process of a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) class: IoClass,
    pub(crate) level: u8,
}

/// A request of a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BurstRequest {
    /// Its process, by number.
    pub(crate) process: usize,
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Requests in the order of their arrival.
#[derive(Clone, Debug)]
pub(crate) struct Burst {
    pub(crate) processes: Vec<Process>,
    pub(crate) requests: Vec<BurstRequest>,
}

/// The first bytes of a drive are the plug's.
pub(crate) const PLUG_BYTES: u64 = 1 << 20;
const PAGE: u64 = 4096;
const DRIVE_PAGES: u64 = (64 << 20) / PAGE;

impl Burst {
    pub(crate) fn draw(seed: u64, mix: Mix) -> Self {
        let mut rng = Pcg64::seed_from_u64(seed);
        let classes = [IoClass::RealTime, IoClass::BestEffort, IoClass::BestEffort, IoClass::Idle];
        let mut processes: Vec<_> = (0..rng.random_range(2..=5))
            .map(|_| {
                let kinds = if mix.idle { classes.len() } else { classes.len() - 1 };
                let class = classes[rng.random_range(0..kinds)];
                // Half of the processes ask for no priority.
                let level = if rng.random_bool(0.5) { 4 } else { rng.random_range(0..8) };
                Process { class: if mix.classes { class } else { IoClass::BestEffort }, level }
            })
            .collect();
        let longest = if mix.long && rng.random_bool(0.3) { 128 } else { 16 };
        let read_share = [0.3, 0.7, 1.0][rng.random_range(0..3)];
        let count = rng.random_range(30..=60);
        let mut requests: Vec<BurstRequest> = Vec::with_capacity(count);
        while requests.len() < count {
            let length = rng.random_range(1..=longest) * PAGE;
            let pages = PLUG_BYTES / PAGE..=DRIVE_PAGES - longest;
            let offset = rng.random_range(pages) * PAGE;
            if requests.iter().any(|other| other.offset == offset) {
                continue;
            }
            let op = if rng.random_bool(read_share) { Op::Read } else { Op::Write };
            let process = rng.random_range(0..processes.len());
            let own = requests.iter().filter(|other| other.process == process).count();
            if mix.raised && processes[process].level != 4 && own >= 2 {
                if processes.iter().all(|process| process.level != 4) {
                    processes[0].level = 4;
                }
                continue;
            }
            requests.push(BurstRequest { process, op, offset, length });
        }
        Self { processes, requests }
    }

    /// The burst in the order in which it was served, with the order foretold.
    pub(crate) fn table(
        &self,
        seed: u64,
        share: f64,
        order: &[usize],
        foretold: &[usize],
    ) -> String {
        let mut text = format!("seed {seed}: {:.1}% of pairs\n", 100.0 * share);
        for (place, &i) in order.iter().enumerate() {
            let BurstRequest { process, op, offset, length } = self.requests[i];
            let Process { class, level } = self.processes[process];
            let other = foretold.iter().position(|&j| j == i);
            let (offset, length) = (offset / PAGE, length / PAGE);
            writeln!(
                text,
                "{place:3} foretold {other:3?} arrived {i:3} process {process} {class:?} {level} {op} \
                 {offset} {length}"
            )
            .unwrap();
        }
        text
    }
}
