//! The agent: a service that watches drives, scores their models on every read, trains them
//! again when they no longer fit, keeps the state of the drives pinned for readers, and serves
//! metrics.
//!
//! ```text
//!   recorder ─> DriveFigures ─┬─ metrics
//!                             ├─ OnlineEvaluator: forecast and outcome of each read
//!                             └─ DriftCheck ─> Training ─> model ─┬─> files
//!   tracker  ─> pinned state <────────────── unit functions ──────┘
//! ```
//!
//! [`Agent`] is a state machine over the recorder and the tracker: its owner calls
//! [`turn`](Agent::turn) every 40 ms and [`metrics`](Agent::metrics) each second. [`server`]
//! serves the metrics, [`Notify`] reports to systemd. The command `trimtab agent` is these and
//! signals; docs/agent.md explains the configuration and the metrics.
//!
//! ```no_run
//! use std::sync::Arc;
//! use trimtab_agent::{Agent, Config};
//!
//! # fn main() -> Result<(), trimtab_agent::Error> {
//! let config = Config::read("/etc/trimtab/agent.toml".as_ref())?;
//! let mut agent = Agent::start(&config, Arc::new(|line: &str| eprintln!("{line}")))?;
//! loop {
//!     agent.turn()?;
//!     std::thread::sleep(trimtab_record::monitor::POLL);
//! }
//! # }
//! ```

mod agent;
mod config;
mod drift_check;
mod drive;
mod error;
mod listen;
mod metrics;
mod notify;
pub mod server;
mod surroundings;
mod training;

use std::sync::Arc;

pub use agent::{Agent, check};
pub use config::Config;
pub use drift_check::{Checked, DriftCheck};
pub use error::Error;
pub use notify::Notify;

/// Takes the agent's messages, one line each.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;
