//! Drives as users of the crate see them. One program: linking takes longer than most of
//! these tests.

mod array_firmware;
mod closed_form;
mod disk;
mod document;
mod endurance;
mod features;
mod firmware;
mod flush_windows;
mod golden;
mod harmonia;
mod host_windows;
mod invariants;
mod latency_breakdown;
mod load;
mod open_channel;
mod pl_io;
mod profiles;
mod ranges;
mod saved;
mod steady_state;
mod thresholds;
mod timing;
mod tiny_tail;
mod tune;
mod windows;
