//! Commands that work on files: no devices, no privileges. One program: linking takes longer
//! than most of these tests.

#![allow(clippy::duplicate_mod, reason = "each file gives `Place` methods of its own")]

mod advise;
mod compare;
mod convert;
mod escaped;
mod evaluate;
mod inputs;
mod numbers;
mod pandas;
mod predictions;
mod profile;
mod random;
mod report;
mod sim;
mod trace_edit;
mod trace_info;
mod train;
