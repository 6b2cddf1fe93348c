//! The state tracker on real disks.

mod contention;
mod events;
mod harness;
mod network;
mod pinned;
mod unseen;
