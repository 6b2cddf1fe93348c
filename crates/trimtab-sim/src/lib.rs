//! The driver in virtual time: workloads on models of devices.
//!
//! A device model says when it will have something to do next, and takes time
//! from outside; a workload says when its next request comes. The driver asks
//! both, and goes to whichever moment is earlier: a second on a drive takes as
//! long as its events take to compute, and nothing depends on the machine.
//!
//! ```text
//!   Source ──> submission queues ──> device's slots ──> Server ──> answers
//!   synthetic     wait when the        queue_depth       Ssd         │
//!   or trace      slots are taken                                    ├─> figures
//!      ^                                                             │
//!      └──────────────── closed loop: the next request ──────────────┘
//! ```
//!
//! Open-loop workloads send when they want to, closed-loop ones when an answer
//! has come. Latency counts from arrival: what waits in a submission queue has
//! arrived (G. Tene's "coordinated omission" is measuring it from where the
//! device takes it).
//!
//! [`Scenario`] is all of it in TOML (docs/scenario.md); [`Simulation`] runs it,
//! and is where other programs begin that bring their own [`Server`].
//!
//! Ties are resolved the same way everywhere: at one instant the device goes
//! first, then workloads in their order. Events are compared as whole
//! nanoseconds, and no order comes from a hash table.

pub mod array;
pub mod compare;
mod error;
mod figures;
mod fit;
mod host;
mod lane;
mod parallel;
mod report;
mod scenario;
mod server;
mod simulation;
mod source;

pub use error::Error;
pub use fit::{Distance, Fitted, fit};
pub use host::{Arbitration, HostInterface};
pub use lane::{Device, Span, Workload};
pub use report::{DeviceReport, OpReport, Report, TimeReport, WorkloadReport};
pub use scenario::{Fill, FillKind, Scenario};
pub use server::Server;
pub use simulation::Simulation;
pub use source::{Offsets, Replay, ReplayOptions, Source};
