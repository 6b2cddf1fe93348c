//! The strategies.

mod c3;
mod failover;
mod hedge;
mod ours;
mod plain;
mod snitch;
mod tied;
mod timeout;

pub use c3::C3;
pub use failover::Failover;
pub use hedge::{Hedge, Patience};
pub use ours::{Ours, Settings};
pub use plain::{Base, Clone};
pub use snitch::Snitch;
pub use tied::Tied;
pub use timeout::Timeout;
