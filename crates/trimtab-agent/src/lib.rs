//! The agent: a service that monitors drives, scores their models on every read, trains models
//! again that no longer fit, pins the state of the drives for readers, and serves metrics.
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
//! serves the metrics, [`Notify`] reports to systemd. The command `trimtab agent` adds
//! signals; docs/agent.md describes the configuration and the metrics.
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
pub use error::{ConfigError, Error};
pub use listen::ListenError;
pub use notify::Notify;

/// Receives the agent's messages, one line each.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;
