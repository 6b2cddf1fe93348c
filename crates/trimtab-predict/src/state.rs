//! The state of a drive at a moment, as plain numbers.
//!
//! A [`DriveTracker`](crate::DriveTracker) updates a [`DriveState`] from submissions and
//! completions, in simulation and in training. On a running machine the kernel does the same
//! (bpf/state.bpf.c) in memory that is mapped here. Features are computed from either by the
//! same code, [`DriveState::features`]. The layout is that of `struct st_drive` and
//! `struct st_unit` in bpf/state.h: no padding, and every bit pattern is a value.

mod drive;
mod features;
mod unit;
mod window;

pub use drive::{CompletedIo, DriveState, HISTORY, Rest, Stall, WINDOWS};
pub use features::{FEATURE_NAMES, FEATURES};
pub use unit::Unit;
pub use window::Window;

pub(crate) use features::ticks;
