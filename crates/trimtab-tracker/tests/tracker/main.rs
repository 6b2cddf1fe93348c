//! The state tracker on real disks.

mod events;
mod harness;
mod network;
mod pinned;
mod unseen;
