//! Integer forests for inference.
//!
//! Features are `i32`, thresholds are `i32`, and leaf values are fixed-point `i32` whose sum cannot
//! overflow. So a score is the same number on every machine, in every order of summation, and in a
//! kernel without floating point. Training on the same integer features makes the conversion of a
//! [`tree::Forest`](crate::tree::Forest) to an [`IntegerForest`] exact, except for the rounding of
//! leaf values.
//!
//! Forests are not walked where vector instructions exist: all splits of all trees are evaluated at
//! once, with trees as the elements of a register (packed.rs explains the algorithm). A walk costs
//! five times as much, because it waits for memory at each step.

#[cfg(feature = "alloc")]
#[cfg_attr(
    not(all(target_arch = "x86_64", target_feature = "sse2")),
    expect(dead_code, reason = "only vector instructions compare leading bits")
)]
mod coarse;
#[cfg(feature = "alloc")]
mod integer;
#[cfg(feature = "alloc")]
#[cfg_attr(
    not(all(target_arch = "x86_64", target_feature = "sse2")),
    path = "forest/packed/none.rs"
)]
mod packed;
mod view;

#[cfg(feature = "alloc")]
pub use integer::IntegerForest;
pub use view::{Node, Root, View};
