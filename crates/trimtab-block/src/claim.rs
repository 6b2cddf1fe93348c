//! Exclusive access to block devices and files that are to be overwritten.
//!
//! [`Claim::exclusive`] opens one for writing if nothing else uses it, and keeps others from
//! using it until the claim is dropped. Naming a device is consent to the loss of its content,
//! but not of a file system that is mounted from it: so a claim that is refused is an error
//! without an override.
//!
//! A path is looked up once. After that the object is identified by its device number, or by
//! file system and inode: symbolic links, a second device node and hard links lead to the same
//! object.
//!
//! ```text
//!   mounts ──┐                       ┌── loop devices, mapped devices
//!   swap ────┼──> disk, partitions <─┤       on top of it
//!            │         │             ├── emulated drives
//!            │         │             └── exports of the NVMe target
//!            │         └─ is a loop device? ─> its back end, the same again
//! ```
//!
//! Limits: an overlay and the layer below it have different inodes for one file, so a loop
//! device over one is not found through the other; nor is a use on another machine that shares
//! the disk.

mod drives;
mod exclusive;
mod exports;
mod holder;
mod loops;
mod mounts;
mod number;
mod signature;
mod survey;
mod swaps;

pub use exclusive::{Claim, ClaimError};
pub use exports::exported_as;
pub use holder::{Holder, InUse, Part, Served};
pub use loops::{Backing, backing_of};
pub use mounts::{FileSystem, mounted_here};
pub use number::Identity;
pub use signature::signature;
