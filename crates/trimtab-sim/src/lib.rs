//! Virtual time: workloads on models of devices, reproducible to the byte.
//!
//! A device model gives the time of its next event and is advanced in time; a workload gives
//! the time of its next request. The simulation always advances to the earlier of the two: a
//! simulated second takes as long as its events take to compute, and no result depends on the
//! machine.
//!
//! ```text
//!   Source ──> submission queues ──> device's slots ──> Server ──> completions
//!   synthetic     wait when the        queue_depth       Ssd         │
//!   or trace      slots are taken                                    ├─> figures
//!      ^                                                             │
//!      └──────────────── closed loop: the next request ──────────────┘
//! ```
//!
//! Open-loop workloads send at their times, closed-loop ones after completions. Latency counts
//! from arrival, including time in a submission queue (measuring from where the device takes
//! it is G. Tene's "coordinated omission").
//!
//! [`Scenario`] describes a simulation in TOML (docs/scenario.md); [`Simulation`] runs it, and
//! is the entry point for programs with their own [`Server`]. [`mod@array`] runs several
//! drives under a strategy of `trimtab-steer`; [`fit`] finds the profile of a recorded drive.
//!
//! [`Scheduled`] puts an I/O scheduler above a device, and [`Cached`] a page cache: both are [`Server`]s
//! themselves, and a [`HostedDrive`] is a drive with either. [`mitt`] makes the queue models of disks
//! from their profiles, and drives them.
//!
//! # Example
//!
//! ```
//! let scenario = trimtab_sim::Scenario::parse(
//!     "seed = 1
//!      requests = 1000
//!      [[device]]
//!      profile = 'reference'
//!      capacity = '12G'
//!      [device.workload]
//!      read_share = 1
//!      arrivals = { kind = 'poisson', iops = 1000 }
//!      offsets = { kind = 'uniform' }
//!      sizes = [{ bytes = 4096, weight = 1 }]",
//!     ".".as_ref(),
//! )?;
//! let mut simulation = scenario.simulation()?;
//! simulation.run()?;
//! // A read takes 40 µs in a die and 5.12 µs on a channel.
//! let reads = &simulation.report().devices[0].ops[0].latency;
//! assert!(reads.percentile("p50").is_some());
//! # Ok::<(), trimtab_sim::Error>(())
//! ```
//!
//! # Decisions that are not obvious
//!
//! - **Devices have a loop each.** No event on one device depends on another, so there is
//!   no event queue across devices: each goes on for some thousand events at a time. The
//!   loop is compiled for each kind of [`Server`], so the path of a request has no indirect
//!   call and no allocation. Replicas meet in a strategy and share a loop ([`mod@array`]); a
//!   device made of several (parity, say) can be one [`Server`].
//! - **Ties have an order.** At one instant the device goes first, then workloads as they
//!   stand in the scenario. Times are whole nanoseconds and no order comes from a hash
//!   table, so a simulation gives the same bytes on any machine.
//! - **Refused reads are scored by serving them.** Whether a refused read would have been
//!   fast is not estimated: a copy of the drive at that moment serves it. A copy costs
//!   milliseconds, so a sample is taken, spread evenly over the run.

pub mod array;
mod cached;
mod error;
mod figures;
mod fit;
mod host;
mod hosted;
mod lane;
pub mod mitt;
pub mod parallel;
mod raid;
mod report;
pub mod scenario;
mod scheduled;
mod server;
mod simulation;
mod source;

pub use cached::{CacheSpec, Cached, EvictionSpec};
pub use error::Error;
pub use fit::{
    DiskDistance, DiskProbe, DiskProfiler, Distance, Fitted, FittedDisk, RotationProbe, fit,
    fit_disk, mean_forecast_error,
};
pub use host::{Arbitration, HostInterface};
pub use hosted::HostedDrive;
pub use lane::{Device, Span, Workload};
pub use raid::{RaidOptions, RaidRun, RunPart, run_raid};
pub use report::{DeviceReport, OpReport, Report, TimeReport, WorkloadReport};
pub use scenario::Scenario;
pub use scheduled::{Dispatch, MaybeScheduled, Scheduled};
pub use server::Server;
pub use simulation::Simulation;
pub use source::{NEVER, Offsets, Replay, ReplayOptions, Source};
