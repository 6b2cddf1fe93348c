//! Arrival processes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trimtab_io::Nanos;

use super::random::Random;
use super::spec;

const NS_PER_S: f64 = 1e9;
const NS_PER_MS: f64 = 1e6;
const NS_PER_US: f64 = 1e3;

/// Endless arrival times, in order.
#[derive(Clone, Debug)]
pub struct Arrivals {
    process: Process,
    now: Nanos,
    random: Random,
}

#[derive(Clone, Debug)]
enum Process {
    Poisson {
        mean_gap: f64,
    },
    Bursty {
        /// On and off.
        phases: [Phase; 2],
        /// Index of the current phase.
        phase: usize,
        /// Its end.
        until: Nanos,
        /// Draws phase lengths, if not the arrivals' generator.
        lengths: Option<Random>,
    },
    Periodic {
        mean_gap: f64,
        on: Nanos,
        period: Nanos,
        begin: Nanos,
        /// The time of all on phases up to the last arrival.
        on_time: u64,
    },
    Closed {
        mean_service: f64,
        mean_think: f64,
        /// Next request time of each client.
        clients: BinaryHeap<Reverse<Nanos>>,
    },
}

/// Times in ns.
#[derive(Clone, Copy, Debug)]
struct Phase {
    /// `None`: nothing arrives.
    mean_gap: Option<f64>,
    mean_length: f64,
}

impl Phase {
    fn new(iops: f64, length_ms: f64) -> Self {
        let mean_gap = (iops > 0.0).then(|| NS_PER_S / iops);
        Self { mean_gap, mean_length: length_ms * NS_PER_MS }
    }
}

impl Arrivals {
    pub(super) fn new(spec: &spec::Arrivals, random: Random) -> Self {
        Self::of(spec, random, None)
    }

    /// Bursts drawn from a generator of their own.
    pub(super) fn with_bursts(spec: &spec::Arrivals, random: Random, lengths: Random) -> Self {
        Self::of(spec, random, Some(lengths))
    }

    fn of(spec: &spec::Arrivals, mut random: Random, mut lengths: Option<Random>) -> Self {
        let process = match *spec {
            spec::Arrivals::Poisson { iops } => Process::Poisson { mean_gap: NS_PER_S / iops },
            spec::Arrivals::Bursty { on_iops, off_iops, on_ms, off_ms } => {
                let phases = [Phase::new(on_iops, on_ms), Phase::new(off_iops, off_ms)];
                let draw = lengths.as_mut().unwrap_or(&mut random);
                let until = Nanos(draw.exponential(phases[0].mean_length));
                Process::Bursty { phases, phase: 0, until, lengths }
            }
            spec::Arrivals::Periodic { on_iops, on_ms, period_ms, begin_ms } => {
                let time = |ms: f64| Nanos((ms * NS_PER_MS).round() as u64);
                Process::Periodic {
                    mean_gap: NS_PER_S / on_iops,
                    on: time(on_ms),
                    period: time(period_ms),
                    begin: time(begin_ms),
                    on_time: 0,
                }
            }
            spec::Arrivals::Closed { queue_depth, service_us, think_us } => {
                let mean_service = service_us.unwrap_or_default() * NS_PER_US;
                let mean_think = think_us * NS_PER_US;
                // Clients start in steady state, rather than all at once.
                let clients = (0..queue_depth)
                    .map(|_| Reverse(Nanos(random.exponential(mean_service + mean_think))))
                    .collect();
                Process::Closed { mean_service, mean_think, clients }
            }
        };
        Self { process, now: Nanos::ZERO, random }
    }

    /// The next arrival.
    #[expect(clippy::should_implement_trait, reason = "it has no end, so no Option")]
    pub fn next(&mut self) -> Nanos {
        let random = &mut self.random;
        self.now = match &mut self.process {
            Process::Poisson { mean_gap } => self.now + Nanos(random.exponential(*mean_gap)),
            Process::Bursty { phases, phase, until, lengths } => {
                let mut now = self.now;
                loop {
                    let mean_gap = phases[*phase].mean_gap;
                    let arrival = mean_gap.map(|mean| now + Nanos(random.exponential(mean)));
                    if let Some(arrival) = arrival.filter(|at| at < until) {
                        break arrival;
                    }
                    // The exponential is memoryless: waiting restarts with the next phase.
                    now = *until;
                    *phase = 1 - *phase;
                    let draw = lengths.as_mut().unwrap_or(random);
                    *until = now + Nanos(draw.exponential(phases[*phase].mean_length));
                }
            }
            Process::Periodic { mean_gap, on, period, begin, on_time } => {
                *on_time = on_time.saturating_add(random.exponential(*mean_gap));
                let (before, within) = (*on_time / on.0, *on_time % on.0);
                let at = u128::from(begin.0)
                    + u128::from(period.0) * u128::from(before)
                    + u128::from(within);
                Nanos(at.try_into().unwrap_or(u64::MAX))
            }
            Process::Closed { mean_service, mean_think, clients } => {
                let Some(Reverse(now)) = clients.pop() else { return Nanos::MAX };
                let service = random.exponential(*mean_service);
                let think = random.exponential(*mean_think);
                clients.push(Reverse(now + Nanos(service) + Nanos(think)));
                now
            }
        };
        self.now
    }
}
