//! Forests that decide: integers only.
//!
//! Features are `i32`, thresholds are `i32`, and leaf values are fixed-point
//! `i32` whose sum cannot overflow. So a score is the same number on every
//! machine, in every order of summation, and in a kernel that has no floating
//! point. Training on the same integer features makes the step from a
//! [`tree::Forest`](crate::tree::Forest) to an [`IntegerForest`] exact, but for
//! the rounding of leaf values.

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
