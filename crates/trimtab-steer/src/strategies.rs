//! The published strategies and trimtab's own.

mod adaptive;
mod c3;
mod failover;
mod hedge;
mod mitt;
mod snitch;
mod tied;
mod timeout;
mod trimtab;
mod unaided;

pub use adaptive::Adaptive;
pub use c3::C3;
pub use failover::Failover;
pub use hedge::{Hedge, Patience};
pub use mitt::Mitt;
pub use snitch::Snitch;
pub use tied::Tied;
pub use timeout::Timeout;
pub use trimtab::{Trimtab, TrimtabSettings};
pub use unaided::{Base, Clone};
