//! Drives that hold the same data, and a strategy that says which of them is
//! asked: one loop over all of them, in virtual time.
//!
//! Every block is on all drives. Each drive serves a workload of its own: its
//! writes go to it, and its reads have it as their home, from where the strategy
//! may send them elsewhere. Requests come when they come, whatever the drives do
//! (open loop). A drive takes so many at a time; the others wait in the host's
//! queue before it, first come, first served.
//!
//! The loop goes to whatever is earliest: something in a drive, a timer or a
//! delayed request of the strategy, an arrival; at one instant in that order.
//! So a strategy has seen all that happened up to the moment of a decision, and
//! nothing else.

mod drive;
mod run;

pub use drive::ArrayDrive;
pub use run::{ArrayOptions, ArrayRun, Judge, run};
pub use trimtab_steer::array::{ArrayFigures, ArrayIo, HomeFigures, Judged};
